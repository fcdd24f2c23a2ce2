"""Where a command reads its log: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from simulator.extras import check_installed, is_installed

Function = TypeVar("Function", bound=Callable[..., Any])
MASTER = "local[*]"


class GivenEngine(NamedTuple):
    """What somebody asked for.

    Attributes:
        name: auto, local or spark.
        master: the Spark master.
        local_rows_max: rows that auto reads in this process even if Spark is installed.
    """

    name: str
    master: str
    local_rows_max: int

    def is_spark(self, rows: int) -> bool:
        """Return whether Spark reads a log of that many rows."""
        large = rows > self.local_rows_max
        return self.name == "spark" or (self.name == "auto" and large and is_installed("pyspark"))


def engine_options(local_rows_max: int) -> Callable[[Function], Function]:  # as click calls it
    """Return the options ``--engine`` and ``--master`` of a command that takes ``engine`` and ``master``."""
    auto = f"auto: on Spark above {local_rows_max:,} rows if it is installed, or with --master."
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
    """Return the engine that these options ask for.

    Raises a usage error for options that contradict each other, and ``ExtraMissingError`` if Spark is asked for and
    not installed.
    """
    if engine == "local" and master is not None:
        raise click.UsageError("--master names a Spark master, and --engine local does without Spark")
    name = "spark" if engine == "auto" and master is not None else engine
    check_installed("spark" if name == "spark" else "replay")
    return GivenEngine(name, master or MASTER, local_rows_max)
