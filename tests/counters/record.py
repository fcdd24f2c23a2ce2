"""Records what servers count in the small cases; or compares it with what is recorded.

    python -m tests.counters.record --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Nobody else may use the server meanwhile, and it needs the Prometheus plugin. Exit code 0, 1 where ``--check`` finds
a difference, 64, 69.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tests.counters.cases import CASES, counted
from tests.counters.playing import Target
from tests.live.replay_fuzz import parsed
from tests.live.servers import NoSuchServerError

RECORDED = Path(__file__).parent / "recorded"


def recorded(release: str) -> dict[str, dict[str, int]]:
    """What a server of the release counted, by case."""
    found: dict[str, dict[str, int]] = json.loads((RECORDED / f"{release}.json").read_text())
    return found


@click.command(help=__doc__)
@click.option("--release", "texts", multiple=True, required=True, help="RELEASE=AMQP_URL,HTTP_URL; repeatable.")
@click.option("--only", default="", help="Only the cases whose name contains this.")
@click.option("--check", is_flag=True, help="Compare, and write nothing.")
def main(texts: tuple[str, ...], only: str, check: bool) -> None:
    """Record, or compare."""
    try:
        servers = parsed(texts)
    except NoSuchServerError as error:
        click.echo(f"record: {error}", err=True)
        sys.exit(69)
    different = 0
    for server in servers:
        path = RECORDED / f"{server.release}.json"
        before = recorded(server.release) if path.exists() else {}
        found = {name: counted(Target(server), name) for name in CASES if only in name}
        for name, counts in found.items():
            if counts != before.get(name):
                different += 1
                click.echo(f"{server.release} {name}: {counts}, recorded {before.get(name)}")
        if not check:
            path.write_text(json.dumps({**before, **found}, indent=1) + "\n")
    sys.exit(1 if check and different else 0)


if __name__ == "__main__":
    main()
