"""One side of a question, as brokers take it: definitions under a release, and what is taken to be so of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dlx.delays import routing_type
from dlx.message_flow import MessageFlow
from dlx.releases import release
from dlx.server_plugins import AT_RANDOM, DELAYED
from dlx.settings import Settings
from dlx.topology import STREAM
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.whatif.differences import Side
from simulator.whatif.playback_broker import PlaybackBroker, QueueRef
from simulator.whatif.settings_given import OPERATOR_POLICY
from simulator.whatif.stories import Story

_OF_CONSUMERS = ("x-single-active-consumer", "x-expires")


class Clocks(NamedTuple):
    """What a side does by itself after some time, or by chance.

    Attributes:
        ttls_us: the TTLs of queues.
        others: queues that look at the clock in another way: messages there are played by themselves.
        at_random: virtual hosts in which an exchange chooses at random or delays messages: each message there is played
            by itself.
        holding_us: so long a consumer may hold a delivery that no timeout ends; ``None``: for ever.
    """

    ttls_us: Mapping[QueueRef, int]
    others: frozenset[QueueRef]
    at_random: frozenset[str]
    holding_us: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Clocks:
        """Return those of a side."""
        settings = {(vhost, each.queue.name): each for vhost, each in snapshot.queues()}
        ttls_us = {queue: 1_000 * each.message_ttl_ms for queue, each in settings.items() if each.message_ttl_ms}
        others = (queue for queue, each in settings.items() if _has_a_clock_of_its_own(each))
        at_random = (vhost for vhost, flow in snapshot.flows.items() if _chooses_or_delays(flow))
        timeouts_ms = [snapshot.release.consumer_timeout_ms, *(each.consumer_timeout_ms for each in settings.values())]
        # A queue's clock counts milliseconds.
        holding_us = min((1_000 * (each - 1) for each in timeouts_ms if each is not None), default=None)
        return cls(ttls_us, frozenset(others), frozenset(at_random), holding_us)

    def is_held_too_long(self, story: Story) -> bool:
        """Tell whether a consumer held the message so long that a timeout may have ended that."""
        may_us = self.holding_us
        return may_us is not None and any(each.until_us - each.at_us >= may_us for each in story.deliveries)


def _has_a_clock_of_its_own(settings: Settings) -> bool:
    return settings.message_ttl_ms == 0 or settings.delayed_retry is not None or settings.queue.type == STREAM


def _chooses_or_delays(flow: MessageFlow) -> bool:
    return any(each.type == DELAYED or routing_type(each) in AT_RANDOM for each in flow.topology.exchanges.values())


@dataclass(frozen=True)
class PreparedSide:
    """A side as brokers take it.

    Attributes:
        side: the definitions and the release.
        snapshot: the definitions as a broker of that release takes them.
        document: what the reruns import.
        notes: what is taken to be so, in sentences.
    """

    side: Side
    snapshot: Snapshot
    document: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def only_vhost(self) -> str | None:
        """The virtual host for every row of a log, where the definitions do not name theirs."""
        definitions = self.side.definitions
        return None if definitions.vhost_named else definitions.vhosts[0]

    @property
    def flows(self) -> Mapping[str, MessageFlow]:
        """What the rules say of each virtual host."""
        return self.snapshot.flows

    @cached_property
    def clocks(self) -> Clocks:
        """What brokers of this side do by themselves after some time."""
        return Clocks.of(self.snapshot)

    @cached_property
    def broker(self) -> PlaybackBroker:
        """A broker of this side, on which stories are played."""
        broker = self.snapshot.broker
        # An experiment takes a single behaviour of another release, which that broker does not know.
        same = self.document == self.snapshot.document and broker.release == self.side.release
        return PlaybackBroker(self.document, self.side.release, broker if same else None)

    @cached_property
    def second_broker(self) -> PlaybackBroker:
        """Another one, for a run at the same time."""
        return PlaybackBroker(self.document, self.side.release)


def prepared(side: Side) -> PreparedSide:
    """Return a side as brokers take it.

    Raises:
        DefinitionsError: the broker refuses the whole document.
    """
    snapshot = Snapshot(side.definitions, side.release)
    refused = [
        f"{each.about}, which an import into RabbitMQ {side.release.name} refuses: {each.why} ({each.consequence})"
        for each in snapshot.refused
    ]
    notes = (*refused, *snapshot.guesses, *_of_consumers(snapshot))
    return PreparedSide(side, snapshot, assumed_in_use(snapshot.document), notes)


def _of_consumers(snapshot: Snapshot) -> Iterator[str]:
    """Say where it matters whether consumers are there, which a log does not show."""
    for _, settings in snapshot.queues():
        name = settings.queue.name
        if settings.message_ttl_ms == 0 or settings.max_length == 0:
            yield f"whether a consumer waits when a message comes into '{name}', which keeps none: here none does"
        if settings.expires_ms is not None:
            yield f"whether '{name}' is deleted because it is unused for {settings.expires_ms:,} ms: here it stays"


def side_of(definitions: Definitions, rules: str) -> Side:
    """Return definitions under a release. Raises ``UnknownReleaseError``."""
    return Side(definitions, release(rules))


def assumed_in_use(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export in which one consumer is enough for a queue, and no queue deletes itself."""
    of_section = {"queues": _queue, "policies": _policy, "parameters": _parameter}
    changed = {name: list(map(of_one, document[name])) for name, of_one in of_section.items() if name in document}
    return {**document, **changed}


def _queue(queue: Mapping[str, Any]) -> dict[str, Any]:
    arguments = queue.get("arguments") or {}
    kept = {key: value for key, value in arguments.items() if key not in _OF_CONSUMERS}
    return {**queue, "arguments": kept, "auto_delete": False}


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    definition = policy.get("definition") or {}
    kept = {key: value for key, value in definition.items() if key != "expires"}
    return {**policy, "definition": kept}


def _parameter(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    if parameter.get("component") != OPERATOR_POLICY:
        return parameter
    return {**parameter, "value": _policy(parameter["value"])}
