"""Methods sent without waiting, and methods that are out of place."""

from tests.differential.operations import (
    Bind,
    CloseChannel,
    Consume,
    Count,
    Get,
    OpenChannel,
    SelectConfirms,
    Send,
)
from tests.differential.words import exchange, publish, queue, scenario

CONFIRMED = SelectConfirms()
NO_WAIT = {"no_wait": True}

SCENARIOS = [
    scenario(
        "declare a queue, no wait",
        Send("queue.declare", {"queue": "q", "durable": True, **NO_WAIT}), Count("q"),
    ),
    scenario(
        "declare a queue that is refused, no wait",
        queue("q"), Send("queue.declare", {"queue": "q", "durable": False, **NO_WAIT}), Count("q"),
    ),
    scenario(
        "declare a queue without a name, no wait",
        Send("queue.declare", {"queue": "", **NO_WAIT}), publish("q"),
    ),
    scenario(
        "declare, bind and publish, no wait",
        Send("exchange.declare", {"exchange": "x", "type": "fanout", "durable": True, **NO_WAIT}), queue("q"),
        Send("queue.bind", {"queue": "q", "exchange": "x", **NO_WAIT}), publish("", exchange="x"), Count("q"),
    ),
    scenario(
        "bind exchanges, no wait",
        exchange("x"), exchange("y"), queue("q"), Bind("y", "q"),
        Send("exchange.bind", {"destination": "y", "source": "x", **NO_WAIT}), publish("", exchange="x"),
        Send("exchange.unbind", {"destination": "y", "source": "x", **NO_WAIT}), publish("", exchange="x"),
    ),
    scenario(
        "purge and delete, no wait",
        CONFIRMED, queue("q"), publish("q", "1"), Send("queue.purge", {"queue": "q", **NO_WAIT}), Count("q"),
        Send("queue.delete", {"queue": "q", **NO_WAIT}), Count("q"), exchange("x"),
        Send("exchange.delete", {"exchange": "x", **NO_WAIT}), publish("", exchange="x"),
    ),
    scenario(
        "consume and cancel, no wait",
        CONFIRMED, queue("q"), Send("basic.consume", {"queue": "q", "consumer_tag": "c", **NO_WAIT}),
        publish("q", "1"), Send("basic.cancel", {"consumer_tag": "c", **NO_WAIT}), publish("q", "2"), Count("q"),
    ),
    scenario(
        "consume without a tag, no wait",
        CONFIRMED, queue("q"), Send("basic.consume", {"queue": "q", **NO_WAIT}), publish("q", "1"),
    ),
    scenario("confirms, no wait", queue("q"), Send("confirm.select", NO_WAIT), publish("q"), Count("q")),
    scenario(
        "cancel of no consumer, no wait",
        Send("basic.cancel", {"consumer_tag": "c", **NO_WAIT}), Count("missing"),
    ),
    scenario(
        "recover-async",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Get("q"), Get("q"),
        Send("basic.recover-async", {"requeue": True}), Count("q"), Get("q"),
        Send("basic.recover-async", {"requeue": False}),
    ),
    scenario("flow off", queue("q"), Send("channel.flow", {"active": False}), publish("q")),
    scenario("flow-ok without flow", Send("channel.flow-ok", {"active": True}), Count("missing")),
    scenario("a channel opened twice", OpenChannel(), Send("channel.open")),
    scenario("an answer that nobody asked for", OpenChannel(), Send("queue.declare-ok", {"queue": "q"})),
    scenario("a server's method", OpenChannel(), Send("basic.get-empty")),
    scenario("a method of the connection on a channel", OpenChannel(), Send("connection.close", {"code": 200})),
    scenario("a channel closed, no wait for the answer", OpenChannel(), CloseChannel(), Consume("missing", "c")),
    scenario("a transaction without select, in a burst", Send("tx.commit")),
    scenario("immediate and mandatory", queue("q"), Send("basic.qos", {"prefetch_count": 1, "prefetch_size": 1})),
]  # fmt: skip
