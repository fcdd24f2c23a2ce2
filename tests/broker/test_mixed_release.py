"""A release with one behaviour of another one, as experiments play it."""

from __future__ import annotations

import msgspec

from dlx.releases import release
from simulator.bootstrap import add_user, import_definitions
from simulator.broker import Broker, commands
from simulator.broker.replies import Got

MS = 1_000


def test_a_queue_may_have_a_timeout_where_the_release_has_none() -> None:
    """Of 3.8 only that no delivery times out by itself."""
    broker = Broker(msgspec.structs.replace(release("4.3"), consumer_timeout_ms=None))
    arguments = {"x-queue-type": "quorum", "x-consumer-timeout": 10}
    work = {"vhost": "/", "name": "work", "durable": True, "auto_delete": False, "arguments": arguments}
    import_definitions(broker, {"vhosts": [{"name": "/"}], "queues": [work]}, 0)
    add_user(broker, "somebody", 0)
    channel = (1, 1)
    broker.handle(commands.OpenConnection(1, "/", "somebody", limited=False), 0)
    broker.handle(commands.OpenChannel(channel), 0)
    broker.handle(commands.Publish(channel, "", "work", {}, b""), 0)
    assert any(isinstance(reply, Got) for reply in broker.handle(commands.Get(channel, "work"), 0))
    broker.handle(commands.PassTime(), 9 * MS)
    queue = broker.queue("work", "/")
    assert queue is not None
    assert queue.store.ready == 0
    broker.handle(commands.PassTime(), 10 * MS)
    assert queue.store.ready == 1
