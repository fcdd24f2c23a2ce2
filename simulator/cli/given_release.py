"""The RabbitMQ release that a command is told to follow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

import click

from dlx.releases import DEFAULT, RELEASES, StandInRelease, UnknownReleaseError, release, release_and_remark
from simulator.definitions import Definitions
from simulator.definitions.checks import own_release, version_note

Function = TypeVar("Function", bound=Callable[..., Any])


class GivenRelease(click.Choice):  # type: ignore[type-arg]  # which takes an argument from click 8.2 on
    """A release by name, or by a version: then a note on standard error tells which version stands in for it."""

    def __init__(self) -> None:
        super().__init__(RELEASES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the release's name. Fails with a usage error that tells the nearest if there are no rules for it."""
        try:
            found, remark = release_and_remark(value)
        except UnknownReleaseError as error:
            self.fail(str(error), param, ctx)
        if remark is not None:
            _note(remark)
        return found.name


RELEASE = GivenRelease()
OWN_OR_DEFAULT = f"that of the server which exported the definitions, if they say so, else {DEFAULT}"


def release_option(help: str) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--release`` of a command that takes it as ``rules``; ``chosen_release`` fills it in."""
    return click.option("--release", "rules", type=RELEASE, show_default=OWN_OR_DEFAULT, help=help)


def chosen_release(definitions: Definitions, given: str | None) -> str:
    """Return the release that is given, or else that of the server which exported the definitions, or the default.

    A note on standard error tells which, unless it is the release that anybody would expect.
    """
    for said in definitions.remarks:
        _note(said)
    own = own_release(definitions)
    rules = given or own or DEFAULT
    if given is None and own not in (None, DEFAULT):
        _note(f"RabbitMQ {definitions.rabbitmq_version} exported the definitions, so the rules are those of {own}")
    remark = version_note(definitions, release(rules))
    if remark is not None and own != rules:
        _note(remark)
    return rules


@contextmanager
def stand_ins_noted() -> Iterator[None]:
    """Print notes on standard error, and no warnings, of the versions that stand in for others in this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", StandInRelease)
        show = warnings.showwarning

        def noted(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, StandInRelease):
                _note(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = noted
        yield


def _note(remark: str) -> None:
    click.echo(f"note: {remark}", err=True)
