"""``dlx simulate``: runs a scenario of one system, and prints what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from simulator.cli.errors import DataError
from simulator.scenarios import ScenarioError
from simulator.systems import SYSTEMS
from simulator.systems import simulate as run


@click.command()
@click.argument("system", type=click.Choice(list(SYSTEMS)))
@click.argument("scenario_path", metavar="SCENARIO.json", type=click.Path(path_type=Path))
def simulate(system: str, scenario_path: Path) -> None:
    """Run a scenario on virtual time, and print the trace as JSON.

    What a scenario says is described in the documents, for each system.
    """
    try:
        trace = run(system, _read(scenario_path))
    except ScenarioError as error:
        raise DataError(f"{scenario_path}: {error}") from error
    click.echo(msgspec.json.format(msgspec.json.encode(trace), indent=2))


def _read(path: Path) -> dict[str, Any]:
    try:
        scenario = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(scenario, dict):
        raise DataError(f"{path}: expected an object, got {type(scenario).__name__}")
    return scenario
