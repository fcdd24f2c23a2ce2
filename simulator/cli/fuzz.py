"""``dlx fuzz`` searches for a history that breaks a property of a topology, such as that it loses nothing."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dlx.possible_deaths import DeathRule
from dlx.releases import is_release
from dlx.releases import release as release_named
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.snapshot import Snapshot
from simulator.broker import OperatorError
from simulator.cli.command_parts import DataError, data_errors, example, writing
from simulator.cli.given_source import Source, named, read_recording_of, read_source, source_argument
from simulator.cli.options import OWN_OR_DEFAULT, RELEASE, chosen_release
from simulator.cli.progress import countdown
from simulator.cli.project_options import GivenClients, client_options, config_beside, config_option
from simulator.definitions import DefinitionsError
from simulator.files import write_whole
from simulator.json_reading import NestedTooDeeplyError, read_json
from simulator.lint_reports.project import read_config
from simulator.scenario import steps
from simulator.scenario.properties.property_registry import INVARIANTS, PROMISES, Arrives, Lossless
from simulator.scenario.scenario_errors import unknown_names
from simulator.testing.fuzz.counterexample import Counterexample, assumptions, deciding_rule, told
from simulator.testing.fuzz.counterexample import as_json as setting_as_json
from simulator.testing.fuzz.systematic_search import Search

if TYPE_CHECKING:
    from simulator.record.recording import Recording

SECONDS, SECONDS_MAX = 12.0, 7 * 86_400.0
STEPS = 40
SHORTEST = "The shortest history found"
EXIT_BROKEN, EXIT_FAULT = 1, 70


@click.command(
    epilog=example(
        "dlx fuzz definitions.json --property lossless --release 4.3 --publish shop order.paid",
        "dlx fuzz http://localhost:15672/ --all --discards",
    )
)
@source_argument
@click.option(
    "--property",
    "name",
    type=click.Choice([*PROMISES, *INVARIANTS]),
    help="Property to break. [default: lossless, and arrives where a queue dead-letters at least once]",
)
@click.option("--release", type=RELEASE, show_default=OWN_OR_DEFAULT, help="RabbitMQ release to simulate.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random histories.")
@click.option(
    "--steps",
    "steps_max",
    type=click.IntRange(1, 10_000),
    default=STEPS,
    show_default=True,
    help="Longest random history, in steps.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=SECONDS_MAX),
    callback=lambda _context, _parameter, value: _number(value),
    default=SECONDS,
    show_default=True,
    help="Give up after this many seconds without a finding; with --all, stop after this many in any case.",
)
@click.option(
    "--publish",
    "publishes",
    nargs=2,
    multiple=True,
    metavar="EXCHANGE ROUTING_KEY",
    help="Exchange and routing key that publishers use; repeatable. [default: keys that together reach every binding]",
)
@click.option(
    "--history", metavar="JSON|FILE", help="Play this history instead of searching: JSON, or a file that --json wrote."
)
@click.option("--all", "every", is_flag=True, help="Go on after a finding: print one for each cause.")
@click.option(
    "--discards",
    is_flag=True,
    help="Let consumers reject for good also where nothing takes the dead letter, and count that as a loss, apart from "
    "parking queues. Publish to bound queues by their names, too, as shovels and frameworks do.",
)
@client_options
@config_option("What clients do.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw what happened to the message: .svg, else Mermaid. Further findings get a number.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fuzz(
    source: Source,
    over: Source | None,
    name: str | None,
    release: str | None,
    seed: int,
    steps_max: int,
    seconds: float,
    publishes: tuple[tuple[str, str], ...],
    history: str | None,
    every: bool,
    discards: bool,
    on_failure: tuple[str, ...],
    declare_before_publish: bool,
    republish_x_death: bool,
    config: Path | None,
    picture: Path | None,
    as_json: bool,
) -> int:
    """Search for a history in which a topology loses messages, or breaks another property.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or folder of
    YAML or JSON that describes a topology, `-` for standard input, or the management URL of a running server. The
    search tries every path that one message can take; where that is too much, it says so and goes on with
    random histories. It exits with 0 if it finds nothing. If it breaks the property, it prints the shortest
    history found, with the setting that decides, and exits with 1. The properties:

    \b
    lossless  every routed message is acknowledged or stays in a queue
    arrives   no dead letter is held for ever, as at-least-once dead-lettering holds one that no queue takes
    settles   no message returns to a queue over and over at one instant
    punctual  every message leaves its queue when its time to live ends
    accepts   no queue refuses a publish

    Four more properties hold on any correct broker: conservation, x-death, settings and rest.
    If one of them breaks while you test another, you have found a bug in dlx: exit code 70.
    """
    given = None if history is None else read_history(history)
    if given is not None:
        name, release = _as_recorded(given, name, release)
    definitions, release = _definitions(source, over, release)
    path = config or config_beside(source if isinstance(source, Path) else None)
    with data_errors():
        stated = NOTHING_STATED if path is None else read_config(path).clients
    given_clients = GivenClients(on_failure, declare_before_publish, republish_x_death)
    recording = read_recording_of(source)
    clients = _with_recording(given_clients.over(stated), recording, release)
    tried: dict[str, Any] = {"property": name} if name else {"property": Lossless.name, "besides": Arrives.name}
    tried |= {"release": release, "discards": discards, "by_name": discards}
    try:
        search = Search(definitions, **tried, clients=clients)
        if publishes:
            published = _published(search, publishes)
            if clients:
                clients = _with_recording(given_clients.over(stated, publishes), recording, release)
            search = Search(definitions, **tried, publishes=published, clients=clients)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    found: list[FuzzFinding] = []
    name_picture = picture_files(picture)
    for each, led_there in _found(search, given, seed, steps_max, seconds):
        seed = led_there
        found.append(finding(search, each, name_picture(len(found) + 1)))
        if not every:
            break
    from simulator.record.facts import taken_from

    said_of_recording = [] if recording is None else [taken_from(recording, named(source))]
    if as_json:
        document = findings_as_json(search, found, seed)
        document |= {} if recording is None else {"recording": said_of_recording[0]}
        click.echo(msgspec.json.encode(document).decode())
    elif given is not None and not found:
        click.echo(f"This history does not break {named_properties(search)}.")
    elif not found:
        click.echo("\n".join([*held(search), *said_of_recording]))
    else:
        heading = "The history" if given else SHORTEST
        words = [*(["--discards"] if discards else []), *given_clients.words]
        words += ["--config", str(config)] if config else []
        told = [told_in_full(search, each, _again(search, each, seed, steps_max, words), heading) for each in found]
        click.echo("\n\n".join([*told, "\n".join([*rest(search), *said_of_recording])]).rstrip())
    if not found:
        return 0
    asked = {each.name for each in search.properties}
    return EXIT_BROKEN if all(each.counterexample.broken.property in asked for each in found) else EXIT_FAULT


def _definitions(source: Source, over: Source | None, given: str | None) -> tuple[Path | Mapping[str, Any], str]:
    """Return the definitions and the release to follow.

    Notes on standard error say which definitions an import would refuse, and what is a guess.
    """
    read = read_source(source, over)
    release = chosen_release(read, given)
    snapshot = Snapshot(read, release_named(release))
    for each in snapshot.refused:
        click.echo(f"note: {snapshot.sentence(each)}", err=True)
    for guess in snapshot.guesses:
        click.echo(f"note: not known: {guess}", err=True)
    if any(each.kept != "whole" for each in snapshot.refused):
        return snapshot.document, release
    return (source if isinstance(source, Path) and over is None else read.document), release


def _with_recording(stated: Clients, recording: Recording | None, rules: str) -> Clients:
    """Return what is stated of clients, and what they did in the recording where nothing is stated."""
    if recording is None:
        return stated
    from simulator.record.seen_clients import clients_seen, laid_under

    return laid_under(clients_seen(recording, release_named(rules)), stated)


def named_properties(search: Search) -> str:
    """Return the names of the properties to break."""
    return " or ".join(f"'{each.name}'" for each in search.properties)


def _number(value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("nan is not a number of seconds")
    return value


def _published(search: Search, publishes: tuple[tuple[str, str], ...]) -> list[steps.Publish]:
    """Return each publish in every virtual host that routes it.

    Raises:
        BadParameter: no virtual host routes a publish, or its exchange is internal.
    """
    found: list[steps.Publish] = []
    for exchange, key in publishes:
        tried = [steps.Publish(exchange, key, vhost=vhost) for vhost in search.topologies]
        routed = [step for step in tried if search.first_queues(step)]
        if not routed:
            known = [step for step in tried if not unknown_names([step], search.topologies)]
            why = "" if known else "; ".join(unknown_names(tried[:1], search.topologies))
            raise click.BadParameter(f"{exchange!r} {key!r}: {why or 'no queue receives it'}", param_hint="'--publish'")
        if any(search.topologies[step.vhost].exchanges[exchange].internal for step in routed):
            problem = f"{exchange!r} is internal: clients cannot publish to it"
            raise click.BadParameter(problem, param_hint="'--publish'")
        found += routed
    return found


def _as_recorded(given: GivenHistory, name: str | None, release: str | None) -> tuple[str | None, str | None]:
    """Return the property and release that the history was found with, unless the command line names others."""
    if given.property in (*PROMISES, *INVARIANTS):
        name = name or given.property
    if given.release and is_release(given.release) and release is None:
        release = given.release
    return name, release


def _replayed(search: Search, history: steps.History) -> Counterexample | None:
    unknown = unknown_names(history, search.topologies)
    if unknown:
        raise DataError(f"--history: {'; '.join(unknown)}")
    try:
        return search.play(history)
    except OperatorError as error:
        raise DataError(f"--history: RabbitMQ refuses a step: {error}") from error


def _found(
    search: Search, given: GivenHistory | None, seed: int, steps_max: int, seconds: float
) -> Iterator[tuple[Counterexample, int]]:
    """Yield what breaks the property, each cause once, with the seed that leads to it.

    The search is systematic, and where it cannot be complete, at random as well. It goes on when asked for more.
    """
    from simulator.testing.fuzz.random_search import search_at_random

    if given is not None:
        played = _replayed(search, given.history)
        yield from [] if played is None else [(played, seed)]
        return
    end = time.monotonic() + seconds
    with countdown(f"trying to break {named_properties(search)}", seconds) as show, _interrupts() as interrupted:

        def tick(tried: int) -> bool:
            if interrupted():
                raise KeyboardInterrupt
            show(tried)
            return time.monotonic() < end

        for each in search.run_all(tick):
            yield each, seed
        while search.publishes and not search.complete:
            found, seed = search_at_random(search, seed, steps_max, tick)
            if found is None:
                return
            yield found, seed
            search.known.add(found.broken.cause)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed.

    (A library may swallow a KeyboardInterrupt that is raised in one of its callbacks.)
    """
    pressed: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    except ValueError:  # only the main thread may
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _again(search: Search, finding: FuzzFinding, seed: int, steps_max: int, words: Sequence[str]) -> str:
    """Return the command that finds it again, with ``words``; empty for definitions that are in no file."""
    from simulator.testing.topology_machine import command, shell

    if not isinstance(search.definitions, str | Path):
        return ""
    found, name = finding.counterexample, finding.counterexample.broken.property
    again = shell(
        "dlx", "fuzz", search.definitions, "--property", name,
        "--release", search.release, "--seed", seed, "--steps", steps_max,
    )  # fmt: skip
    played = command(search.definitions, found.history, name, search.release) or again
    return f"{played} {shell(*words)}" if words else played


# Reads a history from the command line: JSON, or a file of it.
#
# The JSON is a list of steps, or the report that ``dlx fuzz --json`` prints.


ACTIONS_MAX = 10_000_000


class GivenHistory(msgspec.Struct, frozen=True):
    """A history and, if it comes from a report, the property that it broke and the release."""

    history: steps.History
    property: str | None = None
    release: str | None = None


def read_history(text: str) -> GivenHistory:
    """Return the history that ``text`` contains, or that is in the file it names.

    Raises:
        DataError: the text is neither a history nor a file with one.
    """
    source = "--history" if text.lstrip().startswith(("[", "{")) else text
    try:
        data: Any = read_json(text.encode() if source == "--history" else Path(text).read_bytes())
        if not (isinstance(data, dict) and "history" in data):
            given = GivenHistory(steps.from_builtins(data))
        else:
            told = {key: data[key] for key in ("property", "release") if isinstance(data.get(key), str)}
            given = GivenHistory(steps.from_builtins(data["history"]), **told)
    except OSError as error:
        raise DataError(f"--history {text!r}: {error.strerror}; expected JSON, or a file that holds it") from error
    except NestedTooDeeplyError:
        raise DataError(f"{source}: nested too deeply; expected a list of steps such as --json prints") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{source}: {error}; expected a list of steps such as --json prints") from error
    if steps.length(given.history) > ACTIONS_MAX:
        raise DataError(f"{source}: {steps.length(given.history):,} actions; the limit is {ACTIONS_MAX:,}")
    if _empty(given.history):
        raise DataError(f"{source}: a repeat without steps; expected at least one")
    return given


def _empty(history: Iterable[steps.AnyStep]) -> bool:
    repeats = [step for step in history if isinstance(step, steps.Repeat)]
    return any(not step.steps or _empty(step.steps) for step in repeats)


# What ``dlx fuzz`` says of its findings: to people, to machines, and as pictures.


NOTHING_FOUND = {
    "lossless": "No loss found",
    "arrives": "No dead letter held for ever",
    "settles": "No loop found",
    "punctual": "No delay found",
    "accepts": "No refusal found",
}
NOT_CHANGED = "Not tried: policies that change."
ASSUMED_MAX = 10


class FuzzFinding(msgspec.Struct, frozen=True):
    """A finding, the rule that decided it where one does, and the file of its picture."""

    counterexample: Counterexample
    rule: DeathRule | None
    picture: str | None

    @property
    def because(self) -> str:
        """The rule in a sentence; empty where there is none."""
        return "" if self.rule is None else told(self.rule)


def finding(search: Search, found: Counterexample, picture: Path | None) -> FuzzFinding:
    """Return the finding with the deciding rule; its picture is drawn into the file ``picture``, if there is one."""
    rule = deciding_rule(search, found.broken)
    if picture is not None:
        with writing(picture):
            write_whole(picture, _drawn(search, found, picture.suffix).encode())
    return FuzzFinding(found, rule, None if picture is None else str(picture))


def picture_files(picture: Path | None) -> Any:
    """Return a function that names the picture of the n-th finding, from 1 on: the second is ``NAME-2.svg``."""

    def named(number: int) -> Path | None:
        if picture is None or number == 1:
            return picture
        return picture.with_name(f"{picture.stem}-{number}{picture.suffix}")

    return named


def _drawn(search: Search, found: Counterexample, suffix: str) -> str:
    events = found.events(search.release)
    if suffix == ".svg":
        from simulator.pictures.life_graph import life_graph
        from simulator.pictures.svg import as_svg

        return as_svg(life_graph(found.broken.why, events))
    from simulator.pictures.mermaid import sequence_as_mermaid as as_mermaid

    return as_mermaid(events) + "\n"


# For machines


def findings_as_json(search: Search, findings: Sequence[FuzzFinding], seed: int) -> dict[str, Any]:
    """Return the report; of several findings the first also stands at the top."""
    found = findings[0].counterexample if findings else None
    report: dict[str, Any] = {
        "property": search.property.name if found is None else found.broken.property,
        "held": found is None,
        "history": [] if found is None else steps.to_builtins(found.history),
        "seed": seed,
        "release": search.release,
        "tried": search.tried,
        "untried": [*search.untried, *search.doubts],
        "complete": search.complete,
        "assumed": list(assumptions(search)),
        "findings": [_finding_as_json(search, each) for each in findings],
    }
    return report if found is None else report | {"why": found.broken.why, "note": found.note}


def _finding_as_json(search: Search, finding: FuzzFinding) -> dict[str, Any]:
    from simulator.testing.fuzz.failure_report import life

    found, event = finding.counterexample, finding.counterexample.broken.event
    setting = None if finding.rule is None else finding.rule.setting
    return {
        "property": found.broken.property,
        "vhost": found.broken.vhost,
        "queue": None if event is None else event.queue,
        "reason": None if event is None else event.reason,
        "what": found.broken.cause.what,
        "why": found.broken.why,
        "because": finding.because,
        "setting": None if setting is None else setting_as_json(setting),
        "sentences": life(found.events(search.release)),
        "history": steps.to_builtins(found.history),
        "note": found.note,
        "picture": finding.picture,
    }


# For people


def told_in_full(search: Search, finding: FuzzFinding, command: str, heading: str) -> str:
    """Return the whole report on a finding; ``command`` plays it again."""
    from simulator.testing.fuzz.failure_report import explained

    found = finding.counterexample
    text = explained(
        search.definitions,
        found.history,
        found.broken,
        release=search.release,
        command=command,
        events=found.events(search.release),
        heading=heading,
    )
    head, _, rest = text.partition("\n\n")
    because = f"{head}\nbecause: {finding.because}" if finding.because else head
    note = f"\n{found.note}" if found.note else ""
    return f"{because}{note}\n\n{rest}"


def held(search: Search) -> list[str]:
    """Return what to say where nothing was found: how far that can be trusted comes with it."""
    nothing = NOTHING_FOUND.get(search.property.name, "No fault found")
    promise = ", and ".join(each.promise for each in search.properties)
    lines = [f"{nothing}: {promise}. The search tried {search.tried:,} histories."]
    if not search.publishes:
        lines.append("No message can get into any queue, so nothing was published.")
    elif search.complete:
        lines.append("The search is complete: it tried every way that a message can go.")
    return [*lines, *rest(search), *([NOT_CHANGED] if search.complete else [])]


def rest(search: Search) -> list[str]:
    """Return what the answer rests on, which is said after the findings."""
    assumed = list(assumptions(search))
    more = [f"Assumed: the same for {len(assumed) - ASSUMED_MAX} more queues; --json lists all."]
    return [
        *(f"Assumed: {each}." for each in assumed[:ASSUMED_MAX]),
        *(more if len(assumed) > ASSUMED_MAX else []),
        *(f"Not tried: {each}." for each in (*search.untried, *search.doubts)),
    ]
