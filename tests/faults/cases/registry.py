"""All cases by name, and the kinds that several files use. A case does something bad to a connection."""

from __future__ import annotations

import struct
from collections.abc import Callable

from pika import spec

from tests.faults.wire import HEADER, Wire, frame, method

Case = Callable[[Wire], None]
CASES: dict[str, Case] = {}

DECLARE = method(1, spec.Queue.Declare(queue="q", durable=True))
PUBLISH = method(1, spec.Basic.Publish(exchange="", routing_key="q"))


def add(name: str, run: Case) -> None:
    """Keep a case under a name of its own."""
    assert name not in CASES, name
    CASES[name] = run


def case(name: str) -> Callable[[Case], Case]:
    """``add``, as a decorator."""

    def keep(run: Case) -> Case:
        add(name, run)
        return run

    return keep


def running(name: str, *octets: bytes, channels: tuple[int, ...] = (1,)) -> None:
    """Octets on an open connection with open channels; a queue ``q`` is there, empty."""

    def run(wire: Wire) -> None:
        wire.open()
        for number in channels:
            wire.open_channel(number)
        wire.queue("q", durable=True)
        wire.purge("q")
        wire.send(*octets)
        wire.probe()

    add(name, run)


def content(name: str, *octets: bytes, channels: tuple[int, ...] = (1,)) -> None:
    """The same, and then the queue is asked for a message."""
    running(f"content: {name}", *octets, method(1, spec.Basic.Get(queue="q", no_ack=True)), channels=channels)


def header_payload(size: int, class_id: int = 60, weight: int = 0, properties: bytes = b"\0\0") -> bytes:
    """A content header; ``properties`` are its flags and values."""
    return struct.pack(">HHQ", class_id, weight, size) + properties


def header(size: int, class_id: int = 60, weight: int = 0) -> bytes:
    """A content header's frame on channel 1."""
    return frame(HEADER, 1, header_payload(size, class_id, weight))
