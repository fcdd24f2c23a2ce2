"""One virtual host as immutable values: exchanges, queues, bindings, policies.

The names and defaults are those of ``definitions.json``. Nothing here decides
anything: ``dlx.settings`` resolves the settings of a queue, and ``dlx.routing``
finds where a message goes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.bounded_cache import BoundedCache
from dlx.field_values import same_on_wire

if TYPE_CHECKING:
    from dlx.binding_index import BindingIndex
    from dlx.releases import Release
    from dlx.routing import Routed

Arguments = Mapping[str, Any]

CLASSIC = "classic"
QUORUM = "quorum"
STREAM = "stream"


class Exchange(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An exchange. ``type`` is ``direct``, ``fanout``, ``topic``, ``headers`` or a plugin's name."""

    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = {}


class Queue(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A queue. ``type`` is ``classic``, ``quorum`` or ``stream``."""

    name: str
    type: str = CLASSIC
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Arguments = {}


class Binding(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A binding; ``destination_type`` is ``queue`` or ``exchange``."""

    source: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: Arguments = {}

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same binding: the types of arguments count, and their order does not."""
        if not isinstance(other, Binding):
            return NotImplemented
        if (self.source, self.destination, self.destination_type, self.routing_key) != (
            other.source, other.destination, other.destination_type, other.routing_key
        ):  # fmt: skip
            return False
        mine, theirs = self.arguments, other.arguments
        if not mine or not theirs:
            return not mine and not theirs
        return mine.keys() == theirs.keys() and all(same_on_wire(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        """Return a hash without the arguments, which have none, so that bindings can be in a set."""
        return hash((self.source, self.destination, self.destination_type, self.routing_key))


class Policy(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True, forbid_unknown_fields=True):
    """A policy or operator policy; ``pattern`` is an unanchored regular expression."""

    name: str
    pattern: str
    definition: Arguments
    apply_to: str = "all"
    priority: int | float = 0


class Topology(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True, dict=True):
    """Everything that one virtual host declares, by name. Treat the mappings as read-only.

    The default exchange and the ``amq.*`` exchanges exist in every virtual host;
    ``Topology.of`` adds them, since exports leave them out.
    """

    exchanges: Mapping[str, Exchange] = {}
    queues: Mapping[str, Queue] = {}
    bindings: Mapping[str, Collection[Binding]] = {}
    policies: tuple[Policy, ...] = ()
    operator_policies: tuple[Policy, ...] = ()

    @cached_property
    def indexes(self) -> dict[str, BindingIndex]:
        """The bindings of exchanges that have routed a message, by exchange: ``dlx.routing`` makes them.

        They are not part of the value: a changed copy has none. Code that changes ``bindings`` changes these, too.
        """
        return {}

    @cached_property
    def routes(self) -> dict[tuple[str, tuple[str, ...]], tuple[Release, Routed]]:
        """The queues that messages reached whose keys alone decide, by exchange and keys: ``dlx.routing`` finds them.

        As with ``indexes``, who changes anything in place empties it.
        """
        return BoundedCache()

    @classmethod
    def of(
        cls,
        *,
        exchanges: tuple[Exchange, ...] | list[Exchange] = (),
        queues: tuple[Queue, ...] | list[Queue] = (),
        bindings: tuple[Binding, ...] | list[Binding] = (),
        policies: tuple[Policy, ...] | list[Policy] = (),
        operator_policies: tuple[Policy, ...] | list[Policy] = (),
    ) -> Topology:
        """Index the parts by name and source, and add the exchanges every virtual host has."""
        by_source: dict[str, list[Binding]] = {}
        for binding in bindings:
            by_source.setdefault(binding.source, []).append(binding)
        return cls(
            exchanges={e.name: e for e in (*STOCK_EXCHANGES, *exchanges)},
            queues={q.name: q for q in queues},
            bindings={source: tuple(bound) for source, bound in by_source.items()},
            policies=tuple(policies),
            operator_policies=tuple(operator_policies),
        )

    def __repr__(self) -> str:
        """Return the call of ``Topology.of`` that makes the topology, if it has the exchanges that exist everywhere."""
        if any(self.exchanges.get(stock.name) != stock for stock in STOCK_EXCHANGES):
            return super().__repr__()
        parts = {
            "exchanges": [each for each in self.exchanges.values() if each not in STOCK_EXCHANGES],
            "queues": [*self.queues.values()],
            "bindings": [binding for bound in self.bindings.values() for binding in bound],
            "policies": [*self.policies],
            "operator_policies": [*self.operator_policies],
        }
        return f"Topology.of({', '.join(f'{name}={part!r}' for name, part in parts.items() if part)})"


STOCK_EXCHANGES = (
    Exchange(name="", type="direct"),
    Exchange(name="amq.direct", type="direct"),
    Exchange(name="amq.fanout", type="fanout"),
    Exchange(name="amq.topic", type="topic"),
    Exchange(name="amq.headers", type="headers"),
    Exchange(name="amq.match", type="headers"),
    Exchange(name="amq.rabbitmq.trace", type="topic", internal=True),
)
