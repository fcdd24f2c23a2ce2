"""The option ``--config``, and where ``dlx.toml`` is without it: beside the definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from simulator.cli.command_parts import Function
from simulator.cli.options import GivenFile
from simulator.lint_reports.project import NAME


def config_option(help: str) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--config`` of a command that takes it as ``config``."""
    where = f"[default: {NAME} beside SOURCE, or in the working directory]"
    return click.option("--config", type=GivenFile(), metavar="FILE", help=f"{help} {where}")


def config_beside(source: Path | None) -> Path | None:
    """Return the file beside a source, else the one in the working directory; ``None`` where there is neither."""
    places = ([] if source is None else [source.parent]) + [Path()]
    return next((place / NAME for place in places if (place / NAME).is_file()), None)
