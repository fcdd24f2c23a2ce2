"""Check every small topology: what the search finds in it, against an oracle, with all invariants.

python -m tests.enumeration                                  up to three queues, in 4.3
python -m tests.enumeration --queues 2 --release 3.8 --json
python -m tests.enumeration --queues 3 --part 1/4            a quarter of it
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from dlx.releases import DEFAULT, RELEASES, release
from tests.enumeration.run import enumerated
from tests.enumeration.space import NAMES, Space
from tests.enumeration.tally import Tally

EXIT_DISAGREES, EXIT_USAGE, EXIT_FAULT, EXIT_INTERRUPTED = 1, 64, 70, 130


class _Part(click.ParamType[tuple[int, int]]):
    name = "K/N"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Part K of N."""
        number, _, of = str(value).partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            self.fail(f"{value!r} is no part; expected K/N with K from 1 to N, such as 1/4", param, ctx)
        return int(number), int(of)


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--queues", multiple=True, type=click.IntRange(1, len(NAMES)), default=range(1, len(NAMES) + 1),
              help="How many queues; repeatable. Without it, 1, 2 and 3.")  # fmt: skip
@click.option("--release", "releases", multiple=True, type=click.Choice(RELEASES), default=[DEFAULT],
              show_default=True, help="The RabbitMQ release; repeatable.")  # fmt: skip
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--part", type=_Part(), default="1/1", help="Only part K of N.")
@click.option("--json", "machine", is_flag=True, help="Print one JSON array.")
def main(queues: tuple[int, ...], releases: tuple[str, ...], jobs: int, part: tuple[int, int], machine: bool) -> None:
    """Run and report; exit code 1 if anything disagrees, 70 if an invariant is broken."""
    tallies = []
    try:
        for tally in _tallies(queues, releases, jobs, part):
            tallies.append(tally)
            if not machine:
                click.echo("\n".join(tally.lines()))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    if machine:
        click.echo(msgspec.json.encode([tally.as_json() for tally in tallies]))
    if any(tally.faulty for tally in tallies):
        sys.exit(EXIT_FAULT)
    sys.exit(0 if all(tally.agrees for tally in tallies) else EXIT_DISAGREES)


def _tallies(queues: tuple[int, ...], releases: tuple[str, ...], jobs: int, part: tuple[int, int]) -> Iterator[Tally]:
    """One for each release and number of queues; the last is of the first that breaks an invariant."""
    for name in releases:
        for number in queues:
            tally = enumerated(Space(number, release(name)), jobs, part)
            yield tally
            if tally.faulty:
                return


if __name__ == "__main__":
    click.UsageError.exit_code = EXIT_USAGE
    main()
