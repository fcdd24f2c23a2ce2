"""Sessions that were good until somebody changed an octet: drawn by a seed, the same in every run."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from pika import BasicProperties, spec

from tests.faults.cases.registry import Case, add
from tests.faults.wire import BODY, HEADER, Wire, frame, method, publish

RACES = {26, 57, 185}  # two errors that different processes of RabbitMQ find; either may be told first
SEEDS = [seed for seed in range(200) if seed not in RACES]
FRAMES_IN_A_SESSION = 6


def session(seed: int) -> bytes:
    """What is sent on an open channel 1, with a queue ``q``: good frames, one or two of them changed."""
    draw = random.Random(seed)
    frames = [draw.choice(GOOD) for _ in range(FRAMES_IN_A_SESSION)]
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(frames))
        frames[at] = draw.choice(MUTATIONS)(draw, frames[at])
    return b"".join(frames)


GOOD = [
    method(1, spec.Queue.Declare(queue="m", durable=True, arguments={"x-max-length": 5, "deep": {"er": [1, "2"]}})),
    method(1, spec.Queue.Declare(queue="q", passive=True)),
    method(1, spec.Exchange.Declare(exchange="amq.direct", type="direct", durable=True)),
    method(1, spec.Queue.Bind(queue="q", exchange="amq.direct", routing_key="k", arguments={"a": 1})),
    method(1, spec.Queue.Unbind(queue="q", exchange="amq.direct", routing_key="k")),
    method(1, spec.Queue.Purge(queue="q")),
    method(1, spec.Basic.Qos(prefetch_count=3)),
    method(1, spec.Basic.Get(queue="q", no_ack=True)),
    method(1, spec.Confirm.Select()),
    method(1, spec.Channel.Flow(True)),
    publish(1, "q", b"a body"),
    publish(1, "none", b"another", BasicProperties(content_type="text/plain", headers={"a": "b", "c": [1, True]})),
    publish(1, "q", b"", BasicProperties(delivery_mode=2, priority=3, expiration="60000", message_id="m", type="t")),
    frame(8, 0, b""),
]


def _flip_bit(draw: random.Random, octets: bytes) -> bytes:
    changed = bytearray(octets)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _flip_payload_bit(draw: random.Random, octets: bytes) -> bytes:
    """Where the frame still is one."""
    at = draw.randrange(7, max(8, len(octets) - 1))
    return octets[:at] + bytes([octets[at] ^ 1 << draw.randrange(8)]) + octets[at + 1 :]


def _drop_octet(draw: random.Random, octets: bytes) -> bytes:
    at = draw.randrange(len(octets))
    return octets[:at] + octets[at + 1 :]


def _insert_octet(draw: random.Random, octets: bytes) -> bytes:
    at = draw.randrange(len(octets))
    return octets[:at] + draw.randbytes(1) + octets[at:]


def _resize_payload(draw: random.Random, octets: bytes) -> bytes:
    """A first frame that is well-formed, and whose payload was cut or grew."""
    size = int.from_bytes(octets[3:7], "big")
    payload = octets[7 : 7 + size]
    payload = payload[: draw.randrange(size + 1)] if draw.random() < 0.5 else payload + draw.randbytes(3)
    return frame(octets[0], 1, payload) + octets[size + 8 :]


def _other_type(draw: random.Random, octets: bytes) -> bytes:
    return bytes([draw.choice((1, 2, 3, 8, 4))]) + octets[1:]


def _other_channel(draw: random.Random, octets: bytes) -> bytes:
    return octets[:1] + struct.pack(">H", draw.choice((0, 1, 2, 65535))) + octets[3:]


def _other_method(draw: random.Random, octets: bytes) -> bytes:
    known = draw.choice(sorted(spec.methods))
    return octets[:7] + struct.pack(">I", known) + octets[11:] if len(octets) > 12 else octets


def _noise(draw: random.Random, _octets: bytes) -> bytes:
    return frame(draw.choice((1, HEADER, BODY)), 1, draw.randbytes(draw.randrange(1, 40)))


def _raw_noise(draw: random.Random, _octets: bytes) -> bytes:
    return draw.randbytes(draw.randrange(1, 40))


MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    _flip_bit,
    _flip_payload_bit,
    _flip_payload_bit,
    _drop_octet,
    _insert_octet,
    _resize_payload,
    _other_type,
    _other_channel,
    _other_method,
    _noise,
    _raw_noise,
]


def _mutated(seed: int) -> Case:
    def run(wire: Wire) -> None:
        wire.channel()
        wire.queue("q", durable=True)
        wire.purge("q")
        wire.send(session(seed))
        wire.probe()
        wire.patience_s = 5  # a server that was told of more octets to come waits for them
        wire.fate_only = True

    return run


for _seed in SEEDS:
    add(f"mutation: {_seed}", _mutated(_seed))
