"""What a captured log shows of one message, for ``dlx explain``; it needs the libraries of replays."""

from __future__ import annotations

from pathlib import Path

import click

from dlx.releases import release
from simulator.capture import CaptureError
from simulator.cli.command_parts import DataError
from simulator.cli.progress import progress
from simulator.definitions import DefinitionsError, read_definitions
from simulator.replay.definitions import version_note
from simulator.replay.local_engine import local_engine
from simulator.replay.one_message import NoSuchMessageError, SeenLife, seen_life
from simulator.replay.run import prepare, workplace


def life_in_log(log: Path, definitions_path: Path, message: str, rules: str) -> SeenLife:
    """Return what the log shows of a message.

    Raises:
        DataError: log or definitions cannot be used, or there is no such message.
    """
    try:
        definitions = read_definitions(definitions_path)
        if note := version_note(definitions, release(rules)):
            click.echo(f"note: {note}", err=True)
        if not log.is_file():
            raise DataError(f"{log}: no such file" if not log.exists() else f"{log}: not a file")
        with workplace(None) as work, progress("reading the log") as show:
            prepared = prepare([log], work, show)
            for line in prepared.rejected:
                click.echo(f"broken: {line}", err=True)
            with local_engine(work) as engine:
                return seen_life(engine.read(prepared.captures), definitions, message, rules)
    except (CaptureError, DefinitionsError) as error:
        raise DataError(str(error)) from error
    except NoSuchMessageError as error:
        raise DataError(f"{log}: {error}") from error
