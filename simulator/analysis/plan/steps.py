"""The steps that bring a server from one topology to another, in an order that keeps messages where it can.

1. What is new is declared, and bound where its settings do not wait for a policy. 2. Policies are set. 3. The other
bindings are added. 4. Exchanges that have to be deleted are declared again at once, with their bindings. 5. So are
queues: another queue takes their place, and their messages, meanwhile. 6. Policies are cleared, bindings and
exchanges removed, and queues last, when nothing comes into them any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any, Literal

import msgspec

from dlx.policies import choose_policy
from dlx.releases import Release
from dlx.settings import effective_settings
from dlx.topology import CLASSIC, QUORUM, STREAM, Binding, Exchange, Policy, Queue, Topology
from simulator.analysis.findings import ObjectName, few
from simulator.analysis.plan.changes import EXCHANGE, OPERATOR_POLICY, POLICY, QUEUE, VHOST, Change
from simulator.json_values import plain

_NAMES_TRIED = 6
MOVING = ".moving"
"""What the name of a queue ends with that takes the place of another for some steps."""
_NAME_BYTES_MAX = 240
"""A longer name has no room for what is added to it: names have 255 bytes at most."""


class Act(msgspec.Struct, frozen=True, tag_field="act"):
    """The base of what is done to a server: one call of its management API, or a move of messages."""

    vhost: str


class AddVhost(Act, frozen=True, tag="add virtual host"):
    """A virtual host is added."""


class Import(Act, frozen=True, tag="import"):
    """Queues, exchanges and bindings are declared by one import: ``document`` is as JSON, without the virtual host."""

    document: dict[str, Any]


class SetPolicy(Act, frozen=True, tag="set policy"):
    """A policy is set."""

    policy: Policy
    operator: bool


class ClearPolicy(Act, frozen=True, tag="clear policy"):
    """A policy is cleared."""

    name: str
    operator: bool


class Unbind(Act, frozen=True, tag="unbind"):
    """A binding is removed."""

    binding: Binding


class Delete(Act, frozen=True, tag="delete"):
    """A queue or an exchange is deleted; ``if_empty``: only a queue without messages, else the call is refused."""

    kind: Literal["queue", "exchange"]
    name: str
    if_empty: bool = False


class Move(Act, frozen=True, tag="move"):
    """All messages of a queue are moved into another, each acknowledged after its publish is confirmed.

    They keep their routing keys: they go through a fanout exchange that is bound to the other queue alone.
    """

    queue: str
    to: str
    through: str


class Count(Act, frozen=True, tag="count"):
    """Somebody looks how many messages are in a queue, before it is deleted with them."""

    queue: str


class Drain(Act, frozen=True, tag="drain"):
    """Somebody waits until the consumers of a queue have taken what is in it."""

    queue: str


AnyAct = AddVhost | Import | SetPolicy | ClearPolicy | Unbind | Delete | Move | Count | Drain


class PlanStep(msgspec.Struct, frozen=True):
    """One step: what it does, in a sentence, the acts in it, and what it risks, in phrases.

    ``dangers`` are those of the risks by which messages are lost that the play does not lose.
    """

    does: str
    acts: tuple[AnyAct, ...]
    risks: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """What is known of a server beside its definitions.

    Attributes:
        messages: by queue, how many messages are in it.
        consumers: by queue, how many consumers it has.
        moves: by queue that goes, the queue that gets its messages.
        publishers_stopped: whether nobody publishes while the steps are done.
    """

    messages: Mapping[ObjectName, int] = {}
    consumers: Mapping[ObjectName, int] = {}
    moves: Mapping[ObjectName, str] = {}
    publishers_stopped: bool = False


class Order:
    """The steps of one virtual host.

    Attributes:
        temporary: the queue that takes the place of each queue that is deleted and declared again. The exchange through
            which messages move has the same name; so have those of queues that give their messages to another.

    Args:
        vhost: its name.
        release: the release of the server.
        topologies: as it is now, and as it shall be.
        changes: what changes in it.
        recreated: those of the changes for which the object has to be deleted first.
        known: what is known of the server.
    """

    def __init__(
        self,
        vhost: str,
        release: Release,
        topologies: tuple[Topology, Topology],
        changes: Sequence[Change],
        recreated: Sequence[Change],
        known: Known,
    ) -> None:
        self.vhost, self._release, self._known = vhost, release, known
        self._before, self._after = topologies
        self._changes = [each for each in changes if each.about.vhost == vhost]
        again = [each for each in recreated if each.about.vhost == vhost]
        self._queues = {each.name: each for each in _afters(again, Queue)}
        self._exchanges = {each.name: each for each in _afters(again, Exchange)}
        self._removed = {kind: set(self._names("removed", kind)) for kind in (QUEUE, EXCHANGE)}
        self._wanted = _bindings(self._after)
        self._bound = _bindings(self._before)
        self.temporary = {name: self._temporary(name) for name in self._queues}

    def steps(self) -> Iterator[PlanStep]:
        """Yield the steps in their order."""
        yield from self._add()
        yield from self._policies()
        yield from self._bind()
        yield from self._exchanges_again()
        yield from self._queues_again()
        yield from self._clear()

    # What comes first

    def _add(self) -> Iterator[PlanStep]:
        if any(each.about.kind == VHOST for each in self._changes):
            yield PlanStep(f"add the virtual host '{self.vhost}'", (AddVhost(self.vhost),))
        exchanges = self._afters("added", Exchange)
        queues = self._afters("added", Queue)
        bindings = [each for each in self._added_bindings() if not self._waits_for_policy(each)]
        if exchanges or queues or bindings:
            yield self._imported("declare what is new", queues, exchanges, bindings, self._doubled(bindings))

    def _policies(self) -> Iterator[PlanStep]:
        acts = [
            SetPolicy(self.vhost, each.after, each.about.kind == OPERATOR_POLICY)
            for each in self._changes
            if isinstance(each.after, Policy)
        ]
        if acts:
            names = _quoted([each.policy.name for each in acts])
            yield PlanStep(f"set {_counted(acts, 'policy', 'policies')} {names}", tuple(acts), (_AT_ONCE,))

    def _bind(self) -> Iterator[PlanStep]:
        bindings = list(self._added_bindings())
        if bindings:
            yield self._imported("add bindings", (), (), bindings, self._doubled(bindings))

    def _added_bindings(self) -> Iterator[Binding]:
        """Yield the bindings that are new, and that no object brings along which is declared again."""
        for each in self._wanted - self._bound:
            to = self._queues if each.destination_type == QUEUE else self._exchanges
            if each.source not in self._exchanges and each.destination not in to:
                yield each

    def _waits_for_policy(self, binding: Binding) -> bool:
        """Tell whether a binding is for a queue whose settings a policy makes that is set only later."""
        queue = self._after.queues.get(binding.destination)
        set_later = {each.after.name for each in self._changes if isinstance(each.after, Policy)}
        if binding.destination_type != QUEUE or queue is None or not set_later:
            return False
        chosen = (
            choose_policy(queue, policies, self._release).policy
            for policies in (self._after.policies, self._after.operator_policies)
        )
        return any(each is not None and each.name in set_later for each in chosen)

    def _doubled(self, bindings: Iterable[Binding]) -> tuple[str, ...]:
        targets = {target for queue, target in self._known.moves.items() if queue.vhost == self.vhost}
        if not targets & {each.destination for each in bindings}:
            return ()
        return ("until the old bindings are removed, what is published goes into the old queue, too: it comes twice",)

    # What is deleted and declared again

    def _exchanges_again(self) -> Iterator[PlanStep]:
        if not self._exchanges:
            return
        names = sorted(self._exchanges)
        alike = _counted(names, "exchange", "exchanges") + f" {_quoted(names)}"
        for name in names:
            self._bound = {each for each in self._bound if not _touches(each, EXCHANGE, name)}
        yield PlanStep(
            f"delete {alike}, with the bindings",
            tuple(Delete(self.vhost, EXCHANGE, name) for name in names),
            (_NO_EXCHANGE,),
            tuple(self._kept_by_plugins(names)),
        )
        bindings = [each for each in self._wanted - self._bound if self._is_of_recreated(each)]
        step = self._imported("declare again", (), list(self._exchanges.values()), bindings)
        yield msgspec.structs.replace(step, dangers=self._of_publishers(_NOT_AT_ONCE) if bindings else ())

    def _kept_by_plugins(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            kind = self._before.exchanges[name].type
            if kind not in self._release.exchange_types:
                yield f"what the plugin of {kind} keeps for '{name}' goes with it, such as messages that it delays"

    def _is_of_recreated(self, binding: Binding) -> bool:
        """Tell whether a binding went when an exchange was deleted that is declared again."""
        touched = {binding.source} if binding.destination_type == QUEUE else {binding.source, binding.destination}
        return bool(touched & self._exchanges.keys())

    def _queues_again(self) -> Iterator[PlanStep]:
        if not self._queues:
            return
        names = sorted(self._queues)
        alike = _counted(names, "queue", "queues") + f" {_quoted(names)}"
        old = {name: [each for each in self._sorted(self._bound) if _touches(each, QUEUE, name)] for name in names}
        instead = [_moved(each, self.temporary[name]) for name in names for each in old[name]]
        exchanges = [_way(self.temporary[name]) for name in names]
        out = [Binding(source=each.name, destination=each.name) for each in exchanges]
        temporary = [self._stand_in(name) for name in names]
        twice = "what is published before the next step is done goes into both queues: it comes twice"
        yield self._imported(
            "declare for the time being",
            temporary,
            exchanges,
            [*instead, *out],
            (*((twice,) if instead else ()), *self._covered()),
        )
        bound = [each for name in names for each in old[name]]
        if bound:
            yield self._unbound(bound)
        moved = [name for name in names if self._can_give(name)]
        if moved:
            ways = [(name, self.temporary[name], self.temporary[name]) for name in moved]
            yield self._move(ways, f"out of {_quoted(moved)}", self._consumers(moved), tuple(self._started_anew()))
        step = self._deleting(f"delete {alike}", names, set(moved), tuple(self._cut(names)))
        yield msgspec.structs.replace(step, dangers=(*step.dangers, *self._of_publishers(_AWAY)))
        self._bound = {each for each in self._bound if not any(_touches(each, QUEUE, name) for name in names)}
        back = [Binding(source=self.temporary[name], destination=name) for name in names]
        again = [
            each for each in self._sorted(self._wanted)
            if each.destination_type == QUEUE and each.destination in self._queues
            and each.source not in self._removed[EXCHANGE]
        ]  # fmt: skip
        both = (twice,) if instead else ()
        yield self._imported("declare again", list(self._queues.values()), (), [*again, *back], both)
        yield self._unbound([*instead, *out])
        ways = [(self.temporary[name], name, self.temporary[name]) for name in names]
        yield self._move(ways, f"back into {_quoted(names)}", (), (_ORDER,))
        deleted = [act for name in names for act in self._deleted_temporary(name)]
        counted = (_IF_NONE,) if any(isinstance(act, Count) for act in deleted) else ()
        does = f"delete {_quoted(sorted(each.name for each in exchanges))}: queues and exchanges"
        yield PlanStep(does, tuple(deleted), dangers=counted)
        self._bound -= set(back)

    def _can_give(self, name: str) -> bool:
        """Tell whether the messages of a queue can be moved out of it."""
        queue = self._before.queues[name]
        return queue.type != STREAM and not queue.auto_delete

    def _consumers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what is to be said of the consumers of queues that are moved."""
        stopped = [name for name in names if self._expires_ms(name) is None]
        return (*((_CONSUMERS.format(_quoted(stopped)),) if stopped else ()), *self._expiring(names))

    def _expiring(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            expires_ms = self._expires_ms(name)
            if expires_ms is not None:
                yield (
                    f"'{name}' is deleted with its messages {expires_ms:,} ms after its last consumer has gone: stop "
                    "that one only right before this move, since what it holds unacknowledged does not move"
                )

    def _expires_ms(self, name: str) -> int | None:
        return effective_settings(self._before.queues[name], self._before, self._release).expires_ms

    def _stand_in(self, name: str) -> Queue:
        """Return the queue that takes the place of another: it keeps all that it gets."""
        return self._standing_in(name, self.temporary[name])

    def _standing_in(self, name: str, other: str) -> Queue:
        kind = QUORUM if name in self._queues and self._queues[name].type == QUORUM else CLASSIC
        return Queue(name=other, type=kind, arguments={"x-queue-type": kind})

    def _temporary(self, name: str) -> str:
        """Return a name that no queue has, rather one that no policy names."""
        sides = (self._before, self._after)
        taken = {each for side in sides for each in (*side.queues, *side.exchanges)}
        name = name.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")
        names = chain((f"{name}{MOVING}", f"moving.{name}"), (f"{name}.moving-{number}" for number in count(2)))
        free = list(islice((each for each in names if each not in taken), _NAMES_TRIED))
        return next((each for each in free if not self._policies_of(self._standing_in(name, each))), free[0])

    def _policies_of(self, queue: Queue) -> list[str]:
        sides = (self._before, self._after)
        every = [policies for side in sides for policies in (side.policies, side.operator_policies)]
        chosen = (choose_policy(queue, policies, self._release).policy for policies in every)
        return list(dict.fromkeys(each.name for each in chosen if each is not None))

    def _covered(self) -> Iterator[str]:
        for queue in map(self._stand_in, self.temporary):
            if policies := self._policies_of(queue):
                yield f"the policy {_quoted(policies)} applies to '{queue.name}', too"

    def _cut(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            number = self._known.consumers.get(ObjectName(QUEUE, self.vhost, name))
            if number:
                yield f"{number:,} {'consumer' if number == 1 else 'consumers'} of '{name}' are cancelled"

    def _of_publishers(self, danger: str) -> tuple[str, ...]:
        return () if self._known.publishers_stopped else (danger,)

    def _deleting(self, does: str, names: Sequence[str], given: Container[str], risks: tuple[str, ...]) -> PlanStep:
        """Return the step that deletes queues; ``given``: those that have to be empty then."""
        acts: list[AnyAct] = []
        for name in names:
            acts += self._deleted(name, self._before.queues[name].type, empty=name in given)
        dangers = [_IF_NONE] if any(isinstance(act, Count) for act in acts) else []
        dangers += [_AUTO_DELETE.format(name) for name in names if self._before.queues[name].auto_delete]
        refused = (_IF_EMPTY,) if any(isinstance(act, Delete) and act.if_empty for act in acts) else ()
        return PlanStep(does, tuple(acts), (*refused, *risks), tuple(dangers))

    def _deleted(self, name: str, kind: str, *, empty: bool) -> tuple[AnyAct, ...]:
        """Return the acts that delete a queue; of one that has to be ``empty`` servers see it if it is classic."""
        delete = Delete(self.vhost, QUEUE, name, if_empty=empty and kind == CLASSIC)
        return (Count(self.vhost, name), delete) if empty and kind == QUORUM else (delete,)

    def _deleted_temporary(self, name: str) -> tuple[AnyAct, ...]:
        queue = self._stand_in(name)
        return *self._deleted(queue.name, queue.type, empty=True), Delete(self.vhost, EXCHANGE, queue.name)

    # What goes

    def _clear(self) -> Iterator[PlanStep]:
        policies = [
            ClearPolicy(self.vhost, each.about.name, each.about.kind == OPERATOR_POLICY)
            for each in self._changes
            if each.what == "removed" and each.about.kind in (POLICY, OPERATOR_POLICY)
        ]
        if policies:
            names = _quoted([each.name for each in policies])
            yield PlanStep(f"clear {_counted(policies, 'policy', 'policies')} {names}", tuple(policies))
        gone = self._bound - self._wanted
        bindings = [each for each in self._sorted(gone) if each.source not in self._removed[EXCHANGE]]
        bindings = [each for each in bindings if not self._goes_with_exchange(each)]
        if bindings:
            yield self._unbound(bindings)
        exchanges = sorted(self._removed[EXCHANGE])
        if exchanges:
            yield PlanStep(
                f"delete {_counted(exchanges, 'exchange', 'exchanges')} {_quoted(exchanges)}",
                tuple(Delete(self.vhost, EXCHANGE, name) for name in exchanges),
                ("publishers that still publish there get 404 and lose their channel",),
                tuple(self._kept_by_plugins(exchanges)),
            )
        yield from self._remove_queues()

    def _goes_with_exchange(self, binding: Binding) -> bool:
        return binding.destination_type == EXCHANGE and binding.destination in self._removed[EXCHANGE]

    def _remove_queues(self) -> Iterator[PlanStep]:
        names = sorted(self._removed[QUEUE])
        if not names:
            return
        moves = {name: self._known.moves.get(ObjectName(QUEUE, self.vhost, name)) for name in names}
        ways = {
            name: Binding(source=self._temporary(name), destination=to)
            for name, to in moves.items() if to and self._can_give(name)
        }  # fmt: skip
        if ways:
            exchanges = [_way(each.source) for each in ways.values()]
            yield self._imported("declare for the time being", (), exchanges, list(ways.values()))
            moved = [(name, way.destination, way.source) for name, way in ways.items()]
            risks = (*self._started_anew(), _ORDER)
            yield self._move(moved, f"of {_quoted(list(ways))}", self._consumers(ways), risks)
            self._bound -= set(ways.values())
        empty = [name for name in names if not moves[name] and self._is_empty(name)]
        if empty:
            does = f"wait until consumers have taken what is in {_quoted(empty)}"
            yield PlanStep(does, tuple(Drain(self.vhost, name) for name in empty))
        does = f"delete {_counted(names, 'queue', 'queues')} {_quoted(names)}"
        step = self._deleting(does, names, {*empty, *ways}, tuple(self._cut(names)))
        used = [way.source for way in ways.values()]
        does += f", and {_counted(used, 'exchange', 'exchanges')} {_quoted(used)}" if used else ""
        acts = (*step.acts, *(Delete(self.vhost, EXCHANGE, name) for name in used))
        yield msgspec.structs.replace(step, does=does, acts=acts)

    def _is_empty(self, name: str) -> bool:
        return self._known.messages.get(ObjectName(QUEUE, self.vhost, name)) == 0

    # Parts of steps

    def _imported(
        self,
        does: str,
        queues: Sequence[Queue],
        exchanges: Sequence[Exchange],
        bindings: Iterable[Binding],
        risks: tuple[str, ...] = (),
    ) -> PlanStep:
        bindings = self._sorted(bindings)
        self._bound |= set(bindings)
        parts = [f"{_counted(exchanges, 'exchange', 'exchanges')} {_quoted([each.name for each in exchanges])}"]
        parts += [f"{_counted(queues, 'queue', 'queues')} {_quoted([each.name for each in queues])}"]
        parts += [f"{len(bindings)} {'binding' if len(bindings) == 1 else 'bindings'}"]
        there = [part for part, items in zip(parts, (exchanges, queues, bindings), strict=True) if items]
        document = import_document(queues, exchanges, bindings)
        return PlanStep(f"{does}: {', '.join(there)}", (Import(self.vhost, document),), risks)

    def _unbound(self, bindings: Sequence[Binding]) -> PlanStep:
        self._bound -= set(bindings)
        names = _quoted(list(dict.fromkeys(each.destination for each in bindings)))
        does = f"remove {len(bindings)} {'binding' if len(bindings) == 1 else 'bindings'} of {names}"
        return PlanStep(does, tuple(Unbind(self.vhost, each) for each in bindings))

    def _started_anew(self) -> Iterator[str]:
        """Yield what of a message is not the same any more when it has been moved."""
        yield "consumers see the exchange through which a message was moved as its exchange"
        lost = "" if self._release.client_deaths_continued else "its deaths in x-death, "
        yield f"a moved message counts {lost}its deliveries and its age from then on, and has no expiration of its own"

    def _move(
        self, ways: Iterable[tuple[str, str, str]], what: str, dangers: tuple[str, ...], risks: tuple[str, ...]
    ) -> PlanStep:
        return PlanStep(f"move the messages {what}", tuple(Move(self.vhost, *way) for way in ways), risks, dangers)

    # Looking up

    def _names(self, what: str, kind: str) -> list[str]:
        return [each.about.name for each in self._changes if each.what == what and each.about.kind == kind]

    def _afters(self, what: str, kind: type[Any]) -> list[Any]:
        return _afters([each for each in self._changes if each.what == what], kind)

    @staticmethod
    def _sorted(bindings: Iterable[Binding]) -> list[Binding]:
        return sorted(bindings, key=_binding_order)


_AT_ONCE = "a policy applies at once to all queues that it names: a shorter limit or time to live drops messages"
_NO_EXCHANGE = "until the next step publishers get 404 and lose their channel, and dead letters for it are dropped"
_NOT_AT_ONCE = "the import adds one binding after the other: what is published before its binding is lost"
_AWAY = "until the next step, what goes to such a queue through the default exchange reaches no queue"
_CONSUMERS = (
    "stop the consumers of {} first: what they hold unacknowledged when their queue is deleted is in no queue any more"
)
_IF_EMPTY = "the server refuses it while there are messages: then move them once more, and delete it at once"
_ORDER = "the moved messages go behind messages published meanwhile"
_IF_NONE = (
    "delete a queue only if the move left 0 in it, and its count, which is some seconds old, is 0, too: the deletion "
    "takes along what is in it"
)
_AUTO_DELETE = (
    "'{}' is auto_delete: it is deleted with its messages when its last consumer goes, so nothing can be moved out "
    "of it. Let its consumers take what is in it, and do not stop them before; its deletion gets 404 then"
)


def without(kept: Container[Delete], steps: Iterable[PlanStep]) -> Iterator[PlanStep]:
    """Yield the steps without the deletions of what has to be kept, since messages stay there."""
    for step in steps:
        names = [act.name for act in step.acts if isinstance(act, Delete) and act.kind == QUEUE and act in kept]
        acts = [
            act for act in step.acts
            if not (act in kept if isinstance(act, Delete) else isinstance(act, Count) and act.queue in names)
        ]  # fmt: skip
        if names:
            stays = f"keep {_quoted(names)} as long as messages are there: move them, or delete them yourself"
            does = step.does if acts else f"keep {_quoted(names)}: messages stay there"
            step = PlanStep(does, tuple(acts), step.risks, (stays, *(step.dangers if acts else ())))
        yield step


def import_document(
    queues: Iterable[Queue], exchanges: Iterable[Exchange], bindings: Iterable[Binding]
) -> dict[str, Any]:
    """Return what an import into one virtual host takes, as JSON."""
    document: dict[str, Any] = {}
    if found := [_json(each, "durable", "auto_delete") for each in queues]:
        document["queues"] = found
    if found := [_json(each, "type", "durable", "auto_delete", "internal") for each in exchanges]:
        document["exchanges"] = found
    if bound := [{**msgspec.structs.asdict(each), "arguments": plain(each.arguments)} for each in bindings]:
        document["bindings"] = bound
    return document


def _json(part: Queue | Exchange, *fields: str) -> dict[str, Any]:
    return {"name": part.name, **{each: getattr(part, each) for each in fields}, "arguments": plain(part.arguments)}


def _bindings(topology: Topology) -> set[Binding]:
    return {each for bound in topology.bindings.values() for each in bound if each.source}


def _binding_order(binding: Binding) -> tuple[str, ...]:
    return binding.source, binding.destination, binding.routing_key, repr(binding.arguments)


def _touches(binding: Binding, kind: str, name: str) -> bool:
    """Tell whether a queue or an exchange takes the binding along when it is deleted."""
    to = binding.destination_type == kind and binding.destination == name
    return to or (kind == EXCHANGE and binding.source == name)


def _way(name: str) -> Exchange:
    """Return an exchange through which messages move with their own keys."""
    return Exchange(name=name, type="fanout")


def _moved(binding: Binding, queue: str) -> Binding:
    return msgspec.structs.replace(binding, destination=queue)


def _afters(changes: Iterable[Change], kind: type[Any]) -> list[Any]:
    return [each.after for each in changes if isinstance(each.after, kind)]


def _counted(items: Sequence[object], one: str, many: str) -> str:
    return one if len(items) == 1 else f"{len(items):,} {many}"


NAMES_MAX = 4


def _quoted(names: Sequence[str]) -> str:
    return few([f"'{name}'" for name in names], NAMES_MAX)
