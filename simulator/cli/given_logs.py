"""The logs that a command reads, and the definitions of the broker that wrote them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dlx.releases import release, stand_in_remark
from simulator.cli.command_parts import DataError, Function
from simulator.cli.given_source import GivenSource, Source, named, read_source
from simulator.cli.options import chosen_release
from simulator.files import is_url

if TYPE_CHECKING:
    from simulator.cli.progress import Show
    from simulator.definitions import Definitions
    from simulator.replay.run import Prepared

_DEFINITIONS_BYTES_MAX = 50_000_000
"""Larger files are logs, and are not read to see whether they are something else."""
OF_THE_LOG = "Definitions exported from the broker while its topology was the one in the log."


# Definitions that do not hold for the whole log: each from a moment on.


TIME_FORMS = (
    "2026-11-27T14:03:20 (UTC, unless it has a zone), 14:03 or 14:03:20 of the first day of the log, or seconds since"
    " 1970"
)
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_A_DAY = re.compile("([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?")


class Moment(NamedTuple):
    """A time as it is given: microseconds since 1970, or since the first day of the log began."""

    text: str
    time_us: int
    of_first_day: bool = False

    def in_log(self, from_us: int) -> int:
        """Return the time in a log that begins then, in microseconds since 1970."""
        return self.time_us + (from_us - from_us % _DAY_US if self.of_first_day else 0)


class TimedDefinitions(NamedTuple):
    """Definitions, and since when they hold; ``None``: from the beginning."""

    source: Source
    since: Moment | None = None

    def __str__(self) -> str:
        return named(self.source) + ("" if self.since is None else f"@{self.since.text}")


_SOURCE = GivenSource()


class DefinitionsAndTime(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.2 on
    """``SOURCE`` or ``SOURCE@TIME``; a file whose name has an @ comes first."""

    name = "source"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TimedDefinitions:
        """Return source and time. Fails with a usage error for a time that cannot be read."""
        if isinstance(value, TimedDefinitions):
            return value
        source, at, time = value.rpartition("@")
        since = _moment(time) if at else None
        if is_url(value):
            if "/" not in source.partition("://")[2]:  # the user's
                since = None
            elif at and since is None:  # which may be of a password: it is not shown
                self.fail(
                    f"what follows the last @ is no time. After it goes one such as {TIME_FORMS};"
                    " write special characters in user and password as %XX",
                    param,
                    ctx,
                )
        elif not at or Path(value).exists():
            since = None
        elif since is None:
            self.fail(
                f"there is no file {value!r}, and {time!r} is no time. After the @ goes one such as {TIME_FORMS}",
                param,
                ctx,
            )
        return TimedDefinitions(_SOURCE.convert(value if since is None else source, param, ctx), since)


def _moment(text: str) -> Moment | None:
    """Return the moment that a text names, ``None`` if it names none."""
    try:
        if re.fullmatch("[0-9]+([.][0-9]+)?", text):
            return Moment(text, _us(datetime.fromtimestamp(float(text), UTC)))
        if _OF_A_DAY.fullmatch(text):
            hours, minutes, seconds = (*map(float, text.split(":")), 0.0)[:3]
            return Moment(text, round((hours * 3600 + minutes * 60 + seconds) * 1_000_000), of_first_day=True)
        at = datetime.fromisoformat(text)
        return Moment(text, _us(at if at.tzinfo is not None else at.replace(tzinfo=UTC)))
    except (ValueError, OverflowError, OSError):
        return None


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // moment.resolution


def definitions_option(  # as click calls it
    help: str = OF_THE_LOG, *, required: bool = True, several: bool = False
) -> Callable[[Function], Function]:
    """Return the option ``--definitions`` of a command, which takes it as ``given_definitions``: one, or ``several``.

    Several hold each from a moment of the log on. The command needs ``server_options``, too.
    """
    more = (
        " Where they changed, repeatable: each holds from its time on, one without from the beginning. TIME:"
        f" {TIME_FORMS}."
    )
    return click.option(
        "--definitions",
        "given_definitions",
        required=required,
        multiple=True,
        type=DefinitionsAndTime(),
        metavar="SOURCE[@TIME]" if several else "SOURCE",
        help=f"{help} A file, or the management URL of a running server.{more if several else ''}",
        callback=None if several else _one_source,
    )


def _one_source(context: click.Context, _param: click.Parameter, given: tuple[TimedDefinitions, ...]) -> Source | None:
    """Return the one that is given, if any. Fails with a usage error for several, and for one with a time."""
    timed = [each for each in given if each.since is not None]
    if len(given) > 1 or timed:
        raise click.UsageError(
            f"--definitions {timed[0] if timed else given[1]}: dlx {context.info_name} takes one file or URL, of"
            " definitions that hold for the whole time. Where they changed during a log, dlx replay takes several, each"
            " FILE@TIME; for this command, use a log from before or from after the change"
        )
    return given[0].source if given else None


def check_times(given: Sequence[TimedDefinitions]) -> None:
    """Raise ``UsageError`` unless exactly one of the definitions holds from the beginning."""
    initial = [each for each in given if each.since is None]
    if len(initial) > 1:
        raise click.UsageError(
            f"--definitions {initial[0]} and {initial[1]} both hold from the beginning: give the later one as"
            f" {initial[1]}@TIME, such as {TIME_FORMS}"
        )
    if not initial:
        raise click.UsageError(
            f"--definitions {named(given[0].source)}@...: give the definitions that hold from the beginning, too,"
            " without @TIME"
        )


def read_timed(
    given: Sequence[TimedDefinitions], rules: str | None, logs: Sequence[Path]
) -> tuple[dict[TimedDefinitions, Definitions], str]:
    """Read definitions, those from the beginning first, and return them with the release to follow.

    Raises as ``read_noted``.
    """
    found = {}
    for each in sorted(given, key=lambda each: each.since is not None):
        found[each], rules = read_noted(each.source, rules, logs)
    assert rules is not None, "there is a file"
    return found, rules


def changes_in(timed: Mapping[TimedDefinitions, Definitions], log: Prepared) -> list[tuple[int, Definitions]]:
    """Return the definitions with a time, and since when they hold in a log: microseconds since 1970, in order.

    Notes on standard error name those that no row needs. Raises ``UsageError`` for two of one time.
    """
    from simulator.time_spans import moment

    times: dict[int, TimedDefinitions] = {}
    for each in timed:
        if each.since is None:
            continue
        at_us = each.since.in_log(log.from_us)
        if at_us in times:
            raise click.UsageError(
                f"--definitions {named(times[at_us].source)} and {named(each.source)} hold from the same time on,"
                f" {moment(at_us)}: leave one out, or give it another time"
            )
        times[at_us] = each
        first, last = moment(log.from_us), moment(log.until_us)
        if at_us > log.until_us:
            click.echo(f"note: {each}: no row lies after {moment(at_us)}; the last is of {last}", err=True)
        if at_us <= log.from_us:
            click.echo(f"note: {each}: no row lies before {moment(at_us)}; the first is of {first}", err=True)
    return [(at_us, timed[each]) for at_us, each in sorted(times.items())]


def read_noted(source: Source, given: str | None, logs: Sequence[Path]) -> tuple[Definitions, str]:
    """Read definitions, and return them with the release to follow, which may be ``given``.

    Notes on standard error say if another release exported them, and what servers refuse or ignore. What no
    release takes is left out. Raises as ``read_source``.
    """
    from simulator.definitions.checks import own_release

    try:
        definitions = read_source(source)
    except DataError as error:
        if swapped := next(filter(_holds_definitions, logs), None):
            problem = f"{swapped} holds definitions: the log comes first, and --definitions names the export"
            raise DataError(f"{error}. {problem}") from error
        raise
    rules = chosen_release(definitions, given)
    own = stand_in_remark(definitions.rabbitmq_version or "") if own_release(definitions) == rules else None
    if own:
        click.echo(f"note: {own}", err=True)
    return taken_noted(definitions, rules), rules


def taken_noted(definitions: Definitions, rules: str) -> Definitions:
    """Return definitions without what no release takes.

    Notes on standard error say what servers of the release ``rules`` refuse or ignore.
    Raises ``DataError`` for a part of another virtual host.
    """
    from simulator.bootstrap import as_server_has_it
    from simulator.definitions import DefinitionsError
    from simulator.definitions.checks import check_taken

    try:
        notes = check_taken(definitions, release(rules))
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    for note in notes:
        click.echo(f"note: {note}", err=True)
    return as_server_has_it(definitions, release(rules))


def _holds_definitions(path: Path) -> bool:
    from simulator.definitions import DefinitionsError, read_definitions

    try:
        if not path.is_file() or path.stat().st_size > _DEFINITIONS_BYTES_MAX:
            return False
        read_definitions(path)
    except (DefinitionsError, OSError):
        return False
    return True


def must_exist(logs: Sequence[Path]) -> None:
    """Raise ``DataError`` for a log that is missing, or no file."""
    for log in logs:
        if not log.is_file():
            raise DataError(f"{log}: no such file" if not log.exists() else f"{log}: not a file")


def prepared_logs(logs: Sequence[Path], work: Path, show: Show, definitions: Definitions | None = None) -> Prepared:
    """Prepare logs for a replay in ``work``; notes on standard error name their broken records.

    Raises ``CaptureError`` for a log that cannot be used.
    """
    from simulator.replay.run import prepare

    prepared = prepare(logs, work, show, definitions)
    for line in prepared.rejected:
        click.echo(f"broken: {line}", err=True)
    return prepared
