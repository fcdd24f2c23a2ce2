"""``dlx explain`` shows the life of one message, step by step, with the rule and the setting behind each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from dlx.nearest_names import suggestion
from dlx.releases import release
from dlx.topology import Topology
from simulator.analysis.life import OUTCOMES, LifeStep, Possibility, PredictedLife, StatedOutcome, live
from simulator.analysis.snapshot import Snapshot
from simulator.capture import CaptureError
from simulator.cli.command_parts import DataError, example, print_json
from simulator.cli.given_logs import (
    TimedDefinitions,
    changes_in,
    check_times,
    definitions_option,
    must_exist,
    prepared_logs,
    read_timed,
)
from simulator.cli.given_source import Source, named, read_recording_of, read_source, source_argument
from simulator.cli.options import chosen_release, release_option
from simulator.cli.progress import progress
from simulator.definitions import DefinitionsError
from simulator.events import Happened
from simulator.extras import check_installed
from simulator.json_reading import NestedTooDeeplyError, read_json
from simulator.pictures.repetitions import repeats
from simulator.scenario.steps import Publish
from simulator.sources.reading import DEFINITIONS as DEFINITIONS_OF_RECORDING
from simulator.sources.reading import RECORDING
from simulator.time_spans import span

if TYPE_CHECKING:
    from simulator.replay.one_message import SeenLife, SeenStep

EXIT_LOST = 1
TIMES_MAX = 1_000
_EXAMPLES = (
    "dlx explain definitions.json --publish orders eu.paid --outcome 'orders=reject*3,ack'",
    "dlx explain definitions.json --publish '' orders --outcome orders=crash*21 --release 4.3 --format json",
    "dlx explain trace.log.gz --definitions definitions.json --message order-17",
)


@click.command(epilog=example(*_EXAMPLES))
@source_argument
@click.option(
    "--publish",
    "published",
    nargs=2,
    metavar="EXCHANGE ROUTING_KEY",
    help="Where the message is published to; '' is the default exchange, whose keys are names of queues.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of the message; repeatable. VALUE is read as JSON, or else as text.",
)
@click.option("--expiration", type=click.IntRange(min=0), metavar="MS", help="Its own time to live, in ms.")
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    metavar="QUEUE=OUTCOME,...",
    help="What happens to it in a queue, the first time, the second time, ...; repeatable: once per queue.",
)
@definitions_option("If SOURCE is a log: the broker's definitions when it was written.", required=False, several=True)
@click.option(
    "--message", metavar="ID", help="If SOURCE is a log: the message to explain, by its message_id or identity."
)
@release_option("RabbitMQ release whose rules apply.")
@click.option("--vhost", metavar="NAME", help="Virtual host. [default: the only one, or /]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "mermaid", "svg"]),
    default="text",
    show_default=True,
    help="Sentences, JSON, a Mermaid sequence diagram, or a picture of the way.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def explain(
    source: Source,
    over: Source | None,
    published: tuple[str, str] | None,
    headers: tuple[str, ...],
    expiration: int | None,
    outcomes: tuple[str, ...],
    given_definitions: tuple[TimedDefinitions, ...],
    message: str | None,
    rules: str | None,
    vhost: str | None,
    form: str,
) -> int:
    """Explain the life of one message step by step, with the rule behind each step.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or
    folder of YAML or JSON that describes a topology, `-` for standard input, or the management URL of a
    running server. A simulated broker plays the life in virtual time, with this message alone. Each
    step names the setting that decides and who set it (argument, policy, operator policy, server
    default), and how the rule is known.

    An OUTCOME is one of these, and OUTCOME*N is the same N times:

    \b
    ack      the consumer acknowledges
    reject   it rejects for good (requeue=false)
    requeue  it returns the message by basic.reject with requeue=true
    nack     it returns the message by basic.nack with requeue=true
    crash    its connection dies with the delivery
    expire   no consumer takes it, and time passes (also: wait)

    Nothing is guessed: where an OUTCOME is missing, the life stops, and the answer names what is
    missing and what would follow. The one exception is a queue with no stated outcome whose time
    to live sends messages on to another queue: time passes there, and the answer says so.
    The command exits with 1 if the message, or a copy of it, is lost.

    With --definitions and --message, SOURCE is a log as `dlx replay` reads it, and the answer is what
    it shows of that message: publishes, deliveries, the deaths between them, and the verdicts. The folder of
    a recording has both, so --message is enough.
    """
    if message is not None or given_definitions:
        return _explain_log(source, given_definitions, message, rules, form)
    if published is None:
        needed = "--publish EXCHANGE ROUTING_KEY, or --definitions FILE and --message ID for a message of a log"
        raise click.UsageError(f"say which message: {needed}")
    definitions = read_source(source, over)
    rules = chosen_release(definitions, rules)
    snapshot = Snapshot(definitions, release(rules))
    exchange, key = published
    host = _vhost(snapshot, vhost, exchange, key)
    topology = snapshot.topologies[host]
    guessed = {about.name for about in snapshot.stand_ins if about.vhost == host}
    _check_known("--publish", "exchange", exchange, topology.exchanges.keys() - guessed)
    if topology.exchanges[exchange].internal:
        raise click.BadParameter(f"{exchange!r} is internal: clients cannot publish to it", param_hint="'--publish'")
    step = Publish(exchange, key, headers=_headers(headers), expiration_ms=expiration, vhost=host)
    found = live(snapshot.document, step, _stated(outcomes, topology), release=rules)
    recording = read_recording_of(source)
    ends, document = [], dict[str, Any]()
    if recording is not None:
        from simulator.record.facts import taken_from
        from simulator.record.seen_clients import with_seen

        found = with_seen(found, recording)
        ends = [taken_from(recording, named(source))]
        document["recording"] = ends[0]
    for each in snapshot.refused:
        click.echo(f"note: {snapshot.sentence(each)}", err=True)
    for guess in snapshot.guesses:
        click.echo(f"note: not known: {guess}", err=True)
    title = f"A message under RabbitMQ {rules}: {found.fate}"
    document = {**found.as_json(), **document}
    _print(form, title, found.steps, found.events, document, [*_ends(found), *ends], sound=not found.is_lost)
    return EXIT_LOST if found.is_lost else 0


def _vhost(snapshot: Snapshot, asked: str | None, exchange: str, key: str) -> str:
    """Return the virtual host that is asked for; without one, the only one that has the exchange, or ``/``."""
    topologies = snapshot.topologies
    known = snapshot.definitions.vhosts
    if asked is not None:
        if snapshot.definitions.vhost_named:
            _check_known("--vhost", "virtual host", asked, known)
            return asked
        return known[0]
    having = [name for name in known if _takes(topologies[name], exchange, key)] or list(known)
    if len(having) == 1 or "/" in having:
        return "/" if "/" in having else having[0]
    named = ", ".join(map(repr, having))
    raise click.UsageError(f"name the virtual host with --vhost: {named or 'the definitions have none'}")


def _takes(topology: Topology, exchange: str, key: str) -> bool:
    return exchange in topology.exchanges and (exchange != "" or key in topology.queues)


_LISTS = "`dlx settings SOURCE` lists queues, `dlx graph SOURCE --format dot` the rest"


def _check_known(option: str, kind: str, name: str, known: Iterable[str], lists: str = _LISTS) -> None:
    if name not in known:
        near = suggestion(name, known, lists)
        raise click.BadParameter(f"no {kind} {name!r}; {near}", param_hint=f"'{option}'")


def _headers(given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            problem = f"{each!r}; expected NAME=VALUE, such as region=eu or 'CC=[\"other\"]'"
            raise click.BadParameter(problem, param_hint="'--header'")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice", param_hint="'--header'")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """Return the JSON value, or else the text itself, also for null: no header is null."""
    try:
        value = read_json(text.encode())
    except (msgspec.DecodeError, NestedTooDeeplyError, UnicodeEncodeError):
        return text
    return text if value is None else value


def _stated(given: Sequence[str], topology: Topology) -> dict[str, list[StatedOutcome]]:
    """Return the outcomes by queue."""
    found: dict[str, list[StatedOutcome]] = {}
    for each in given:
        queue, equals, words = each.rpartition("=")
        if not (queue and equals):
            problem = f"{each!r}; expected QUEUE=OUTCOME,..., such as orders=reject*3,ack"
            raise click.BadParameter(problem, param_hint="'--outcome'")
        _check_known("--outcome", "queue", queue, topology.queues)
        found.setdefault(queue, []).extend(outcome for word in words.split(",") for outcome in _outcomes(word.strip()))
    return found


def _outcomes(word: str) -> list[StatedOutcome]:
    name, star, times = word.partition("*")
    if star and not (times.isdecimal() and 1 <= int(times) <= TIMES_MAX):
        problem = f"{word!r}; expected a number of times from 1 to {TIMES_MAX:,} after the *"
        raise click.BadParameter(problem, param_hint="'--outcome'")
    _check_known("--outcome", "outcome", name, OUTCOMES, f"there are {', '.join(OUTCOMES)}")
    return [OUTCOMES[name]] * (int(times) if star else 1)


def _explain_log(
    source: Source, given: tuple[TimedDefinitions, ...], message: str | None, rules: str | None, form: str
) -> int:
    if isinstance(source, Path) and not given and (source / RECORDING).is_file():
        from simulator.record.recording import TRACE

        source, given = source / TRACE, (TimedDefinitions(source / DEFINITIONS_OF_RECORDING),)
    if not given or message is None:
        raise click.UsageError("a message of a log needs both: --definitions FILE and --message ID")
    if not isinstance(source, Path):
        raise click.UsageError(f"--message needs a log, and {source} is not one: name the log's file")
    check_times(given)
    check_installed("replay")
    found = _life_in_log(source, given, message, rules)
    ends = [f"Verdict under RabbitMQ {found.release}: {found.verdict or 'never delivered'}. Last known: {found.fate}."]
    ends += [f"Not in the log: {each}." for each in found.missing] + [
        f"{each[0].upper()}{each[1:]}." for each in found.assumed
    ]
    title = f"{message} in {source.name}: {found.fate}"
    _print(form, title, found.steps, found.events, found.as_json(), ends, sound=found.is_sound)
    return 0 if found.is_sound else EXIT_LOST


def _life_in_log(log: Path, given: Sequence[TimedDefinitions], message: str, rules: str | None) -> SeenLife:
    """Return what the log shows of a message.

    Raises:
        DataError: log or definitions cannot be used, or there is no such message.
    """
    from simulator.replay.engines.local import local_engine  # needs the libraries of replays, as the others do
    from simulator.replay.one_message import NoSuchMessageError, seen_life
    from simulator.replay.run import workplace

    try:
        timed, rules = read_timed(given, rules, [log])
        definitions = next(iter(timed.values()))
        must_exist([log])
        with workplace(None) as work, progress("reading the log") as show:
            prepared = prepared_logs([log], work, show, definitions)
            changes = changes_in(timed, prepared)
            with local_engine(work) as engine:
                return seen_life(engine.read(prepared.captures), definitions, message, rules, changes=changes)
    except (CaptureError, DefinitionsError) as error:
        raise DataError(str(error)) from error
    except NoSuchMessageError as error:
        raise DataError(f"{log}: {error}") from error


def _print(
    form: str,
    title: str,
    steps: Sequence[LifeStep | SeenStep],
    events: Sequence[Happened],
    document: dict[str, Any],
    ends: Sequence[str],
    *,
    sound: bool,
) -> None:
    if form == "json":
        print_json(document)
    elif form == "mermaid":
        from simulator.pictures.mermaid import sequence_as_mermaid as as_mermaid

        click.echo(as_mermaid(events))
    elif form == "svg":
        from simulator.pictures.life_graph import life_graph
        from simulator.pictures.svg import as_svg

        click.echo(as_svg(life_graph(title, events)), nl=False)
    else:
        console = Console()
        for line, style in (*_lines(steps), ("", ""), (ends[0], _STYLES[sound]), *((end, "") for end in ends[1:])):
            console.print(line, style=style, soft_wrap=True, highlight=False, markup=False)


def _ends(life: PredictedLife) -> Iterator[str]:
    """Yield the lines below the steps, the fate first."""
    yield f"Fate under RabbitMQ {life.release}: {life.fate}. {' '.join(life.where)}".rstrip()
    for each in life.assumed:
        yield f"Assumed: {each}."
    for each in life.unused:
        yield f"Not used: {each}."
    for missing in life.missing:
        yield f"Not stated: {missing.what}."
        for possibility in missing.possibilities:
            yield f"    {possibility.outcome}{_seen(possibility)}: {possibility.then}"


def _seen(possibility: Possibility) -> str:
    """Say whether the recording has it."""
    if possibility.seen is None:
        return ""
    times = f"{possibility.seen:,} time{'' if possibility.seen == 1 else 's'}"
    return f" (seen {times})" if possibility.seen else " (not seen)"


def _lines(steps: Sequence[LifeStep | SeenStep]) -> Iterator[tuple[str, str]]:
    """Yield the lines of the steps, each with its style."""
    before = ""
    for part, times in repeats([_line_of(step) for step in steps]):
        for at, text, because, source, style in part:
            yield f"{'' if at == before else at:>14}  {text}", style
            before = at
            if because:
                yield f"{'':18}because {because}", ""
            if source:
                yield f"{'':18}source: {source}", "dim"
        if times > 1:
            yield f"{'':16}(these {len(part)}, {times:,} times)" if len(part) > 1 else f"{'':16}({times:,} times)", ""


def _line_of(step: LifeStep | SeenStep) -> tuple[str, str, str, str, str]:
    """Return the printed parts of a step: when, what, why, how that is known, and the style."""
    at = span(round(step.at_ms * 1_000))
    return at, step.text, step.because, step.source, "bold" if step.event in _LOSSES else ""


_LOSSES = {"dropped", "cycle-dropped", "unroutable", "purged", "nacked", "refused"}
_STYLES = {False: "bold red", True: "bold green"}
