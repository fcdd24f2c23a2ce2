"""What an operator asks first of a full dead-letter queue: what a running server shows of it, and of the way to it."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from dlx.delivery_counts import Counts, limit_exceeded, returned
from dlx.message_flow import MessageFlow
from dlx.topology import QUORUM
from simulator.analysis.findings import Finding
from simulator.analysis.lint.linting import findings_about, in_order
from simulator.capture import CaptureUnavailable
from simulator.redrive.bring_back import Pace, would_die
from simulator.redrive.groups import first_death
from simulator.redrive.how_to_peek import PeekPlan
from simulator.redrive.plan import Planned, RedriveOptions, RedrivePlanner
from simulator.redrive.server import (
    QueueOnServer,
    ServerAddress,
    held_by_queue,
    held_now,
    queues_shown,
    ready_in,
    shown_by_api,
)
from simulator.redrive.waiting import WaitingMessage

SAMPLE = 200
"""So many messages are read where a read harms none of them."""
COUNTED_SAMPLE = 20
"""So many are read where the delivery limit counts each read."""
LIMIT_MIN = 10
"""Below this delivery limit nothing is read that it counts: a few reads would kill messages."""
CANARIES = 5
_LOOKS_BACK_S, _STEP_S, _LATELY_S = 600, 10, 60
_SEE_ALL = frozenset({"administrator", "monitoring"})


# What is in the queue, and how fast it grows


class Growth(msgspec.Struct, frozen=True):
    """How the length of a queue has changed, as the server has recorded it.

    Attributes:
        messages: by how many messages, over ``seconds``.
        lately: by how many over the last ``lately_seconds`` of that.
    """

    messages: int
    seconds: int
    lately: int
    lately_seconds: int


class Length(msgspec.Struct, frozen=True):
    """How many messages a queue has; where only the management API says so, as it knew some seconds ago.

    Attributes:
        ready, unacknowledged: for consumers, and with them.
        held: dead letters of the queue that wait in it, since no queue has taken them.
        growth: ``None`` where the server keeps no record of it.
    """

    ready: int
    unacknowledged: int
    held: int
    growth: Growth | None = None

    @property
    def messages(self) -> int:
        """All of them."""
        return self.ready + self.unacknowledged + self.held

    @property
    def still_grows(self) -> bool:
        """Whether messages came lately, more than went."""
        return self.growth is not None and self.growth.lately > 0


def length_of(server: ServerAddress, queue: str) -> Length:
    """Return how many messages a queue has, those that are ready as AMQP counts them. Raises ``CaptureUnavailable``."""
    vhost, name = quote(server.vhost, safe=""), quote(queue, safe="")
    samples = f"lengths_age={_LOOKS_BACK_S}&lengths_incr={_STEP_S}"
    found = _length(shown_by_api(server, f"queues/{vhost}/{name}?{samples}"))
    if server.amqp_url is None:
        return found
    with suppress(CaptureUnavailable):  # the user may not use AMQP there
        return msgspec.structs.replace(found, ready=ready_in(server, queue))
    return found


def lengths_of(server: ServerAddress, queues: Collection[str]) -> dict[str, Length]:
    """Return how many messages each of these queues has. Raises ``CaptureUnavailable``."""
    return {each["name"]: _length(each) for each in queues_shown(server) if each["name"] in queues}


def _length(shown: dict[str, Any]) -> Length:
    ready, unacknowledged, held = (shown.get(f"messages_{name}", 0) for name in ("ready", "unacknowledged", "dlx"))
    return Length(ready, unacknowledged, held, _growth((shown.get("messages_details") or {}).get("samples") or ()))


def _growth(samples: Sequence[dict[str, int]]) -> Growth | None:
    """Return the growth between samples, of which the newest comes first."""
    if len(samples) < 2:
        return None
    now, first = samples[0], samples[-1]
    before = samples[min(len(samples) - 1, _LATELY_S // _STEP_S)]
    (grown, seconds), (lately, lately_seconds) = (
        (now["sample"] - then["sample"], (now["timestamp"] - then["timestamp"]) // 1_000) for then in (first, before)
    )
    return Growth(grown, seconds, lately, lately_seconds)


# How many messages may be read


def counts_reads(how: PeekPlan) -> bool:
    """Return whether the queue's delivery limit counts each read, so that reading often enough kills messages."""
    settings = how.settings
    if settings.queue.type != QUORUM or settings.delivery_limit is None:
        return False
    after = returned(Counts(acquired=0, delivery=0), how.gives_back, how.release)
    return limit_exceeded(after, 0, how.release)


def sample_of(how: PeekPlan, consumers: int) -> int:
    """Return how many messages to read where nobody has said how many; 0 where that may kill one.

    ``consumers``: of the queue: they may have returned its messages nearly as often as its limit allows.
    """
    if not counts_reads(how):
        return SAMPLE
    limit = how.settings.delivery_limit or 0
    return 0 if consumers or limit < LIMIT_MIN else COUNTED_SAMPLE


# The way to the queue


def leading_to(flow: MessageFlow, queue: str, messages: Iterable[WaitingMessage] = ()) -> list[str]:
    """Return the queues whose dead letters may come to a queue, over others, too; first those where its messages died.

    A queue that sends dead letters to the queue of their own routing key counts only where a message shows it.
    """
    died = (death.queue for message in messages for death in message.deaths.deaths)
    found = dict.fromkeys(name for name in died if name in flow.topology.queues and name != queue)
    before: defaultdict[str, list[str]] = defaultdict(list)
    for name in flow.topology.queues:
        settings = flow.settings(name)
        if settings.dead_letter_exchange != "" or settings.dead_letter_routing_key is not None:
            for target in flow.possible_targets(name):
                before[target].append(name)
    ahead = deque([queue, *found])
    while ahead:
        new = [name for name in before[ahead.popleft()] if name != queue and name not in found]
        found.update(dict.fromkeys(new))
        ahead += new
    return list(found)


def findings_on_the_way(on_server: QueueOnServer, queues: Iterable[str]) -> list[Finding]:
    """Return what lint finds about these queues, certain losses first. Raises ``DefinitionsError``."""
    snapshot = on_server.snapshot
    vhost = next(name for name, flow in snapshot.flows.items() if flow is on_server.flow)
    found = findings_about(snapshot.definitions, on_server.release, [(vhost, queue) for queue in queues])
    return in_order(each for about in found.values() for each in about)


# Who consumes


class QueueConsumer(msgspec.Struct, frozen=True):
    """A consumer that is connected.

    Attributes:
        queue, tag, prefetch: what it consumes, and how; a prefetch of 0 has no bound.
        client: what its connection calls itself, or its library.
        since: when that connected.
    """

    queue: str
    tag: str
    prefetch: int
    client: str
    since: datetime | None


def consumers_on(server: ServerAddress) -> list[QueueConsumer]:
    """Return the consumers in the virtual host that the user may see. Raises ``CaptureUnavailable``."""
    vhost = quote(server.vhost, safe="")
    connections = {each.get("name"): each for each in shown_by_api(server, f"vhosts/{vhost}/connections")}
    return [_consumer(each, connections) for each in shown_by_api(server, f"consumers/{vhost}")]


def _consumer(shown: dict[str, Any], connections: dict[Any, dict[str, Any]]) -> QueueConsumer:
    name = str((shown.get("channel_details") or {}).get("connection_name", ""))
    connection = connections.get(name, {})
    library = connection.get("client_properties") or {}
    known = " ".join(str(library[part]) for part in ("product", "version") if part in library)
    client = connection.get("user_provided_name") or library.get("connection_name") or known or name
    at_ms = connection.get("connected_at")
    since = datetime.fromtimestamp(at_ms / 1_000, UTC) if isinstance(at_ms, int) else None
    return QueueConsumer(
        shown["queue"]["name"], str(shown["consumer_tag"]), int(shown.get("prefetch_count") or 0), str(client), since
    )


def sees_all_clients(server: ServerAddress) -> bool:
    """Return whether the user may see the connections of others. Raises ``CaptureUnavailable``."""
    tags = shown_by_api(server, "whoami").get("tags") or ()
    return bool(_SEE_ALL & set(tags.split(",") if isinstance(tags, str) else tags))


def amqp_ports(server: ServerAddress) -> dict[str, int]:
    """Return the ports of AMQP that the server shows this user, by ``amqp`` and ``amqps``."""
    shown = shown_by_api(server, "overview").get("listeners") or ()
    schemes = {"amqp": "amqp", "amqp/ssl": "amqps"}
    return {schemes[each["protocol"]]: each["port"] for each in shown if each["protocol"] in schemes}


# What a redrive would do, and what to do next


class Foreseen(msgspec.Struct, frozen=True):
    """Messages that a redrive would treat alike.

    Attributes:
        messages: how many.
        fate: what becomes of them, in words.
        queues: where they are in the end.
        why: by which rule.
        goes: whether ``dlx redrive --execute`` moves them.
        example: the id of one.
    """

    messages: int
    fate: str
    queues: tuple[str, ...]
    why: str
    goes: bool
    example: str


def planned_now(
    server: ServerAddress, on_server: QueueOnServer, messages: Iterable[WaitingMessage]
) -> tuple[list[Planned], RedrivePlanner]:
    """Return what a redrive to where they died would do with each message. Raises ``CaptureUnavailable``."""
    try:
        held = held_by_queue(server) if server.amqp_url is None else held_now(server, on_server)
    except CaptureUnavailable:  # the user may not use AMQP there
        held = held_by_queue(server)
    planner = RedrivePlanner(on_server.flow, held, RedriveOptions(), of_plugins=on_server.of_plugins)
    pace = Pace(canary=CANARIES)
    return [
        planner.planned(message, exceeds_limit=would_die(on_server, message, pace)) for message in messages
    ], planner


def together(planned: Iterable[Planned]) -> list[Foreseen]:
    """Return what would become of messages, by groups: first what would stay, then the larger ones."""
    alike: defaultdict[tuple[str, tuple[str, ...], str, bool], list[str]] = defaultdict(list)
    for each in planned:
        why = "; ".join(filter(None, [each.fate.why, *map(str, each.fate.future.worse[:1])]))
        alike[each.fate.kind.value, each.fate.queues, why, each.goes].append(each.message.id)
    found = [Foreseen(len(ids), kind, queues, why, goes, ids[0]) for (kind, queues, why, goes), ids in alike.items()]
    return sorted(found, key=lambda each: (each.goes, -each.messages))


class NextStep(msgspec.Struct, frozen=True):
    """What to do next.

    Attributes:
        why: in sentences.
        command: of ``dlx``; empty where there is none to run.
        options: of that command, behind the URL and the queue.
        cost: what it did to the queue to find that out, in a sentence.
    """

    why: str
    command: str = ""
    options: tuple[str, ...] = ()
    cost: str = ""


def next_step(planned: Sequence[Planned], planner: RedrivePlanner, length: Length) -> NextStep:
    """Return what to do about messages of which this is planned, in a queue of that length."""
    if not planned:
        if length.unacknowledged:
            return NextStep("Consumers hold all its messages: ask those, or stop them, and look again.")
        return NextStep("There is nothing to bring back.")
    going = [each for each in planned if each.goes]
    if not going:
        for each in planned:
            instead = planner.instead_of(each)
            if instead is not None and instead.option:
                why = "At another address they are not lost if they die again. This says what would happen there:"
                return NextStep(why, "redrive", tuple(shlex.split(instead.option)))
        return NextStep("None of them would move. This says why, for each kind of message:", "redrive")
    options = tuple(_only_largest(planned, going))
    if length.still_grows:
        return NextStep(
            "It still grows: mend what kills the messages first, or they come back."
            " This says what a redrive would do, and moves nothing:",
            "redrive",
            options,
        )
    why = f"This moves {CANARIES} messages, and goes on if none of them comes back:"
    return NextStep(why, "redrive", (*options, "--canary", str(CANARIES), "--execute"))


def _only_largest(planned: Sequence[Planned], going: Sequence[Planned]) -> Iterator[str]:
    """Yield the options that choose the largest group by first death of those that go, where there are others."""
    sizes = Counter(first_death(each.message) for each in going)
    ((largest, _),) = sizes.most_common(1)
    if any(first_death(each.message) != largest for each in planned):
        yield from ("--only", f"first-death={largest}")
