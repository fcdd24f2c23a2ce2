"""Where a command reads its log: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
MASTER = "local[*]"


class GivenEngine(NamedTuple):
    """What somebody asked for.

    Attributes:
        name: auto, local or spark.
        master: the Spark master.
        local_rows_max: rows that auto reads in this process: of more, Spark is better.
    """

    name: str
    master: str
    local_rows_max: int

    def is_spark(self, rows: int) -> bool:
        """Return whether a log of so many rows is for Spark."""
        return self.name == "spark" or (self.name == "auto" and rows > self.local_rows_max)


def engine_options(local_rows_max: int) -> Callable[[Function], Function]:  # as click calls it
    """Return the options ``--engine`` and ``--master`` of a command that takes ``engine`` and ``master``."""
    auto = f"auto: on Spark above {local_rows_max:,} rows, or with --master."
    engine = click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help=f"Work in this process, or on Spark. {auto}",
    )
    master = click.option("--master", metavar="URL", help=f"Spark master to run on. [default: {MASTER}]")
    return lambda command: engine(master(command))


def given_engine(engine: str, master: str | None, local_rows_max: int) -> GivenEngine:
    """Return the engine that these options ask for. Raises a usage error for options that contradict each other."""
    if engine == "local" and master is not None:
        raise click.UsageError("--master names a Spark master, and --engine local does without Spark")
    name = "spark" if engine == "auto" and master is not None else engine
    return GivenEngine(name, master or MASTER, local_rows_max)
