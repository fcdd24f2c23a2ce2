"""Random histories of clients of both protocols on one queue, on real servers and on the simulator.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL python -m tests.amqp10.random_histories [--count 100] [--seed 1]

prints the histories whose frames differ.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from simulator.broker import delivered_properties, replies
from simulator.broker.commands import Ack, Get, Nack, Publish, Reject
from simulator.server.amqp10.frames import Header
from tests.amqp10 import session_transcripts
from tests.amqp10.session_transcripts import OUTCOMES, RELEASES, NodePlayer, Player, new_node
from tests.amqp10.wire import WireClient
from tests.live.servers import LiveServer, fresh_vhost, given

STEPS = 14
Settle = str  # ack, nack or reject


class OtherProtocol:
    """A client of AMQP 0-9-1 on a real server, beside the player."""

    def __init__(self, player: Player) -> None:
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", player.port, player.vhost))
        self._channel: BlockingChannel = self._connection.channel()
        self._channel.confirm_delivery()

    def publish(self, queue: str, body: bytes) -> None:
        """Publish a message, and wait until it is confirmed."""
        with contextlib.suppress(pika.exceptions.NackError):  # the queue is full
            self._channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, headers={"k": 1}))

    def get(self, queue: str, settle: Settle) -> str:
        """Get a message and settle it; return what it is."""
        method, properties, body = self._channel.basic_get(queue)
        if method is None:
            return "nothing"
        tag = method.delivery_tag
        if settle == "ack":
            self._channel.basic_ack(tag)
        elif settle == "nack":
            self._channel.basic_nack(tag, requeue=True)
        else:
            self._channel.basic_reject(tag, requeue=False)
        self._channel.queue_declare(queue, passive=True)
        return told(body, method.redelivered, properties.headers or {})

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class OtherProtocolOfNode:
    """The same on a node in this process."""

    def __init__(self, player: NodePlayer) -> None:
        self._channel = player.channel_of_node

    def publish(self, queue: str, body: bytes) -> None:
        """Publish a message."""
        self._channel.run(Publish(self._channel.id, "", queue, {"delivery_mode": 2, "headers": {"k": 1}}, body))

    def get(self, queue: str, settle: Settle) -> str:
        """Get a message and settle it; return what it is."""
        channel = self._channel
        reply = channel.run(Get(channel.id, queue))[0]
        if not isinstance(reply, replies.Got):
            return "nothing"
        tag = reply.delivery_tag
        settles = {"ack": Ack(channel.id, tag), "nack": Nack(channel.id, tag), "reject": Reject(channel.id, tag, False)}
        channel.run(settles[settle])
        properties = delivered_properties(reply.message, channel.node.broker.release, reply.added)
        return told(reply.body, reply.redelivered, properties.get("headers") or {})

    def close(self) -> None:
        """Do nothing."""


def told(body: bytes, redelivered: bool, headers: dict[str, Any]) -> str:
    """Return a message as text, without times."""
    deaths = [(death["queue"], death["reason"], int(death["count"])) for death in headers.get("x-death", [])]
    numbers = {name: int(value) for name, value in headers.items() if isinstance(value, int)}
    return f"{body!r} {redelivered} {sorted(numbers.items())} {deaths}"


def history(seed: int) -> Callable[[Player, Any], None]:
    """Return a random script of both protocols."""

    def play(player: Player, other: Any) -> None:
        random = Random(seed)
        player.sorts = True  # a server's confirm and its delivery come in either order
        kind = random.choice(["classic", "quorum"])
        player.declare("dead", kind)
        letters: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
        if kind == "quorum" and random.random() < 0.5:
            letters["delivery_limit"] = random.choice([0, 1, 2])
        if random.random() < 0.3:
            letters |= {"max_length": 3, "overflow": random.choice(["drop-head", "reject-publish"])}
        player.declare("q", kind, **letters)
        player.note(f"{kind} {letters}")
        player.sender("/queues/q")
        player.receiver("/queues/q", credit=None)
        published = 0
        for _ in range(STEPS):
            step = random.choice(["publish", "publish", "other", "credit", "settle", "settle", "get", "dead", "detach"])
            if step == "publish":
                player.publish(b"%d" % published, id=published, header=Header(durable=random.random() < 0.7))
                published += 1
            elif step == "other":
                other.publish("q", b"other")
                player.listen()
            elif step == "credit":
                player.credit(1, random.choice([1, 2, 5]), drain=random.random() < 0.2)
            elif step == "settle" and player.unsettled:
                first = random.choice(player.unsettled)
                player.unsettled.remove(first)
                player.settle(OUTCOMES[random.choice(list(OUTCOMES))], first)
            elif step in ("get", "dead"):
                queue = "q" if step == "get" else "dead"
                player.note(other.get(queue, random.choice(["ack", "nack", "reject"])))
                player.listen()
            elif step == "detach":
                player.detach(1)
                player.unsettled.clear()
                player.receiver("/queues/q", credit=None)

    return play


def live(server: LiveServer, seed: int) -> list[str]:
    """Return what a real server sends in a history."""
    with fresh_vhost(server) as vhost:
        port = urlsplit(server.amqp_url).port or 0
        player = Player(WireClient(port), vhost, port, server)
        other = OtherProtocol(player)
        try:
            history(seed)(player, other)
        finally:
            other.close()
            player.client.close()
    return player.seen


def simulated(release: str, seed: int) -> list[str]:
    """Return what the simulator sends in a history."""
    player = NodePlayer(new_node(release))
    history(seed)(player, OtherProtocolOfNode(player))
    return player.seen


def main() -> None:
    """Play histories on the servers of ``DLX_LIVE_SERVERS`` and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quiet-ms", type=int, default=50, help="after which a server has sent what it sends (50)")
    options = parser.parse_args()
    session_transcripts.QUIET_S = options.quiet_ms / 1_000
    differing = 0
    for server in [each for each in given() if each.release in RELEASES]:
        for seed in range(options.seed, options.seed + options.count):
            theirs, ours = live(server, seed), simulated(server.release, seed)
            if theirs != ours:
                differing += 1
                print(f"{server.release}, seed {seed}")
                for their, our in zip(theirs, ours, strict=False):
                    print(*([f"  {their}"] if their == our else [f"- {their}", f"+ {our}"]), sep="\n")
    print(f"{differing} differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
