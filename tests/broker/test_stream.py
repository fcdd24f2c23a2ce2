"""Streams: every consumer reads on its own, from where it asked to. Expectations were seen on live servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dlx.field_values import Long, wire_type
from dlx.message import Message
from dlx.releases import RELEASES, release
from dlx.settings import Settings, effective_settings
from dlx.topology import STREAM, Policy, Queue, Topology
from simulator.broker import Broker
from simulator.broker.commands import (
    Ack,
    Cancel,
    Command,
    Consume,
    DeclareQueue,
    DeleteQueue,
    Get,
    Nack,
    OpenChannel,
    OpenConnection,
    Publish,
    PurgeQueue,
    Qos,
    Recover,
    Reject,
    SetPolicy,
)
from simulator.broker.copies import Copy
from simulator.broker.replies import (
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    Delivered,
    QueueDeleted,
    delivered_properties,
)
from simulator.broker.stores.stream import StreamStore, age_ms
from tests import real_servers

STREAMS = tuple(name for name in RELEASES if "stream" in release(name).queue_types)
CHANNEL, OTHER = ("client", 1), ("client", 2)
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
SMALL = {"x-stream-max-segment-size-bytes": 1_000}


class Client:
    """A broker with the stream ``s`` and two channels with a prefetch of 100."""

    def __init__(self, of: str, **arguments: Any) -> None:
        self.broker = Broker(of)
        self.now_us = START_US
        self.do(OpenConnection("client"))
        for channel in (CHANNEL, OTHER):
            self.do(OpenChannel(channel))
            self.do(Qos(channel, 100))
        self.declare("s", **arguments)

    def do(self, command: Command) -> list[Any]:
        return self.broker.handle(command, self.now_us)

    def declare(self, queue: str, **arguments: Any) -> list[Any]:
        arguments = {"x-queue-type": "stream", **arguments}
        return self.do(DeclareQueue(channel=CHANNEL, queue=queue, durable=True, arguments=arguments))

    def publish(self, *bodies: str, headers: dict[str, Any] | None = None) -> list[Any]:
        replies: list[Any] = []
        for body in bodies:
            replies += self.do(Publish(CHANNEL, "", "s", {"headers": headers or {}}, body.encode()))
        return replies

    def consume(self, tag: str = "c", channel: Any = CHANNEL, **arguments: Any) -> list[Any]:
        return self.do(Consume(channel=channel, queue="s", consumer_tag=tag, arguments=dashed(arguments)))

    def offsets(self, **arguments: Any) -> list[int]:
        """What a consumer gets that starts with these arguments."""
        found = offsets(self.consume("probe", OTHER, **arguments))
        self.do(Cancel(OTHER, "probe"))
        self.do(Ack(OTHER, 0, True))
        return found


def dashed(arguments: dict[str, Any]) -> dict[str, Any]:
    """``x_stream_offset`` -> ``x-stream-offset``."""
    return {name.replace("_", "-"): value for name, value in arguments.items()}


def offsets(replies: list[Any]) -> list[int]:
    return [reply.added["x-stream-offset"] for reply in replies if isinstance(reply, Delivered)]


def refusal(replies: list[Any]) -> tuple[type, int, str]:
    (closed,) = replies
    return type(closed), closed.code, closed.text


@pytest.fixture(params=STREAMS)
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


# Where a consumer starts


def test_the_argument_says_where_a_consumer_starts(client: Client) -> None:
    client.publish("m0", "m1", "m2", "m3", "m4")
    assert client.offsets() == []
    assert client.offsets(x_stream_offset="next") == []
    assert client.offsets(x_stream_offset="first") == [0, 1, 2, 3, 4]
    assert client.offsets(x_stream_offset="last") == [4]
    assert client.offsets(x_stream_offset=3) == [3, 4]
    assert client.offsets(x_stream_offset=-1) == [0, 1, 2, 3, 4]


def test_a_consumer_can_start_at_a_time(client: Client) -> None:
    for body in ("m0", "m1", "m2", "m3"):
        client.publish(body)
        client.now_us += 10 * SECOND_US
    then = datetime.fromtimestamp(START_US // SECOND_US, UTC)
    assert client.offsets(x_stream_offset=then - timedelta(days=1)) == [0, 1, 2, 3]
    assert client.offsets(x_stream_offset=then + timedelta(seconds=10)) == [1, 2, 3]
    assert client.offsets(x_stream_offset=(then + timedelta(seconds=11)).replace(tzinfo=None)) == [2, 3]
    assert client.offsets(x_stream_offset=then + timedelta(hours=1)) == []
    assert client.offsets(x_stream_offset="20s") == [2, 3]
    assert client.offsets(x_stream_offset="1h") == [0, 1, 2, 3]
    assert client.offsets(x_stream_offset="5s") == []


def test_a_consumer_can_wait_for_an_offset_to_come(client: Client) -> None:
    client.publish("m0")
    assert offsets(client.consume(x_stream_offset=3)) == []
    assert offsets(client.publish("m1", "m2", "m3", "m4")) == [3, 4]


@pytest.mark.parametrize("start", ["first", "last", "next", 0, "1h"])
def test_the_first_message_of_an_empty_stream_reaches_those_who_wait(client: Client, start: Any) -> None:
    assert offsets(client.consume(x_stream_offset=start)) == []
    assert offsets(client.publish("m0")) == [0]


@pytest.mark.parametrize(
    ("age", "seconds"), [("7s", 7), ("5m", 300), ("2h", 7_200), ("1D", 86_400), ("1M", 30 * 86_400), ("2s\nx", 2)]
)
def test_ages(age: str, seconds: int) -> None:
    assert age_ms(age) == seconds * 1_000


@pytest.mark.parametrize("age", ["", "5", "m", "1.5h", "1h2m", "-1h", "1x"])
def test_what_is_no_age(age: str) -> None:
    with pytest.raises(ValueError, match="such as 5m"):
        age_ms(age)


# What it gets


def test_every_consumer_gets_every_message_and_the_stream_keeps_it(client: Client) -> None:
    client.consume("a")
    client.consume("b")
    client.consume("c", OTHER)
    deliveries = [(reply.consumer_tag, reply.body) for reply in client.publish("m0")]
    assert sorted(deliveries) == [("a", b"m0"), ("b", b"m0"), ("c", b"m0")]
    assert deliveries.index(("b", b"m0")) < deliveries.index(("a", b"m0")), "of a channel, the last tag is first"
    client.do(Ack(CHANNEL, 0, True))
    assert client.offsets(x_stream_offset="first") == [0]
    (declared,) = client.declare("s")
    assert (declared.messages, declared.consumers) == (1, 0)


def test_the_offset_is_a_header_of_64_bits_and_nothing_is_redelivered(client: Client) -> None:
    client.publish("m0")
    for _ in range(2):
        delivery = client.consume("c", x_stream_offset="first")[-1]
        assert wire_type(delivery.added["x-stream-offset"]) == ("l", "long")
        assert delivery.added == {"x-stream-offset": Long(0)}
        assert not delivery.redelivered
        client.do(Cancel(CHANNEL, "c"))


def test_what_a_stream_keeps_of_a_message(client: Client) -> None:
    headers = {"CC": ["k2"], "b": 1, "a": "text", "list": [1]}
    properties = {"headers": headers, "expiration": "100", "priority": 3, "cluster_id": "c"}
    client.do(Publish(CHANNEL, "", "s", properties, b"m0"))
    delivery = client.consume(x_stream_offset="first")[-1]
    read = delivered_properties(delivery.message, client.broker.release, delivery.added)
    assert "cluster_id" not in read
    assert (read["expiration"], read["priority"]) == ("100", 3)
    kept = ["CC", "a", "b", "x-stream-offset"]
    if client.broker.release.name in real_servers.until("3.12"):
        kept.remove("CC")
        assert "delivery_mode" not in read
    else:
        assert read["delivery_mode"] == 1
    assert list(read["headers"]) == kept


def test_acknowledgements_make_room_for_more(client: Client) -> None:
    client.publish("m0", "m1", "m2", "m3", "m4")
    client.do(Qos(CHANNEL, 2))
    assert offsets(client.consume(x_stream_offset="first")) == [0, 1]
    assert offsets(client.do(Ack(CHANNEL, 1))) == [2]
    assert offsets(client.do(Ack(CHANNEL, 3, True))) == [3, 4]
    assert offsets(client.do(Ack(CHANNEL, 0, True))) == []


def test_consumers_keep_the_prefetch_they_started_with(client: Client) -> None:
    client.publish("m0", "m1", "m2")
    client.do(Qos(CHANNEL, 1))
    assert offsets(client.consume(x_stream_offset="first")) == [0]
    client.do(Qos(CHANNEL, 3))
    assert offsets(client.do(Ack(CHANNEL, 1))) == [1]


@pytest.mark.parametrize("settle", [Nack(CHANNEL, 1), Nack(CHANNEL, 1, False, False), Reject(CHANNEL, 1)])
def test_rejections_are_acknowledgements_or_refused(client: Client, settle: Command) -> None:
    client.publish("m0", "m1")
    client.do(Qos(CHANNEL, 1))
    client.consume(x_stream_offset="first")
    replies = client.do(settle)
    if client.broker.release.name in real_servers.until("3.12"):
        text = "NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues queue 's' in vhost '/'"
        assert refusal(replies) == (ConnectionClosed, 540, text)
    else:
        assert offsets(replies) == [1]


def test_recover_is_an_acknowledgement_or_the_end_of_the_connection(client: Client) -> None:
    client.publish("m0", "m1")
    client.do(Qos(CHANNEL, 1))
    client.consume(x_stream_offset="first")
    replies = client.do(Recover(CHANNEL))
    if client.broker.release.name in real_servers.until("3.12"):
        (closed,) = [reply for reply in replies if isinstance(reply, ConnectionClosed)]
        assert (closed.code, closed.text) == (541, "INTERNAL_ERROR")
    else:
        assert offsets(replies) == [1]


def test_exclusive_does_not_exclude(client: Client) -> None:
    client.publish("m0")
    for tag in ("a", "b"):
        start = {"x-stream-offset": "first"}
        command = Consume(channel=CHANNEL, queue="s", consumer_tag=tag, exclusive=True, arguments=start)
        assert offsets(client.do(command)) == [0]


# Filters


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"x_stream_filter": "a"}, [0, 3]),
        ({"x_stream_filter": ["a", "c"]}, [0, 3, 4]),
        ({"x_stream_filter": "a", "x_stream_match_unfiltered": True}, [0, 2, 3]),
        ({"x_stream_match_unfiltered": True}, [0, 1, 2, 3, 4]),
        ({"x_stream_filter": ""}, [2]),
        ({"x_stream_filter": "nothing"}, []),
    ],
)
def test_filters(client: Client, arguments: dict[str, Any], wanted: list[int]) -> None:
    for value in ("a", "b", None, "a", "c"):
        client.publish("m", headers={} if value is None else {"x-stream-filter-value": value})
    if client.broker.release.name in real_servers.until("3.12"):
        wanted = [0, 1, 2, 3, 4]
    assert client.offsets(x_stream_offset="first", **arguments) == wanted


def test_a_filtering_consumer_goes_on_with_what_comes(client: Client) -> None:
    client.publish("m0", "m1", headers={"x-stream-filter-value": "b"})
    client.consume(x_stream_offset="first", x_stream_filter="a")
    assert offsets(client.publish("m2", headers={"x-stream-filter-value": "a"})) == [2]


# What is refused


def test_what_streams_refuse(client: Client) -> None:
    queue = "queue 's' in vhost '/'"
    new = client.broker.release.name in real_servers.since("4.0")
    without_prefetch = f"stream {queue}" if new else f"'{queue}'"
    client.do(Qos(CHANNEL, 0))
    expected = (ChannelClosed, 406, f"PRECONDITION_FAILED - consumer prefetch count is not set for {without_prefetch}")
    assert refusal(client.do(Consume(channel=CHANNEL, queue="s", no_ack=True))) == expected
    no_ack = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream{'' if new else ' queues'} {queue}"
    commands: list[tuple[Command, str]] = [
        (Get(OTHER, "s"), f"NOT_IMPLEMENTED - basic.get not supported by stream queues {queue}"),
        (PurgeQueue(OTHER, "s"), f"NOT_IMPLEMENTED - queue.purge not supported by stream queues {queue}"),
        (Consume(channel=OTHER, queue="s", no_ack=True), no_ack),
    ]
    for command, text in commands:
        assert refusal(Client(client.broker.release.name).do(command)) == (ConnectionClosed, 540, text)


def test_there_are_no_streams_in_3_8() -> None:
    client = Client("3.10")
    client.broker = Broker("3.8")
    client.do(OpenConnection("client"))
    client.do(OpenChannel(CHANNEL))
    text = "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 's' in vhost '/': invalid_queue_type"
    assert refusal(client.declare("s")) == (ChannelClosed, 406, text)


def test_a_stream_is_deleted_whatever_the_conditions_and_says_that_it_was_empty(client: Client) -> None:
    client.publish("m0")
    client.consume()
    replies = client.do(DeleteQueue(OTHER, "s", if_unused=True, if_empty=True))
    assert QueueDeleted(OTHER, 0) in replies
    assert ConsumerCancelled(CHANNEL, "c") not in replies, "this client did not say that it understands that"


# Dead letters


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_dead_letters_reach_streams_since_3_12(client: Client, kind: str) -> None:
    arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s"}
    client.do(DeclareQueue(channel=CHANNEL, queue="work", durable=True, arguments=arguments))
    client.do(Publish(CHANNEL, "", "work", {}, b"job"))
    client.do(Get(CHANNEL, "work"))
    client.do(Reject(CHANNEL, 1, False))
    arrived = [] if client.broker.release.name in real_servers.until("3.11") else [0]
    assert client.offsets(x_stream_offset="first") == arrived


# Retention: segments of 1000 bytes and messages of 100, as on the servers.


def log_of(of: str, count: int, *, policy: dict[str, Any] | None = None, **arguments: Any) -> StreamStore:
    """A stream after ``count`` messages of 100 bytes, one a millisecond."""
    store = StreamStore(settings_of(of, policy=policy, **arguments))
    for number in range(count):
        append(store, START_US + number * 1_000)
    return store


def settings_of(of: str, *, policy: dict[str, Any] | None = None, **arguments: Any) -> Settings:
    queue = Queue(name="pa", type=STREAM, arguments={**SMALL, **dashed(arguments)})
    policies = [] if policy is None else [Policy(name="p", pattern=".*", definition=policy)]
    return effective_settings(queue, Topology.of(queues=[queue], policies=policies), release(of))


def append(store: StreamStore, now_us: int) -> None:
    store.enter(Copy(1, Message(exchange="", routing_keys=("pa",)), b"x" * 100), now_us)


def kept(store: StreamStore) -> list[int]:
    return [copy.position for copy in store.read(0, 1_000)[0]]


@pytest.mark.parametrize(
    ("of", "left"),
    [
        ("3.10", [61, 62, 63, 64, 66, 67, 68, 69, 71, 72, 73]),
        ("4.0", [60, 61, 62, 63, 65, 66, 67, 68, 70, 71, 72, 73]),
    ],
)
def test_the_oldest_segments_go_where_they_are_too_much(of: str, left: list[int]) -> None:
    """60 messages into segments of 1000 bytes, max-length-bytes 3000: every segment's own entry takes an offset."""
    assert kept(log_of(of, 60, x_max_length_bytes=3_000)) == left


@pytest.mark.parametrize("of", STREAMS)
def test_a_small_stream_keeps_everything(of: str) -> None:
    store = log_of(of, 100, x_max_length_bytes=1, x_stream_max_segment_size_bytes=500_000_000)
    assert kept(store) == list(range(100))


def test_a_policy_beats_the_arguments_of_a_stream_even_if_it_is_larger() -> None:
    store = log_of("4.0", 40, policy={"max-length-bytes": 100_000}, x_max_length_bytes=3_000)
    assert kept(store)[0] == 0
    assert len(kept(store)) == 40


@pytest.mark.parametrize(("of", "left"), [("3.10", [41, 42, 43, 44, 46, 47, 48]), ("4.0", [45, 46, 47, 48])])
def test_a_policy_that_changes_is_applied_at_once(of: str, left: list[int]) -> None:
    store = log_of(of, 40, policy={"max-length-bytes": 100_000})
    store.configure(settings_of(of, policy={"max-length-bytes": 2_000}))
    assert kept(store) == left


@pytest.mark.parametrize("of", STREAMS)
def test_what_is_too_old_goes_when_the_next_segment_begins(of: str) -> None:
    store = log_of(of, 60, x_max_age="5s")
    assert len(kept(store)) == 60
    later_us = START_US + 6 * SECOND_US
    while store.next_offset < 80:
        append(store, later_us)
    assert kept(store)[0] > 50, "only the segment that was open is left of what was there"


@pytest.mark.parametrize("of", STREAMS)
def test_who_asks_for_what_is_gone_starts_at_the_oldest_message(of: str) -> None:
    store = log_of(of, 60, x_max_length_bytes=3_000)
    assert store.start_offset("first", START_US) == store.first_offset > 0
    (copy,), going_on = store.read(0, 1)
    assert copy.position == store.first_offset + 1, "the segment's own entry is first"
    assert going_on == copy.position + 1
    assert store.ready == store.next_offset - store.first_offset


@pytest.mark.parametrize("of", STREAMS)
def test_a_policy_reaches_the_stream(of: str) -> None:
    client = Client(of, **SMALL)
    client.publish(*["x" * 100] * 40)
    before = client.offsets(x_stream_offset="first")
    client.do(SetPolicy("/", Policy(name="p", pattern="^s$", definition={"max-length-bytes": 2_000})))
    after = client.offsets(x_stream_offset="first")
    assert before[0] == 0
    assert after == before[-len(after) :]
    assert 0 < len(after) < 10


@pytest.mark.parametrize("of", STREAMS)
def test_segments_hold_at_least_one_message(of: str) -> None:
    store = log_of(of, 3, x_stream_max_segment_size_bytes=0, x_max_age="1h", x_max_length_bytes=0)
    assert kept(store) == [4], "each has a segment of its own, and the newest stays"


# Snapshots


def test_a_restored_stream_goes_on(client: Client) -> None:
    client.publish("m0", "m1")
    client.do(Qos(CHANNEL, 1))
    client.consume(x_stream_offset="first")
    client.broker = Broker.restore(client.broker.snapshot())
    assert offsets(client.do(Ack(CHANNEL, 1))) == [1]
    client.do(Ack(CHANNEL, 2))
    assert offsets(client.publish("m2")) == [2]
