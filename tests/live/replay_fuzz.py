"""Random topologies and traffic on real servers: does what they recorded replay without a finding?

    python -m tests.live.replay_fuzz --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Each round has its own virtual host, topology and traffic, all drawn from its seed, and is
recorded by the tracing plugin (JSON or text) or from the firehose. A delivery that the
release's rules do not explain (``differ``, ``unexplained``) is a finding: its message's rows
are printed, and how to run the round again. Exit code 0, 1 with findings, 64, 69.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError

import click
from pika.exceptions import AMQPError

from tests.live.fuzzing.rounds import Round, play, read_rows
from tests.live.fuzzing.topology import ServerFault
from tests.live.servers import LiveServer, NoSuchServerError, given


def parsed(texts: tuple[str, ...]) -> list[LiveServer]:
    """Servers from ``RELEASE=AMQP_URL,HTTP_URL``."""
    for text in texts:
        if "=" not in text or "," not in text:
            raise click.UsageError(f"--release {text!r}: want RELEASE=AMQP_URL,HTTP_URL")
    return given(variable=",".join(text.replace(",", "|", 1) for text in texts))


@click.command(help=__doc__)
@click.option("--release", "texts", multiple=True, required=True, help="RELEASE=AMQP_URL,HTTP_URL; repeatable.")
@click.option("--seed", type=int, default=None, help="Of the first round; the time if not given.")
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs and definitions here.")
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on stdout, one object a round.")
def main(texts: tuple[str, ...], seed: int | None, rounds: int, keep: Path | None, as_json: bool) -> None:
    """Run the rounds."""
    try:
        servers = parsed(texts)
    except NoSuchServerError as error:
        click.echo(f"replay_fuzz: {error}", err=True)
        sys.exit(69)
    first = int(time.time()) if seed is None else seed
    found = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(first, first + rounds):
            for server, text in zip(servers, texts, strict=True):
                folder = (keep or Path(scratch)) / f"{server.release}-{number}"
                try:
                    result = play(server, number, folder)
                except ServerFault as fault:
                    click.echo(f"{server.release} seed {number}: skipped: {fault}", err=True)
                    continue
                except (AMQPError, URLError) as error:
                    click.echo(f"replay_fuzz: {server.release} seed {number}: {error!r}", err=True)
                    sys.exit(69)
                found += len(result.findings)
                again = f"python -m tests.live.replay_fuzz --release {text} --seed {number} --rounds 1"
                report(result, again, as_json)
    sys.exit(1 if found else 0)


def report(result: Round, again: str, as_json: bool) -> None:
    """Print a round: one line, and each finding with the rows of its message."""
    if as_json:
        click.echo(json.dumps({**result.summary(), "again": again, "findings": result.findings}))
        return
    click.echo(result.line())
    for finding in result.findings[:5]:
        click.echo(f"  {again}")
        click.echo(f"  {result.log}, line {finding['line']}: {finding['verdict']} {finding['why'] or ''}")
        for each in finding["differences"]:
            click.echo(f"    {each['field']}: expected {each['expected']}, seen {each['seen']}")
        for row in read_rows(result.log):
            if f"{row['vhost']}\n{row['message']}" == finding["lineage"]:
                click.echo(f"    {shown(row)}")
    if len(result.findings) > 5:
        click.echo(f"  and {len(result.findings) - 5} more")


def shown(row: dict[str, object]) -> str:
    """One row of a capture on one line."""
    names = ["line", "event", "exchange", "routing_keys", "queue", "routed_queues", "expiration"]
    names += ["broker_headers", "x_death", "headers", "properties"]
    return " ".join(f"{name}={row[name]!s}" for name in names)


if __name__ == "__main__":
    main()
