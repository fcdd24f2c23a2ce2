"""What ends a command: errors with the exit codes of sysexits."""

from __future__ import annotations

import click


class DataError(click.ClickException):
    """The input is wrong: exit 65."""

    exit_code = 65


class Unavailable(click.ClickException):
    """A server or library that is needed is not there: exit 69."""

    exit_code = 69
