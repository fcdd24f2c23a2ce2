"""Strategies for whole scripts: a topology, and what clients and operators do with it.

What a real server leaves to chance is not drawn. All deliveries of a channel are those of one queue, so that their
order, and that of the dead letters of those rejected together, is the queue's. A publish to a queue in which it may
die at once does not also go to a quorum queue, where its dead letter may overtake it, nor to another such queue whose
dead letter may come to the same third one; and nobody publishes without waiting where dead letters may die at once,
too. Policies, killed connections and deleted queues are given time to take
effect. On releases whose servers let a rejected message circle for ever (until 3.12), a script has either rejections or
deaths by TTL and length.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from dlx.releases import Release
from tests.differential import operations as ops
from tests.differential.fuzz import faults, management, situations, users
from tests.differential.fuzz.management import EFFECT
from tests.differential.fuzz.messages import EXPIRATIONS, headers, properties, sometimes
from tests.differential.fuzz.names import ODD_TAGS, TAGS
from tests.differential.fuzz.topologies import LENGTH_LIMITS, Topology, bindings, keys, policies, topologies
from tests.differential.fuzz.values import DECIMAL, plain, retyped
from tests.differential.wire import AGAIN
from tests.vectors.amqp import Field

GETTERS = ["a", "b"]  # connections that take messages by basic.get
PUBLISHER = "p"  # a channel with confirms
TRANSACTIONS = "t"
STEPS = 34
PROCESS_NAME = 200  # bytes of a quorum queue's name that a process can be called by, with its virtual host's
OFFSETS = ["first", "last", "next", 0, 2, Field("T", 1_700_000_000)]

Steps = list[ops.Operation]


class Drawing:
    """What the strategies of one script share: the topology, and which channels hold deliveries."""

    def __init__(self, release: Release, topology: Topology, deadly: bool, rejections: bool) -> None:
        self.release, self.topology = release, topology
        self.deadly, self.rejections = deadly, rejections
        self.queues = topology.names
        self.bindings = [*topology.bindings]
        self.consumers: list[tuple[str, str]] = []  # channel, tag
        self.holders = {f"a/{topology.names[0]}"}  # channels that may have deliveries
        self.policies: list[ops.SetPolicy] = []
        self.published = 0
        self.repeated = False  # whether a message has a field twice, of which the management API would show the second
        self.users = False  # whether the one with limited permissions is there
        self.filled: list[str] = []  # where messages probably are
        self.rarities = 0  # how often anything rare has happened
        self.requesters = 0  # how many have asked for direct replies

    def fill(self, queue: str) -> None:
        """A message goes to this queue, and later perhaps to where its dead letters go."""
        arguments = next((each.arguments for each in self.topology.queues if each.queue == queue), {})
        after = arguments.get("x-dead-letter-routing-key")
        self.filled = [*self.filled[-6:], queue, *([after] if after in self.stores else [])]

    @property
    def promising(self) -> list[str]:
        """The queues to get from: those that probably have something more often."""
        silent = [each.queue for each in self.topology.queues if _single_active_quorum(each)]
        found = self.stores + [queue for queue in self.filled if queue in self.stores] * 3
        return [queue for queue in found if queue not in silent] or found

    @property
    def modern(self) -> bool:
        """Whether consumers may use the tags of those cancelled: until 3.12 quorum queues confuse the two."""
        return self.release.death_history == "annotations"

    @property
    def stores(self) -> list[str]:
        """The queues that basic.get works on, or all if there are streams only."""
        return [name for name in self.queues if name not in self.topology.streams] or self.queues

    def reached(self, exchange: str) -> set[str]:
        """The queues that an exchange may route to, whatever the key."""
        seen, ahead, found = set[str](), [exchange], set[str]()
        alternates = {e.exchange: e.arguments.get("alternate-exchange") for e in self.topology.exchanges}
        while ahead:
            here = ahead.pop()
            if here in seen:
                continue
            seen.add(here)
            alternate = alternates.get(here)
            ahead += [] if alternate is None else [alternate]
            for binding in self.bindings:
                if isinstance(binding, ops.BindExchange) and binding.source == here:
                    ahead.append(binding.destination)
                elif isinstance(binding, ops.Bind) and binding.exchange == here:
                    found.add(binding.queue)
        return found

    def bound_keys(self, exchange: str) -> st.SearchStrategy[str]:
        """Routing keys that mean something to the exchange, and others."""
        bound = [binding.routing_key for binding in self.bindings if _source(binding) == exchange]
        matching = [key.replace("#", "k").replace("*", "k") for key in bound]
        return st.sampled_from(matching * 3) | keys(self.queues) if matching else keys(self.queues)

    def overtakes_itself(self, exchange: str, key: str, headers: dict[str, Any] | None, expires: bool) -> bool:
        """Whether a message may reach a quorum queue both directly and as a dead letter, or any as two dead letters."""
        copies = [each for name in ("CC", "BCC") for each in _texts((headers or {}).get(name))]
        reached = {key, *copies} if not exchange else self.reached(exchange)
        queues = [queue for queue in self.topology.queues if queue.queue in reached]
        deadly = [queue for queue in queues if _kills_at_once(queue, expires, self.policies)]
        behind = [{each.queue for each in self.behind(queue)} for queue in deadly]
        meet = any(one & other for one, other in combinations(behind, 2))
        return meet or (bool(deadly) and len(queues) > 1 and "quorum" in map(_kind, queues))

    @property
    def repeats(self) -> bool:
        """Whether a field may stand in a table twice, and nothing but the header itself tells that it did.

        A stream may leave out the first one only, a limit in bytes counts both, and from 3.13 on the second is what a
        headers exchange matches.
        """
        in_bytes = any("x-max-length-bytes" in queue.arguments for queue in self.topology.queues)
        in_bytes |= any("max-length-bytes" in policy.definition for policy in self.policies)
        matched = self.modern and any(exchange.type == "headers" for exchange in self.topology.exchanges)
        return not self.topology.streams and not in_bytes and not matched

    @property
    def harmless(self) -> bool:
        """Whether an x-death may hold other things than tables.

        A worker for at-least-once of 3.10 dies of it, and takes those of all other queues along.
        """
        return self.release.name != "3.10" or not self.topology.at_least_once

    @property
    def unhurried(self) -> list[str]:
        """The queues that a client may publish to without waiting.

        A quorum queue that rejects tells it when it can, and a stream makes chunks as they come.
        """
        rejecting = any("overflow" in policy.definition for policy in self.policies)
        steady = [queue for queue in self.topology.queues if not _has_own_pace(queue, rejecting)]
        return [queue.queue for queue in steady if not self.overtakes_others(queue)]

    def overtakes_others(self, queue: ops.DeclareQueue) -> bool:
        """Whether of messages that follow each other one may die in a second queue while another dies in the first.

        Which of the two comes first to a third queue, or back to the first, is left to chance.
        """
        return self.kills(queue) and any(map(self.kills, self.behind(queue)))

    def kills(self, queue: ops.DeclareQueue) -> bool:
        """Whether a queue may let a message die when it comes."""
        return _kills_at_once(queue, expires=False, policies=self.policies)

    def behind(self, queue: ops.DeclareQueue) -> list[ops.DeclareQueue]:
        """The queues that its dead letters may come to: any, if a policy says where."""
        if any("dead-letter-exchange" in policy.definition for policy in self.policies):
            return self.topology.queues
        exchange = queue.arguments.get("x-dead-letter-exchange")
        key = queue.arguments.get("x-dead-letter-routing-key", queue.queue)
        reached = set() if exchange is None else self.reached(exchange) if exchange else {key}
        return [each for each in self.topology.queues if each.queue in reached]


def _source(binding: ops.Bind | ops.BindExchange) -> str:
    return binding.exchange if isinstance(binding, ops.Bind) else binding.source


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _kind(queue: ops.DeclareQueue) -> str:
    return str(queue.arguments.get("x-queue-type", "classic"))


def _kills_at_once(queue: ops.DeclareQueue, expires: bool, policies: list[ops.SetPolicy]) -> bool:
    """Whether a queue may let a message die when it comes."""
    arguments = queue.arguments
    short = plain(arguments.get("x-message-ttl")) == 0 or bool(LENGTH_LIMITS & {name[2:] for name in arguments})
    by_policy = any({"message-ttl", *LENGTH_LIMITS} & set(policy.definition) for policy in policies)
    return _kind(queue) != "stream" and (expires or short or by_policy)


def _single_active_quorum(queue: ops.DeclareQueue) -> bool:
    return _kind(queue) == "quorum" and "x-single-active-consumer" in queue.arguments


def _has_own_pace(queue: ops.DeclareQueue, rejecting: bool) -> bool:
    kind = _kind(queue)
    rejects = rejecting or queue.arguments.get("x-overflow") == "reject-publish"
    return kind == "stream" or (kind == "quorum" and rejects)


def _comes_again(queue: ops.DeclareQueue) -> bool:
    """Whether the queue may be declared again after it was deleted."""
    return _kind(queue) == "classic" or (_kind(queue) == "quorum" and len(queue.queue.encode()) <= PROCESS_NAME)


@st.composite
def publishes(draw: st.DrawFn, drawing: Drawing, queue: str = "") -> Steps:
    """A publish: to that queue, or any, or through an exchange."""
    exchanges = [] if queue else [each.exchange for each in drawing.topology.exchanges]
    exchange = draw(st.sampled_from(["", "", "", *exchanges]))
    key = draw(st.sampled_from([queue] if queue else drawing.queues) if not exchange else drawing.bound_keys(exchange))
    drawing.published += 1
    body = f"{drawing.published}" + "." * draw(st.sampled_from([0, 0, 0, 7, 40]))
    having = draw(properties(EXPIRATIONS if drawing.deadly else EXPIRATIONS[-2:]))
    saying = draw(headers(drawing.queues, drawing.rejections, drawing.repeats, drawing.harmless))
    drawing.repeated |= AGAIN in repr(saying)
    if drawing.overtakes_itself(exchange, key, saying, having.get("expiration") == "0"):
        exchange, key = "", draw(st.sampled_from(drawing.queues))
        saying = {name: value for name, value in (saying or {}).items() if name not in ("CC", "BCC")}
    if not drawing.topology.streams and draw(st.integers(0, 19)) == 0:  # in a stream they crash a 3.10 server's worker
        saying = (saying or {}) | {"d": DECIMAL}
    for reached in sorted(drawing.reached(exchange)) if exchange else [key]:
        drawing.fill(reached)
    mandatory = draw(st.integers(0, 9)) == 0
    channel = draw(st.sampled_from([PUBLISHER] * 8 + ["a"]))
    return [ops.Publish(key, exchange, body, having, saying, mandatory, channel=channel)]


@st.composite
def gets(draw: st.DrawFn, drawing: Drawing) -> Steps:
    queue = draw(st.sampled_from(drawing.promising * 5 + drawing.topology.streams))
    channel = f"{draw(st.sampled_from([GETTERS[0], *GETTERS]))}/{queue}"
    drawing.holders.add(channel)
    no_ack = draw(st.integers(0, 6)) == 0
    return [ops.Get(queue, no_ack, channel=channel)] * draw(st.sampled_from([1, 1, 1, 2, 3]))


@st.composite
def consumes(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A consumer on a channel that has only those of its queue.

    One without acknowledgements has no prefetch: a quorum queue hears a little later that it may go on.
    """
    queue = draw(st.sampled_from(drawing.queues))
    channel = f"{draw(st.sampled_from('cd'))}/{queue}"
    tag = draw(st.sampled_from(TAGS * 5 + ODD_TAGS)) if drawing.modern else f"k{len(drawing.consumers)}"
    flags = {"no_ack": draw(st.integers(0, 7)) == 0, "exclusive": draw(st.integers(0, 19)) == 0}
    prefetch = 0 if flags["no_ack"] else draw(st.sampled_from([None, 1, 1, 2, 3]))
    priority = draw(sometimes(st.sampled_from([-1, 0, 2, 10]), 25))
    arguments: dict[str, Any] = {} if priority is None else {"x-priority": priority}
    drawing.consumers.append((channel, tag))
    drawing.holders.add(channel)
    if queue in drawing.topology.streams:
        prefetch = prefetch or 10
        arguments |= draw(sometimes(st.sampled_from(OFFSETS).map(lambda offset: {"x-stream-offset": offset}), 50, {}))
    arguments = draw(retyped(arguments))
    qos = [] if prefetch is None else [ops.Qos(prefetch, draw(st.integers(0, 11)) == 0, channel=channel)]
    return [*qos, ops.Consume(queue, tag, arguments=arguments, channel=channel, **flags)]


@st.composite
def settlements(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Answers to one delivery or to many, also to those answered before."""
    channel = draw(st.sampled_from(sorted(drawing.holders)))
    where: dict[str, Any] = {"channel": channel}
    requeue = draw(st.booleans()) or not drawing.rejections
    multiple = draw(st.integers(0, 3)) == 0
    if draw(st.booleans()):  # all that there are
        everything: dict[str, Any] = {"tag": 0, "multiple": True, **where}
        return [draw(st.sampled_from([ops.Ack(**everything), ops.Nack(requeue=requeue, **everything)]))]
    where["delivery"] = draw(st.sampled_from([-1, -1, -1, -2, 0, 1]))
    return [
        draw(
            st.sampled_from(
                [
                    ops.Ack(multiple=multiple, **where),
                    ops.Nack(multiple=multiple, requeue=requeue, **where),
                    ops.Nack(multiple=multiple, requeue=requeue, **where),
                    ops.Reject(requeue=requeue, **where),
                    ops.Reject(requeue=requeue, **where),
                ]
            )
        )
    ]


@st.composite
def returns(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Get a message, perhaps one published for it, and give it back or reject it, a few times over."""
    queue = draw(st.sampled_from(drawing.promising))
    before = draw(publishes(drawing, queue)) if draw(st.booleans()) else []
    requeue = draw(st.booleans()) or not drawing.rejections
    channel = f"{GETTERS[0]}/{queue}"
    drawing.holders.add(channel)
    answer = draw(st.sampled_from([ops.Nack, ops.Reject]))(requeue=requeue, channel=channel)
    return [*before, *[ops.Get(queue, channel=channel), answer] * draw(st.integers(1, 3))]


@st.composite
def endings(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A consumer, channel or connection goes away, or all its deliveries come back."""
    channel = draw(st.sampled_from(sorted(drawing.holders)))
    connection = channel.partition("/")[0]
    kinds: list[Steps] = [
        [ops.CloseChannel(channel=channel)],
        [ops.Recover(channel=channel)],
        [ops.CloseConnection(connection)],
        [ops.KillConnection(connection), EFFECT],
    ]
    at, tag = draw(st.sampled_from(drawing.consumers or [("", "")]))
    if at:
        kinds += [[ops.Cancel(tag, channel=at)]] * 2
    return draw(st.sampled_from(kinds))


@st.composite
def transactions(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Publishes and answers in a transaction that is committed or not.

    What is returned in one with publishes may overtake them on its way to a quorum queue, and may not.
    """
    where: dict[str, Any] = {"channel": TRANSACTIONS}
    publishing = bool(drawing.unhurried) and draw(st.booleans())
    target = draw(st.sampled_from(drawing.unhurried)) if publishing else ""
    source = draw(st.sampled_from(drawing.promising))
    inner: Steps = []
    for _ in range(draw(st.integers(1, 3))):
        drawing.published += 1
        if publishing and draw(st.booleans()):
            inner.append(ops.Publish(target, body=f"tx{drawing.published}", **where))
        else:
            requeue = not publishing and (draw(st.booleans()) or not drawing.rejections)
            answers: list[ops.Settlement] = [ops.Ack(**where)]
            if requeue or drawing.rejections:
                answers += [ops.Nack(requeue=requeue, **where), ops.Reject(requeue=requeue, **where)]
            answer = draw(st.sampled_from(answers))
            inner += [ops.Get(source, **where), answer]
    end = draw(st.sampled_from([ops.Commit(**where), ops.Commit(**where), ops.Rollback(**where)]))
    return [ops.SelectTransactions(**where), *inner, end]


@st.composite
def bursts(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Publishes to one queue without waiting between them."""
    queue = draw(st.sampled_from(drawing.unhurried or drawing.queues))
    number = draw(st.integers(2, 5)) if drawing.unhurried else 1
    first = drawing.published + 1
    drawing.fill(queue)
    drawing.published += number
    bodies = [f"b{first + i}" for i in range(number)]
    return [ops.Burst(tuple(ops.Publish(queue, body=body, channel=PUBLISHER) for body in bodies))]


@st.composite
def operators(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A policy is set, changed or cleared."""
    if drawing.policies and draw(st.integers(0, 2)) == 0:
        policy = draw(st.sampled_from(drawing.policies))
        return [ops.ClearPolicy(policy.name, policy.operator), EFFECT]
    policy = draw(policies(drawing.topology, drawing.release, drawing.deadly, drawing.rejections))
    if drawing.repeated:  # a limit in bytes would count what the simulator does not keep
        policy.definition = {"delivery-limit": 3} | policy.definition
        policy.definition.pop("max-length-bytes", None)
    drawing.policies.append(policy)
    return [policy, EFFECT]


@st.composite
def declarations(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Queues are purged, deleted, declared again or looked at; bindings and exchanges come and go.

    Nobody asks how many messages a stream has: a real server answers with what it knew some seconds ago. A quorum
    queue with a long name is not declared again: its process then has another name than channels remember, which get
    INTERNAL_ERROR (4.0, 4.3); the simulator does not do so.
    """
    queue = draw(st.sampled_from(drawing.topology.queues))
    on_other: dict[str, Any] = {"queue": queue.queue, "channel": "z"}
    binding = draw(bindings(drawing.topology.exchanges, drawing.queues))
    kinds: list[Steps] = [
        [ops.PurgeQueue(**on_other)],
        [ops.DeleteQueue(**on_other), EFFECT],
        [binding],
        [ops.DeleteExchange(draw(st.sampled_from(drawing.topology.exchanges)).exchange, channel="z")],
    ]
    if _comes_again(queue):
        kinds += [[ops.DeleteQueue(**on_other), EFFECT, queue], [queue]]
    if queue.queue not in drawing.topology.streams:
        kinds += [
            [ops.DeleteQueue(if_empty=True, **on_other), EFFECT],
            [ops.DeclareQueue(passive=True, **on_other)],
            [ops.Count(queue.queue)],
        ]
    return draw(st.sampled_from(kinds))


def _overtakes(drawing: Drawing, step: ops.Operation) -> bool:
    if not isinstance(step, ops.Publish):
        return False
    expires = "expiration" in (step.properties or {})
    return drawing.overtakes_itself(step.exchange, step.routing_key, step.headers, expires)


@st.composite
def refusals(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A client asks for what it may not get."""
    asked = draw(faults.steps(drawing.queues, drawing.topology.queues))
    return [each for each in asked if not _overtakes(drawing, each)]


@st.composite
def limited(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """The user with limited permissions tries something, or gets other permissions."""
    if not drawing.users:
        drawing.users = True
        return draw(users.arrives())
    tries = users.tries(drawing.queues, keys(drawing.queues), drawing.topology.streams)
    tried = draw(st.one_of(tries, tries, tries, tries, users.changes()))
    return [each for each in tried if not _overtakes(drawing, each)]


@st.composite
def requests(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Something through the management API."""
    expirations = EXPIRATIONS if drawing.deadly else EXPIRATIONS[-2:]
    binding = draw(bindings(drawing.topology.exchanges, drawing.queues))
    drawing.bindings.append(binding)
    kinds = [
        management.publishes(drawing.queues, expirations),
        waits(drawing) if drawing.repeated else management.gets(drawing.stores, drawing.rejections),
        management.declarations(drawing.topology.queues, drawing.topology.exchanges),
        management.bindings(binding),
        management.definitions(drawing.topology.queues),
        management.limits(),
    ]
    return draw(st.one_of(kinds[:2] + kinds))


@st.composite
def rarities(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A situation with queues of its own. A worker of at-least-once dead-lettering sends no answers here."""
    copied = [] if drawing.topology.at_least_once else drawing.unhurried
    kinds = [situations.lost_connections(), situations.answers(drawing.requesters + 1, copied)]
    if drawing.release.quorum_overflow:
        kinds.append(situations.full_commits(drawing.unhurried))
    if drawing.release.consumer_timeout_enforced_by == "queue":
        kinds.append(situations.late_consumers(drawing.rarities))
    kind = draw(st.sampled_from(kinds))
    drawing.rarities += 1
    drawing.requesters += kind is kinds[1]
    return [each for each in draw(kind) if not _overtakes(drawing, each)]


@st.composite
def waits(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Time passes."""
    return [ops.Wait(draw(st.sampled_from([100, 200, 300, 500, 700])))]


_WEIGHTS = [(publishes, 12), (bursts, 3), (gets, 4), (consumes, 2), (settlements, 6), (returns, 6), (endings, 2)]
_WEIGHTS += [(transactions, 1), (operators, 1), (declarations, 1), (refusals, 2), (limited, 2), (requests, 2)]
_WEIGHTS += [(waits, 4), (rarities, 2)]
_KINDS = st.sampled_from([kind for kind, weight in _WEIGHTS for _ in range(weight)])


@st.composite
def steps(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """One thing that happens, the frequent things more often."""
    return draw(draw(_KINDS)(drawing))


@st.composite
def scripts(draw: st.DrawFn, release: Release) -> tuple[ops.Operation, ...]:
    """A script for servers of a release."""
    both_safe = release.death_history == "annotations"
    rejections = both_safe or draw(st.booleans())
    deadly = both_safe or not rejections
    topology = draw(topologies(release, deadly, rejections))
    drawing = Drawing(release, topology, deadly, rejections)
    found: Steps = [ops.SelectConfirms(channel=PUBLISHER), *topology.exchanges, *topology.queues, *topology.bindings]
    for _ in range(draw(st.integers(8, STEPS))):
        found += (step := draw(steps(drawing)))
        drawing.bindings += [each for each in step if isinstance(each, ops.Bind | ops.BindExchange)]
    stores = [name for name in topology.names if name not in topology.streams]
    return (*found, *map(ops.ReadStream, topology.streams), *map(ops.Drain, stores))
