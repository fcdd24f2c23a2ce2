"""A lint rule, and what rules look at: definitions under one release, the losses in them, and facts."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import cached_property
from typing import TypeVar

import msgspec

from dlx.deaths import EXPIRED
from dlx.nearest_names import suggestion
from dlx.settings import Setting, Settings
from dlx.topology import STREAM, Policy
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.findings import Finding, Fix, ObjectName, Severity
from simulator.analysis.losses import REPUBLISHED, Loss, Losses, find_losses
from simulator.analysis.names import (
    is_made_up,
    is_named_for_dead_letters,
    is_named_for_waiting,
    is_pattern,
    stem,
)
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.walk import Place, Walk
from simulator.json_values import canonical_json, plain
from simulator.scenario import steps
from simulator.scenario.steps import History

# What lint rules look at: definitions under one release, the losses in them, and facts that several rules ask for.


QueueAt = tuple[str, str]
"""A virtual host and the name of a queue in it."""


class Subject:
    """Definitions under one release.

    Attributes:
        snapshot: the definitions.
        losses: what is lost in them, with these ``clients``; with ``about``, only in or on the way to these queues.
            What consumers promise not to do counts as a loss where they are known to do it: ``broken`` has the virtual
            hosts, the queues and the reasons of deaths. ``named``: queues to which they are known to publish by name.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        about: Collection[QueueAt] | None = None,
        clients: Clients = NOTHING_STATED,
        broken: Collection[tuple[str, str, str]] = (),
        named: Collection[QueueAt] = (),
    ) -> None:
        self.snapshot = snapshot
        losses: Losses = find_losses(snapshot, about, clients, named)
        done = [loss for loss in losses.promised if (loss.vhost, loss.queue, loss.reason) in broken]
        kept = tuple(loss for loss in losses.promised if loss not in done)
        self.losses = msgspec.structs.replace(losses, lost=(*losses.lost, *done), promised=kept)
        self._keys: dict[tuple[str, str], dict[str | None, None]] = {}

    def queues(self) -> Iterator[tuple[QueueAt, Settings]]:
        """Yield the settings of each queue."""
        for vhost, settings in self.snapshot.queues():
            yield (vhost, settings.queue.name), settings

    @cached_property
    def lost(self) -> list[Loss]:
        """The losses, the likeliest first: those that the fewest actions bring about, and time rather than a consumer.

        A publish straight to an exchange for dead letters is the least likely, before it what only a line about
        clients brings about.
        """

        return sorted(self.losses.lost, key=_likeliest_first)

    @property
    def clients(self) -> Clients:
        """What is stated of clients."""
        return self.losses.clients

    def happens(self, queue: QueueAt, reason: str) -> bool:
        """Tell whether consumers may let messages die there for that reason, by what is stated of them."""
        habit = self.clients.habit(*queue, reason)
        return habit is None or habit.does

    @cached_property
    def unproven(self) -> list[Loss]:
        """The losses without a history, but for those that meet in their queue a fate that a history shows."""
        shown = {(loss.vhost, loss.queue, loss.fate) for loss in self.losses.lost}
        return [loss for loss in self.losses.unproven if (loss.vhost, loss.queue, loss.fate) not in shown]

    @cached_property
    def lost_at(self) -> dict[QueueAt, list[Loss]]:
        """The losses by the queue in which the message dies, the likeliest first."""
        found: dict[QueueAt, list[Loss]] = defaultdict(list)
        for loss in self.lost:
            found[loss.vhost, loss.queue].append(loss)
        return found

    @cached_property
    def held_at(self) -> dict[QueueAt, list[Loss]]:
        """The dead letters that stay held, by the queue that holds them, the likeliest first."""
        found: dict[QueueAt, list[Loss]] = defaultdict(list)
        for loss in sorted(self.losses.held, key=_likeliest_first):
            found[loss.vhost, loss.queue].append(loss)
        return found

    @cached_property
    def sources(self) -> dict[QueueAt, set[str]]:
        """The queues whose dead letters come to a queue."""
        found: dict[QueueAt, set[str]] = defaultdict(set)
        for vhost, walk in self.losses.walks.items():
            for place in walk.places:
                for hop, _ in place.onward:
                    found[vhost, hop.to_queue].add(hop.queue)
        return found

    @cached_property
    def delivering(self) -> set[QueueAt]:
        """The queues of which some dead letters come to a queue."""
        return {(vhost, name) for (vhost, _), names in self.sources.items() for name in names}

    @cached_property
    def dead_letter_exchanges(self) -> set[tuple[str, str]]:
        """The exchanges to which queues dead-letter, as pairs of virtual host and name."""
        named = ((vhost, settings.dead_letter_exchange) for (vhost, _), settings in self.queues())
        return {(vhost, dlx) for vhost, dlx in named if dlx is not None}

    @cached_property
    def for_dead_letters(self) -> dict[str, list[str]]:
        """The names of queues that are called after dead letters, by virtual host."""
        found: dict[str, list[str]] = defaultdict(list)
        for (vhost, name), _ in self.queues():
            if is_named_for_dead_letters(name):
                found[vhost].append(name)
        return found

    @cached_property
    def for_those_of(self) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """The same by virtual host and the words of the queue whose dead letters they are for."""
        found: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for vhost, names in self.for_dead_letters.items():
            for name in names:
                found[vhost, stem(name)].append(name)
        return found

    @cached_property
    def exchanges_for_dead_letters(self) -> dict[str, list[str]]:
        """The exchanges that are named for dead letters, or that queues dead-letter to, by virtual host."""
        return {
            vhost: [
                name
                for name in topology.exchanges
                if name and (is_named_for_dead_letters(name) or (vhost, name) in self.dead_letter_exchanges)
            ]
            for vhost, topology in self.snapshot.topologies.items()
        }

    def passing_keys(self, vhost: str, exchange: str) -> Collection[str | None]:
        """Return the routing keys with which messages pass an exchange: ``None`` alone where any does."""
        at = vhost, exchange
        if at not in self._keys:  # many queues may share one
            topology = self.snapshot.topologies[vhost]
            kind = topology.exchanges[exchange].type
            keys = {each.routing_key: None for each in topology.bindings.get(exchange, ())}
            if kind == "fanout" or (kind == "topic" and "#" in keys):
                self._keys[at] = {None: None}
            else:
                by_key = kind in ("direct", "topic")
                self._keys[at] = {key: None for key in keys if by_key and not is_pattern(key)}
        return self._keys[at]

    @cached_property
    def _policies(self) -> Counter[tuple[str, str]]:
        applied = ((vhost, settings.policy.policy) for (vhost, _), settings in self.queues())
        return Counter((vhost, policy.name) for vhost, policy in applied if policy is not None)

    def applies_to(self, vhost: str, policy: Policy) -> int:
        """Return to how many queues a policy applies."""
        return self._policies[vhost, policy.name]

    @cached_property
    def loops(self) -> list[Loop]:
        """The ways on which messages come back to where they were, each once."""
        return [loop for walk in self.losses.walks.values() for loop in _loops(walk)]

    @cached_property
    def looping(self) -> set[QueueAt]:
        """The queues that are on a loop through another queue."""
        return {(loop.vhost, queue) for loop in self.loops for queue in loop.queues}

    def is_left_out(self, kind: str, vhost: str, name: str) -> bool:
        """Tell whether the definitions have an object that is left out, since the release does not know it."""
        about = ObjectName(kind, vhost, name)
        return any(each.about == about and each.kept == "no" for each in self.snapshot.refused)

    def is_parking(self, queue: QueueAt) -> bool:
        """Tell whether a queue takes dead letters and sends none: it keeps what has failed for somebody to look at."""
        return queue in self.losses.parking


def _likeliest_first(loss: Loss) -> tuple[bool, bool, int, bool]:
    waits = is_named_for_waiting(loss.queue) and loss.reason != EXPIRED
    return loss.straight, bool(loss.line), steps.length(loss.history), waits


class Loop:
    """A way on which messages come back as they were: places that lead to one another.

    Attributes:
        vhost: the virtual host.
        queues: the queues on it.
        places: the places on it, the one that is reached first at the beginning.
    """

    def __init__(self, vhost: str, places: list[Place]) -> None:
        self.vhost, self.places = vhost, places
        self.queues = tuple(dict.fromkeys(place.queue for place in places))


def _loops(walk: Walk) -> Iterator[Loop]:
    """Yield the loops through more than one queue, the shortest way round each set of queues once."""
    seen: set[frozenset[str]] = set()
    order = {id(place): number for number, place in enumerate(walk.places)}
    for places in components(walk.places, lambda place: (there for _, there in place.onward)):
        if len({place.queue for place in places}) > 1:
            loop = Loop(walk.vhost, sorted(places, key=lambda place: order[id(place)]))
            if frozenset(loop.queues) not in seen:
                seen.add(frozenset(loop.queues))
                yield loop


Node = TypeVar("Node", bound=Hashable)


def components(nodes: Iterable[Node], onward: Callable[[Node], Iterable[Node]]) -> Iterator[list[Node]]:
    """Yield the sets of several nodes that lead to one another (Tarjan's algorithm, without recursion)."""
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    stacked: set[Node] = set()
    for root in nodes:
        if root in number:
            continue
        work = [(root, iter(onward(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        stacked.add(root)
        while work:
            node, ahead = work[-1]
            there = next(ahead, None)
            if there is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node]:
                    found = []
                    while True:
                        found.append(stack.pop())
                        stacked.discard(found[-1])
                        if found[-1] == node:
                            break
                    if len(found) > 1:
                        yield found[::-1]
                continue
            if there not in number:
                number[there] = low[there] = len(number)
                stack.append(there)
                stacked.add(there)
                work.append((there, iter(onward(there))))
            elif there in stacked:
                low[node] = min(low[node], number[there])


# What findings say, and how to change a setting


def queue_name(queue: QueueAt) -> ObjectName:
    """Return the name of a queue as findings have it."""
    return ObjectName("queue", *queue)


def policy_name(vhost: str, policy: Policy, *, operator: bool = False) -> ObjectName:
    """Return the name of a policy as findings have it."""
    return ObjectName("operator policy" if operator else "policy", vhost, policy.name)


def shown(value: object) -> str:
    """Return a value as a sentence has it."""
    return f"'{value}'" if isinstance(value, str) else canonical_json(plain(value))


def said_by(setting: Setting) -> str:
    """Say which setting it is and where it comes from."""
    return f"{setting.key} is {shown(setting.value)} by {setting.origin}"


def mended(losses: Iterable[Loss], fix: Fix) -> Fix:
    """Return the fix, or what clients have to do differently where none of the losses would be one without that."""
    lines = {loss.line for loss in losses}
    return fix if lines != {REPUBLISHED} else Fix(True, "let consumers publish messages again without their x-death")


def by_its_policy(subject: Subject, queue: QueueAt) -> str:
    """Say where to set something for a queue by policy: only one policy applies to a queue."""
    vhost, name = queue
    policy = subject.snapshot.flows[vhost].settings(name).policy.policy
    if is_made_up(name):
        return f"with a policy for queues that servers name, such as '{name}' (pattern '^amq\\.gen-')"
    if policy is None:
        return f"with a policy for '{name}'"
    others = subject.applies_to(vhost, policy) - 1
    if not others:
        return f"in policy {policy.name}, which applies to '{name}'"
    queues = "another queue" if others == 1 else f"{others:,} other queues"
    keys = f"with the keys of policy {policy.name}, which applies to {queues} as well"
    return f"with a policy for '{name}' alone, of a higher priority and {keys}"


def change(subject: Subject, queue: QueueAt, key: str, how: str) -> Fix:
    """Return the fix that changes a setting where it is set: safe in a policy, not in a queue's arguments."""
    setting = subject.snapshot.flows[queue[0]].settings(queue[1]).values.get(key)
    origin = None if setting is None else setting.origin
    if origin is None or origin.kind == "server default":
        return Fix(True, f"{by_its_policy(subject, queue)}: {how}")
    if origin.kind == "argument" and is_made_up(queue[1]):
        return Fix(True, f"{how}: it is an argument, so let the client declare its next queue like that")
    if origin.kind == "argument":
        return Fix(False, f"{how}: it is an argument of the queue, so delete the queue and declare it again")
    return Fix(True, f"in {origin}: {how}")


def take_away(subject: Subject, queue: QueueAt, key: str, how: str) -> Fix:
    """Return the fix for a setting that a queue had better not have: ``change``, unless only a policy is too wide."""
    return keep_out_of_policy(subject, queue, key) or change(subject, queue, key, how)


def keep_out_of_policy(subject: Subject, queue: QueueAt, key: str) -> Fix | None:
    """Return the fix for a queue for dead letters that has a setting by a policy which is for other queues as well."""
    (vhost, name), settings = queue, subject.snapshot.flows[queue[0]].settings(queue[1])
    policy, setting = settings.policy.policy, settings.values.get(key)
    if policy is None or setting is None or setting.origin.kind != "policy" or not is_named_for_dead_letters(name):
        return None
    if subject.applies_to(vhost, policy) == 1:
        return None
    how = f"let its pattern not match '{name}', or give '{name}' a policy of a higher priority without {key}"
    return Fix(True, f"keep '{name}' out of policy {policy.name}: {how}")


def is_stream(settings: Settings) -> bool:
    """Tell whether the queue is a stream."""
    return settings.queue.type == STREAM


# A lint rule: its code, its name, its document, and the function that finds what it is about.
#
# The document is the function's docstring: what the rule reports in the first paragraph, then sections that begin
# with ``Why``, ``Example`` and ``Fix``. The command line, the catalogue in ``docs/how-to/lint.md`` and SARIF take it
# from here.


SECTIONS = ("Why", "Example", "Fix")


class Document(msgspec.Struct, frozen=True):
    """What a person has to know of a rule, in plain text."""

    what: str
    why: str
    example: str
    fix: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule's function yields: a finding without the rule's code and name."""

    severity: Severity
    about: ObjectName
    message: str
    because: str
    fix: Fix
    history: History = ()
    some_keys: bool = False
    held: bool = False
    refusal: bool = False


Check = Callable[[Subject], Iterable[Found]]


class LintRule(msgspec.Struct, frozen=True):
    """A rule. Its code and its name belong together and are never used for another rule."""

    code: str
    name: str
    document: Document
    check: Check

    def findings(self, subject: Subject) -> Iterable[Finding]:
        """Yield what the rule finds."""
        for found in self.check(subject):
            fields = {field: getattr(found, field) for field in Found.__struct_fields__}
            yield Finding(code=self.code, name=self.name, **fields)


RULES: dict[str, LintRule] = {}
"""The rules by code."""


def rule_named(name: str) -> LintRule:
    """Return a rule by its code or name. Raises ``KeyError`` with the nearest names for what is none."""
    found = next((each for each in RULES.values() if name.lower() in (each.code.lower(), each.name)), None)
    if found is None:
        known = [*RULES, *(each.name for each in RULES.values())]
        how = f"there are {min(RULES)} to {max(RULES)}, and docs/how-to/lint.md says what each is"
        raise KeyError(f"no rule {name!r}; {suggestion(name, known, how)}")
    return found


def rule(code: str, name: str) -> Callable[[Check], Check]:
    """Return the decorator that makes a function a rule. Its docstring is the rule's document."""

    def add(check: Check) -> Check:
        taken = code in RULES or any(each.name == name for each in RULES.values())
        if taken:
            raise ValueError(f"{code} {name}: the code or the name belongs to another rule")
        RULES[code] = LintRule(code, name, _document(inspect.getdoc(check) or "", code), check)
        return check

    return add


def _document(text: str, code: str) -> Document:
    parts: dict[str, list[str]] = {"What": []}
    current = parts["What"]
    for line in text.splitlines():
        title, colon, rest = line.partition(":")
        if colon and title in SECTIONS:
            current = parts[title] = [rest.strip()]
        else:
            current.append(line)
    if set(parts) != {"What", *SECTIONS}:
        raise ValueError(f"{code}: its docstring has {', '.join(parts)}; expected {', '.join(SECTIONS)}")
    what, why, example, fix = ("\n".join(lines).strip() for lines in parts.values())
    return Document(what, why, example, fix)
