"""Questions about definitions, for tests and notebooks, and their answers: rows with what they rest on."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.field_values import plain
from dlx.message_flow import Hop, MessageFlow
from dlx.nearest_names import suggestion
from dlx.releases import DEFAULT, release
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, alternate_exchange
from simulator.analysis.findings import ObjectName
from simulator.analysis.lint.linting import ALWAYS_ASSUMED, promises
from simulator.analysis.lint.rule import Subject
from simulator.analysis.lint.rules.policies import idle_policies
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.upgrade.report import upgraded
from simulator.analysis.walk import Place
from simulator.definitions import Definitions
from simulator.definitions.checks import own_release
from simulator.scenario.steps import History, Publish, in_words, to_builtins
from simulator.sources import definitions_from_file

if TYPE_CHECKING:
    import pandas as pd


# What a question returns: rows that a person can read and a test can assert, with what they rest on.


COLUMNS = ("side", "kind", "vhost", "object", "publish", "path", "fate", "rule")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        about: the object.
        publish: how the message is published, in words; empty where the row is about no message.
        path: the deaths behind it, such as ``orders (rejected) → orders.wait (expired)``.
        fate: what becomes of it, or what is so.
        rule: what decides it: an argument, policy NAME, operator policy NAME, server default, or a rule of RabbitMQ.
        history: steps that show it on a broker, where a message is lost.
        side: ``added`` and ``removed`` tell the rows of a comparison apart; empty without one.
    """

    about: ObjectName
    fate: str
    rule: str
    publish: str = ""
    path: str = ""
    history: History = ()
    side: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The row by column, without its history."""
        about = {"kind": self.about.kind, "vhost": self.about.vhost, "object": self.about.name}
        rest = {name: getattr(self, name) for name in ("publish", "path", "fate", "rule")}
        return {"side": self.side, **about, **rest}


class SnapshotAnswer(msgspec.Struct, frozen=True):
    """What a question found in one snapshot: its rows, what they rest on, and what was not checked."""

    rows: tuple[Row, ...]
    assumed: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


class Answer:
    """Rows, and what they rest on.

    Attributes:
        question: the question's name.
        rows: the rows.
        assumed: what has to be so for the answer to hold.
        unchecked: what was not looked at.
    """

    def __init__(self, question: str, found: SnapshotAnswer) -> None:
        self.question = question
        self.rows, self.assumed, self.unchecked = found.rows, found.assumed, found.unchecked

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return "\n".join([f"{self.question}: {len(self.rows)} rows", *map(_line, self.rows)])

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values, with the histories."""
        rows = [{**row.columns, "history": to_builtins(row.history)} for row in self.rows]
        said = {"assumed": list(self.assumed), "unchecked": list(self.unchecked)}
        return {"question": self.question, "rows": rows, **said}

    def frame(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame, with the column ``history``. Needs the extra ``spark``."""
        import pandas as pd

        rows = [{**row.columns, "history": to_builtins(row.history)} for row in self.rows]
        return pd.DataFrame(rows, columns=[*COLUMNS, "history"])

    def assert_none(self, message: str = "", *, but: Iterable[str] = ()) -> None:
        """Assert that there are no rows, apart from those about the objects ``but``.

        These are names, in which ``*`` is a wildcard. Raises ``AssertionError`` with each row, and each name in
        ``but`` that no row is about, with the nearest that one is about; ``TypeError`` for other values.
        """
        __tracebackhide__ = True
        exceptions = _names(but)
        rest = [row for row in self.rows if not any(fits(row.about.name) for fits in exceptions.values())]
        told = [message or f"{self.question}: {len(rest)} rows", *map(_line, rest)] if rest else []
        told += [
            f"{self.question}: no row is about {name!r}, which but= names; {_nearest(name, self.rows)}"
            for name, fits in exceptions.items()
            if not any(fits(row.about.name) for row in self.rows)
        ]
        if told:
            raise AssertionError("\n".join(told))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        shown = [name for name in COLUMNS if any(row.columns[name] for row in self.rows)]
        head = "".join(f"<th>{name}</th>" for name in shown)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(row.columns[name])}</td>' for name in shown)}</tr>" for row in self.rows
        )
        said = [*(f"Assumed: {each}" for each in self.assumed), *(f"Not checked: {each}" for each in self.unchecked)]
        notes = "".join(f"<li>{html.escape(each)}</li>" for each in said)
        title = html.escape(f"{self.question}: {len(self.rows)} rows")
        return f"<p><b>{title}</b></p><table><tr>{head}</tr>{body}</table><ul>{notes}</ul>"


def _names(but: Iterable[str]) -> dict[str, Matches]:
    if isinstance(but, str) or not isinstance(but, Iterable):
        raise TypeError(f"but={but!r}: expected names in a list, such as ['orders']")
    return {name: matching(name, "but") for name in but}


def _nearest(name: str, rows: Iterable[Row]) -> str:
    known = {row.about.name for row in rows}
    return suggestion(name, known) if known else "there are no rows"


def _line(row: Row) -> str:
    told = [f"{row.side} " * bool(row.side) + str(row.about), row.publish, row.path, row.fate, row.rule]
    return "  " + ": ".join(part for part in told if part)


def compared(question: str, here: SnapshotAnswer, there: SnapshotAnswer) -> Answer:
    """Return what is only here (``added``) and what is only there (``removed``)."""
    rows = [msgspec.structs.replace(row, side="added") for row in _only(here, there)]
    rows += [msgspec.structs.replace(row, side="removed") for row in _only(there, here)]
    unchecked = tuple(dict.fromkeys((*here.unchecked, *there.unchecked)))
    return Answer(
        question, SnapshotAnswer(tuple(rows), tuple(dict.fromkeys((*here.assumed, *there.assumed))), unchecked)
    )


def _only(one: SnapshotAnswer, other: SnapshotAnswer) -> list[Row]:
    """Return the rows that the other side does not have, whatever their histories are."""
    known = {tuple(row.columns.items()) for row in other.rows}
    return [row for row in one.rows if tuple(row.columns.items()) not in known]


Matches = Callable[[str], bool]


def matching(pattern: str | None, parameter: str = "queue") -> Matches:
    """Return a function that returns whether a name fits the pattern, in which ``*`` and ``?`` are wildcards.

    Raises ``TypeError`` that names the parameter for a value that is not a pattern.
    """
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"{parameter}={pattern!r}: expected a name, or a pattern such as 'orders*'")
    return lambda name: pattern is None or fnmatchcase(name, pattern)


# Questions about definitions, for tests and notebooks.
#
#     ask("definitions.json").losses(queue="orders*").answer(release="4.3").assert_none()
#     ask(mine).losses().answer(release="4.3", against_release="3.13").frame()
#
# Each question has parameters; its answer has rows. With ``against`` (other definitions) or ``against_release`` the
# rows are the differences. Nothing here has a rule of its own: all ask ``dlx.MessageFlow`` and ``dlx.settings``.


Given = Definitions | Mapping[str, Any] | str | os.PathLike[str]
"""Definitions: read already, as a document, or the path of an export."""

Look = Callable[[Subject], SnapshotAnswer]


class Question:
    """A question with its parameters; ``answer`` asks it."""

    def __init__(self, name: str, definitions: Definitions, look: Look) -> None:
        self._name, self._definitions, self._look = name, definitions, look

    def answer(
        self, release: str | None = None, *, against: Given | None = None, against_release: str | None = None
    ) -> Answer:
        """Return the rows under a release; with ``against`` or ``against_release``, what differs from there.

        Without a release, it is that of the server which exported the definitions, if they say so, else the latest.

        Raises:
            UnknownReleaseError: there are no rules for that release.
            TypeError: a release that is not text, such as 4.3 for "4.3".
            DefinitionsError: the definitions cannot be used.
        """
        release = own_release(self._definitions) or DEFAULT if release is None else release
        here = self._found(self._definitions, release)
        if against is None and against_release is None:
            return Answer(self._name, here)
        other = self._definitions if against is None else _read(against)
        return compared(self._name, here, self._found(other, against_release or release))

    def _found(self, definitions: Definitions, name: str) -> SnapshotAnswer:
        if not isinstance(name, str):
            raise TypeError(f"release {name!r}: expected text, such as '{name}'")
        return self._look(Subject(Snapshot(definitions, release(name))))


class ask:
    """Asks about definitions: a document, the path of an export, or ``Definitions``.

    Patterns of names are as in file names: ``*`` matches any characters, ``?`` one.
    """

    def __init__(self, definitions: Given) -> None:
        self._definitions = _read(definitions)

    def _question(self, name: str, look: Look) -> Question:
        return Question(name, self._definitions, look)

    def losses(self, queue: str | None = None) -> Question:
        """Ask where messages can be lost: a row for each way, with a history that loses one."""
        fits = matching(queue)
        return self._question("losses", lambda subject: _losses(subject, fits))

    def dead_letter_paths(self, queue: str | None = None) -> Question:
        """Ask what becomes of what dies in each queue, for each reason and each kind of routing key."""
        fits = matching(queue)
        return self._question("dead_letter_paths", lambda subject: SnapshotAnswer(tuple(_paths(subject, fits))))

    def undefined_references(self) -> Question:
        """Ask which exchanges and queues are named, and do not exist."""
        return self._question("undefined_references", lambda subject: SnapshotAnswer(tuple(_undefined(subject))))

    def loops(self, queue: str | None = None) -> Question:
        """Ask on which ways messages come back to a queue that they were in."""
        fits = matching(queue)
        return self._question("loops", lambda subject: SnapshotAnswer(tuple(_loops(subject, fits))))

    def unreachable_queues(self) -> Question:
        """Ask which queues get no messages but by their own name: no binding and no dead letter leads there."""
        return self._question("unreachable_queues", lambda subject: SnapshotAnswer(tuple(_unreachable(subject))))

    def unreachable_policies(self) -> Question:
        """Ask which policies apply to nothing, and why."""
        return self._question("unreachable_policies", lambda subject: SnapshotAnswer(tuple(_idle(subject))))

    def release_changes(self, since: str) -> Question:
        """Ask what the release of the answer changes for the topology, compared with release ``since``."""
        return self._question("release_changes", lambda subject: _changes(subject, since))

    def effective_settings(self, queue: str | None = None) -> Question:
        """Ask which settings each queue has, where they come from, and what they hide."""
        fits = matching(queue)
        return self._question("effective_settings", lambda subject: SnapshotAnswer(tuple(_settings(subject, fits))))


def _read(given: Given) -> Definitions:
    if isinstance(given, Definitions):
        return given
    if not isinstance(given, Mapping | str | os.PathLike):
        raise TypeError(f"{given!r} are not definitions; expected an export as a mapping, its path, or Definitions")
    return Definitions(dict(given), "definitions") if isinstance(given, Mapping) else definitions_from_file(given)


def _published(publish: Publish) -> str:
    return in_words([publish])[0]


def _way(path: tuple[Hop, ...]) -> str:
    return " → ".join(f"{hop.queue} ({hop.reason})" for hop in path)


def _losses(subject: Subject, fits: Matches) -> SnapshotAnswer:
    rows = [
        Row(
            about=ObjectName("queue", loss.vhost, loss.queue),
            publish=_published(loss.publish),
            path=_way(loss.path),
            fate=f"{loss.reason}: {loss.fate}" if loss.reason else loss.fate,
            rule=str(loss.rule),
            history=loss.history,
        )
        for loss in subject.losses.lost
        if fits(loss.queue)
    ]
    promised = promises(loss for loss in subject.losses.promised if fits(loss.queue))
    return SnapshotAnswer(tuple(rows), (*subject.losses.assumed, *promised, *ALWAYS_ASSUMED), subject.losses.unchecked)


def _paths(subject: Subject, fits: Matches) -> Iterator[Row]:
    told = set()
    for vhost, walk in subject.losses.walks.items():
        for place in walk.places:
            if not fits(place.queue):
                continue
            for row in _deaths(vhost, walk.flow, place):
                key = row.about, row.fate, row.rule
                if key not in told:
                    told.add(key)
                    yield row


def _deaths(vhost: str, flow: MessageFlow, place: Place) -> Iterator[Row]:
    """Yield what becomes of the message that dies at a place, for each reason."""
    for death in flow.deaths(place.state):
        for copy in flow.copies(place.state, death.reason) if death.possible else ():
            to = f" to '{copy.queue}'" if copy.queue else ""
            yield Row(
                about=ObjectName("queue", vhost, place.queue),
                publish=_published(place.publish),
                path=_way(place.path),
                fate=f"{death.reason}: {copy.outcome}{to}",
                rule=str(copy.rule),
            )


def _undefined(subject: Subject) -> Iterator[Row]:
    for vhost, flow in subject.snapshot.flows.items():
        topology = flow.topology
        for name in topology.queues:
            settings = flow.settings(name)
            dlx, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
            about = ObjectName("queue", vhost, name)
            if dlx is not None and dlx not in topology.exchanges:
                rule = str(settings.values[DEAD_LETTER_EXCHANGE])
                yield Row(about=about, fate=f"dead-letter exchange '{dlx}' does not exist", rule=rule)
            if dlx == "" and key is not None and key not in topology.queues:
                rule = str(settings.values[DEAD_LETTER_ROUTING_KEY])
                yield Row(about=about, fate=f"dead-letter routing key '{key}' names no queue", rule=rule)
        for exchange in topology.exchanges.values():
            other = alternate_exchange(exchange, topology, subject.snapshot.release)
            if other and other not in topology.exchanges:
                about = ObjectName("exchange", vhost, exchange.name)
                yield Row(about=about, fate=f"alternate exchange '{other}' does not exist", rule="alternate-exchange")


def _loops(subject: Subject, fits: Matches) -> Iterator[Row]:
    for loop in subject.loops:
        if any(map(fits, loop.queues)):
            reasons = [hop.reason for place in loop.places for hop, there in place.onward if there in loop.places]
            yield Row(
                about=ObjectName("queue", loop.vhost, loop.queues[0]),
                publish=_published(loop.places[0].publish),
                path=" → ".join((*loop.queues, loop.queues[0])),
                fate=f"comes back when {' or '.join(dict.fromkeys(reasons))}",
                rule="a rejection on the way lets a message pass the cycle rule",
            )
    for (vhost, name), sources in subject.sources.items():
        if name in sources and fits(name):
            yield Row(
                about=ObjectName("queue", vhost, name),
                path=f"{name} → {name}",
                fate="comes back to the queue itself",
                rule=str(subject.snapshot.flows[vhost].settings(name).values.get(DEAD_LETTER_EXCHANGE, "")),
            )


def _unreachable(subject: Subject) -> Iterator[Row]:
    for vhost, walk in subject.losses.walks.items():
        topology = walk.flow.topology
        bound = {
            queue
            for exchange in topology.exchanges.values()
            if exchange.name
            for queue in _behind(walk.flow, exchange.name)
        }
        dead = {place.queue for place in walk.places if place.hop is not None}
        for name in topology.queues:
            if name not in bound | dead:
                fate = "gets only what is published to the default exchange with its name"
                yield Row(about=ObjectName("queue", vhost, name), fate=fate, rule="no binding and no dead letter")


def _behind(flow: MessageFlow, exchange: str) -> set[str]:
    return {
        binding.destination
        for name in flow.passed({exchange})
        for binding in flow.topology.bindings.get(name, ())
        if binding.destination_type == "queue"
    }


def _idle(subject: Subject) -> Iterator[Row]:
    for each in idle_policies(subject):
        yield Row(about=each.about, fate="applies to nothing", rule=each.why)


def _changes(subject: Subject, since: str) -> SnapshotAnswer:
    report = upgraded(subject.snapshot.definitions, release(since), subject.snapshot.release)
    rows = (
        Row(about=each.change.about, fate=each.change.message, rule=f"{each.behaviour}: {each.evidence}")
        for each in report.changes
    )
    return SnapshotAnswer(tuple(rows), report.assumed, report.unchecked)


def _settings(subject: Subject, fits: Matches) -> Iterator[Row]:
    for vhost, settings in subject.snapshot.queues():
        for setting in settings.values.values() if fits(settings.queue.name) else ():
            hidden = ", ".join(f"{value} by {origin}" for value, origin in setting.hidden)
            yield Row(
                about=ObjectName("queue", vhost, settings.queue.name),
                fate=f"{setting.key} {msgspec.json.encode(setting.value, enc_hook=plain).decode()}",
                rule=f"{setting.origin}, hides {hidden}" if hidden else str(setting.origin),
            )
