"""Parts that all commands share: the example in ``--help``, and errors that end with an exit code of ``sysexits.h``."""

from __future__ import annotations

import click


def example(*commands: str) -> str:
    """Return the section of a ``--help`` that shows the commands, one a line, as they are."""
    return "\n".join(["\b", "Example:", *(f"  {command}" for command in commands)])


class DataError(click.ClickException):
    """The input is wrong: exit 65."""

    exit_code = 65


class Unavailable(click.ClickException):
    """A server or library that the command needs is missing: exit 69."""

    exit_code = 69
