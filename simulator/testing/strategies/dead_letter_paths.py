"""The ways that dead letters take from queue to queue, and the exchanges and bindings that those need.

Dead letters come to a queue by its name through the default exchange, or through an exchange
of its own, such as ``to.orders``, which may lead to other queues, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import strategies as st

from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from dlx.topology import Binding, Exchange
from simulator.testing.strategies.building_blocks import NOWHERE
from simulator.testing.strategies.parts import EXCHANGE_TYPES, conditions

NO_EXCHANGE = "no such exchange"
NO_QUEUE = "no such queue"
SAME_KEY = "the same key"
"""Where dead letters go that are not led to a queue: what a target may be besides a queue's name."""

_ENTRY = "events"
_ENTRY_BINDINGS_MAX = 3
_ASTRAY = {
    NO_EXCHANGE: {DEAD_LETTER_EXCHANGE: NOWHERE},
    NO_QUEUE: {DEAD_LETTER_EXCHANGE: "", DEAD_LETTER_ROUTING_KEY: NOWHERE},
    SAME_KEY: {DEAD_LETTER_EXCHANGE: ""},
}


class DeadLetterPaths(msgspec.Struct, frozen=True):
    """Where each queue's dead letters go, and through which of the exchanges."""

    targets: Mapping[str, str | None]
    exchanges: list[Exchange]
    bindings: list[Binding]

    def settings(self, queue: str) -> dict[str, str]:
        """Return the settings for the queue's dead-letter exchange and routing key."""
        target = self.targets.get(queue)
        if target is None:
            return {}
        if target in _ASTRAY:
            return dict(_ASTRAY[target])
        through = next((each for each in self.exchanges if each.name == _leading_to(target)), None)
        name = "" if through is None else through.name
        if through is None or through.type == "direct":
            return {DEAD_LETTER_EXCHANGE: name, DEAD_LETTER_ROUTING_KEY: target}
        return {DEAD_LETTER_EXCHANGE: name}


@st.composite
def dead_letter_paths(
    draw: st.DrawFn, queues: tuple[str, ...], targets: Mapping[str, str | None], *, exchanges: bool, acyclic: bool
) -> DeadLetterPaths:
    """Draw ways to the targets, and perhaps an exchange that only publishers use.

    ``exchanges``: whether to draw any. ``acyclic``: apart from its target, an exchange leads only to later queues.
    """
    found = DeadLetterPaths(targets, [], [])
    if not exchanges:
        return found
    for target in [name for name in queues if name in targets.values()]:
        kind = draw(st.sampled_from(("", *EXCHANGE_TYPES)))
        if kind:
            others = queues[queues.index(target) + 1 :] if acyclic else queues
            found.exchanges.append(Exchange(name=_leading_to(target), type=kind))
            found.bindings.append(_always(kind, target, target))
            found.bindings.extend(draw(_besides(kind, target, others)))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(EXCHANGE_TYPES))
        found.exchanges.append(Exchange(name=_ENTRY, type=kind))
        found.bindings.extend(draw(_entries(kind, queues)))
    return found


def _leading_to(queue: str) -> str:
    return f"to.{queue}"


def _always(type: str, target: str, queue: str) -> Binding:
    """Return a binding of the target's exchange that every dead letter on that way takes."""
    routing_key = {"direct": target, "topic": "#"}.get(type, "")
    arguments = {"x-match": "all"} if type == "headers" else {}
    return Binding(source=_leading_to(target), destination=queue, routing_key=routing_key, arguments=arguments)


def _besides(type: str, target: str, queues: tuple[str, ...]) -> st.SearchStrategy[list[Binding]]:
    """Draw no further binding, or one, with which a dead letter becomes two."""
    others = [queue for queue in queues if queue != target]
    if not others:
        return st.just([])
    return st.lists(st.sampled_from(others), max_size=1).map(
        lambda chosen: [_always(type, target, queue) for queue in chosen]
    )


@st.composite
def _entries(draw: st.DrawFn, type: str, queues: tuple[str, ...]) -> list[Binding]:
    bound = draw(st.lists(st.sampled_from(queues), max_size=_ENTRY_BINDINGS_MAX, unique=True))
    found = []
    for queue in bound:
        routing_key, arguments = draw(conditions(type, queue))
        found.append(Binding(source=_ENTRY, destination=queue, routing_key=routing_key, arguments=arguments))
    return found
