"""The RabbitMQ release that a command is told to follow."""

from __future__ import annotations

import warnings
from typing import Any

import click

from dlx.releases import RELEASES, StandInRelease, UnknownReleaseError, release


class GivenRelease(click.Choice):  # type: ignore[type-arg]  # which takes an argument from click 8.2 on
    """A release by name, or by a version: then a note on standard error tells which version stands in for it."""

    def __init__(self) -> None:
        super().__init__(RELEASES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the release's name. Fails with a usage error that tells the nearest if there are no rules for it."""
        with warnings.catch_warnings(record=True) as remarks:
            warnings.simplefilter("always", StandInRelease)
            try:
                found = release(value)
            except UnknownReleaseError as error:
                self.fail(str(error), param, ctx)
        for remark in remarks:
            click.echo(f"note: {remark.message}", err=True)
        return found.name


RELEASE = GivenRelease()
