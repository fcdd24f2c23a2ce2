"""Plant faults in recorded logs, one in each, and see where the true cause stands in the repair.

python -m tests.repair                         1,000 faults
python -m tests.repair --faults 60 --seed 7 --release 4.3
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import click
import msgspec

from dlx.releases import RELEASES
from tests.repair.judged import STANDINGS, Judged, all_judged
from tests.repair.planted import FAULTS

EXIT_TOO_OFTEN_WRONG = 1
FIRST_MIN = 0.95
"""The share of faults whose true cause has to be first."""
PERCENTILES = (50, 90, 95, 99, 100)


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--faults", default=1_000, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="What to draw them by.")
@click.option("--release", "releases", multiple=True, type=click.Choice(RELEASES), default=RELEASES, show_default=True,
              help="The RabbitMQ release; repeatable.")  # fmt: skip
@click.option("--wrong", is_flag=True, help="Show the faults whose cause is not first.")
@click.option("--json", "machine", is_flag=True, help="Print JSON.")
def main(faults: int, seed: int, releases: tuple[str, ...], wrong: bool, machine: bool) -> None:
    """Run and report; exit code 1 if the truth is first too seldom, or not named at all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    ms: list[float] = []
    for each in all_judged(faults, seed, releases):
        counts[each.planted.fault][each.standing] += 1
        ms += each.ms
        if wrong and each.standing not in STANDINGS[:2]:
            click.echo(_told(each))
    totals = sum(counts.values(), Counter[str]())
    if machine:
        click.echo(msgspec.json.encode({"faults": counts, "ms": _percentiles(ms)}))
    else:
        click.echo(_table(counts, totals, ms))
    first = totals[STANDINGS[0]] + totals[STANDINGS[1]]
    if first < FIRST_MIN * totals.total() or totals[STANDINGS[3]]:
        sys.exit(EXIT_TOO_OFTEN_WRONG)


def _table(counts: dict[str, Counter[str]], totals: Counter[str], ms: list[float]) -> str:
    lines = [f"{'':22}" + "".join(f"{name:>18}" for name in STANDINGS)]
    for name, count in (*((fault, counts[fault]) for fault in FAULTS), ("all", totals)):
        lines.append(f"{name:22}" + "".join(f"{count[standing]:18,}" for standing in STANDINGS))
    times = ", ".join(f"{percent} %: {value:.1f} ms" for percent, value in _percentiles(ms).items())
    return "\n".join([*lines, f"{len(ms):,} sequences, of which so many took no longer than: {times}"])


def _percentiles(ms: list[float]) -> dict[int, float]:
    ordered = sorted(ms)
    return {percent: ordered[max(0, -(-percent * len(ordered) // 100) - 1)] for percent in PERCENTILES}


def _told(judged: Judged) -> str:
    fault = judged.planted
    lines = [f"{fault.fault}, seed {fault.seed}, {fault.release.name}: {judged.standing}; {fault.truth}"]
    for repair in judged.repairs.found:
        lines += [f"  {likely.cost:4} {likely.text}" for likely in repair.likely]
        for row in repair.rows:
            where = row.queue if row.queue is not None else "published"
            keys = ", ".join(row.routing_keys)
            lines.append(f"       {row.role:12} {row.line:4} {where} by '{row.exchange}' {keys}: {row.deaths}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
