"""Parts that commands share: the example in ``--help``, printed JSON, and errors with exit codes of ``sysexits.h``."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import click
import msgspec

from simulator.files import FileContentError

Function = TypeVar("Function", bound=Callable[..., Any])
"""A command that options are added to."""


def example(*commands: str) -> str:
    """Return the section of a ``--help`` that shows the commands, one a line, as they are."""
    return "\n".join(["\b", "Example:", *(f"  {command}" for command in commands)])


def count_messages(count: int) -> str:
    """Return how many messages these are, in words: ``1 message``, ``5,000 messages``."""
    return "1 message" if count == 1 else f"{count:,} messages"


def print_json(document: Any) -> None:
    """Print a document as JSON, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def schema_option(help: str, schema: Callable[[], Any]) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--schema``, which prints a JSON Schema and ends the command."""

    def show(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
        if asked:
            print_json(schema())
            context.exit()

    return click.option("--schema", is_flag=True, callback=show, is_eager=True, expose_value=False, help=help)


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


def in_use(ports: Mapping[str, int | None]) -> str:
    """Say that ports are in use. ``ports`` are those of options; 0 and nothing are never in use."""
    given = {option: port for option, port in ports.items() if port}
    taken = " or ".join(dict.fromkeys(map(str, given.values())))
    return f"port {taken} is in use; choose others with {' and '.join(given)} (0 picks a free one)"


@contextmanager
def data_errors() -> Iterator[None]:
    """Turn what is wrong with the content of a file into a ``DataError``."""
    try:
        yield
    except FileContentError as error:
        raise DataError(str(error)) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what keeps a file or a folder from being written into a ``DataError`` that names it."""
    try:
        yield
    except OSError as error:
        folder = path.absolute().parent
        why = (error.strerror or error) if folder.exists() else f"there is no folder {folder}"
        raise DataError(f"{path}: cannot be written: {why}") from error


# Ends a command that runs until it is stopped.


@contextmanager
def until_interrupted() -> Iterator[Event]:
    """Yield an event that Ctrl-C, SIGTERM and the end of the terminal set, so that what runs can be finished.

    A second signal interrupts. Where SIGHUP is ignored (``nohup``), it stays so.
    """
    stopped = Event()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        ends.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in ends}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
