"""Names in a history that a topology does not have: of queues, exchanges and virtual hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from dlx.topology import Topology
from simulator.scenario.steps import AnyStep, Publish, Repeat

SHOWN_MAX = 5
_MORE_KEYS = ("CC", "BCC")


def unknown_names(history: Iterable[AnyStep], topologies: Mapping[str, Topology]) -> list[str]:
    """What the steps name that is not there, each once, in a sentence with the names that come near.

    ``topologies`` are the virtual hosts by name. A routing key is no name, but with the default exchange it is
    that of a queue.
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
    """The queue that the step names, if it names one."""
    if not isinstance(step, Publish):
        return getattr(step, "queue", None)
    to_queue = step.exchange == "" and not any(name in step.headers for name in _MORE_KEYS)
    return step.routing_key if to_queue else None


def _missing(kind: str, name: str, known: Iterable[str], vhost: str = "/") -> str:
    names = sorted(each for each in known if each)
    near = get_close_matches(name, names, n=3)
    where = "" if vhost == "/" else f" in virtual host {vhost!r}"
    if near:
        return f"no {kind} {name!r}{where}; did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(map(repr, names[:SHOWN_MAX])) or "none"
    return f"no {kind} {name!r}{where}; there are {shown}{', ...' if len(names) > SHOWN_MAX else ''}"
