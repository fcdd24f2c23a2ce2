"""``dlx simulate``: runs a scenario of one system, and prints what happened."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from simulator.cli.exit_errors import DataError
from simulator.cli.given_files import SCENARIO
from simulator.cli.json_files import read_object
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems import SYSTEMS
from simulator.systems import simulate as run


@click.command()
@click.argument("system", type=click.Choice(list(SYSTEMS)))
@click.argument("scenario_path", metavar="SCENARIO.json", type=SCENARIO)
def simulate(system: str, scenario_path: Path) -> None:
    """Run a scenario on virtual time, and print the trace as JSON.

    What a scenario says is described in the documents, for each system.
    """
    try:
        trace = run(system, read_object(scenario_path))
    except ScenarioError as error:
        raise DataError(f"{scenario_path}: {error}") from error
    click.echo(msgspec.json.format(msgspec.json.encode(trace), indent=2))
