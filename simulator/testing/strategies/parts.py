"""The parts of a topology, each drawn by itself: queues, exchanges, bindings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from dlx.releases import DEFAULT, Release
from dlx.topology import CLASSIC, QUORUM, STREAM, Arguments, Binding, Exchange, Queue
from simulator.testing.strategies.argument import queue_arguments, types_had
from simulator.testing.strategies.building_blocks import (
    NOWHERE,
    checked_choice,
    checked_names,
    checked_release,
    first_names,
)

QUEUE_TYPES = (CLASSIC, QUORUM, STREAM)
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")


def queues(
    *,
    names: Collection[str] = first_names(4),
    types: Collection[str] = QUEUE_TYPES,
    release: Release | str = DEFAULT,
    exchange_names: Collection[str] = ("", "dlx", NOWHERE),
) -> st.SearchStrategy[Queue]:
    """Draw durable queues, as the release declares them.

    Args:
        names: the names to draw from; they are the dead-letter routing keys, too.
        types: of ``classic``, ``quorum``, ``stream``; those that the release lacks are left out.
        release: a release or its name.
        exchange_names: the dead-letter exchanges to draw from.
    """
    rules = checked_release(release)
    known = checked_names("names", names)
    kinds = checked_types(types, rules)
    drawn = partial(queue_arguments, release=rules, exchange_names=exchange_names, routing_keys=known)
    return _queues(known, {kind: drawn(type=kind) for kind in kinds})


def checked_types(types: Collection[str], release: Release) -> tuple[str, ...]:
    """Return the types of queues among ``types`` that the release has. Raise ``InvalidArgument`` if it has none."""
    named = checked_choice("types", checked_names("types", types), QUEUE_TYPES)
    found = tuple(kind for kind in named if kind in release.queue_types)
    if not found:
        raise InvalidArgument(f"types={types!r}: {types_had(release)}")
    return found


@st.composite
def _queues(draw: st.DrawFn, names: tuple[str, ...], arguments: Mapping[str, st.SearchStrategy[Arguments]]) -> Queue:
    kind = draw(st.sampled_from(tuple(arguments)))
    return Queue(name=draw(st.sampled_from(names)), type=kind, arguments=draw(arguments[kind]))


def exchanges(
    *, names: Collection[str] = ("dlx", "events"), types: Collection[str] = EXCHANGE_TYPES
) -> st.SearchStrategy[Exchange]:
    """Draw exchanges, some of them with another of the names as their alternate exchange.

    Args:
        names: the names to draw from.
        types: of ``direct``, ``fanout``, ``topic``, ``headers``.
    """
    known = checked_names("names", names)
    kinds = checked_names("types", checked_choice("types", types, EXCHANGE_TYPES))
    alternates = st.sampled_from(known).map(lambda name: {"alternate-exchange": name})
    return st.builds(
        Exchange,
        name=st.sampled_from(known),
        type=st.sampled_from(kinds),
        arguments=st.one_of(st.just({}), alternates),
    )


def bindings(
    *,
    exchange_names: Collection[str] = ("dlx", "events"),
    queue_names: Collection[str] = first_names(4),
    types: Collection[str] = EXCHANGE_TYPES,
) -> st.SearchStrategy[Binding]:
    """Draw bindings of a queue to an exchange, with keys and arguments that the exchange's type looks at.

    Args:
        exchange_names: the sources to draw from.
        queue_names: the destinations to draw from.
        types: the exchanges' types, of ``direct``, ``fanout``, ``topic``, ``headers``.
    """
    sources, destinations = checked_names("exchange_names", exchange_names), checked_names("queue_names", queue_names)
    kinds = checked_names("types", checked_choice("types", types, EXCHANGE_TYPES))
    return _bindings(sources, destinations, kinds)


@st.composite
def _bindings(draw: st.DrawFn, exchanges: tuple[str, ...], queues: tuple[str, ...], types: tuple[str, ...]) -> Binding:
    queue = draw(st.sampled_from(queues))
    routing_key, arguments = draw(conditions(draw(st.sampled_from(types)), queue))
    return Binding(
        source=draw(st.sampled_from(exchanges)), destination=queue, routing_key=routing_key, arguments=arguments
    )


def conditions(type: str, queue: str) -> st.SearchStrategy[tuple[str, Arguments]]:
    """Draw the routing key and arguments that bind a queue to an exchange of the type."""
    if type == "topic":
        words = queue.split(".")
        return st.sampled_from((queue, f"{words[0]}.#", f"*.{words[-1]}", "#")).map(lambda key: (key, {}))
    if type == "headers":
        matches = st.sampled_from(("all", "any"))
        wanted = st.dictionaries(st.sampled_from(("kind", "tenant")), st.sampled_from(("a", "b", 1)), max_size=2)
        return st.tuples(st.just(""), st.builds(lambda match, found: {"x-match": match, **found}, matches, wanted))
    return st.just(("" if type == "fanout" else queue, {}))
