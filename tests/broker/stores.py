"""Stores of one queue and messages for them, without a broker around."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlx.message import Message
from dlx.releases import release
from dlx.settings import Settings, effective_settings
from dlx.topology import Policy, Queue, Topology
from simulator.broker.copies import Copy
from simulator.broker.snapshots import KINDS, Decoder, Encoder
from simulator.broker.stores.classic import ClassicStore
from simulator.broker.stores.quorum import QuorumStore

MS = 1_000


def settings(name: str, kind: str, policy: dict[str, Any] | None = None, **arguments: Any) -> Settings:
    """The settings of a queue in release ``name``: ``max_length=1`` is the argument ``x-max-length``."""
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    policies = () if policy is None else (Policy(name="p", pattern=".*", definition=policy),)
    queue = Queue(name="k", type=kind, arguments=table)
    return effective_settings(queue, Topology.of(queues=[queue], policies=list(policies)), release(name))


def classic(name: str, **arguments: Any) -> ClassicStore:
    """A classic queue of release ``name``."""
    return ClassicStore(settings(name, "classic", **arguments))


def quorum(name: str, **arguments: Any) -> QuorumStore:
    """A quorum queue of release ``name``."""
    return QuorumStore(settings(name, "quorum", **arguments))


def copy(text: str, priority: int | None = None, *, expiration: str | None = None, **fields: Any) -> Copy:
    """A message; ``fields`` are others of ``Message``, such as ``headers``."""
    properties = dict(fields.pop("properties", {}))
    if priority is not None:
        properties["priority"] = priority
    message = Message(exchange="", routing_keys=("k",), properties=properties, expiration=expiration, **fields)
    return Copy(1, message, text.encode())


def fill(store: ClassicStore | QuorumStore, texts: Iterable[str], now_us: int = 0) -> None:
    """Publish messages; the digits after a ``p`` are the priority: ``a``, ``bp9``."""
    for text in texts:
        _, _, priority = text.partition("p")
        store.enter(copy(text, int(priority) if priority else None), now_us)


def take(store: ClassicStore | QuorumStore, count: int) -> list[Copy]:
    """Deliver ``count`` messages."""
    return [store.take() for _ in range(count)]


def saved(store: Any) -> Any:
    """The store as a snapshot keeps it; its settings follow from the queue's."""
    encoder = Encoder(KINDS)
    data = encoder.encode(store)
    again = Decoder(KINDS, encoder.objects).decode(data)
    again.settings = store.settings
    return again


def drain(store: ClassicStore | QuorumStore) -> list[str]:
    """Deliver everything; redeliveries end in ``*``."""
    return [text(store.take(), starred=True) for _ in range(store.ready)]


def text(one: Copy, *, starred: bool = False) -> str:
    """A message's body; with a ``*`` if it is redelivered, and asked for."""
    return one.body.decode() + ("*" if starred and one.redelivered else "")


def texts(copies: Iterable[Copy]) -> list[str]:
    """The messages' bodies."""
    return [text(one) for one in copies]
