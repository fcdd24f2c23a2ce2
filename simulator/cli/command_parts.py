"""Parts that commands share: the example in ``--help``, printed JSON, and errors with exit codes of ``sysexits.h``."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import click
import msgspec


def example(*commands: str) -> str:
    """Return the section of a ``--help`` that shows the commands, one a line, as they are."""
    return "\n".join(["\b", "Example:", *(f"  {command}" for command in commands)])


def print_json(document: Any) -> None:
    """Print a document as JSON, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


class FiniteRange(click.FloatRange):
    """A number with bounds that is neither infinite nor NaN, which ``float`` reads, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fails with a usage error."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class DataError(click.ClickException):
    """The input is wrong: exit 65."""

    exit_code = 65


class Unavailable(click.ClickException):
    """A server or library that the command needs is missing: exit 69."""

    exit_code = 69


# Ends a command that runs until it is stopped.


@contextmanager
def until_interrupted() -> Iterator[Event]:
    """Yield an event that Ctrl-C and SIGTERM set, so that what runs can be finished; a second signal interrupts."""
    stopped = Event()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Says in our words what msgspec says of a value that does not fit its place in a scenario.


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_COUNTED = {"str": "character", "array": "item", "object": "field"}
_AT_LEAST, _AT_MOST = "at least", "at most"
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_INVALID = re.compile(r"Invalid (?:enum )?value '([^']*)'")
_LENGTH = re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)")
_RANGE = re.compile(r"Expected `(\w+)` (<=|>=|<|>) (\S+)")
_TYPES = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`")
_PATTERN = re.compile(r"Expected `str` matching regex ('.*?')(?=$|;| - )")
_AT = re.compile(r" - at `\$\.?([^`]*)`")
_COMPARED = {"<=": _AT_MOST, ">=": _AT_LEAST, "<": "less than", ">": "more than"}


def in_our_words(text: str) -> str:
    """Return the text of an error with msgspec's words replaced; any other text stays as it is."""
    text = _MISSING.sub(r"the field \1 is missing", text)
    text = _UNKNOWN.sub(r"there is no field \1", text)
    text = _INVALID.sub(r"'\1' is not one of the values allowed here", text)
    text = _LENGTH.sub(_of_length, text)
    text = _TYPES.sub(_of_types, text)
    text = _RANGE.sub(lambda match: f"expected {_kinds(match[1])}, {_COMPARED[match[2]]} {match[3]}", text)
    text = _PATTERN.sub(r"expected another text", text)
    return _AT.sub(r", at \1", text)


def _of_length(match: re.Match[str]) -> str:
    kind, sign, number = match.groups()
    counted = _COUNTED.get(kind, "item")
    return f"expected {_kinds(kind)} of {_COMPARED[sign]} {number} {counted}{'' if number == '1' else 's'}"


def _of_types(match: re.Match[str]) -> str:
    return f"expected {_kinds(match[1])}, got {_kinds(match[2])}"


def _kinds(text: str) -> str:
    return " or ".join(_KINDS.get(kind.strip(), kind.strip()) for kind in text.split("|"))
