"""Options of ``dlx lint`` and ``dlx fuzz``: where ``dlx.toml`` is, and what clients do in place of what it states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from simulator.analysis.clients import FAILURES, Clients, Failure, Publishes
from simulator.cli.command_parts import Function
from simulator.cli.options import GivenFile
from simulator.lint_reports.project import NAME

NOTHING = "nothing"


def config_option(help: str) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--config`` of a command that takes it as ``config``."""
    where = f"[default: {NAME} beside SOURCE, or in the working directory]"
    return click.option("--config", type=GivenFile(), metavar="FILE", help=f"{help} {where}")


def config_beside(source: Path | None) -> Path | None:
    """Return the file beside a source, else the one in the working directory; ``None`` where there is neither."""
    places = ([] if source is None else [source.parent]) + [Path()]
    return next((place / NAME for place in places if (place / NAME).is_file()), None)


class GivenClients(NamedTuple):
    """What these options state; what is not given leaves the file as it is."""

    on_failure: tuple[str, ...]
    declare_before_publish: bool
    republish_x_death: bool

    @property
    def words(self) -> list[str]:
        """The options as they are given on a command line."""
        given = [word for each in self.on_failure for word in ("--on-failure", each)]
        given += ["--declare-before-publish"] * self.declare_before_publish
        return given + ["--republish-x-death"] * self.republish_x_death

    def over(self, clients: Clients, publishes: tuple[tuple[str, str], ...] = ()) -> Clients:
        """Return what a file states with what the options state in its place. Fails with a usage error."""
        if NOTHING in self.on_failure and len(self.on_failure) > 1:
            raise click.UsageError(f"--on-failure {NOTHING}: not with another --on-failure")
        stated: dict[str, Any] = {}
        if self.on_failure:
            given: tuple[Failure, ...] = tuple(each for each in FAILURES if each in self.on_failure)
            stated["on_failure"] = given
        if self.declare_before_publish:
            stated["declare_before_publish"] = True
        if self.republish_x_death:
            stated["republish_x_death"] = True
        if publishes:
            stated["publish"] = tuple(Publishes(exchange, (key,)) for exchange, key in publishes)
        return msgspec.structs.replace(clients, **stated)


def client_options(command: Function) -> Function:
    """Give a command the options; it takes their values as those of ``GivenClients``."""
    options = (
        click.option(
            "--on-failure",
            type=click.Choice([*FAILURES, NOTHING]),
            multiple=True,
            help="What consumers do with what they cannot process, and nothing else; repeatable. 'nothing': they "
            "acknowledge all.",
        ),
        click.option(
            "--declare-before-publish",
            is_flag=True,
            help="Publishers declare a queue each time before they publish to it, which renews x-expires of a "
            "classic queue.",
        ),
        click.option(
            "--republish-x-death",
            is_flag=True,
            help="Consumers publish a message again with the x-death that it came with, which 3.x counts.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
