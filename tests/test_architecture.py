"""Which module may import which: no circle at run time, and rooms that know only the rooms below them.

Every import counts that runs, at the top of a module or inside a function. Imports under
``if TYPE_CHECKING`` do not run, so they count only in the rooms of ``TYPES_COUNT_IN``.
A module that is named in a string (``importlib.import_module``, the faces of packages, the command line,
the systems) is loaded late. For circles it counts as an import, for rooms it does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A room is a folder of simulator/ or of simulator/systems/, a module beside those folders, or all of dlx.
# These serve all rooms of simulator.
TOOLS = {
    "clock",
    "deadlines",
    "definitions",
    "events",
    "extras",
    "files",
    "json_reading",
    "json_values",
    "markup",
    "otlp",
    "rule_sources",
    "simulator",
    "sources",
    "time_spans",
}
# For each other room the rooms that it may import, besides dlx and the tools.
BELOW: dict[str, set[str]] = {
    "broker": set(),
    "bootstrap": {"broker"},
    "pictures": set(),
    "message_location": {"broker"},
    "message_history": {"broker", "message_location", "pictures"},
    "scenario": {"bootstrap", "broker", "message_location"},
    "systems": set(),
    "systems.compare": {"scenario"},
    "systems.activemq": {"scenario", "systems", "systems.compare"},
    "systems.ibm_mq": {"scenario", "systems.compare"},
    "systems.ironmq": {"scenario", "systems.compare"},
    "systems.zaqar": {"scenario", "systems", "systems.compare"},
    "systems.move": {"analysis", "scenario", "systems.compare"},
    "server": {"bootstrap", "broker", "capture", "message_history", "message_location", "pictures"},
    "analysis": {"bootstrap", "broker", "message_history", "message_location", "pictures", "scenario"},
    "capture": set(),
    "redrive": {"capture", "analysis", "scenario", "server"},
    "generate": {"broker", "capture", "scenario"},
    "replay": {"bootstrap", "broker", "capture", "message_history", "pictures", "analysis", "scenario", "systems"},
    "whatif": {"bootstrap", "broker", "capture", "message_history", "analysis", "replay"},
    "spark_sources": {"capture", "replay"},
}
BELOW["record"] = {*BELOW} - {"systems.compare", "systems.move", "replay", "spark_sources", "whatif", "redrive"}
BELOW["lint_reports"] = {"analysis", "record", "scenario"}
# The harness and the command line stand above all others, and the command line above the harness.
BELOW["testing"] = {*BELOW} - {"systems.compare", "systems.move", "replay", "spark_sources", "whatif"}
BELOW["cli"] = {*BELOW}
BELOW = {room: below | TOOLS | {"dlx"} for room, below in BELOW.items()}
# The tools know the rules, and each other.
BELOW |= {tool: TOOLS | {"dlx"} for tool in TOOLS} | {"dlx": set()}
# Where other programs enter stands in dlx, where no package of theirs can hide it, and leads to the rooms at the top.
ENTRANCES = {"dlx.entry_points", "dlx.pytest_plugin"}
BELOW["entrances"] = {"cli", "testing"}

# Rooms whose answers depend on their arguments alone: no sockets, threads or clocks.
WITHOUT_IO = {
    "dlx",
    "broker",
    "scenario",
    "pictures",
    "analysis",
    "deadlines",
    "definitions",
    "events",
    "json_values",
}
WITHOUT_IO |= {room for room in BELOW if room.partition(".")[0] == "systems"}
# Those serve a system to network clients.
SERVING = {
    "simulator.systems.activemq.http",
    "simulator.systems.activemq.stomp_server",
    "simulator.systems.ironmq.http",
    "simulator.systems.ironmq.service",
    "simulator.systems.zaqar.http",
}
IO = {"asyncio", "http", "pika", "select", "socket", "ssl", "starlette", "subprocess", "threading", "time", "uvicorn"}

# Rooms that have no circle even when imports for type hints count.
TYPES_COUNT_IN = {"replay", "server", "testing", "whatif"}

IN_STRING = re.compile(r"(\w+(?:\.\w+)+)(?::\w+)?")
# Strings that name a module and load none.
ONLY_NAMED = {
    "dlx.releases.table": "dlx.releases",  # the group of entry points
    "simulator.testing.fuzz.failure_report": "simulator.testing",  # an import in the test that it prints
}

Graph = Mapping[str, set[str]]


class _Imports(ast.NodeVisitor):
    """Collects the names that a module imports, those for type hints and those in strings apart."""

    def __init__(self, modules: Mapping[str, Path]) -> None:
        self.modules = modules
        self.running: set[str] = set()
        self.for_types: set[str] = set()
        self.in_strings: set[str] = set()
        self._names = self.running

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.generic_visit(node)
            return
        self._names = self.for_types
        for child in node.body:
            self.visit(child)
        self._names = self.running
        for child in node.orelse:
            self.visit(child)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Take ``dlx.deaths`` and ``dlx.deaths:Death``."""
        if isinstance(node.value, str) and (found := IN_STRING.fullmatch(node.value)):
            self.in_strings |= {found[1]} & self.modules.keys()

    def visit_Import(self, node: ast.Import) -> None:
        self._names.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.module is not None
        assert node.level == 0, "imports name their module from the root"
        for alias in node.names:
            inside = f"{node.module}.{alias.name}"
            self._names.add(inside if inside in self.modules else node.module)


@cache
def _modules() -> dict[str, Path]:
    """The files of both packages by module; a package is the module of its ``__init__``."""
    found = {}
    for package in ("dlx", "simulator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _read() -> dict[str, _Imports]:
    found = {module: _Imports(_modules()) for module in _modules()}
    for module, imports in found.items():
        imports.visit(ast.parse(_modules()[module].read_text(encoding="utf-8")))
        imports.in_strings -= {ONLY_NAMED.get(module)}
    return found


def _imports(*, for_types: bool = False, in_strings: bool = False) -> dict[str, set[str]]:
    """Return what each module imports, ours and others'."""
    return {
        name: read.running | (read.for_types if for_types else set()) | (read.in_strings if in_strings else set())
        for name, read in _read().items()
    }


def _room(module: str) -> str:
    if module in ENTRANCES:
        return "entrances"
    package, *rest = module.split(".")
    if package == "dlx" or not rest:
        return package
    inside = ".".join(rest[:2])
    return inside if inside in BELOW else rest[0]


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one module, or of one that imports itself (Tarjan)."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        open_.append(node)
        for target in sorted(graph[node] & graph.keys()):
            if target not in order:
                visit(target)
            if target in open_:
                lowest[node] = min(lowest[node], lowest[target])
        if lowest[node] == order[node]:
            component = open_[open_.index(node) :]
            del open_[-len(component) :]
            if len(component) > 1 or node in graph[node]:
                found.append(sorted(component))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def _one_way_round(graph: Graph, component: list[str]) -> str:
    """Name one shortest way from the first module of the component back to itself."""
    ways = [[component[0]]]
    for way in ways:
        for target in sorted(graph[way[-1]] & set(component)):
            if target == component[0]:
                return " -> ".join([*way, target])
            if all(target not in other for other in ways):
                ways.append([*way, target])
    raise AssertionError("no circle")


def _told(graph: Graph, components: list[list[str]]) -> str:
    return "\n".join(f"{len(each)} modules: {_one_way_round(graph, each)}" for each in components)


def _arrows() -> Iterator[tuple[str, str, str, str]]:
    for module, targets in _imports().items():
        for target in targets & _modules().keys():
            if _room(module) != _room(target):
                yield _room(module), _room(target), module, target


def test_no_circle_at_run_time() -> None:
    graph = _imports(in_strings=True)
    found = circles(graph)
    assert not found, f"modules import each other in a circle:\n{_told(graph, found)}"


def test_no_circle_for_type_hints_either_where_there_was_none() -> None:
    graph = _imports(for_types=True, in_strings=True)
    new = [each for each in circles(graph) if TYPES_COUNT_IN & {_room(module) for module in each}]
    assert not new, f"modules import each other in a circle:\n{_told(graph, new)}"


def test_rooms_import_only_rooms_below_them() -> None:
    against = [arrow for arrow in _arrows() if arrow[1] not in BELOW.get(arrow[0], set())]
    assert not against, "against the table BELOW:\n" + "\n".join(f"{each[2]} imports {each[3]}" for each in against)


def test_the_broker_is_reached_through_its_face() -> None:
    face = {"simulator.broker", "simulator.broker.commands", "simulator.broker.replies", "simulator.broker.snapshots"}
    inside = [f"{m} imports {t}" for room, other, m, t in _arrows() if other == "broker" and t not in face]
    assert not inside, "import these from simulator.broker:\n" + "\n".join(inside)


@pytest.mark.parametrize("command", ["simulate", "compare", "serve", "replay", "explain", "graph"])
def test_a_command_runs_without_the_test_harness(command: str) -> None:
    reached = {f"simulator.cli.{command}"}
    pending = [*reached]
    for module in pending:
        new = _imports().get(module, set()) - reached
        reached |= new
        pending += new
    assert not {module for module in reached if _room(module) == "testing"}


def test_the_table_of_rooms_is_complete_and_has_no_circle() -> None:
    rooms = {_room(module) for module in _modules()}
    assert BELOW.keys() == rooms, "rooms that are not in the table, or no longer there"
    assert not circles({room: below - TOOLS for room, below in BELOW.items()})


def test_rules_and_players_do_no_io() -> None:
    found = [
        f"{module} imports {target}"
        for module, targets in _imports().items()
        if _room(module) in WITHOUT_IO and module not in SERVING
        for target in sorted(targets)
        if target.split(".")[0] in IO
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "running", "for_types", "in_strings"),
    [
        ("import dlx.deaths", {"dlx.deaths"}, set(), set()),
        ("from dlx import deaths, Topology", {"dlx.deaths", "dlx"}, set(), set()),
        ("from dlx.deaths import DeadLetter", {"dlx.deaths"}, set(), set()),
        ("def late():\n    import dlx.deaths", {"dlx.deaths"}, set(), set()),
        (
            "if TYPE_CHECKING:\n    import dlx.deaths\nelse:\n    import dlx.cycles",
            {"dlx.cycles"},
            {"dlx.deaths"},
            set(),
        ),
        ('import_module("dlx.deaths")', set(), set(), {"dlx.deaths"}),
        (
            'TABLE = {"death": "dlx.deaths:Death", "x": "dlx.nothing", "y": "see dlx.deaths"}',
            set(),
            set(),
            {"dlx.deaths"},
        ),
    ],
)
def test_imports_are_read(source: str, running: set[str], for_types: set[str], in_strings: set[str]) -> None:
    imports = _Imports(_modules())
    imports.visit(ast.parse(source))
    assert (imports.running, imports.for_types, imports.in_strings) == (running, for_types, in_strings)


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, ["a -> b -> c -> a"]),
        ({"a": {"a"}, "b": {"c", "a"}, "c": {"b"}}, ["a -> a", "b -> c -> b"]),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, []),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], found: list[str]) -> None:
    assert [_one_way_round(graph, each) for each in circles(graph)] == found


# Where a dead letter goes is asked of ``dlx.message_flow``, never composed by hand.
COMPOSED = {
    "route": "dlx.routing",
    "routed": "dlx.routing",
    "visits": "dlx.routing",
    "is_cycle": "dlx.cycles",
    "readdressed": "dlx.dead_lettering",
    "forwarded": "dlx.dead_lettering",
    "dead_letter": "dlx.dead_lettering",
}
# What others may call on a flow: it answers whole questions.
ANSWERED = {"dead_letter", "forwarded", "visits"}
COMPOSERS = {
    "dlx": "names what others import",
    "dlx.dead_lettering": "one death of one message",
    "dlx.message_flow": "all deaths of all messages",
    "simulator.broker.operations.exchanges": "a broker's messages, which may be routed at random and kept in histories",
}


def _composed(source: str) -> set[str]:
    """Return the functions of ``COMPOSED`` that a module imports, or calls by the name of their module or on a flow."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names} & COMPOSED.keys()
            found |= {name for name in names if node.module in ("dlx", COMPOSED[name])}
        elif isinstance(node, ast.Attribute) and node.attr in COMPOSED:
            homes = {"dlx", COMPOSED[node.attr], COMPOSED[node.attr].removeprefix("dlx.")}
            on_flow = node.attr not in ANSWERED and _ends_in_flow(node.value)
            found |= {node.attr} if on_flow or ast.unparse(node.value) in homes else set()
    return found


def _ends_in_flow(node: ast.expr) -> bool:
    """Return the functions of ``COMPOSED`` that a module imports, or calls by their module's name or on a flow."""
    if isinstance(node, ast.Call):
        return _ends_in_flow(node.func)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.removeprefix("_") in ("flow", "MessageFlow")


def test_only_the_message_flow_and_exchanges_say_where_a_message_goes() -> None:
    by_hand = {name: found for name, path in _modules().items() if (found := _composed(path.read_text()))}
    assert by_hand.keys() == COMPOSERS.keys(), {name: by_hand[name] for name in by_hand.keys() - COMPOSERS.keys()}
    assert by_hand["simulator.broker.operations.exchanges"] == {"routed", "visits"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from dlx.routing import EXCHANGE_TYPES, route", {"route"}),
        ("from dlx import dead_letter as die", {"dead_letter"}),
        ("import dlx\ndlx.route(1)", {"route"}),
        ("from dlx import routing\nrouting.route(1)", {"route"}),
        ("import dlx.cycles\ndlx.cycles.is_cycle(1)", {"is_cycle"}),
        (
            "from simulator.systems.activemq.messages import dead_letter\n"
            "flow.dead_letter(1)\nfrom starlette.routing import route",
            set(),
        ),
        ("letter = flow.readdressed(queue, message)\nflow.entries(letter)", {"readdressed"}),
        ("self._flow.readdressed(1)\nvhost.flow(release).is_cycle(1)", {"readdressed", "is_cycle"}),
    ],
)
def test_what_is_composed_by_hand_is_found(source: str, found: set[str]) -> None:
    assert _composed(source) == found
