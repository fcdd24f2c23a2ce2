"""What a captured log shows of one message, for ``dlx explain``; it needs the libraries of replays."""

from __future__ import annotations

from pathlib import Path

from simulator.capture import CaptureError
from simulator.cli.command_parts import DataError
from simulator.cli.given_logs import must_exist, prepared_logs, read_noted
from simulator.cli.progress import progress
from simulator.definitions import DefinitionsError
from simulator.replay.local_engine import local_engine
from simulator.replay.one_message import NoSuchMessageError, SeenLife, seen_life
from simulator.replay.run import workplace


def life_in_log(log: Path, definitions_path: Path, message: str, given: str | None) -> SeenLife:
    """Return what the log shows of a message.

    Raises:
        DataError: log or definitions cannot be used, or there is no such message.
    """
    try:
        definitions, rules = read_noted(definitions_path, given, [log])
        must_exist([log])
        with workplace(None) as work, progress("reading the log") as show:
            prepared = prepared_logs([log], work, show)
            with local_engine(work) as engine:
                return seen_life(engine.read(prepared.captures), definitions, message, rules)
    except (CaptureError, DefinitionsError) as error:
        raise DataError(str(error)) from error
    except NoSuchMessageError as error:
        raise DataError(f"{log}: {error}") from error
