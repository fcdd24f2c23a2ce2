"""``dlx plan`` says how a server comes from one topology to another: the steps, and what is lost on the way."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import click
import msgspec
from rich.console import Console
from rich.text import Text

from dlx.nearest_names import suggestion
from dlx.releases import release
from simulator.analysis.findings import ObjectName
from simulator.analysis.plan.calls import Call, call_of
from simulator.analysis.plan.changes import QUEUE, Change, PolicyEffect
from simulator.analysis.plan.planning import Deletion, Plan, planned
from simulator.analysis.plan.play import Lost
from simulator.analysis.plan.steps import AnyAct, Count, Drain, Known, Move
from simulator.cli.command_parts import DataError, Unavailable, example, print_json
from simulator.cli.given_server import server_options
from simulator.cli.given_source import (
    GivenSource,
    ServerURL,
    Source,
    StandardInput,
    named,
    read_source,
    server_of_environment,
)
from simulator.cli.lines import print_indented
from simulator.cli.options import chosen_release, note_remarks, release_option
from simulator.definitions import Definitions, DefinitionsError

EXIT_LOST = 1
COMMANDS_MAX = 6
"""More commands of one step are counted; ``--script`` has all."""
NAMES_MAX = 4
_WIDTH_MAX = 110
_NAME = "\0"
"""Stands for the name of an object, so that what is said of several in the same words is printed once."""
_HOST = "http://HOST:15672"
AMQP_PORT = 5672
_KEPT = ("--own-keys", "--headers", "keep", "--allow", "lost-later")
"""With its own key a message dies as before: what loses it later is not the move."""
_Line = tuple[Text, int]


@click.command(
    epilog=example(
        "dlx plan definitions.json new-definitions.json",
        "dlx plan http://localhost:15672/ new-definitions.json --keep",
        "dlx plan old.json new.json --messages orders=1000 --move orders.dead=orders.dlq --publishers-stopped",
    )
)
@click.argument("current", metavar="CURRENT", type=GivenSource())
@click.argument("new", metavar="NEW", type=GivenSource(), required=False)
@server_options
@click.option("--keep", is_flag=True, help="Leave what NEW does not mention. [default: it is removed]")
@click.option(
    "--messages",
    "messages",
    multiple=True,
    metavar="QUEUE=N",
    help="How many messages wait in a queue; repeatable. [default: what the server of CURRENT says]",
)
@click.option(
    "--move",
    "moves",
    multiple=True,
    metavar="OLD=NEW",
    help="The messages of a queue that is removed go into another; repeatable. "
    "[default: those of a queue that has another name in NEW]",
)
@click.option("--publishers-stopped", is_flag=True, help="Nobody publishes while the steps are done.")
@release_option("RabbitMQ release of the server.")
@click.option("--script", "as_script", is_flag=True, help="Print all commands as a shell script, to be read first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    current: Source,
    new: Source | None,
    keep: bool,
    messages: tuple[str, ...],
    moves: tuple[str, ...],
    publishers_stopped: bool,
    rules: str | None,
    as_script: bool,
    as_json: bool,
) -> int:
    """Say how a server comes from the topology CURRENT to NEW, in which steps, and what is lost on the way.

    CURRENT and NEW are each a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or
    folder of YAML or JSON that describes a topology, `-` for standard input, or the management URL of a running
    server. Without CURRENT it is the server in DLX_URL. NEW is the whole of the virtual hosts that it names: what it
    has not is removed there.

    The steps are played on a simulated broker, with messages in every queue and publishers that go on. No server is
    touched. Exit code 0: nothing is lost; 1: something is, on the way or by the new topology.
    """
    if new is None:
        server, new = server_of_environment(), current
        if server is None:
            raise click.MissingParameter(param_hint="'NEW'", param_type="argument")
        current = server
    if isinstance(current, StandardInput) and isinstance(new, StandardInput):
        raise click.UsageError("CURRENT and NEW are both standard input: give one of them as a file")
    before, after = read_source(current), read_source(new)
    rules = chosen_release(before, rules)
    is_live = isinstance(current, ServerURL)
    note_remarks(each for each in after.remarks if each not in before.remarks)
    counts, consumers = _counts(current) if isinstance(current, ServerURL) else ({}, {})
    known = Known(
        messages=counts | dict(_stated(messages, before)),
        consumers=consumers,
        moves=dict(_moves(moves, before)),
        publishers_stopped=publishers_stopped,
    )
    try:
        found = planned(before, after, release(rules), known, keep=keep)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    if is_live and found.steps:
        counted = "the server's counts of messages and consumers, which are some seconds old, are still so"
        found = msgspec.structs.replace(found, assumed=(*found.assumed, counted))
    commands = _Commands(current, _amqp_port(current) if isinstance(current, ServerURL) else None)
    if as_json:
        print_json(_as_json(found, commands))
    elif as_script:
        click.echo("\n".join(_script(found, commands)))
    else:
        console = Console(highlight=False)
        console.width = min(console.width, _WIDTH_MAX)
        for line, indent in _lines(found, commands, named(new)):
            line = _without_vhost(line, found)
            if line.plain and indent == _COMMAND:
                console.print(Text(" " * _COMMAND) + line, soft_wrap=True)
            else:
                print_indented(console, line, indent)
    return EXIT_LOST if found.loses else 0


# What is known beside the definitions


def _stated(given: Iterable[str], definitions: Definitions) -> Iterator[tuple[ObjectName, int]]:
    for text in given:
        name, separator, number = text.rpartition("=")
        if not separator or not number.isdecimal():
            raise click.UsageError(f"--messages {text}: expected QUEUE=N, such as orders=1000")
        yield from ((queue, int(number)) for queue in _queues(name, definitions, "--messages"))


def _moves(given: Iterable[str], definitions: Definitions) -> Iterator[tuple[ObjectName, str]]:
    for text in given:
        old, separator, new = text.partition("=")
        if not separator or not new:
            raise click.UsageError(f"--move {text}: expected OLD=NEW, such as orders.dead=orders.dlq")
        if old == new:
            raise click.UsageError(f"--move {text}: the messages of a queue cannot move into itself")
        yield from ((queue, new) for queue in _queues(old, definitions, "--move"))


def _queues(name: str, definitions: Definitions, option: str) -> Iterator[ObjectName]:
    """Yield the queues of that name in all virtual hosts. Raises a usage error where there is none."""
    vhosts = [each for each in definitions.vhosts if name in definitions.topology(each).queues]
    if not vhosts:
        there = [queue for each in definitions.vhosts for queue in definitions.topology(each).queues]
        raise click.UsageError(f"{option}: {definitions.source} has no queue {name!r}; {suggestion(name, there)}")
    yield from (ObjectName(QUEUE, each, name) for each in vhosts)


def _counts(server: ServerURL) -> tuple[dict[ObjectName, int], dict[ObjectName, int]]:
    """Return how many messages and consumers the queues of a server have, as far as it says so.

    Raises ``Unavailable``.
    """
    path = "queues" if server.vhost is None else f"queues/{quote(server.vhost, safe='')}"
    queues = _asked(server, f"{path}?columns=vhost,name,messages,consumers")
    found: tuple[dict[ObjectName, int], dict[ObjectName, int]] = {}, {}
    for queue in queues:
        for counts, field in zip(found, ("messages", "consumers"), strict=True):
            if isinstance(queue.get(field), int):
                counts[ObjectName(QUEUE, queue["vhost"], queue["name"])] = queue[field]
    return found


def _asked(server: ServerURL, path: str) -> Any:
    """Return the answer of the server. Raises ``Unavailable``."""
    from simulator.capture.management_api import ManagementError, call

    try:
        return call(server.url, path)
    except ManagementError as error:
        raise Unavailable(f"{server}: {error}") from error
    except OSError as error:
        raise Unavailable(f"{server}: no answer: {getattr(error, 'reason', error)}") from error


def _amqp_port(server: ServerURL) -> int | None:
    """Return the port on which the server says it has AMQP; ``None`` for the usual one, or if it does not say."""
    listeners = _asked(server, "overview").get("listeners", ())
    ports = [each["port"] for each in listeners if each.get("protocol") == "amqp"]
    return None if not ports or AMQP_PORT in ports else int(ports[0])


# The commands of a step


class _Commands:
    """Writes the commands of acts for the server of CURRENT, without a password."""

    def __init__(self, current: Source, amqp_port: int | None) -> None:
        self._port = "" if amqp_port is None else f":{amqp_port}"
        self._server, self._user, self._host = _HOST, "USER", "HOST"
        self._management: tuple[str, ...] = ()
        if isinstance(current, ServerURL):
            from simulator.capture.access import credentials
            from simulator.capture.management_api import server_of

            self._server, self._user = server_of(current.url), credentials(current.url)[0]
            self._host = urlsplit(self._server).hostname or "HOST"
            self._management = ("--management-url", self._server)

    def of(self, act: AnyAct) -> str:
        """Return the command of an act."""
        call = call_of(act)
        if call is not None:
            return self._curl(call)
        assert isinstance(act, Move)
        url = f"amqp://{quote(self._user, safe='')}:PASSWORD@{self._host}{self._port}/{quote(act.vhost, safe='')}"
        moved = ["dlx", "redrive", url, act.queue, "--to", act.through, *_KEPT, *self._management, "--execute"]
        return shlex.join(moved)

    def _curl(self, call: Call) -> str:
        parts = ["curl", "-fsS", "-u", self._user]
        if call.method != "GET":
            parts += ["-X", call.method]
        if call.body is not None:
            parts += ["-H", "Content-Type: application/json", "-d", msgspec.json.encode(call.body).decode()]
        return shlex.join([*parts, f"{self._server}/api/{call.path}"])


# For people


_COMMAND = 5
"""The indent of a command, which is printed in one line so that it can be copied."""


def _lines(found: Plan, commands: _Commands, new: str) -> Iterator[_Line]:
    if not found.changes:
        yield Text(f"No changes: the server has all that {new} says of its topology.", "bold"), 0
    else:
        yield from _losses(found)
        yield from _steps(found, commands)
        yield from _changed(found, new)
    for title, said in (("Assumed", found.assumed), ("Not checked", found.unchecked)):
        if said:
            yield Text(f"{title}: {'; '.join(said)}."), 0


def _without_vhost(line: Text, found: Plan) -> Text:
    """Return a line without the name of the virtual host where all is about one."""
    vhosts = {each.about.vhost for each in found.changes}
    return line if len(vhosts) != 1 else Text("").join(line.split(f" in virtual host '{min(vhosts)}'"))


def _losses(found: Plan) -> Iterator[_Line]:
    if not found.loses:
        yield from _if_heeded(found)
    for lost in _alike(_lost(each) for each in found.played.lost if each.kind != "staying"):
        yield Text.assemble(("lost", "bold red"), f": {lost}"), 0
    for stays in _alike(_lost(each) for each in found.played.lost if each.kind == "staying"):
        yield Text.assemble(("stays", "bold red"), f": {stays}"), 0
    for error in found.new_errors:
        yield Text.assemble(("lost", "bold red"), f": new error {error.code} for {error.about}: {error.message}"), 0
    for refused in _alike(map(_lost, found.played.refused)):
        yield Text.assemble(("refused", "bold yellow"), f": {refused}; their publishers get 404"), 0
    for twice in _alike(found.played.twice):
        yield Text.assemble(("twice", "bold yellow"), f": {twice}"), 0


def _if_heeded(found: Plan) -> Iterator[_Line]:
    """Yield that nothing is lost, and by what it may be lost all the same."""
    dangers: dict[str, list[str]] = {}
    for number, step in enumerate(found.steps, 1):
        for danger in step.dangers:
            dangers.setdefault(danger, []).append(str(number))
    if dangers:
        yield Text("Nothing is lost, if you see to this:", "bold yellow"), 0
    elif found.played.refused:
        yield Text("No message is lost, but publishers are refused.", "bold yellow"), 0
    else:
        yield Text("Nothing is lost on the way.", "bold green"), 0
    for danger, numbers in dangers.items():
        steps = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {', '.join(numbers)}"
        yield Text.assemble(("risk", "bold yellow"), f": in {steps}: {danger}"), 0


_INSTEAD = {
    "waiting": "",
    "published": ": stop these publishers meanwhile",
    "dead letters": ": see that no message dies there meanwhile",
}
"""What keeps from losing messages what is lost between steps."""


def _alike(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the sentences, one for those that differ in the first name alone, with how many others there are."""
    groups: dict[str, list[str]] = {}
    for sentence in sentences:
        name = sentence.split("'")[1] if sentence.count("'") > 1 else ""
        groups.setdefault(sentence.replace(f"'{name}'", _NAME), []).append(name)
    for shape, names in groups.items():
        others = f" (the same of {len(names) - 1:,} more)" if len(names) > 1 else ""
        yield shape.replace(_NAME, f"'{names[0]}'") + others


def _lost(lost: Lost) -> str:
    if lost.kind in ("waiting", "staying"):
        count = "" if lost.count is None else f"{lost.count:,} "
        unknown = " (unknown number)" if lost.count is None and lost.what.startswith("messages") else ""
        return f"{count}{lost.what}{unknown}, in step {lost.step}"
    if lost.for_good:
        return f"{lost.what}, from step {lost.step} on, for good"
    until = "within it" if lost.until == lost.step else f"until step {lost.until} is done"
    return f"{lost.what}, from step {lost.step} on {until}{_INSTEAD[lost.kind]}"


def _steps(found: Plan, commands: _Commands) -> Iterator[_Line]:
    yield Text(""), 0
    for number, step in enumerate(found.steps, 1):
        yield Text(f"{number:2}. {step.does}", "bold"), 0
        for act in step.acts[:COMMANDS_MAX]:
            yield Text(commands.of(act)), _COMMAND
        if len(step.acts) > COMMANDS_MAX:
            yield Text(f"and {len(step.acts) - COMMANDS_MAX:,} more commands: --script has all"), _COMMAND
        for risk in (*(step.dangers if found.loses else ()), *step.risks):
            yield Text(f"risk: {risk}", "yellow"), 4
    yield Text(""), 0


def _script(found: Plan, commands: _Commands) -> Iterator[str]:
    yield "set -e"
    for number, step in enumerate(found.steps, 1):
        said = (f"{number}. {step.does}", *(f"risk: {risk}" for risk in (*step.dangers, *step.risks)))
        yield from (f"# {' '.join(each.split())}" for each in said)
        for act in step.acts:
            command = commands.of(act)
            waits = isinstance(act, Count | Drain)  # the server's counts lag some seconds
            yield f'until [ "$({command})" = \'{{"messages":0}}\' ]; do sleep 2; done' if waits else command


def _changed(found: Plan, new: str) -> Iterator[_Line]:
    kept = [("a server neither compares what changes nor acts by it, and no step changes it", str(each.about))
            for each in found.left_alone]  # fmt: skip
    yield from _grouped("Stays as it is", kept)
    yield from _grouped("Changes", map(_change, found.changes))
    yield from _grouped("Policies change", map(_effect, found.policy_effects))
    said = [(f"{each.code} {each.text}", str(each.about)) for each in found.answers if each.code]
    yield from _grouped(f"RabbitMQ {found.release} refuses declarations as in {new}", said)
    silent = [("stays as it is, and the import says nothing", str(each)) for each in found.not_imported]
    yield from _grouped(f"An import of {new} is not enough", silent)
    said = [(f"{each.code} {each.text}", str(each.about)) for each in found.old_answers if each.code]
    yield from _grouped("Applications that still declare the old get", said)
    yield from _grouped("To be deleted", map(_deletion, found.deletions))
    yield Text(""), 0


def _grouped(title: str, told: Iterable[tuple[str, str]]) -> Iterator[_Line]:
    """Yield what is said of objects, and what is said of several of them once."""
    groups: dict[str, list[str]] = {}
    for text, name in told:
        groups.setdefault(text.replace(name, _NAME), []).append(name)
    if groups:
        yield Text(title, "bold"), 0
    for text, names in groups.items():
        more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
        kinds = {name.split(" '")[0] for name in names}
        kind = min(kinds) if len(kinds) == 1 else "object"
        count = f"{len(names):,} {_plural(kind)}: " if len(names) > 1 else ""
        shown = [name.removeprefix(f"{kind} ") if len(names) > 1 else name for name in names[:NAMES_MAX]]
        told_of = names[0] if len(names) == 1 else "…"
        yield Text(f"{count}{', '.join(shown)}{more}: {text.replace(_NAME, told_of)}"), 2


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _change(change: Change) -> tuple[str, str]:
    fields = "; ".join(f"{each.name} {each.before} → {each.after}" for each in change.fields)
    return (f"{change.what}: {fields}" if fields else change.what), str(change.about)


def _effect(effect: PolicyEffect) -> tuple[str, str]:
    sides = ((effect.before, effect.before_by), (effect.after, effect.after_by))
    before, after = (f"{value} ({origin})" if origin else value for value, origin in sides)
    return f"{effect.key} {before} → {after}", str(effect.queue)


def _deletion(deletion: Deletion) -> tuple[str, str]:
    parts = ["declared again"] if deletion.again else []
    if deletion.about.kind == QUEUE:
        parts.append("messages: " + ("not known" if deletion.messages is None else f"{deletion.messages:,}"))
        if deletion.consumers is not None:
            parts.append(f"consumers that are cut: {deletion.consumers:,}")
    bindings = [*deletion.bindings[:NAMES_MAX], *(["…"] if len(deletion.bindings) > NAMES_MAX else [])]
    if bindings:
        count = "its binding" if len(deletion.bindings) == 1 else f"its {len(deletion.bindings)} bindings"
        parts.append(f"with {count} {', '.join(bindings)}")
    return ", ".join(parts), str(deletion.about)


# For machines


def _as_json(found: Plan, commands: _Commands) -> dict[str, Any]:
    told: dict[str, Any] = {
        "release": found.release,
        "loses": found.loses,
        "lost": msgspec.to_builtins(found.played.lost),
        "refused": msgspec.to_builtins(found.played.refused),
        "twice": found.played.twice,
        "new_errors": [each.as_json() for each in found.new_errors],
        "steps": [
            {
                "does": each.does,
                "risks": (*each.dangers, *each.risks),
                "acts": [_act(act, commands) for act in each.acts],
            }
            for each in found.steps
        ],
        "changes": [
            {"what": each.what, **_about(each.about), "fields": msgspec.to_builtins(each.fields)}
            for each in found.changes
        ],
        "policy_effects": [
            {
                **_about(each.queue),
                **{key: value for key, value in msgspec.structs.asdict(each).items() if key != "queue"},
            }
            for each in found.policy_effects
        ],
        "answers": [{**_about(each.about), "code": each.code, "text": each.text} for each in found.answers],
        "old_answers": [{**_about(each.about), "code": each.code, "text": each.text} for each in found.old_answers],
        "left_alone": [_about(each.about) for each in found.left_alone],
        "not_imported": [_about(each) for each in found.not_imported],
        "deletions": [
            {
                **_about(each.about),
                **{key: value for key, value in msgspec.structs.asdict(each).items() if key != "about"},
            }
            for each in found.deletions
        ],
        "assumed": found.assumed,
        "unchecked": found.unchecked,
    }
    return told


def _about(about: ObjectName) -> dict[str, str]:
    return {"kind": about.kind, "vhost": about.vhost, "object": about.name}


def _act(act: AnyAct, commands: _Commands) -> Mapping[str, Any]:
    call = call_of(act)
    done: dict[str, Any] = {"command": commands.of(act)}
    if call is not None:
        done["call"] = msgspec.to_builtins(call)
    if isinstance(act, Move):
        done["move"] = {"vhost": act.vhost, "queue": act.queue, "to": act.to, "through": act.through}
    return done
