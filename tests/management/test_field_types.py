"""Everything that clients may give with a type of its own on the wire is listed, shown and exported as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.field_values import (
    Binary,
    Float32,
    Long,
    Short,
    SignedByte,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from simulator.broker.commands import (
    BindQueue,
    Command,
    Consume,
    DeclareExchange,
    DeclareQueue,
    OpenChannel,
    OpenConnection,
    Publish,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed
from tests.management.client import Simulated

RELEASES = ("3.8", "3.10", "3.13", "4.0", "4.3")
WIDTHS = (SignedByte, UnsignedByte, Short, UnsignedShort, UnsignedInt, Long, int)
OF_CLASSIC = ("x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires")
OF_QUORUM = ("x-delivery-limit", "x-max-length", "x-max-length-bytes")
CHANNEL = ("client", 1)
LISTS = (
    "queues", "queues/%2F", "queues/%2F/quorum", "queues/%2F/classic", "queues?columns=name,arguments",
    "queues?disable_stats=true", "queues?disable_stats=true&enable_queue_totals=true", "queues?sort=delivery_limit",
    "exchanges", "exchanges/%2F/x", "exchanges/%2F/x/bindings/source", "bindings", "queues/%2F/quorum/bindings",
    "consumers", "channels", "definitions", "definitions/%2F", "vhosts", "overview", "histories", "histories/1",
)  # fmt: skip


def run(server: Simulated, *commands: Command) -> None:
    for command in commands:
        refused = [r for r in server.node.handle(command) if isinstance(r, ChannelClosed | ConnectionClosed)]
        assert not refused


def of_every_type(number: int) -> dict[str, Any]:
    """Return a table with a value of every type, in an array and in a table, too."""
    values = {kind.__name__: kind(number) for kind in WIDTHS}
    values |= {"float": Float32(1.5), "bytes": Binary(b"\xff"), "time": Timestamp(number), "nothing": None}
    return {**values, "array": list(values.values()), "table": dict(values)}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_whatever_its_width_an_integer_is_listed_and_exported(release: str, width: type[int]) -> None:
    server, notes = Simulated(release), of_every_type(7)
    quorum, classic = {name: width(100) for name in OF_QUORUM}, {name: width(100) for name in OF_CLASSIC}
    quorum |= {"x-queue-type": "quorum"}
    run(
        server,
        OpenConnection("client"),
        OpenChannel(CHANNEL),
        DeclareQueue(channel=CHANNEL, queue="quorum", durable=True, arguments=quorum | notes),
        DeclareQueue(channel=CHANNEL, queue="classic", durable=True, arguments=classic | notes),
        DeclareExchange(channel=CHANNEL, exchange="x", type="headers", arguments=notes),
        BindQueue(CHANNEL, "quorum", "x", "k", notes | {"x-match": "any"}),
        Consume(channel=CHANNEL, queue="quorum", arguments=notes | {"x-priority": width(2)}),
        Publish(CHANNEL, "x", "k", {"headers": notes, "priority": 1}),
    )
    for path in LISTS:
        assert server("GET", f"/api/{path}").status == 200, path
    assert server("GET", "/").status == 200
    for name, given in (("quorum", quorum), ("classic", classic)):
        shown = server("GET", f"/api/queues/%2F/{name}").json
        assert shown["arguments"].items() >= given.items()
        assert shown.get("delivery_limit", 100) == 100
        assert {"name": name, "arguments": shown["arguments"]}.items() <= exported(server, "queues", name).items()
    assert exported(server, "exchanges", "x")["arguments"]["table"]["nothing"] == "undefined"


def exported(server: Simulated, section: str, name: str) -> dict[str, Any]:
    (item,) = (item for item in server("GET", "/api/definitions").json[section] if item["name"] == name)
    return dict(item)
