"""The x-delayed-message exchange: what waits in it, for how long, and what comes of it then.

The answers of real servers to many more cases are in tests/plugins/recorded/delayed.json.
"""

from __future__ import annotations

from typing import Any

import pytest

from dlx.field_values import Float32, Long, SignedByte
from dlx.message import published
from dlx.message_flow import MessageFlow
from dlx.releases import RELEASES, release
from dlx.server_plugins import named_plugins
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.broker import Broker, OperatorError
from simulator.broker.commands import (
    AddVhost,
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    ImportDefinitions,
    OpenChannel,
    OpenConnection,
    Publish,
    PurgeQueue,
    SelectConfirms,
)
from simulator.broker.replies import ChannelClosed, Confirmed, ConnectionClosed, Got, Returned
from simulator.message_history import RecordingBroker
from simulator.scenario.player import START_US
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.steps import Publish as PublishStep
from simulator.scenario.steps import Wait
from simulator.scenario.trial import Trial
from tests import real_servers
from tests.broker.told import CHANNEL, Told, bodies

ALWAYS_NEGATIVE = real_servers.since("4.0")
WITH_AT_LEAST_ONCE = real_servers.since("3.10")


class Delaying(Told):
    """A broker with a delayed exchange ``d`` and a queue ``q`` bound to it with the key ``k``."""

    def __init__(self, release: str, kind: str = "direct", **arguments: Any) -> None:
        super().__init__(release, ["delayed"])
        self.queue("q")
        self.declare("d", kind, **arguments)
        self(BindQueue(CHANNEL, "q", "d", "k"))

    def declare(self, name: str, kind: Any = "direct", **arguments: Any) -> list[Any]:
        """Declare a delayed exchange."""
        table = {"x-delayed-type": kind, **{key.replace("_", "-"): value for key, value in arguments.items()}}
        return self(DeclareExchange(channel=CHANNEL, exchange=name, type="x-delayed-message", arguments=table))

    def send(self, delay: Any, body: str = "m", exchange: str = "d", key: str = "k", **properties: Any) -> list[Any]:
        """Publish to an exchange, mandatory."""
        properties = {"headers": {"x-delay": delay}, **properties}
        return self(Publish(CHANNEL, exchange, key, properties, body.encode(), mandatory=True))


def headers(got: Got) -> dict[str, Any]:
    """The headers of a message."""
    return dict(got.message.headers or {})


@pytest.mark.parametrize("release", RELEASES)
def test_a_message_waits_in_the_exchange_and_counts_as_unroutable_until_then(release: str) -> None:
    told = Delaying(release)
    told(SelectConfirms(CHANNEL))
    returned, confirmed = told.send(400)
    assert isinstance(returned, Returned)
    assert isinstance(confirmed, Confirmed)
    told.wait(399)
    assert told.drained("q") == []
    told.wait(1)
    (got,) = told.drained("q")
    assert headers(got)["x-delay"] == -400
    told.wait(60_000)
    assert told.drained("q") == []


@pytest.mark.parametrize("release", real_servers.LIVE)
@pytest.mark.parametrize(
    ("value", "before", "now"),
    [
        (Long(400), 400, 400),
        (2**32, 0, 0),
        (-400, 0, 0),
        (SignedByte(100), 100, 0),
        (400.9, 0, 400),
        (Float32(0.5), 0, 0),
        ("+400", 400, 400),
        (True, 0, 0),
        ([400], 0, 0),
        ("abc", None, None),
        ("", None, None),
        (None, 0, None),
    ],
)
def test_which_values_are_a_delay(release: str, value: Any, before: int | None, now: int | None) -> None:
    told, delay_ms = Delaying(release), now if release in ALWAYS_NEGATIVE else before
    replies = told.send(value)
    if delay_ms is None:
        (closed,) = replies
        assert isinstance(closed, ConnectionClosed)
        assert closed.code == 541
        return
    told.wait(max(delay_ms - 1, 0))
    assert len(told.drained("q")) == (not delay_ms)
    told.wait(1)
    assert len(told.drained("q")) == bool(delay_ms)


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_messages_come_by_the_end_of_their_delay_and_those_of_one_millisecond_as_they_were_published(
    release: str,
) -> None:
    told = Delaying(release)
    for body, delay in (("a", 400), ("b", 200), ("c", 300), ("d", 200)):
        told.send(delay, body)
    told.wait(1_000)
    assert bodies(told.drained("q")) == ["b", "d", "c", "a"]


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_what_a_declaration_may_name_and_that_a_redeclaration_may_name_anything(release: str) -> None:
    told = Delaying(release)
    for kind in ("topic", "nope", 5):
        assert not [each for each in told.declare("d", kind) if isinstance(each, ChannelClosed | ConnectionClosed)]
    (closed,) = told.declare("e", "x-delayed-message")
    assert closed.text.endswith("'x-delayed-message' can't be used for 'x-delayed-type'")
    told(OpenChannel(CHANNEL))
    (closed,) = told.declare("e", 5)
    assert closed.text.endswith("'x-delayed-type' must be an existing exchange type")
    told(OpenChannel(CHANNEL))
    (closed,) = told.declare("e", "nope")
    assert closed.text.endswith("unknown exchange type 'nope'")
    assert isinstance(closed, ChannelClosed if release in ALWAYS_NEGATIVE else ConnectionClosed)


def test_definitions_with_a_type_that_there_is_not_are_refused() -> None:
    told = Delaying("4.0")
    exchange = {"name": "e", "type": "x-delayed-message", "durable": True, "auto_delete": False, "internal": False}
    with pytest.raises(OperatorError, match="must be an existing exchange type"):
        told(ImportDefinitions({"exchanges": [{**exchange, "arguments": {}}]}, "/"))
    assert "e" not in told.broker.vhosts["/"].exchanges


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_the_alternate_exchange_gets_a_copy_at_once_and_another_if_nothing_is_bound_at_the_end(release: str) -> None:
    told = Delaying(release, alternate_exchange="ae")
    told(DeclareExchange(channel=CHANNEL, exchange="ae", type="fanout"))
    told.queue("aq")
    told(BindQueue(CHANNEL, "aq", "ae"))
    told.send(400, "bound")
    told.send(400, "not bound", key="other")
    assert bodies(told.drained("aq")) == ["bound", "not bound"]
    told.wait(400)
    assert bodies(told.drained("q")) == ["bound"]
    assert bodies(told.drained("aq")) == ["not bound"]


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_at_the_end_the_bindings_of_then_count_and_the_exchange_as_it_was(release: str) -> None:
    told = Delaying(release)
    told.send(400, "one")
    told(DeleteExchange(CHANNEL, "d"))
    told.wait(400)
    assert told.drained("q") == [], "nothing is bound any more"
    told.declare("d")
    told.send(400, "two")
    told(DeleteExchange(CHANNEL, "d"), DeclareExchange(channel=CHANNEL, exchange="d", type="fanout"))
    told.queue("other")
    told(BindQueue(CHANNEL, "q", "d", "k"), BindQueue(CHANNEL, "other", "d", "else"))
    told.wait(400)
    assert bodies(told.drained("q")) == ["two"]
    assert told.drained("other") == [], "a direct exchange delayed it, which has become a fanout exchange"


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_queue_that_was_purged_or_made_again_meanwhile_gets_the_message(release: str) -> None:
    told = Delaying(release)
    told.send(400, "one")
    told(PurgeQueue(CHANNEL, "q"))
    told.wait(400)
    assert bodies(told.drained("q")) == ["one"]
    told.send(400, "two")
    told(DeleteQueue(channel=CHANNEL, queue="q"))
    told.queue("q")
    told(BindQueue(CHANNEL, "q", "d", "k"))
    told.wait(400)
    assert bodies(told.drained("q")) == ["two"]


def test_a_virtual_host_made_again_under_its_name_gets_the_message() -> None:
    told = Delaying("4.0")
    told(AddVhost("v"))
    told.broker.grant_everything("v")
    there = ("there", 1)

    def prepared() -> None:
        told(OpenConnection("there", "v"), OpenChannel(there))
        arguments = {"x-delayed-type": "fanout"}
        told(DeclareExchange(channel=there, exchange="d", type="x-delayed-message", arguments=arguments))
        told.queue("q")

    prepared()
    told(Publish(there, "d", "k", {"headers": {"x-delay": 400}}, b"m"))
    told(DeleteVhost("v"))
    told.wait(100)
    told(AddVhost("v"))
    told.broker.grant_everything("v")
    prepared()
    assert told.broker.messages_delayed(told.broker.vhosts["v"], "d") == 1
    told.wait(300)
    assert told.broker.messages_delayed(told.broker.vhosts["v"], "d") == 0


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_delivery_names_the_exchange_of_the_publish_and_a_delay_is_waited_for_once(release: str) -> None:
    told = Delaying(release)
    told(DeclareExchange(channel=CHANNEL, exchange="f", type="fanout"))
    told.declare("d2")
    told(BindExchange(CHANNEL, "d", "f"), BindExchange(CHANNEL, "d2", "d", "k"), BindQueue(CHANNEL, "q", "d2", "k"))
    told.send(400, exchange="f")
    told.wait(400)
    assert [(got.message.exchange, got.message.routing_key) for got in told.drained("q")] == [("f", "k")]


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_time_to_live_counts_from_the_arrival(release: str) -> None:
    told = Delaying(release)
    told.send(400, expiration="100")
    told.wait(450)
    assert len(told.drained("q")) == 1
    told.send(400, expiration="100")
    told.wait(501)
    assert told.drained("q") == []


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_retry_through_a_delayed_exchange_waits_once(release: str) -> None:
    told = Delaying(release)
    told.queue("work", x_dead_letter_exchange="d", x_dead_letter_routing_key="w")
    told(BindQueue(CHANNEL, "work", "d", "w"))
    told.send(500, exchange="", key="work")
    told.rejected("work")
    told.wait(499)
    assert told.drained("work") == []
    told.wait(1)
    told.rejected("work")
    (got,) = told.drained("work")
    (death,) = got.message.deaths or got.message.headers["x-death"]
    assert (death["count"] if isinstance(death, dict) else death.count) == 2


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_dead_letter_that_was_delayed_on_its_way_back_is_let_in_once(release: str) -> None:
    told = Delaying(release)
    told.queue("ttl", x_message_ttl=100, x_dead_letter_exchange="d", x_dead_letter_routing_key="t")
    told(BindQueue(CHANNEL, "ttl", "d", "t"))
    told.send(500, exchange="", key="ttl")
    queue = told.broker.vhosts["/"].queues["ttl"]
    told.wait(100)
    assert queue.messages == 0
    told.wait(500)
    assert queue.messages == 1
    told.wait(60_000)
    assert queue.messages == 0, "the next one is a cycle"


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_a_dead_letter_whose_delay_cannot_be_read_vanishes(release: str) -> None:
    told = Delaying(release)
    told.queue("src", x_dead_letter_exchange="d", x_dead_letter_routing_key="k")
    told.send("abc", "bad", exchange="", key="src")
    told.rejected("src")
    told.send(400, "good", exchange="", key="src")
    told.rejected("src")
    told.wait(400)
    assert bodies(told.drained("q")) == ["good"]


@pytest.mark.parametrize("release", WITH_AT_LEAST_ONCE)
def test_a_delayed_dead_letter_stays_held_and_comes_again_after_three_minutes(release: str) -> None:
    told = Delaying(release)
    held = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish", "x_queue_type": "quorum"}
    told.queue("src", x_dead_letter_exchange="d", x_dead_letter_routing_key="k", **held)
    told.send(500, exchange="", key="src")
    told.rejected("src")
    told.wait(500)
    assert len(told.drained("q")) == 1
    assert told.broker.vhosts["/"].queues["src"].messages == 1
    told.wait(180_000)
    assert len(told.drained("q")) == 1
    assert told.broker.vhosts["/"].queues["src"].messages == 1


@pytest.mark.parametrize("release", real_servers.until("3.13"))
def test_before_4_0_a_lazy_queue_forgets_that_the_delay_is_over(release: str) -> None:
    for mode, waits in (("default", False), ("lazy", True)):
        told = Delaying(release)
        told.declare("d2")
        told.queue("w", x_queue_mode=mode, x_dead_letter_exchange="d2", x_dead_letter_routing_key="k")
        told.queue("o")
        told(BindQueue(CHANNEL, "w", "d", "w"), BindQueue(CHANNEL, "o", "d2", "k"))
        told.send(500, key="w")
        told.wait(500)
        told.rejected("w")
        assert len(told.drained("o")) == (not waits), mode
        told.wait(500)
        assert len(told.drained("o")) == waits, mode


@pytest.mark.parametrize("release", RELEASES)
def test_topic_bindings_are_found_until_4_2(release: str) -> None:
    told = Delaying(release, "topic")
    told.send(400)
    told.wait(400)
    assert len(told.drained("q")) == (release != "4.3")


def test_a_restored_broker_still_delays() -> None:
    told = Delaying("4.3")
    told.send(400)
    told.broker = Broker.restore(told.broker.snapshot())
    assert told.broker.messages_delayed(told.broker.vhosts["/"], "d") == 1
    told.wait(399)
    assert told.drained("q") == []
    told.wait(1)
    assert bodies(told.drained("q")) == ["m"]


# What is said of it


def test_a_history_says_where_the_message_waits_and_what_comes_of_it() -> None:
    told = Delaying("4.3")
    told.broker = RecordingBroker.taking_over(told.broker)
    told.send(400)
    told.wait(100)
    before = told.broker.explain(1)
    assert before[1:] == [
        "At once the exchange 'd' delays it for 400 ms.",
        "At once no queue was bound for it, and it went back to its publisher"
        " (the exchange 'd' delays it for 400 ms, which counts as no queue).",
        "It is in the exchange 'd', which delays it for another 300 ms.",
    ]
    assert not told.broker.histories.get(1).ended
    told(DeleteExchange(CHANNEL, "d"))
    told.wait(300)
    assert told.broker.explain(1)[3:] == [
        "400 ms later its delay in the exchange 'd' was over.",
        "At once it was dropped: the exchange 'd' had delayed it, and then no queue was bound.",
        "Nothing is left of it.",
    ]


def delaying_trial(release: str = "4.3", *properties: str) -> Trial:
    """A trial with a delayed exchange ``d`` as the dead-letter exchange of ``q``, which is bound to it."""
    trial = Trial({"vhosts": [{"name": "/"}]}, release=release, properties=properties)
    trial.broker.state.plugins = named_plugins(["delayed"])
    common = {"vhost": "/", "durable": True, "auto_delete": False}
    arguments = {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k", "x-message-ttl": 100}
    exchange = {"name": "d", "type": "x-delayed-message", "internal": False, "arguments": {"x-delayed-type": "direct"}}
    binding = {"source": "d", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    document = {
        "exchanges": [{**common, **exchange}],
        "queues": [{**common, "name": "q", "arguments": arguments}],
        "bindings": [{**binding, "arguments": {}}],
    }
    trial.broker.handle(ImportDefinitions(document), START_US)
    return trial


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_delayed_messages_are_conserved(release: str) -> None:
    trial = delaying_trial(release, "conservation", "x-death", "rest")
    trial.do(PublishStep("d", "k", headers={"x-delay": 400}))
    trial.do(PublishStep("", "q", headers={"x-delay": 400}))
    assert len(list(trial.broker.delayed())) == 1
    for _ in range(10):
        trial.do(Wait(100))
    assert not list(trial.broker.delayed())


def test_a_delayed_message_that_vanished_is_noticed() -> None:
    trial = delaying_trial("4.3", "conservation")
    trial.do(PublishStep("d", "k", headers={"x-delay": 400}))
    trial.broker.state.delayed.clear()
    with pytest.raises(PropertyBroken, match="exchanges delay 0 messages, and by the events 1"):
        trial.do(PublishStep("", "q"))


def test_a_delayed_message_for_which_nothing_is_bound_in_the_end_is_a_silent_loss() -> None:
    trial = delaying_trial("4.3", "lossless")
    with pytest.raises(PropertyBroken, match="a message that an exchange had delayed was dropped"):
        trial.play([PublishStep("d", "nothing", headers={"x-delay": 400}), Wait(400)])


def test_the_flow_of_messages_goes_on_behind_a_delay() -> None:
    rules = release("4.3")
    delayed = Exchange(name="d", type="x-delayed-message", arguments={"x-delayed-type": "direct"})
    letters = {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k"}
    topology = Topology.of(
        exchanges=[delayed],
        queues=[Queue(name="q", arguments=letters)],
        bindings=[Binding(source="d", destination="q", routing_key="k")],
    )
    flow = MessageFlow(topology, rules)
    (first,) = flow.publish(published("", "q", headers={"x-delay": 400}, release=rules))
    (copy,) = flow.copies(first, "expired")
    assert (copy.outcome, copy.queue) == ("dead-lettered", "q")
    assert copy.rule.text == "exchange 'd' routes key 'k' to 'q' after a delay of 400 ms"
    ((_, again),) = flow.hops(first, "expired")
    (copy,) = flow.copies(again, "expired")
    assert copy.outcome == "cycle"
