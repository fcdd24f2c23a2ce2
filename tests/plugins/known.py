"""Where the simulator is known to differ from a recording. A difference that is gone must leave this list."""

from __future__ import annotations

from typing import NamedTuple

from tests.real_servers import LIVE


class Known(NamedTuple):
    """Steps of a case that differ on these releases, and why, in a sentence."""

    file: str
    case: str
    steps: tuple[int, ...]
    why: str
    releases: tuple[str, ...] = LIVE


KNOWN: tuple[Known, ...] = (
    Known(
        "shovel",
        "vhost deleted with a shovel in it, made again",
        (8,),
        "a worker outlives its virtual host, and declares its queues in the next of that name; a simulated one ends",
        ("3.8", "3.10", "4.0"),
    ),
)


def known(file: str, release: str) -> dict[tuple[str, int], str]:
    """Return why, by case and step."""
    rows = (row for row in KNOWN if row.file == file and release in row.releases)
    return {(row.case, step): row.why for row in rows for step in row.steps}
