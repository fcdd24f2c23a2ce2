"""Finds the queues, exchanges and virtual hosts that a history names and its topology does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dlx.topology import Topology
from simulator.nearest_names import suggestion
from simulator.scenario.steps import AnyStep, Publish, Repeat

_MORE_KEYS = ("CC", "BCC")


class UnknownName(NamedTuple):
    """A name that a topology does not have.

    Attributes:
        where: the field that has it, such as ``steps[3].queue``.
        problem: that the name is unknown, in a sentence with the names that come near.
    """

    where: str
    problem: str


def unknown_names(history: Iterable[AnyStep], topologies: Mapping[str, Topology]) -> list[str]:
    """Return a sentence for every name that the steps use and the topology lacks, with the names that come near.

    ``topologies`` holds the topology of each virtual host by its name. A routing key is not checked, except on the
    default exchange, where it names a queue.
    """
    return list(dict.fromkeys(each.problem for each in located_unknown_names(history, topologies)))


def located_unknown_names(
    history: Iterable[AnyStep], topologies: Mapping[str, Topology], where: str = "steps"
) -> Iterator[UnknownName]:
    """Yield each unknown name with its place; ``where`` is the place of the history itself."""
    for index, step in enumerate(history):
        here = f"{where}[{index}]"
        if isinstance(step, Repeat):
            yield from located_unknown_names(step.steps, topologies, f"{here}.steps")
            continue
        vhost: str | None = getattr(step, "vhost", None)
        if vhost is None:
            continue
        topology = topologies.get(vhost)
        if topology is None:
            yield UnknownName(f"{here}.vhost", _missing("virtual host", vhost, topologies))
            continue
        field, queue = _queue(step)
        if isinstance(step, Publish) and step.exchange not in topology.exchanges:
            yield UnknownName(f"{here}.exchange", _missing("exchange", step.exchange, topology.exchanges, vhost))
        elif queue is not None and queue not in topology.queues:
            yield UnknownName(f"{here}.{field}", _missing("queue", queue, topology.queues, vhost))


def _queue(step: AnyStep) -> tuple[str, str | None]:
    """Return the field in which the step names a queue, and the name; ``None`` if it names none."""
    if not isinstance(step, Publish):
        return "queue", getattr(step, "queue", None)
    to_queue = step.exchange == "" and not any(name in step.headers for name in _MORE_KEYS)
    return "routing_key", step.routing_key if to_queue else None


def _missing(kind: str, name: str, known: Iterable[str], vhost: str = "/") -> str:
    where = "" if vhost == "/" else f" in virtual host {vhost!r}"
    return f"no {kind} {name!r}{where}; {suggestion(name, known)}"
