"""Malformed frames of AMQP 1.0: the server answers or closes the connection, and nothing in it fails."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("proton")

from proton import Described, int32, symbol, ulong

from simulator.broker.commands import DeclareQueue
from simulator.server.amqp.connection import AMQP_1_0, AMQP_1_0_SASL
from simulator.server.amqp10.frames import (
    SASL,
    Accepted,
    Attach,
    Begin,
    Close,
    Codec,
    Composite,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Properties,
    SaslInit,
    Source,
    Target,
    Transfer,
    frame,
)
from simulator.server.management.internal_channel import InternalChannel
from tests.amqp10.session_transcripts import NodeClient, new_node

EXAMPLES = 400
_BYTES = (0, 1, 0x40, 0x41, 0x42, 0x43, 0x50, 0x52, 0x53, 0x70, 0xA0, 0xA1, 0xA3, 0xB0, 0xC0, 0xD0, 0xFF)
_WINDOW = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
_BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
_PAIRED = {"name": "m", "snd_settle_mode": 1, "properties": {symbol("paired"): True}}
_FILTER = {symbol("x"): Described(symbol("amqp:sql-filter"), "a = 1")}


def conversation(codec: Codec) -> list[bytes]:
    """Frames of all kinds, as they should be."""
    message = codec.encode(Properties(to="/queues/q")) + codec.encode(Described(ulong(0x75), b"x"))
    request = codec.encode(Properties(message_id=ulong(1), subject="PUT", to="/queues/z", reply_to="$me"))
    request += codec.encode(Described(ulong(0x77), {"durable": True, "arguments": {"x-queue-type": "quorum"}}))
    publishes = {"role": False, "source": Source(), "initial_delivery_count": 0}
    performatives: list[tuple[Composite, bytes]] = [
        (Open(container_id="c", hostname="vhost:/", max_frame_size=512), b""),
        (_BEGIN, b""),
        (Attach(name="a", handle=0, target=Target(address="/queues/q"), **publishes), b""),
        (
            Attach(
                name="b",
                handle=1,
                role=True,
                source=Source(address="/queues/q", filter=_FILTER),
                target=Target(),
                properties={symbol("rabbitmq:priority"): int32(3)},
            ),
            b"",
        ),
        (Attach(name="n", handle=2, target=Target(), **publishes), b""),
        (Attach(handle=5, target=Target(address="/management"), **{**publishes, **_PAIRED}), b""),
        (Attach(handle=6, role=True, source=Source(address="/management"), target=Target(), **_PAIRED), b""),
        (Flow(handle=6, link_credit=10, **_WINDOW), b""),
        (Transfer(handle=0, delivery_id=0, delivery_tag=b"0"), message),
        (Transfer(handle=2, delivery_id=1, delivery_tag=b"1"), message),
        (Transfer(handle=5, delivery_id=2, delivery_tag=b"2", settled=True), request),
        (Flow(handle=1, link_credit=10, echo=True, **_WINDOW), b""),
        (
            Disposition(
                role=True,
                first=0,
                last=1,
                settled=True,
                state=Modified(delivery_failed=True, message_annotations={symbol("x-a"): 1}),
            ),
            b"",
        ),
        (Disposition(role=True, first=1, state=Accepted()), b""),
        (Detach(handle=1, closed=True), b""),
        (End(), b""),
        (_BEGIN, b""),
        (Close(), b""),
    ]
    login = frame(codec, 0, SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest"), kind=SASL)
    return [AMQP_1_0_SASL, login, AMQP_1_0, *(frame(codec, 0, each, payload) for each, payload in performatives)]


def spoil(random: Random, frames: list[bytes]) -> None:
    """Change a byte, cut a frame short, put bytes behind one, repeat one or leave one out."""
    place, share = random.randrange(3, len(frames)), random.random()
    changed = bytearray(frames[place])
    if share < 0.5:
        changed[random.randrange(8, len(changed))] = random.choice([*_BYTES, random.randrange(256)])
    elif share < 0.6:
        changed[random.randrange(8)] = random.randrange(256)
    elif share < 0.7:
        del changed[random.randrange(len(changed)) :]
    elif share < 0.8:
        changed += random.randbytes(5)
        changed[:4] = len(changed).to_bytes(4)
    elif share < 0.9:
        frames.insert(random.randrange(3, len(frames)), frames[place])
        return
    else:
        del frames[place]
        return
    frames[place] = bytes(changed)


def test_malformed_frames_are_answered_or_end_the_connection() -> None:
    for seed in range(EXAMPLES):
        random = Random(seed)
        node = new_node(random.choice(["4.0", "4.3"]))
        client, channel = NodeClient(node), InternalChannel(node, 2)
        channel.open("/", "guest")
        kind = {"x-queue-type": random.choice(["classic", "quorum", "stream"])}
        channel.run(DeclareQueue(channel=channel.id, queue="q", durable=True, arguments=kind))
        frames = conversation(client.codec)
        for _ in range(random.choice([1, 1, 2, 3])):
            spoil(random, frames)

        for each in frames:
            client.sendall(each)

        assert channel.run(DeclareQueue(channel=channel.id, queue="q", passive=True)), seed
