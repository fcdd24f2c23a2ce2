"""``dlx simulate`` runs a scenario under one system and prints what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dlx.nearest_names import suggestion
from simulator.cli.command_parts import DataError, example, print_json
from simulator.cli.options import SCENARIO, read_object, stand_ins_noted
from simulator.cli.tables import column_of_times, show
from simulator.events import LOSSES
from simulator.scenario.scenario_errors import ScenarioError, in_our_words
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
    editors and validators. An activemq.xml, and a rules table and an unloaded queue of IBM MQ, may be files beside
    it: {"file": NAME}.
    """
    if schema:
        _print_schema(system)
        return
    if scenario_path is None:
        raise click.MissingParameter(ctx=context, param_hint="'SCENARIO.json'", param_type="argument")
    scenario = read_object(scenario_path)
    try:
        with stand_ins_noted():
            trace = run(system, with_files(system, scenario, scenario_path))
    except ScenarioError as error:
        file = _file_at(scenario, error.where)
        told = in_our_words(error.problem if file else str(error))
        raise DataError(f"{scenario_path}: {f'{error.where}.file: {file}: ' if file else ''}{told}") from error
    if as_json:
        print_json(trace)
    else:
        show_trace(Console(), trace)


def _print_schema(system: str) -> None:
    if system not in SCENARIO_TYPES:
        raise click.BadParameter(f"{system} has no schema; expected one of {', '.join(SCENARIO_TYPES)}")
    schema = scenario_schema(SCENARIO_TYPES.load(system), f"A scenario of {system}, for dlx simulate")
    print_json(schema)


# Prints the trace of a scenario for people: what happened to messages, what was refused, and what is left.


_REFUSED = 400
_LISTED_MAX = 8
_WHY_MAX = 100


def show_trace(console: Console, trace: Mapping[str, Any]) -> None:
    """Print the trace of any system; what only some have is printed where there is some of it."""
    events = trace.get("events", [])
    if events:
        show(console, ("time", "message", "event", "queue", "why"), _events(events))
    else:
        console.print("nothing happened to any message")
    if to_operators := trace.get("operator_messages"):
        console.print()
        show(console, ("time", "code", "to the operator"), _to_operators(to_operators))
    left = list(_left(trace.get("queues", {})))
    if left:
        console.print()
        show(console, ("queue", "left", "messages"), left)
    for remark in _remarks(trace):
        console.print()
        console.print(Text(remark), soft_wrap=True)


def _events(events: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str | Text]]:
    time = column_of_times(event["time_ms"] for event in events)
    for event in events:
        kind = Text(event["event"], "bold red" if event["event"] in LOSSES else "")
        why = ", ".join(str(event[name]) for name in ("reason", "detail") if event.get(name))
        why = why if len(why) <= _WHY_MAX else f"{why[:_WHY_MAX]} … (--json has all)"
        yield time(event["time_ms"]), str(event.get("message", "")), kind, str(event.get("queue") or ""), why


def _to_operators(messages: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    time = column_of_times(each["time_ms"] for each in messages)
    return ((time(each["time_ms"]), each["code"], each["text"]) for each in messages)


def _left(queues: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for queue, content in queues.items():
        messages = content.get("messages", []) if isinstance(content, Mapping) else content
        names = [str(each.get("message", "?")) for each in messages]
        more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
        yield queue, str(len(names)), ", ".join(names[:_LISTED_MAX]) + more


def _remarks(trace: Mapping[str, Any]) -> Iterator[str]:
    answers = trace.get("answers", [])
    refused = [each for each in answers if each.get("status", 0) >= _REFUSED]
    for each in refused:
        status, words = str(each["status"]), _words(each.get("document") or each.get("body"))
        yield f"step {each['step']} was refused: {status} {words.removeprefix(f'{status} ')}"
    for each in trace.get("outcomes", []):
        if each.get("refused"):
            yield f"step {each['step']} was refused: {each['refused']}"
    for warning in trace.get("warnings", []):
        yield f"warning: {_words(warning)}"
    for name, what in (("refused_publishes", "publishes were refused"), ("exceptions", "exceptions were thrown")):
        if trace.get(name):
            yield f"{len(trace[name])} {what}; --json has them"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ": ".join(str(value[name]) for name in ("title", "description", "msg", "text") if value.get(name))
    return str(value)


# Files beside a scenario: what a system reads from a file of its own may stand there as ``{"file": NAME}``.


# Where each system may name a file.
_PLACES: Mapping[str, Sequence[Sequence[str]]] = {
    "activemq": (("broker", "activemq_xml"),),
    "ibm_mq": (("rules_table",), ("messages",)),
}


def with_files(system: str, scenario: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Return the scenario with the contents of the files that it names.

    Args:
        system: whose scenario it is.
        scenario: as it was read.
        beside: its file; names are relative to the folder of that.

    Raises:
        DataError: a file cannot be read.
    """
    for place in _PLACES.get(system, ()):
        scenario = _filled(scenario, place, beside, ".".join(place))
    return scenario


def _file_at(scenario: Mapping[str, Any], where: str) -> Path | None:
    """Return the name of the file that stands at a place of the scenario; ``None`` where none does."""
    value: Any = scenario
    for name in where.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return Path(value["file"]) if isinstance(value, dict) and set(value) == {"file"} else None


def _filled(value: Any, place: Sequence[str], beside: Path, where: str) -> Any:
    if place:
        name, *deeper = place
        if not isinstance(value, dict) or name not in value:
            return value
        return {**value, name: _filled(value[name], deeper, beside, where)}
    if not isinstance(value, dict):
        return value
    if set(value) != {"file"}:
        raise DataError(f'{beside}: {where}: expected a text, or {{"file": NAME}} with a file beside the scenario')
    if not isinstance(value["file"], str):
        raise DataError(f"{beside}: {where}.file: expected the name of a file beside the scenario")
    path = beside.parent / value["file"]
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{beside}: {where}.file: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got the byte {error.object[error.start]:#04x}"
        raise DataError(f"{beside}: {where}.file: {path}: {problem}") from error
