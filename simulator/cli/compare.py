"""``dlx compare`` runs one scenario under several systems and shows what each did with the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from simulator.cli.command_parts import DataError, example, print_json, schema_option, writing
from simulator.cli.given_source import GivenSource, Source, source_argument
from simulator.cli.options import SCENARIO, read_object
from simulator.cli.progress import progress
from simulator.cli.tables import column_of_times, show, together
from simulator.events import Event, Outcome
from simulator.files import write_whole
from simulator.pictures.dot import as_dot
from simulator.pictures.graph import Edge, EdgeKind, Graph, Node, NodeKind
from simulator.pictures.mermaid import as_mermaid
from simulator.pictures.svg import as_svg
from simulator.scenario.scenario_errors import ScenarioError, in_our_words
from simulator.scenario.steps import scenario_schema
from simulator.systems.compare import ADAPTERS, MessageOutcome, NeutralScenario, SystemOutcome, read
from simulator.systems.compare import compare as run
from simulator.systems.compare.outcome import Leg

_DELAYS_SHOWN = 4
_CHARACTERS_SHOWN = 60


PICTURES = (".svg", ".mmd", ".dot")


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


def _draw(picture: Path, outcomes: Sequence[SystemOutcome]) -> None:
    """Write the picture. Raises ``DataError`` if the file cannot be written."""
    with writing(picture):
        write_whole(picture, drawn(outcomes, picture.suffix).encode())


class _ScenarioOrSource(GivenSource):
    """A file with a scenario, or with ``--to``, which is read first, a topology."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the ``Source``. Fails with a usage error."""
        if ctx is not None and isinstance(ctx.params.get("to"), str):
            return super().convert(value, param, ctx)
        return SCENARIO.convert(value, param, ctx)


@click.command(
    epilog=example(
        "dlx compare scenario.json --systems rabbitmq:3.10,rabbitmq:4.3,zaqar",
        "dlx compare --from rabbitmq definitions.json --to activemq --write moved",
    )
)
@partial(source_argument, kind=_ScenarioOrSource())
@click.option(
    "--systems",
    metavar="NAMES",
    help="Systems to compare, separated by commas. A colon adds a release or profile: rabbitmq:3.10, zaqar:mongodb."
    f" [default: {','.join(ADAPTERS.built_in)}]",
)
@click.option(
    "--to",
    is_eager=True,
    metavar="SYSTEM",
    help="Move the topology in SOURCE to activemq, zaqar, ironmq or ibm_mq; a colon adds a version or profile.",
)
@click.option(
    "--from",
    "before",
    metavar="rabbitmq[:RELEASE]",
    help="System and release of the topology. [default: RabbitMQ, the release that exported it, or else the newest]",
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the files of the other system into DIR, and do not print them.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Draw the path of the messages under each system. FILE ends with {_listed(PICTURES)}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON that includes the scenario each system ran.")
@schema_option(
    "Print the JSON Schema of a scenario, and end.",
    lambda: scenario_schema(NeutralScenario, "A neutral scenario, for dlx compare"),
)
def compare(
    source: Source,
    over: Source | None,
    systems: str | None,
    to: str | None,
    before: str | None,
    write: Path | None,
    as_json: bool,
    picture: Path | None,
) -> int:
    """Run one scenario under several messaging systems in virtual time, or move a topology to another system.

    SOURCE is a scenario in JSON: it describes a queue, its dead-letter queue, how often and after which delays
    the queue redelivers, and messages whose deliveries fail. docs/how-to/compare.md explains how
    each system carries it out.

    With --to, SOURCE is a topology of RabbitMQ: a definitions file, a file or folder of YAML or JSON that describes
    one, `-` for standard input, or the management URL of a running server. dlx builds the nearest topology of the
    other system, plays the same histories on both, and says queue by queue what is lost, changes and stays. Exit
    code 0: nothing differs; 1: something does.
    """
    if to is not None:
        if systems is not None or picture:
            raise click.UsageError("--systems and --picture are for a scenario; --to moves a topology")
        from simulator.cli.moves import answer_move  # with all that moves need, for those who ask for one

        return answer_move(source, over, before, to, write, as_json=as_json)
    if before or write or over:
        raise click.UsageError("--from, --write and --over are for the move of a topology; name the system by --to")
    if not isinstance(source, Path):
        raise click.UsageError("a scenario is a file; to move a topology, name the system by --to")
    names = ",".join(ADAPTERS.built_in) if systems is None else systems
    _compare(source, names, picture, as_json=as_json)
    return 0


def _compare(scenario_path: Path, systems: str, picture: Path | None, *, as_json: bool) -> None:
    """Run the scenario, and show what came of it."""
    if picture is not None and picture.suffix not in PICTURES:
        raise click.BadParameter(
            f"{picture}: expected a name that ends with {_listed(PICTURES)}", param_hint="--picture"
        )
    try:
        neutral = read(read_object(scenario_path))
    except ScenarioError as error:
        raise DataError(f"{scenario_path}: {in_our_words(str(error))}") from error
    try:
        with progress("running the scenario"):
            outcomes = run(neutral, [name.strip() for name in systems.split(",")])
    except ScenarioError as error:
        raise DataError(f"{scenario_path}: {error}") from error
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--systems") from error
    if picture is not None:
        _draw(picture, outcomes)
    if as_json:
        print_json([_as_json(outcome) for outcome in outcomes])
        return
    _show(Console(), outcomes)


def _as_json(outcome: SystemOutcome) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(outcome)
    for message, fate in zip(told["messages"], outcome.messages, strict=True):
        message |= {"end": fate.end, "delays_ms": fate.delays_ms}
    return told | {"lost": outcome.lost}


def _show(console: Console, outcomes: Sequence[SystemOutcome]) -> None:
    show(console, ("message", "system", "first", "attempts", "delays", "end", "died"), _fates(outcomes))
    carried = list(_carried(outcomes))
    if carried:
        console.print()
        show(console, ("dead letter", "system", "carries"), carried)
    shown = list(_seen(outcomes))
    if shown:
        console.print()
        show(console, ("last delivery", "system", "shows"), shown)
    limits = dict.fromkeys((outcome.system, outcome.limit) for outcome in outcomes if outcome.limit)
    if limits:
        console.print()
        show(console, ("the limit lives in", ""), limits)
    notes = [(_name(outcome), note) for outcome in outcomes for note in outcome.notes]
    if notes:
        console.print()
        show(console, ("departs from the scenario", ""), notes)


def _fates(outcomes: Sequence[SystemOutcome]) -> Iterator[Sequence[str | Text]]:
    every = [fate for outcome in outcomes for fate in outcome.messages]
    delay = column_of_times(ms for fate in every for ms in fate.delays_ms)
    moments = (ms for fate in every for ms in (*fate.attempts_ms[:1], fate.died_ms) if ms is not None)
    moment = column_of_times(moments)
    for fates in zip(*(outcome.messages for outcome in outcomes), strict=True):
        for outcome, fate in zip(outcomes, fates, strict=True):
            end = Text(fate.end, "bold red" if fate.outcome is Outcome.LOST else "")
            told = _delays(fate, delay), end, _death(fate, moment)
            begins = together(moment(fate.attempts_ms[0])) if fate.attempts_ms else "–"
            yield fate.message, _name(outcome), begins, str(len(fate.attempts_ms)), *told


def _carried(outcomes: Sequence[SystemOutcome]) -> Iterator[Sequence[str | Text]]:
    for fates in zip(*(outcome.messages for outcome in outcomes), strict=True):
        for outcome, fate in zip(outcomes, fates, strict=True):
            if fate.outcome is Outcome.DEAD_LETTERED:
                yield fate.message, _name(outcome), _fields(fate.carries)


def _seen(outcomes: Sequence[SystemOutcome]) -> Iterator[Sequence[str | Text]]:
    for fates in zip(*(outcome.messages for outcome in outcomes), strict=True):
        for outcome, fate in zip(outcomes, fates, strict=True):
            if len(fate.attempts_ms) > 1:
                yield fate.message, _name(outcome), _fields(fate.shows)


def _fields(told: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {_shown(value)}" for name, value in told.items() if value != "") or "nothing"


def _name(outcome: SystemOutcome) -> str:
    return f"{outcome.system} {outcome.version}"


def _delays(fate: MessageOutcome, time: Callable[[float], str]) -> str:
    delays = [together(time(ms)) for ms in fate.delays_ms]
    if len(delays) > 1 and len(set(delays)) == 1:
        return together(f"{len(delays)} × {delays[0]}")
    shown = delays[:_DELAYS_SHOWN] + ["…"] * (len(delays) > _DELAYS_SHOWN)
    return ", ".join(shown) or "–"


def _death(fate: MessageOutcome, time: Callable[[float], str]) -> str:
    if fate.died_in is None or fate.died_ms is None:
        return "–"
    return f"{fate.died_in}, {together(time(fate.died_ms))}: {_shortened(fate.reason or '')}"


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, dict) and "reason" in each for each in value):
        return ", ".join(f"{each['queue']} {each['reason']} ×{each['count']}" for each in value)
    return _shortened(str(value).lower() if isinstance(value, bool) else str(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _CHARACTERS_SHOWN else text[:_CHARACTERS_SHOWN] + "…"


# Draws the path of a scenario's messages under each system: queues, and arrows with how often and why.


_WRITERS: Mapping[str, Callable[[Graph], str]] = {".svg": as_svg, ".mmd": as_mermaid, ".dot": as_dot}
_ENDS: Mapping[str, NodeKind] = {Event.PUBLISHED: "end", Outcome.ACKNOWLEDGED: "end", Outcome.LOST: "lost"}
_KINDS: Mapping[str, EdgeKind] = {"way": "binding", "again": "alternate", "dead letter": "dead letter", "lost": "loss"}


def drawn(outcomes: Sequence[SystemOutcome], suffix: str) -> str:
    """Return the picture in the format of a file name's suffix: ``.svg``, ``.mmd`` (Mermaid) or ``.dot``."""
    nodes: dict[Node, tuple[str, ...]] = {}
    edges: list[Edge] = []
    for outcome in outcomes:
        system = f"{outcome.system} {outcome.version}"
        for leg in outcome.path:
            source, target = _node(leg.source, system), _node(leg.target, system)
            nodes |= {node: _lines(node, system) for node in (source, target)}
            edges.append(Edge(source, target, _KINDS[leg.kind], _label(leg)))
    return _WRITERS[suffix](Graph("One scenario under several systems", nodes, tuple(edges)))


def _node(place: str, system: str) -> Node:
    return Node(_ENDS.get(place, "queue"), place, system)


def _lines(node: Node, system: str) -> tuple[str, ...]:
    """Return the lines in a box; the system stands where its messages come from."""
    return (system, node.name) if node.name == Event.PUBLISHED else (node.name,)


def _label(leg: Leg) -> tuple[str, ...]:
    times = f"{leg.times} ×"
    if leg.kind == "again":
        return (f"{times} again",)
    return (times, leg.why) if leg.why else (times,)
