"""The logs that a command reads, and the definitions of the broker that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlx.releases import release, stand_in_remark
from simulator.cli.command_parts import DataError
from simulator.cli.options import DEFINITIONS, chosen_release

if TYPE_CHECKING:
    from simulator.cli.progress import Show
    from simulator.definitions import Definitions
    from simulator.replay.run import Prepared

Function = TypeVar("Function", bound=Callable[..., Any])
_DEFINITIONS_BYTES_MAX = 50_000_000
"""Larger files are logs, and are not read to see whether they are something else."""
OF_THE_LOG = "Definitions exported from the broker while its topology was the one in the log."


def definitions_option(  # as click calls it
    help: str = OF_THE_LOG, *, required: bool = True
) -> Callable[[Function], Function]:
    """Return the option ``--definitions`` of a command, which takes it as ``definitions_path``."""
    return click.option(
        "--definitions", "definitions_path", required=required, type=DEFINITIONS, metavar="FILE", help=help
    )


def read_noted(path: Path, given: str | None, logs: Sequence[Path]) -> tuple[Definitions, str]:
    """Read definitions, and return them with the release to follow, which may be ``given``.

    Notes on standard error say if another release exported them, and what servers refuse or ignore. What no
    release takes is left out. Raises ``DataError``: they cannot be used.
    """
    from simulator.definitions import DefinitionsError
    from simulator.definitions.checks import own_release
    from simulator.sources import definitions_from_file

    try:
        definitions = definitions_from_file(path)
    except DefinitionsError as error:
        if swapped := next(filter(_holds_definitions, logs), None):
            problem = f"{swapped} holds definitions: the log comes first, and --definitions names the export"
            raise DataError(f"{error}. {problem}") from error
        raise DataError(str(error)) from error
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
