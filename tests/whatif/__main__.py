"""Do random workloads on real servers come out as they were, when they are played again?

    python -m tests.whatif --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Each workload of ``tests.counters``, as far as the release takes it, is played on the server and captured,
and asked about under its own settings. Exit code 0; 1 if less than 99.9 % of the messages come out as
they were, or any of these changes; 64, 69.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from urllib.error import URLError

import click
from pika.exceptions import AMQPError

from dlx.releases import release as rules
from simulator.capture.capture_errors import NothingReadable
from simulator.definitions import read_definitions
from simulator.replay import Database
from simulator.whatif.answer import WhatIfAnswer
from simulator.whatif.local import what_if_files
from simulator.whatif.sides import side_of
from tests.counters.playing import Target, captured, declare, run, virtual_host
from tests.counters.workloads import draw, for_release
from tests.live.replay_fuzz import parsed
from tests.live.servers import NoSuchServerError

SHARE_MIN = 0.999


@click.command(help=__doc__)
@click.option("--release", "texts", multiple=True, required=True, help="RELEASE=AMQP_URL,HTTP_URL; repeatable.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first workload.")
@click.option("--workloads", type=click.IntRange(min=1), default=100, show_default=True)
def main(texts: tuple[str, ...], seed: int, workloads: int) -> None:
    """Play the workloads."""
    messages = reproduced = changed = 0
    try:
        servers = [(server.release, Target(server)) for server in parsed(texts)]
        with tempfile.TemporaryDirectory() as scratch:
            for number in range(seed, seed + workloads):
                for release, target in servers:
                    try:
                        answer = asked(release, target, number, Path(scratch) / f"{release}-{number}")
                    except NothingReadable:
                        continue  # it publishes nothing
                    messages += answer.messages
                    reproduced += answer.reproduced
                    changed += answer.changed
                    if answer.reproduced < answer.messages or answer.changed:
                        left_out = ", ".join(answer.not_reproduced)
                        click.echo(f"{release} seed {number}: {answer.changed} change, left out: {left_out}")
    except (NoSuchServerError, AMQPError, URLError) as error:
        click.echo(f"whatif: {error}", err=True)
        sys.exit(69)
    click.echo(f"{reproduced:,} of {messages:,} messages come out as they were, {changed:,} of them change")
    sys.exit(1 if reproduced < SHARE_MIN * messages or changed else 0)


def asked(release: str, target: Target, seed: int, folder: Path) -> WhatIfAnswer:
    """Play a workload on a server, and ask about it under its own settings."""
    folder.mkdir(parents=True)
    log, definitions = folder / "log.parquet", folder / "definitions.json"
    workload = for_release(draw(seed), rules(release))
    with virtual_host(target.server) as vhost:
        declare(target.server, vhost, workload)
        with captured(target, vhost, log, counted=False):
            run(target, vhost, workload)
        definitions.write_text(json.dumps(target.server.api("GET", f"definitions/{vhost}")))
    side = side_of(read_definitions(definitions), release)
    with Database(folder) as database:
        return what_if_files(database.parquet([log]), side, side).answer


if __name__ == "__main__":
    main()
