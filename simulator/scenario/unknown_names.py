"""Finds the queues, exchanges and virtual hosts that a history names and its topology does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dlx.topology import Topology
from simulator.nearest_names import suggestion
from simulator.scenario.steps import AnyStep, Publish, Repeat

_MORE_KEYS = ("CC", "BCC")


def unknown_names(history: Iterable[AnyStep], topologies: Mapping[str, Topology]) -> list[str]:
    """Return a sentence for every name that the steps use and the topology lacks, with the names that come near.

    ``topologies`` holds the topology of each virtual host by its name. A routing key is not checked, except on the
    default exchange, where it names a queue.
    """
    return list(dict.fromkeys(_unknown(history, topologies)))


def _unknown(history: Iterable[AnyStep], topologies: Mapping[str, Topology]) -> Iterator[str]:
    for step in history:
        if isinstance(step, Repeat):
            yield from _unknown(step.steps, topologies)
            continue
        vhost: str | None = getattr(step, "vhost", None)
        if vhost is None:
            continue
        topology = topologies.get(vhost)
        if topology is None:
            yield _missing("virtual host", vhost, topologies)
            continue
        queue = _queue(step)
        if isinstance(step, Publish) and step.exchange not in topology.exchanges:
            yield _missing("exchange", step.exchange, topology.exchanges, vhost)
        elif queue is not None and queue not in topology.queues:
            yield _missing("queue", queue, topology.queues, vhost)


def _queue(step: AnyStep) -> str | None:
    """Return the queue that the step names, if it names one."""
    if not isinstance(step, Publish):
        return getattr(step, "queue", None)
    to_queue = step.exchange == "" and not any(name in step.headers for name in _MORE_KEYS)
    return step.routing_key if to_queue else None


def _missing(kind: str, name: str, known: Iterable[str], vhost: str = "/") -> str:
    where = "" if vhost == "/" else f" in virtual host {vhost!r}"
    return f"no {kind} {name!r}{where}; {suggestion(name, known)}"
