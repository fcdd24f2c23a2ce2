"""``dlx simulate`` runs a scenario under one system and prints what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from simulator.cli.command_parts import DataError, example, print_json
from simulator.cli.files_beside import with_files
from simulator.cli.given_files import SCENARIO
from simulator.cli.given_release import stand_ins_noted
from simulator.cli.json_files import read_object
from simulator.cli.simulated import show_trace
from simulator.cli.wrong_values import in_our_words
from simulator.nearest_names import suggestion
from simulator.scenario.scenario_errors import ScenarioError
from simulator.scenario.steps import scenario_schema
from simulator.systems import SCENARIO_TYPES, SYSTEMS
from simulator.systems import simulate as run


class _System(click.Choice):  # type: ignore[type-arg]  # which takes an argument from click 8.2 on
    """A system by name. Other distributions are asked only if no built-in system has that name."""

    def __init__(self) -> None:
        super().__init__(tuple(SYSTEMS.built_in))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            self.choices = tuple(SYSTEMS)
        if value not in self.choices:
            self.fail(f"there is no system {value!r}; {suggestion(str(value), self.choices)}", param, ctx)
        return super().convert(value, param, ctx)


@click.command(epilog=example("dlx simulate rabbitmq scenario.json", "dlx simulate zaqar --schema"))
@click.argument("system", type=_System())
@click.argument("scenario_path", metavar="[SCENARIO.json]", type=SCENARIO, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the whole trace as JSON.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the system's scenarios, and end.")
@click.pass_context
def simulate(context: click.Context, system: str, scenario_path: Path | None, as_json: bool, schema: bool) -> None:
    """Run a scenario in virtual time, and print what happened to each message and what is left.

    SCENARIO.json differs by SYSTEM; the document of each system describes it, and --schema prints its form for
    editors and validators. A rules table of IBM MQ and an activemq.xml may be files beside it: {"file": NAME}.
    """
    if schema:
        _print_schema(system)
        return
    if scenario_path is None:
        raise click.MissingParameter(ctx=context, param_hint="'SCENARIO.json'", param_type="argument")
    try:
        with stand_ins_noted():
            trace = run(system, with_files(system, read_object(scenario_path), scenario_path))
    except ScenarioError as error:
        raise DataError(f"{scenario_path}: {in_our_words(str(error))}") from error
    if as_json:
        print_json(trace)
    else:
        show_trace(Console(), trace)


def _print_schema(system: str) -> None:
    if system not in SCENARIO_TYPES:
        raise click.BadParameter(f"{system} has no schema; expected one of {', '.join(SCENARIO_TYPES)}")
    schema = scenario_schema(SCENARIO_TYPES.load(system), f"A scenario of {system}, for dlx simulate")
    print_json(schema)
