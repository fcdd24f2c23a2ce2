"""Virtual hosts: exchanges, bindings, queues, policies, shovels, and the counters that management shows of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dlx.message_flow import MessageFlow
from dlx.shovels import ShovelDefinition, read_shovel
from dlx.topology import Binding, Exchange, Policy, Queue, Topology

if TYPE_CHECKING:
    from dlx.binding_index import BindingIndex
    from dlx.message import Message
    from dlx.releases import Release
    from dlx.settings import Settings
    from simulator.broker.state.clients import Channel
    from simulator.broker.state.queues import QueueState


@dataclass(slots=True)
class Counters:
    """The counts since the broker started or they were reset; the management API calls them message_stats.

    ``publish_out`` is an exchange's: how many times a publish to it entered a queue.
    """

    publish: int = 0
    publish_out: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    ack: int = 0
    redeliver: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    drop_unroutable: int = 0

    def reset(self) -> None:
        """Count from zero again: routes that are remembered keep this very object."""
        for each in fields(self):
            setattr(self, each.name, 0)


@dataclass(slots=True, eq=False, repr=False)
class Shovel:
    """A shovel. ``value`` is its parameter.

    ``source`` and ``destination`` are its channels while it runs; ``state`` is as RabbitMQ names it, and ``reason``
    says why it has terminated. ``since_us``: when it came into its state; ``left``: how many messages until it ends;
    ``forwarded``: how many it has published since it started; ``refused``: delivery tags of messages that the
    destination has refused, which go back a little later; ``starts_us``: when it connects again; ``restarted``:
    whether it has failed once, and was started again at once.
    """

    vhost: str
    name: str
    value: dict[str, Any]
    state: Literal["starting", "running", "terminated"] = "starting"
    reason: str = ""
    since_us: int = 0
    source: Channel | None = None
    destination: Channel | None = None
    queue: str = ""
    left: int | None = None
    refused: list[int] = field(default_factory=list)
    forwarded: int = 0
    starts_us: int | None = None
    restarted: bool = False

    @property
    def definition(self) -> ShovelDefinition:
        """What the parameter says."""
        return read_shovel(self.value)


class VirtualHost(msgspec.Struct, eq=False):
    """One virtual host.

    ``bindings`` are ordered sets by source; ``bound_to`` has the same ones by type and name of their destination.
    ``topology`` shows the rules the same dictionaries (``definitions`` are its queues), and has the
    indexes of the bindings; ``show_policies`` renews it. ``generation`` counts what changes routes,
    settings or permissions, so that whoever remembers a result knows it is stale.
    ``known_flow`` is such a result, with its generation. ``limits`` are ``None`` until some are set, and so is
    ``protected_from_deletion``. ``histories`` has, by x-recent-history exchange, the messages that it keeps with
    their bodies, the oldest first.
    """

    name: str
    default_queue_type: str | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    exchanges: dict[str, Exchange] = msgspec.field(default_factory=dict)
    bindings: dict[str, dict[Binding, None]] = msgspec.field(default_factory=dict)
    bound_to: dict[tuple[str, str], dict[Binding, None]] = msgspec.field(default_factory=dict)
    queues: dict[str, QueueState] = msgspec.field(default_factory=dict)
    policies: dict[str, Policy] = msgspec.field(default_factory=dict)
    operator_policies: dict[str, Policy] = msgspec.field(default_factory=dict)
    shovels: dict[str, Shovel] = msgspec.field(default_factory=dict)
    limits: dict[str, int] | None = None
    tracing: bool = False
    protected_from_deletion: bool | None = None
    routes_at_random: bool = False
    definitions: dict[str, Queue] = msgspec.field(default_factory=dict)
    topology: Topology = msgspec.field(default_factory=Topology)
    generation: int = 0
    exchange_counters: dict[str, Counters] = msgspec.field(default_factory=dict)
    histories: dict[str, list[tuple[Message, bytes]]] = msgspec.field(default_factory=dict)
    known_flow: tuple[int, MessageFlow] | None = None

    @property
    def remembers_routes(self) -> bool:
        """Whether a message goes where one like it went: not by chance, and without being kept in a history."""
        return not (self.routes_at_random or self.histories)

    def show_policies(self) -> None:
        """Show the rules the policies as they are now; everything else they see as it changes."""
        indexes = self.topology.indexes
        self.topology = Topology(
            exchanges=self.exchanges,
            queues=self.definitions,
            bindings=self.bindings,
            policies=tuple(self.policies.values()),
            operator_policies=tuple(self.operator_policies.values()),
        )
        self.topology.indexes.update(indexes)
        self.generation += 1

    def changed(self) -> None:
        """Drop what is cached of it: something changed that decides routes or settings."""
        self.generation += 1
        self.topology.routes.clear()

    def own_index(self, exchange: str) -> BindingIndex | None:
        """Return the index of an exchange's bindings, to change it; one that others use, too, is given up."""
        indexes = self.topology.indexes
        index = indexes.get(exchange)
        if index is not None and index.shared:
            del indexes[exchange]
            return None
        return index

    def flow(self, release: Release) -> MessageFlow:
        """Return what can become of messages here, as the virtual host is now: keep it for one question only."""
        known = self.known_flow
        if known is None or known[0] != self.generation:
            flow = MessageFlow(self.topology, release, settings_of=self._settings_of)
            self.known_flow = known = self.generation, flow
        return known[1]

    def _settings_of(self, queue: str) -> Settings:
        return self.queues[queue].settings

    def counters_of(self, exchange: str) -> Counters:
        """Return the counters of an exchange."""
        known = self.exchange_counters.get(exchange)
        if known is None:
            known = self.exchange_counters[exchange] = Counters()
        return known
