"""Finds every way in which a topology loses messages, with the rule that decides it and a history that shows it.

All rules are those of ``dlx.MessageFlow``; here all entries and all deaths are gone
through. A loss counts when a history of it was played (``simulator.analysis.proofs``).
Where a consumer's decision alone loses the message (it rejects for good where nothing
takes the dead letter), that is not a loss but a promise that consumers have to keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dlx.death_headers import stored_headers
from dlx.deaths import DELIVERY_LIMIT, MAXLEN, REJECTED, X_DEATH
from dlx.letter_copies import LetterCopy
from dlx.message_flow import Hop, MessageFlow
from dlx.possible_deaths import DeathRule
from dlx.releases import Release, rules_of
from dlx.settings import AT_LEAST_ONCE, DEAD_LETTER_STRATEGY, EXPIRES, alternate_exchange
from dlx.topology import STREAM, Exchange
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.entries import Entries, by_name, entries
from simulator.analysis.findings import ObjectName, few
from simulator.analysis.next_steps import unused_ms
from simulator.analysis.proofs import Budget, loses, proof
from simulator.analysis.shapes import Shape, renamed, shape
from simulator.analysis.slices import Slices
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.walk import Place, Walk, parked_in
from simulator.json_values import plain
from simulator.scenario import steps
from simulator.scenario.steps import History, Publish

REMOVED = "removed with the queue"
REFUSED = "refused"
TRIED_MAX = 4
"""At most this many ways to the same loss are tried until one of them is played successfully."""
_ACTIONS_PER_QUEUE = 8
"""Declaring a queue takes as long as this many actions, with its bindings and events."""
HELD: Final = "held"
PUBLISHED = "clients.publish"
REPUBLISHED = "clients.republish_x_death"
MISSING = "dead-letter exchange missing"
UNROUTABLE = "unroutable"
NOT_LOST = frozenset({"dead-lettered"})


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """One way to lose a message.

    Attributes:
        vhost, queue: where the message is when it dies.
        reason: why it dies there; empty where the queue itself is deleted.
        fate: how it is lost: a ``CopyOutcome``, ``REFUSED`` (the queue that should take the dead letter is full) or
            ``REMOVED``.
        rule: the deciding rule, with the setting where there is one.
        publish, path: how it was published, and the deaths behind it.
        keys: its routing keys at the end.
        target: the queue that the dead letter was for, if there is one; of a held one, that to which it would return.
        by_consumers: whether only consumers can lose it: they promise not to.
        whole: whether no other copy of the dead letter arrives.
        line: the line about clients without which it would be none; empty where it needs none.
        straight: whether only a publish straight to an exchange that is named for dead letters comes there: what is
            dead-lettered to it has other keys.
        history: steps that lose it; empty where none was found.
    """

    vhost: str
    queue: str
    reason: str
    fate: str
    rule: DeathRule
    publish: Publish
    path: tuple[Hop, ...]
    keys: tuple[str, ...] = ()
    target: str | None = None
    by_consumers: bool = False
    whole: bool = True
    line: str = ""
    straight: bool = False
    history: History = ()


class Losses(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        lost: the losses, each with its history.
        promised: what would be lost if consumers did what they promise not to do.
        partial: dead letters of which one copy is lost, and another one arrives.
        held: dead letters that stay in their queue, since no queue takes them and nothing is given up there; each with
            its history, if one was found.
        unproven: what the rules make possible, while no history of it was found.
        by_name: dead letters that no queue takes if the message was published to a queue by its name, also such as
            ``lost`` and ``held`` have.
        walks: the walks behind it, by virtual host.
        parking: queues that take dead letters and send none, as pairs of virtual host and name.
        assumed: what clients do, as far as it is stated, and which losses that rules out; then what the export leaves
            out and is taken not to be there; in phrases.
        clients: what is stated of clients.
        unchecked: what was not looked at, in sentences.
    """

    lost: tuple[Loss, ...]
    promised: tuple[Loss, ...]
    partial: tuple[Loss, ...]
    unproven: tuple[Loss, ...]
    held: tuple[Loss, ...]
    by_name: tuple[Loss, ...]
    walks: dict[str, Walk]
    parking: frozenset[tuple[str, str]]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]
    clients: Clients = NOTHING_STATED


def find_losses(
    snapshot: Snapshot,
    about: Collection[tuple[str, str]] | None = None,
    clients: Clients = NOTHING_STATED,
    named: Iterable[tuple[str, str]] = (),
) -> Losses:
    """Return every way in which messages can be lost.

    Args:
        snapshot: the definitions under one release.
        about: pairs of virtual host and name of a queue. What is lost in none of them, or on the way to it, is left
            out of ``lost``, ``promised`` and ``unproven``: to prove losses is what takes the time.
        clients: what clients do.
        named: pairs of virtual host and name of queues to which clients are known to publish by their names. What is
            stated of publishers comes first.
    """
    publishes, left_out = published(snapshot.flows, clients) if clients else snapshot.entries
    unknown = list(clients.unknown(snapshot.topologies))
    if clients.publish and not publishes:
        clients = msgspec.structs.replace(clients, publish=())
        publishes, more = published(snapshot.flows, clients)
        left_out = [f"{PUBLISHED}: no queue takes what it states, so it is taken as not stated", *left_out, *more]
    by_their_names = [] if clients.publish else [Publish("", name, vhost=vhost) for vhost, name in named]
    publishes = [*publishes, *(each for each in by_their_names if each not in publishes)]
    walks = {vhost: Walk(flow, vhost, publishes, clients) for vhost, flow in snapshot.flows.items()}
    parking = parking_in(walks)
    prover = _Prover(snapshot, clients)
    proven: list[Loss] = []
    partial: list[Loss] = []
    unproven: list[Loss] = []
    held: list[Loss] = []
    unsure = _Unsure(snapshot)
    for walk in walks.values():
        for alike in _alike(walk, parking):
            if unsure.about(alike[0]):
                continue
            is_held = alike[0].fate == HELD
            if not (alike[0].whole or is_held):
                partial.append(alike[0])
                continue
            if about is not None and not _concerns(alike[0], about):
                continue
            shown = prover.first_proven(alike[:TRIED_MAX])
            found = held if is_held else unproven if shown is None else proven
            found.append(shown or alike[0])
    lost = [loss for loss in proven if not loss.by_consumers]
    promised = [loss for loss in proven if loss.by_consumers]
    unchecked = [
        *snapshot.guesses,
        *left_out,
        *unknown,
        *(f"more ways than {len(walk.places):,}" for walk in walks.values() if not walk.complete),
    ]
    return Losses(
        lost=tuple(lost),
        promised=tuple(promised),
        partial=tuple(partial),
        unproven=tuple(unproven),
        held=tuple(held),
        by_name=tuple(loss for loss in _lost_by_name(walks.values()) if not unsure.about(loss)),
        walks=walks,
        parking=parking,
        assumed=(
            *_stated(snapshot, walks, clients),
            *dict.fromkeys(said for loss in (*lost, *unproven, *held) for said in unsure.assumed(loss)),
        ),
        unchecked=tuple(unchecked),
        clients=clients,
    )


def parking_in(walks: Mapping[str, Walk]) -> frozenset[tuple[str, str]]:
    """Return the parking queues, as pairs of virtual host and name; none that consumers are stated to work on."""
    parked = ((vhost, queue, walk) for vhost, walk in walks.items() for queue in parked_in(walk))
    return frozenset((vhost, queue) for vhost, queue, walk in parked if not walk.clients.works_on(vhost, queue))


def published(flows: Mapping[str, MessageFlow], clients: Clients, given: Entries | None = None) -> Entries:
    """Return the publishes to try: those ``given``, or else all, and again with ``x-death``, if consumers do that."""
    first, left_out = entries(flows, clients) if given is None else given
    if not clients.republish_x_death:
        return Entries(first, left_out)
    again: dict[str, Publish] = {}
    for vhost, flow in flows.items():
        if flow.release.client_deaths_continued:
            for place in Walk(flow, vhost, first, clients).places:
                if place.hop is not None and clients.consumes(vhost, place.queue):
                    headers = {**place.publish.headers, X_DEATH: plain(stored_headers(place.state.message)[X_DEATH])}
                    step = steps.changed(place.publish, headers=headers)
                    again.setdefault(repr(step), step)
    return Entries([*first, *again.values()], left_out)


def _stated(snapshot: Snapshot, walks: Mapping[str, Walk], clients: Clients) -> Iterator[str]:
    """Yield what is stated of clients, each with the losses that it rules out at first sight."""
    if not clients:
        return
    open_to = {vhost: Walk(flow, vhost, snapshot.entries.publishes) for vhost, flow in snapshot.flows.items()}
    parking = parking_in(open_to)
    without: dict[str, dict[str, None]] = defaultdict(dict)
    here = causes(walks.values())
    for walk in open_to.values():
        for place in walk.places:
            for loss in losses_at(place, walk, parked=(walk.vhost, place.queue) in parking):
                line = None if loss.by_consumers or cause(loss) in here else ruled_out_by(loss, walk.flow, clients)
                if line is not None:
                    without[line][f"'{loss.queue}' ({f'{loss.reason}, ' * bool(loss.reason)}{loss.fate})"] = None
    for line, lost in without.items():
        yield f"{clients.said(line)}; else messages are lost or held in {few(list(lost))}"
    taken = all(flow.release.client_deaths_continued for flow in snapshot.flows.values())
    for line in (each for each in clients.lines if each not in without):
        opaque = line == REPUBLISHED and not taken
        yield clients.said(line) + f", which RabbitMQ {snapshot.release.name} does not count" * opaque


def causes(walks: Iterable[Walk]) -> set[Hashable]:
    """Return the causes of all losses that the rules make possible on these walks."""
    places = ((place, walk) for walk in walks for place in walk.places)
    return {cause(loss) for place, walk in places for loss in losses_at(place, walk, parked=False)}


def cause(loss: Loss) -> Hashable:
    """Return what losses by different publishes, or on different ways, have in common."""
    return loss.vhost, loss.queue, loss.reason, loss.fate, loss.target, loss.whole


def ruled_out_by(loss: Loss, flow: MessageFlow, clients: Clients) -> str | None:
    """Return the line by which the loss does not come about; ``None`` where none says so."""
    for queue, reason in (*((hop.queue, hop.reason) for hop in loss.path), (loss.queue, loss.reason)):
        habit = clients.habit(loss.vhost, queue, reason)
        if habit is not None and not habit.does:
            return habit.line
    if loss.fate == REMOVED:
        kept = clients.kept_by(loss.vhost, flow.settings(loss.queue), published=not loss.path)
        if kept is not None:
            return kept
    return PUBLISHED if clients.publish else None


def _lost_by_name(walks: Iterable[Walk]) -> Iterator[Loss]:
    """Yield what publishes to queues by their names add: dead letters with such a key that no queue takes."""
    for usual in walks:
        if usual.clients.publish:
            continue
        flow = usual.flow
        known = {flow.situation(place.queue, place.state.message) for place in usual.places}
        walk = Walk(flow, usual.vhost, by_name(flow, usual.vhost, known), usual.clients)
        for loss in (loss for place in walk.places for loss in losses_at(place, walk, parked=False)):
            if is_unroutable(loss, flow) and loss.publish.routing_key in loss.keys:
                yield loss


def is_unroutable(loss: Loss, flow: MessageFlow) -> bool:
    """Return whether a dead letter is lost or held because its exchange leads it to no queue."""
    held = loss.fate == HELD and loss.target is None and not is_missing(loss, flow)
    return loss.fate == UNROUTABLE or held


def _concerns(loss: Loss, about: Collection[tuple[str, str]]) -> bool:
    return any((loss.vhost, queue) in about for queue in (loss.queue, loss.target))


def _alike(walk: Walk, parking: frozenset[tuple[str, str]]) -> Iterable[list[Loss]]:
    """Return the losses that a person would call one and the same, those on shorter ways first."""
    found: dict[Hashable, list[Loss]] = defaultdict(list)
    usual = {id(place) for place in walk.usual_places()}
    for place in sorted(walk.places, key=lambda place: id(place) not in usual):
        for loss in losses_at(place, walk, parked=(walk.vhost, place.queue) in parking):
            keys = loss.keys if loss.fate == UNROUTABLE or (loss.fate == HELD and loss.target is None) else ()
            loss = msgspec.structs.replace(loss, straight=True) if id(place) not in usual else loss
            found[loss.queue, loss.reason, loss.fate, _end(loss), loss.whole, keys].append(loss)
    return found.values()


def _end(loss: Loss) -> str | None:
    """Return where the dead letter was to go, as far as that makes it another loss."""
    if loss.fate in ("cycle", HELD) and loss.target is not None:
        return "itself" if loss.target == loss.queue else "another queue"
    return loss.target


def losses_at(place: Place, walk: Walk, *, parked: bool) -> Iterator[Loss]:
    """Yield what the rules make possible there, without a history. ``parked``: the queue is a parking queue."""
    flow, queue = walk.flow, place.queue
    for death in flow.deaths(place.state):
        if not death.possible or (death.reason == MAXLEN and _publisher_learns(place, flow)):
            continue
        habit = walk.clients.habit(walk.vhost, queue, death.reason)
        if habit is not None and not habit.does:
            continue
        for copy, arrives in _copies(place, death.reason, flow):
            fate = _fate(copy.outcome, copy.queue, flow, queue)
            if fate is None:
                continue
            rule = death.rule if fate == "no dead-letter exchange" and death.reason != REJECTED else copy.rule
            given_up = fate == "no dead-letter exchange" and death.reason in (
                (REJECTED, DELIVERY_LIMIT) if parked else (REJECTED,)
            )
            stated = given_up and habit is not None and not parked
            yield Loss(
                vhost=walk.vhost,
                queue=queue,
                reason=death.reason,
                fate=fate,
                rule=rule,
                publish=place.publish,
                path=place.path,
                keys=_keys_on(flow, place),
                target=copy.queue,
                by_consumers=given_up and not stated,
                whole=fate == REFUSED or not arrives,
                line=habit.line if stated and habit is not None else _published_by(place),
            )
    rule_of_end = _end_of(queue, flow)
    kept = walk.clients.kept_by(walk.vhost, flow.settings(queue), published=place.hop is None)
    if rule_of_end is not None and kept is None:
        yield Loss(
            vhost=walk.vhost,
            queue=queue,
            reason="",
            fate=REMOVED,
            rule=rule_of_end,
            publish=place.publish,
            path=place.path,
            line=_published_by(place),
        )


def _copies(place: Place, reason: str, flow: MessageFlow) -> Iterator[tuple[LetterCopy, bool]]:
    """Yield the copies of the dead letter, each with whether one of those that there are together arrives."""
    for choice in flow.choices(place.state, reason):
        copies = _together(place, reason, flow, choice)
        arrives = any(copy.outcome in ("dead-lettered", "may be refused") for copy in copies)
        yield from ((copy, arrives) for copy in copies)


def _together(place: Place, reason: str, flow: MessageFlow, copies: tuple[LetterCopy, ...]) -> tuple[LetterCopy, ...]:
    """Return copies of a dead letter; of one that the queue holds, with the queue to which it would return."""
    settings = flow.settings(place.queue)
    if copies[0].outcome == HELD:
        back = next((hop.to_queue for hop, _ in flow.cycles(place.state, reason)), None)
        return (msgspec.structs.replace(copies[0], queue=back),)
    returns = any(copy.queue == place.queue and copy.outcome != "cycle" for copy in copies)
    if settings.dead_letter_strategy != AT_LEAST_ONCE or not returns or flow.release.quorum_confirms_own_dead_letters:
        return copies
    why = f"RabbitMQ {flow.release.name} does not count it when '{place.queue}' takes its own dead letter"
    return (*copies, LetterCopy(HELD, DeathRule(why, settings.values.get(DEAD_LETTER_STRATEGY)), place.queue))


def _published_by(place: Place) -> str:
    return REPUBLISHED if X_DEATH in place.publish.headers else ""


def _publisher_learns(place: Place, flow: MessageFlow) -> bool:
    """Return whether a full queue refuses the message where it is, and its publisher learns of it."""
    return place.hop is None and flow.settings(place.queue).dead_letters_refused


def _fate(outcome: str, target: str | None, flow: MessageFlow, queue: str) -> str | None:
    """Return what becomes of a copy that is lost; ``None`` for one that is not."""
    if outcome == "may be refused" and target is not None:
        held = flow.settings(queue).dead_letter_strategy == AT_LEAST_ONCE
        return None if held or flow.settings(target).dead_letters_refused else REFUSED
    return None if outcome in NOT_LOST else outcome


def is_missing(loss: Loss, flow: MessageFlow) -> bool:
    """Return whether it is for want of its exchange that a dead letter is lost or held."""
    held = loss.fate == HELD and flow.settings(loss.queue).dead_letter_exchange not in flow.topology.exchanges
    return loss.fate == MISSING or held


def _keys_on(flow: MessageFlow, place: Place) -> tuple[str, ...]:
    """Return the routing keys that the dead letter has."""
    replaced = flow.settings(place.queue).dead_letter_routing_key
    return place.state.message.routing_keys if replaced is None else (replaced,)


def _end_of(queue: str, flow: MessageFlow) -> DeathRule | None:
    """Return the rule that deletes the queue with its messages; ``None`` where nothing deletes it."""
    definition, settings = flow.topology.queues[queue], flow.settings(queue)
    if definition.type == STREAM:
        return None
    if settings.expires_ms is not None:
        unused = f"the queue is deleted, with its messages, when it has been unused for {settings.expires_ms} ms"
        return DeathRule(unused, settings.values.get(EXPIRES))
    if definition.auto_delete:
        return DeathRule("the queue is deleted, with its messages, when its last consumer leaves (auto-delete)")
    return None


def exporter(snapshot: Snapshot) -> Release:
    """Return the release of the server that exported the definitions; that of the snapshot where they do not say it."""
    version = snapshot.definitions.rabbitmq_version
    return snapshot.release if version is None else rules_of("", version)


def omits_internal_exchanges(snapshot: Snapshot) -> bool:
    """Tell whether the export leaves out internal exchanges."""
    by_rabbitmqctl = not snapshot.definitions.single_vhost and "product_name" not in snapshot.definitions.document
    return by_rabbitmqctl or not exporter(snapshot).definitions_internal_exchanges


class _Unsure:
    """Knows which losses are unknown: of dead letters that go to what the broker refuses, or is guessed at.

    And it knows what would take a dead letter and is in no export of that server. It is assumed not to be there: an
    exchange that no binding names loses nearly all, internal or not, and a client's queue is gone with the client.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._flows = snapshot.flows
        self._version = None if snapshot.definitions.is_recorded else snapshot.definitions.rabbitmq_version
        own = exporter(snapshot)
        self._omits_internal = omits_internal_exchanges(snapshot)
        self._omits_bindings = not own.definitions_exclusive_bindings
        refused = {each.about for each in snapshot.refused if each.kept == "no"}
        self._refused = {*refused, *snapshot.of_plugins, *snapshot.stand_ins}
        self._behind = {
            (vhost, str(item.get("source", "")))
            for item, vhost in snapshot.items("bindings")
            if ObjectName(str(item.get("destination_type", "queue")), vhost, str(item.get("destination")))
            in self._refused
        }

    def about(self, loss: Loss) -> bool:
        """Return whether a refused object would take the dead letter, or may do so."""
        if loss.fate not in (UNROUTABLE, MISSING, HELD):
            return False
        flow = self._flows[loss.vhost]
        dlx = flow.settings(loss.queue).dead_letter_exchange or ""
        if is_missing(loss, flow) and self._version is not None and self._omits_internal:
            inside = Exchange(name=dlx, internal=True)
            if alternate_exchange(inside, flow.topology, flow.release) is not None:
                return True
        if any(ObjectName("exchange", loss.vhost, name) in self._refused for name in flow.passed({dlx})):
            return True
        if not dlx and any(ObjectName("queue", loss.vhost, key) in self._refused for key in loss.keys):
            return True
        return any((loss.vhost, name) in self._behind for name in flow.passed({dlx}))

    def assumed(self, loss: Loss) -> Iterator[str]:
        """Yield what is taken not to be there, since the export would not have it, in phrases."""
        if self._version is None or loss.fate not in (UNROUTABLE, MISSING, HELD):
            return
        export, flow = f"an export of RabbitMQ {self._version} omits", self._flows[loss.vhost]
        about = ObjectName("exchange", loss.vhost, flow.settings(loss.queue).dead_letter_exchange or "")
        missing = is_missing(loss, flow)
        if missing and self._omits_internal:
            yield (
                f"{export} internal exchanges: if {about} is one, dead letters leave it by an alternate exchange alone"
            )
        elif not missing and not about.name:
            named = " or ".join(f"'{key}'" for key in loss.keys if key not in flow.topology.queues)
            if named:
                client = f"a client that has queue {named}"
                yield f"{export} exclusive queues: {client} gets dead letters while it is connected"
        elif not missing and self._omits_bindings:
            yield (
                f"{export} exclusive queues and what binds them: a client that has one behind {about} gets dead letters"
                " while it is connected"
            )


class _Prover:
    """Finds the histories; of questions that are equal up to names one is asked."""

    def __init__(self, snapshot: Snapshot, clients: Clients) -> None:
        self._snapshot, self._clients = snapshot, clients
        self._budget = Budget(sum(1 for _ in snapshot.queues()))
        self._slices = Slices(snapshot.document, snapshot.flows, snapshot.only_vhost)
        self._proofs: dict[Hashable, tuple[History | None, tuple[str, ...]]] = {}
        self._held: dict[Hashable, bool] = {}

    def first_proven(self, alike: Iterable[Loss]) -> Loss | None:
        """Return the first of these ways that was played, with its history; ``None`` if none was."""
        self._budget.begin()
        return next(filter(None, map(self._proven, alike)), None)

    def _proven(self, loss: Loss) -> Loss | None:
        way, whole = self._slices.along(loss.publish, _on_the_way(loss)), self._slices.of(loss.publish)
        history = self._proof(loss, way)
        if way is not whole and (history is None or not self._holds(loss, history)):
            history = self._proof(loss, whole)
        if history is not None and loss.reason:  # else a crash is how the last consumer leaves
            history = self._as_consumers_do(history)
        return None if history is None else msgspec.structs.replace(loss, history=history)

    def _as_consumers_do(self, history: History) -> History:
        """Return the history with requeues for crashes where consumers do not crash: both count as deliveries."""
        return tuple(self._as_consumer_does(step) for step in history)

    def _as_consumer_does(self, step: steps.AnyStep) -> steps.AnyStep:
        if isinstance(step, steps.Repeat):
            return steps.changed(step, steps=self._as_consumers_do(step.steps))
        if not isinstance(step, steps.Crash) or "crash" in (
            self._clients.failures(step.vhost, step.queue) or ("crash",)
        ):
            return step
        return steps.Requeue(step.queue, step.times, step.vhost)

    def _shape(self, loss: Loss, definitions: Mapping[str, Any]) -> Shape | None:
        names, question = (loss.queue, loss.target or ""), f"{loss.reason}, {loss.fate}, {loss.target is None}"
        return shape(self._slices, definitions, loss.publish, loss.path, names, question)

    def _proof(self, loss: Loss, definitions: Mapping[str, Any]) -> History | None:
        """Return the history that loses the message, by way of one that loses another message just so."""
        like = self._shape(loss, definitions)
        if like is None or (like.common not in self._proofs and self._budget.spent):  # not tried is no answer
            return self._new_proof(loss, definitions)
        if like.common not in self._proofs:
            self._proofs[like.common] = self._new_proof(loss, definitions), like.words
        history, words = self._proofs[like.common]
        return None if history is None else renamed(history, dict(zip(words, like.words, strict=True)), loss.vhost)

    def _new_proof(self, loss: Loss, definitions: Mapping[str, Any]) -> History | None:
        death, full = (loss.queue, loss.reason), loss.target if loss.fate == REFUSED else None
        queue = self._snapshot.broker.vhosts[loss.vhost].queues[loss.queue]
        expires_ms = unused_ms(queue) if not loss.reason else None
        release = self._snapshot.release.name
        return proof(definitions, release, loss.publish, loss.path, death, full, expires_ms, self._budget)

    def _holds(self, loss: Loss, history: History) -> bool:
        """Return whether what loses a copy on one way does so where the others go theirs; yes where that costs much."""
        definitions = self._slices.of(loss.publish)
        like = self._shape(loss, definitions)
        if like is None:
            return self._is_lost(loss, history, definitions)
        if like.common not in self._held:
            self._held[like.common] = self._is_lost(loss, history, definitions)
        return self._held[like.common]

    def _is_lost(self, loss: Loss, history: History, definitions: Mapping[str, Any]) -> bool:
        cost = _ACTIONS_PER_QUEUE * len(definitions.get("queues", ())) + steps.length(history)
        if cost > self._budget.actions:
            return True
        self._budget.actions -= cost
        death, full = (loss.queue, loss.reason), loss.target if loss.fate == REFUSED else None
        return loses(definitions, self._snapshot.release.name, history, death, full)


def _on_the_way(loss: Loss) -> set[str]:
    """Return the queues that the one copy comes to."""
    there = {queue for hop in loss.path for queue in (hop.queue, hop.to_queue)}
    return there | {loss.queue, *([loss.target] if loss.target else [])}
