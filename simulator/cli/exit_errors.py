"""Errors that end a command with an exit code of ``sysexits.h``."""

from __future__ import annotations

import click


class DataError(click.ClickException):
    """The input is wrong: exit 65."""

    exit_code = 65


class Unavailable(click.ClickException):
    """A server or library that the command needs is missing: exit 69."""

    exit_code = 69
