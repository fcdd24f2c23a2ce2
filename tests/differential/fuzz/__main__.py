"""Play random scripts against a real server and the simulator of its release, and compare what clients see.

    python -m tests.differential.fuzz --release 4.3 --cases 300
    python -m tests.differential.fuzz --release 4.3 --seed 17 --cases 1
    python -m tests.differential.fuzz --cases 10000 --minutes 60 --no-shrink

Servers are those of the environment variable DLX_LIVE_SERVERS, or given by --broker.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import click

import dlx
from tests.differential.fuzz.cases import KINDS, Case, Judged, Outcome, judge
from tests.differential.fuzz.known import KNOWN, KNOWN_CASES
from tests.differential.fuzz.report import report
from tests.differential.fuzz.smaller import smaller
from tests.live import servers

PROGRESS = 500  # cases between two lines about it

Counts = Counter[tuple[str, Outcome]]


def play_all(cases: Iterable[Case], workers: int, minutes: float) -> Iterator[Judged]:
    """The judged cases as they are done; after so many minutes no other begins."""
    began, running = time.monotonic(), set[Future[Judged]]()
    with ThreadPoolExecutor(workers) as pool:
        for case in cases:
            if time.monotonic() - began > minutes * 60:
                break
            running.add(pool.submit(judge, case))
            if len(running) >= workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)


def shrunk(judged: Judged) -> Judged:
    """A smaller case that diverges, too."""
    case = judged.case
    script = smaller(case.script, lambda fewer: judge(case.of(fewer), attempts=1).outcome is judged.outcome)
    return judge(case.of(script))


def summary(counts: Counts, releases: list[str]) -> str:
    """One line for each release."""
    lines = []
    for release in releases:
        lines.append(f"{release}: " + ", ".join(f"{counts[release, outcome]} {outcome.value}" for outcome in Outcome))
    return "\n".join(lines)


def known_ones(met: Counter[str]) -> str:
    """A line for each known difference that was met: how often, and why it stays."""
    return "".join(
        f"known, {met[known.name]} times: {known.name}. {known.reason}\n" for known in (*KNOWN, *KNOWN_CASES)
    )


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--release", "names", multiple=True, help="Only servers of this release; repeatable.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first case; the next has the next.")
@click.option("--kind", type=click.Choice([*KINDS]), default="any", show_default=True, help="What scripts are about.")
@click.option("--cases", default=40, show_default=True, help="Cases for each server.")
@click.option("--minutes", default=600.0, show_default=True, help="Begin no other case after so many minutes.")
@click.option("--workers", default=12, show_default=True, help="Cases at a time on each server.")
@click.option("--broker", "given", multiple=True, help="AMQP_URL or 'AMQP_URL|MANAGEMENT_URL' of a server; repeatable.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make diverging scripts smaller.")
def main(
    names: tuple[str, ...],
    seed: int,
    kind: str,
    cases: int,
    minutes: float,
    workers: int,
    given: tuple[str, ...],
    shrink: bool,
) -> None:
    """Run and report; exit code 1 if anything diverges."""
    found = [server for server in servers.given(given) if not names or server.release in names]
    if kind.startswith("held"):
        found = [server for server in found if dlx.release(server.release).quorum_at_least_once]
    if not found:
        raise click.UsageError("no such server: set DLX_LIVE_SERVERS or give --broker")
    counts: Counts = Counter()
    began = time.monotonic()
    met: Counter[str] = Counter()
    drawn = (Case.drawn(number, server, kind) for number in range(seed, seed + cases) for server in found)
    for number, judged in enumerate(play_all(drawn, workers * len(found), minutes), 1):
        if number % PROGRESS == 0:
            click.echo(f"{number} played", err=True)
        counts[judged.case.release, judged.outcome] += 1
        met.update(judged.known.split(", ") if judged.known else [])
        if judged.outcome not in (Outcome.SAME, Outcome.KNOWN):
            click.echo(report(shrunk(judged) if shrink and judged.outcome is Outcome.DIVERGES else judged))
    click.echo(summary(counts, [server.release for server in found]), err=True)
    click.echo(known_ones(met), nl=False, err=True)
    click.echo(f"{time.monotonic() - began:.0f} s", err=True)
    sys.exit(any(outcome in (Outcome.DIVERGES, Outcome.FAILED) for _, outcome in counts))


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
