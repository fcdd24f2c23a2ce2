"""``dlx releases`` shows what differs between releases of RabbitMQ: all that changed, or what differs between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from dlx.releases import RELEASES, SUBJECTS, TABLE, VERSIONS, Release, Row, differing_behaviours, release
from dlx.releases.rows import rows_of
from dlx.releases.texts import change_texts, is_set, members_text, subject_text, value_text
from simulator.cli.command_parts import example
from simulator.cli.lines import print_indented
from simulator.cli.options import RELEASE

NOT_SHOWN = (
    "the management API, whose differences are in docs/reference/releases.md",
    "what RabbitMQ's release notes list besides: plugins, clustering, the command line, performance",
)
_SUBJECT_OF = {row.name: subject_text(subject) for subject in SUBJECTS for row in rows_of(subject)}
_WIDTH_MAX = 100


@click.command(epilog=example("dlx releases", "dlx releases 3.10 4.3", "dlx releases 3.13 4.0 --json"))
@click.argument("one", required=False, metavar="[A", type=RELEASE)
@click.argument("other", required=False, metavar="B]", type=RELEASE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def releases(one: str | None, other: str | None, as_json: bool) -> None:
    """Show what changed in which release of RabbitMQ, or what differs between two releases.

    A and B are releases such as 3.10, or versions such as 4.3.6. Each row of the table is one behaviour:
    what it decides, its values, the release of each change, and how that is known. "live" in the
    evidence means seen on running servers of the versions that are named.
    """
    if one is not None and other is None:
        raise click.UsageError(f"one release, {one}; expected two, to see what differs between them, or none")
    if one is None or other is None:
        _print(_table() if as_json else _changes(), as_json)
    else:
        pair = release(one), release(other)
        _print(_differing(*pair) if as_json else _between(*pair), as_json)


def _print(answer: Any, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer).decode())
        return
    console = Console()
    console.width = min(console.width, _WIDTH_MAX)
    for part, style, indent in answer:
        print_indented(console, Text(part, style), indent)


# -- for machines ----------------------------------------------------------------


def _table() -> dict[str, Any]:
    return {
        "releases": VERSIONS,
        "behaviours": [
            {
                **_known(row),
                "values": dict(zip(RELEASES, map(_plain, row.values), strict=True)),
                "changes": [{"since": date, "value": _plain(value)} for date, value in row.changes],
            }
            for row in TABLE
        ],
        "unchecked": NOT_SHOWN,
    }


def _differing(one: Release, other: Release) -> dict[str, Any]:
    rows = differing_behaviours(one, other)
    return {
        "releases": {each.name: each.version for each in (one, other)},
        "behaviours": [
            {
                **_known(row),
                "values": {each.name: _plain(getattr(each, row.name)) for each in (one, other)},
                "dates": row.dates_between(one.version, other.version),
            }
            for row in rows
        ],
        "unchecked": NOT_SHOWN,
    }


def _known(row: Row) -> dict[str, Any]:
    return {
        "behaviour": row.name,
        "subject": _SUBJECT_OF[row.name],
        "meaning": row.meaning,
        "undecided": row.undecided,
        "evidence": row.evidence,
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


# -- for people: parts of text, each with its style and its indent ------------------

_Part = tuple[str, str, int]


def _changes() -> Iterator[_Part]:
    """Yield what changed in each release, the newest first."""
    for before, now in reversed(list(pairwise(map(release, RELEASES)))):
        title = f"What changed in {now.name} (seen on {before.version} and {now.version})"
        yield from _titled(title, before, now)
    yield from _end()


def _between(one: Release, other: Release) -> Iterator[_Part]:
    title = f"What differs between {one.name} (seen on {one.version}) and {other.name} ({other.version})"
    yield from _titled(title, one, other)
    yield from _end()


def _titled(title: str, one: Release, other: Release) -> Iterator[_Part]:
    rows = differing_behaviours(one, other)
    yield title, "bold underline", 0
    if not rows:
        yield "Nothing that dlx knows of.", "", 2
    for subject in dict.fromkeys(_SUBJECT_OF[row.name] for row in rows):
        yield "", "", 0
        yield subject, "bold", 2
        yield from _rows([row for row in rows if _SUBJECT_OF[row.name] == subject], one, other)
    yield "", "", 0


def _rows(rows: Iterable[Row], one: Release, other: Release) -> Iterator[_Part]:
    for row in rows:
        yield "", "", 0
        yield row.name, "cyan", 4
        yield row.meaning, "", 6
        for each, text in zip((one, other), _values(row, one, other), strict=True):
            yield f"{each.name}: {text}", "green", 6
        dates = ", ".join(row.dates_between(one.version, other.version))
        unsure = f"; nothing decides for {', '.join(row.undecided)}" if row.undecided else ""
        yield f"since {dates}; evidence: {row.evidence}{unsure}", "dim", 6


def _values(row: Row, one: Release, other: Release) -> tuple[str, str]:
    if not is_set(row):
        return value_text(getattr(one, row.name)), value_text(getattr(other, row.name))
    first = getattr(one, row.name)
    return members_text(first) or "none", change_texts(row, one.version, other.version)[1]


def _end() -> Iterator[_Part]:
    yield f"Not shown: {'; '.join(NOT_SHOWN)}.", "", 0
