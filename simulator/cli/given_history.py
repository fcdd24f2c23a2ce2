"""Reads a history from the command line: JSON, or a file of it.

The JSON is a list of steps, or the report that ``dlx fuzz --json`` prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from simulator.cli.command_parts import DataError
from simulator.json_reading import NestedTooDeeplyError, read_json
from simulator.scenario import steps

ACTIONS_MAX = 10_000_000


class GivenHistory(msgspec.Struct, frozen=True):
    """A history and, if it comes from a report, the property that it broke and the release."""

    history: steps.History
    property: str | None = None
    release: str | None = None


def read_history(text: str) -> GivenHistory:
    """Return the history that ``text`` contains, or that is in the file it names.

    Raises:
        DataError: the text is neither a history nor a file with one.
    """
    source = "--history" if text.lstrip().startswith(("[", "{")) else text
    try:
        data: Any = read_json(text.encode() if source == "--history" else Path(text).read_bytes())
        if not (isinstance(data, dict) and "history" in data):
            given = GivenHistory(steps.from_builtins(data))
        else:
            told = {key: data[key] for key in ("property", "release") if isinstance(data.get(key), str)}
            given = GivenHistory(steps.from_builtins(data["history"]), **told)
    except OSError as error:
        raise DataError(f"--history {text!r}: {error.strerror}; expected JSON, or a file that holds it") from error
    except NestedTooDeeplyError:
        raise DataError(f"{source}: nested too deeply; expected a list of steps such as --json prints") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{source}: {error}; expected a list of steps such as --json prints") from error
    if steps.length(given.history) > ACTIONS_MAX:
        raise DataError(f"{source}: {steps.length(given.history):,} actions; the limit is {ACTIONS_MAX:,}")
    if _empty(given.history):
        raise DataError(f"{source}: a repeat without steps; expected at least one")
    return given


def _empty(history: Iterable[steps.AnyStep]) -> bool:
    repeats = [step for step in history if isinstance(step, steps.Repeat)]
    return any(not step.steps or _empty(step.steps) for step in repeats)
