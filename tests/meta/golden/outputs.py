"""What a user can see of dlx, by name: the answers of its commands, its scenarios, its help and its public names."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from dlx.releases import RELEASES
from simulator.cli.main import COMMANDS, main
from tests.differential.player import play
from tests.differential.scenarios import load
from tests.differential.simulated import simulated

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
TESTS = ROOT / "tests"
WHAT_IF_SEEDS = 60
FUZZ_SEEDS = 3
SYSTEMS = ("rabbitmq", "activemq", "ibm_mq", "ironmq", "zaqar")
PUBLIC = ("dlx", "dlx.consumer", "dlx.retries", "simulator", "simulator.testing", "simulator.replay")

# What differs from run to run: how long work took.
_PASSING = re.compile(r'"seconds": [0-9.e-]+|\b[0-9.]+ (?:s|ms|rows/s)\b(?= (?:in all|of work))')


@dataclass(frozen=True)
class Output:
    """A name, with ``/`` between its parts, and how the text is made."""

    name: str
    make: Callable[[], str]


def outputs(scratch: Path, *, spark: bool = False) -> Iterator[Output]:
    """Return all outputs in a fixed order; ``scratch`` is an empty directory for what they write."""
    yield from _helps()
    yield from _public_names()
    yield from _questions()
    yield from _searches()
    yield from _replays(scratch)
    yield from _what_ifs()
    yield from _other_systems(scratch)
    yield from _scenarios()
    if spark:
        yield from _on_spark(scratch)


def run(*arguments: str | Path) -> str:
    """Run ``dlx`` in this process; return its exit code and what it printed, without this machine's paths."""
    out, err = _text(), _text()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    said = f"exit {status}\n{_said(out)}\n--\n{_said(err)}"
    return _PASSING.sub("…", said.replace(str(ROOT), "ROOT"))


def _text() -> io.TextIOWrapper:
    """Return a stream that takes text and, in its buffer, bytes, as that of a process does."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")


def _said(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _command(name: str, *arguments: str | Path) -> Output:
    return Output(name, lambda: run(*arguments))


def _helps() -> Iterator[Output]:
    yield _command("help/dlx", "--help")
    for command in sorted(COMMANDS):
        yield _command(f"help/{command}", command, "--help")


def _public_names() -> Iterator[Output]:
    for module in PUBLIC:
        yield Output(f"names/{module}", lambda module=module: _signatures(module))  # type: ignore[misc]


def _signatures(module_name: str) -> str:
    """Return the public names of a module, each with its signature and those of its methods."""
    module = importlib.import_module(module_name)
    lines = []
    for name in sorted(getattr(module, "__all__", [])):
        value = getattr(module, name)
        lines.append(f"{name}{_signature(value)}")
        if inspect.isclass(value):
            lines += [
                f"  {name}.{each}{_signature(getattr(value, each))}" for each in sorted(dir(value)) if each[0] != "_"
            ]
    return "\n".join(lines)


def _signature(value: object) -> str:
    try:
        return re.sub(r" at 0x\w+", "", str(inspect.signature(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f": {type(value).__name__}"


def _topologies() -> list[tuple[str, Path]]:
    """Return the checked-in definitions, by a short name."""
    paths = [*sorted((EXAMPLES / "topologies").glob("*/*.json")), *sorted(EXAMPLES.glob("captured-*/definitions.json"))]
    return [(f"{path.parent.name}-{path.stem}", path) for path in paths]


def _questions() -> Iterator[Output]:
    for name, path in _topologies():
        for release in RELEASES:
            for command in ("lint", "settings"):
                yield _command(f"{command}/{name}/{release}", command, path, "--release", release, "--json")
            yield _command(f"graph/{name}/{release}", "graph", path, "--release", release, "--format", "mermaid")
            yield _command(f"explain/{name}/{release}", *_life(path), "--release", release, "--json")
        for before, after in (("3.8", "3.13"), ("3.10", "4.0"), ("3.13", "4.3"), ("4.0", "4.3"), ("3.8", "4.3")):
            yield _command(
                f"upgrade/{name}/{before}-{after}", "upgrade", path, "--from", before, "--to", after, "--json"
            )
    for (name, path), (other, new) in pairwise(_topologies()):
        yield _command(f"plan/{name}-to-{other}", "plan", path, new, "--json")
    for name, path in _topologies()[:3]:
        yield _command(f"lint-text/{name}", "lint", path)


def _life(path: Path) -> Sequence[str | Path]:
    """Return the command that tells of a message in the file's first queue, rejected three times."""
    queue = json.loads(path.read_text(encoding="utf-8"))["queues"][0]
    return "explain", path, "--publish", "", queue["name"], "--outcome", f"{queue['name']}=requeue,crash,reject*3"


def _searches() -> Iterator[Output]:
    for name, path in _topologies():
        for release in ("3.8", "3.13", "4.3"):
            for seed in range(FUZZ_SEEDS if release == "4.3" else 1):
                yield _command(
                    f"fuzz/{name}/{release}/{seed}",
                    *("fuzz", path, "--release", release, "--seed", str(seed), "--steps", "15", "--json"),
                )


def _captures() -> list[tuple[str, Path, Path]]:
    """Return the checked-in logs: a short name, the log and its definitions."""
    folders = [
        *sorted(EXAMPLES.glob("captured-*")),
        *sorted((TESTS / "replay" / "captures").glob("[0-9]*")),
        TESTS / "replay" / "late",
    ]
    return [
        (folder.name, log, folder / "definitions.json")
        for folder in folders
        for log in sorted(folder.glob("trace.log*"))
        if (folder / "definitions.json").exists()
    ]


def _replays(scratch: Path) -> Iterator[Output]:
    for name, log, definitions in _captures():
        given = (log, "--definitions", definitions)
        # Of a release that is not the log's, nearly every row of a late log differs, and each difference takes time.
        for release in RELEASES if name != "late" else ("4.3",):
            yield _command(f"replay/{name}/{release}", "replay", *given, "--release", release, "--json", "--complete")
        yield _command(f"replay-text/{name}", "replay", *given, "--explain", "--coverage")
        yield Output(f"replay-rows/{name}", lambda given=given, name=name: _rows(scratch / f"r-{name}", *given))  # type: ignore[misc]
        yield _command(f"watch/{name}", "watch", *given, "--once", "--json")


def _rows(out: Path, *given: str | Path) -> str:
    """Replay into a directory; return the rows of each Parquet file, in order."""
    run("replay", *given, "--out", out)
    return _rows_in(out)


def _rows_in(out: Path) -> str:
    import pyarrow.parquet as parquet

    lines = []
    for path in sorted(out.rglob("*.parquet")):
        lines.append(path.relative_to(out).parts[0])
        lines += sorted(repr(row) for row in parquet.read_table(path).to_pylist())
    return "\n".join(lines)


def _what_ifs() -> Iterator[Output]:
    recorded = TESTS / "whatif" / "recorded"
    for release in ("3.10", "4.3"):
        own = recorded / release / "own"
        given = (own / "trace.log.gz", "--definitions", own / "definitions.json", "--release", release, "--json")
        for other in sorted(path for path in (recorded / release).iterdir() if path.is_dir()):
            against = ("--against", other / "definitions.json", "--left", own / "left.parquet")
            yield _command(f"whatif/{release}/{other.name}", "whatif", *given, *against)
    for seed in range(WHAT_IF_SEEDS):
        _, log, definitions = _captures()[seed % 2]
        settings = _random_settings(definitions, Random(seed))
        yield _command(f"whatif-random/{seed}", "whatif", log, "--definitions", definitions, *settings, "--json")


def _random_settings(definitions: Path, random: Random) -> list[str]:
    """Return options that ask for one to three other settings of queues, or for another release."""
    queues = [each["name"] for each in json.loads(definitions.read_text(encoding="utf-8"))["queues"]]
    values = {
        "x-message-ttl": ["", "0", "100", "2000", "60000"],
        "x-max-length": ["", "1", "5", "100"],
        "x-delivery-limit": ["", "1", "3", "20"],
        "x-dead-letter-exchange": ["", "nowhere", "amq.fanout"],
        "x-dead-letter-routing-key": ["", "a", queues[0]],
        "x-overflow": ["", "reject-publish", "drop-head"],
    }
    options = []
    for _ in range(random.randint(1, 3)):
        key = random.choice(sorted(values))
        options += ["--set", f"queue:{random.choice(queues)}.{key}={random.choice(values[key])}"]
    if random.random() < 0.25:
        options += ["--against-release", random.choice(list(RELEASES))]
    if random.random() < 0.3:
        options += ["--unseen", "repeat"]
    return options


def _other_systems(scratch: Path) -> Iterator[Output]:
    for path in sorted((EXAMPLES / "compare").glob("*.json")):
        for system in SYSTEMS:
            yield _command(f"compare/{path.stem}/{system}", "compare", path, "--systems", system, "--json")
            yield Output(
                f"simulate/{path.stem}/{system}",
                lambda path=path, system=system: _simulate(path, system, scratch),  # type: ignore[misc]
            )
    for system in SYSTEMS:
        yield _command(f"simulate-schema/{system}", "simulate", system, "--schema")
    yield _command("lint/activemq", "lint", EXAMPLES / "activemq" / "activemq.xml", "--json")


def _simulate(path: Path, system: str, scratch: Path) -> str:
    """Run the scenario that a comparison gives to a system."""
    _, _, said = run("compare", path, "--systems", system, "--json").partition("\n")
    compared = json.loads(said.partition("\n--\n")[0])
    scenario = scratch / f"{path.stem}-{system}.json"
    scenario.write_text(json.dumps(_scenario_in(compared)), encoding="utf-8")
    return run("simulate", system, scenario, "--json").replace(str(scratch), "SCRATCH")


def _scenario_in(compared: list[dict[str, object]]) -> object:
    (result,) = compared
    return result["scenario"]


def _scenarios() -> Iterator[Output]:
    """Each recorded script, played on the simulated server: every frame that a client sees, and what is left."""
    scenarios = load()
    subjects = sorted({each.name.partition("/")[0] for each in scenarios})
    for release in ("3.10", "4.3"):
        for subject in subjects:
            mine = [each for each in scenarios if each.name.startswith(f"{subject}/") and release in each.releases]
            yield Output(f"scenarios/{release}/{subject}", lambda mine=mine, release=release: _play(mine, release))  # type: ignore[misc]


def _play(scenarios: Sequence[object], release: str) -> str:
    with simulated(release) as target:
        return "\n".join(f"{each.name}: {play(each.operations, target)}" for each in scenarios)  # type: ignore[attr-defined, arg-type]


def _on_spark(scratch: Path) -> Iterator[Output]:
    for name, log, definitions in _captures():
        given = (log, "--definitions", definitions, "--engine", "spark")
        yield _command(f"spark-replay/{name}", "replay", *given, "--json")
        yield Output(f"spark-rows/{name}", lambda given=given, name=name: _rows(scratch / f"s-{name}", *given))  # type: ignore[misc]
    for seed in range(0, WHAT_IF_SEEDS, 10):
        _, log, definitions = _captures()[seed % 2]
        settings = _random_settings(definitions, Random(seed))
        yield _command(
            f"spark-whatif/{seed}",
            *("whatif", log, "--definitions", definitions, *settings, "--engine", "spark", "--json"),
        )
