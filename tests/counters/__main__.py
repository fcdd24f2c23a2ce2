"""Does what a broker counts balance with what a replay reconstructs? Random workloads on servers say so.

    python -m tests.counters --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Each workload is played on the server and on the simulator of its release. Every residual
must have its sentence and nothing be unexplained, and both must have counted the same. The
server needs the Prometheus plugin and nobody else on it: while there are connections to
other virtual hosts, a workload waits, and what was disturbed is played again. Exit code 0,
1 with findings, 64, 69.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.error import URLError

import click
from pika.exceptions import AMQPError

from simulator.replay.results.counters import sentences
from tests.counters.judging import differences, line, problems
from tests.counters.playing import DisturbedError, Played, Target, play, undisturbed
from tests.counters.simulators import simulated
from tests.counters.workloads import draw
from tests.live.replay_fuzz import parsed
from tests.live.servers import NoSuchServerError


def played_alone(target: Target, seed: int, folder: Path) -> Played:
    """Play a workload until nobody disturbs it. Raises ``DisturbedError`` if they never stop."""
    folder.mkdir(parents=True, exist_ok=True)
    return undisturbed(
        lambda: play(target, draw(seed), Path(tempfile.mkdtemp(dir=folder))),
        lambda error: click.echo(f"seed {seed}: disturbed: {error}", err=True),
    )


@click.command(help=__doc__)
@click.option("--release", "texts", multiple=True, help="RELEASE=AMQP_URL,HTTP_URL; repeatable.")
@click.option("--simulate", "simulated_releases", multiple=True, help="A release to simulate alone; repeatable.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first workload.")
@click.option("--workloads", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--verbose", is_flag=True, help="Also print what is said of each residual.")
def main(texts: tuple[str, ...], simulated_releases: tuple[str, ...], seed: int, workloads: int, verbose: bool) -> None:
    """Play the workloads."""
    try:
        servers = [(server.release, Target(server)) for server in parsed(texts)]
    except NoSuchServerError as error:
        click.echo(f"counters: {error}", err=True)
        sys.exit(69)
    found = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(seed, seed + workloads):
            for release, target in servers or [(name, None) for name in simulated_releases]:
                try:
                    found += _judge(release, target, number, Path(scratch) / f"{release}-{number}", verbose)
                except (AMQPError, URLError, DisturbedError) as error:
                    click.echo(f"counters: {release} seed {number}: {error!r}", err=True)
                    sys.exit(69)
    click.echo(f"{found} workloads with findings")
    sys.exit(1 if found else 0)


def _judge(release: str, target: Target | None, seed: int, folder: Path, verbose: bool) -> bool:
    """Play one workload and print what came of it; return whether anything is wrong."""
    with simulated(release) as (other, _):
        expected = play(other, draw(seed), folder / "simulated")
    played = expected if target is None else played_alone(target, seed, folder)
    wrong = [*problems(played), *(differences(played, expected) if target is not None else ())]
    click.echo(f"{release} seed {seed}: {line(played)}")
    for entry in played.balance.entries if verbose else ():
        for sentence in sentences(entry, played.balance) if entry.residual else ():
            click.echo(f"    {sentence}")
    for problem in wrong:
        click.echo(f"  WRONG {problem}")
    return bool(wrong)


if __name__ == "__main__":
    main()
