"""Noise at the port, drawn by a seed: whatever comes, the next client is served, and nothing is lost."""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from pika import spec

from tests.faults.cases.mutations import session
from tests.faults.targets import Target, simulated
from tests.faults.wire import HEADER_091, Wire, method

STREAMS = 60
LIVE_STREAMS = 20
MOST_OCTETS = 200_000_000
MUTATED = range(1_000, 1_000 + STREAMS)  # other seeds than those whose answers are recorded


def healthy(target: Target, vhost: str) -> None:
    """A client that behaves can work."""
    with target.client(vhost) as channel:
        channel.queue_declare("healthy", durable=True)
        channel.basic_publish("", "healthy", b"hello")
        assert channel.basic_get("healthy", auto_ack=True)[2] == b"hello"


def keep_messages(target: Target, vhost: str) -> None:
    with target.client(vhost) as channel:
        channel.queue_declare("kept", durable=True)
        channel.confirm_delivery()
        for number in range(10):
            channel.basic_publish("", "kept", b"%d" % number)


def kept(target: Target, vhost: str) -> list[bytes]:
    with target.client(vhost) as channel:
        return [channel.basic_get("kept", auto_ack=True)[2] for _ in range(10)]


@pytest.mark.parametrize("stage", ["before the header", "before start-ok", "on an open channel"])
def test_random_octets_harm_nobody_else(target: Target, vhost: str, stage: str) -> None:
    draw = random.Random(stage)
    keep_messages(target, vhost)
    wires = []
    for _ in range(LIVE_STREAMS if target.is_live else STREAMS):
        wire = target.wire(vhost)
        if stage == "before start-ok":
            wire.send(HEADER_091)
        elif stage == "on an open channel":
            wire.channel()
        wire.send(draw.randbytes(draw.randrange(1, 500)))
        wires.append(wire)
    healthy(target, vhost)
    for wire in wires:
        wire.socket.close()
    healthy(target, vhost)
    assert kept(target, vhost) == [b"%d" % number for number in range(10)]


def test_sessions_gone_wrong_harm_nobody_else(target: Target, vhost: str) -> None:
    keep_messages(target, vhost)
    for seed in MUTATED[: LIVE_STREAMS if target.is_live else STREAMS]:
        with target.wire(vhost) as wire:
            wire.channel()
            wire.queue("q", durable=True)
            wire.send(session(seed), session(seed + 10_000))
            wire.next(0.05)
    healthy(target, vhost)
    assert kept(target, vhost) == [b"%d" % number for number in range(10)]


def test_a_flood_of_half_open_connections_lets_others_in(target: Target, vhost: str) -> None:
    wires: list[Wire] = [target.wire(vhost) for _ in range(50 if target.is_live else 500)]
    for number, wire in enumerate(wires):
        wire.send(HEADER_091[: number % 9])
    began = time.monotonic()
    healthy(target, vhost)
    assert time.monotonic() - began < 5
    for wire in wires:
        wire.socket.close()


@pytest.mark.slow
def test_a_client_that_asks_and_never_reads_the_answers_is_held_up() -> None:
    """Its own questions go unread in the end, so that memory stays bounded; nobody else's do. (RabbitMQ reads on.)

    Who reads nothing for 30 s is thrown out, which a busy machine may come to before the test has sent enough.
    """
    with simulated("4.3") as target, target.vhosts(1) as (vhost,), target.wire(vhost) as wire:
        wire.channel()
        wire.queue("q", durable=True)
        ask = method(1, spec.Queue.Declare(queue="q", passive=True)) * 1_000
        wire.socket.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionResetError, BrokenPipeError):
            while sent < MOST_OCTETS:
                sent += wire.socket.send(ask)
        assert sent < MOST_OCTETS
        healthy(target, vhost)
