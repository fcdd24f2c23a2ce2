"""What a recording has of clients: declarations, publishes, deliveries and how they ended, refusals, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import simulator
from simulator.capture import open_log
from simulator.capture.management_api import call
from simulator.definitions import read_definitions
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import Recording, read_recording
from simulator.replay import replay_table
from simulator.server.in_process import Server


class Recorded:
    """A broker that is recorded, and a connection to it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._recorders: list[ApplicationRecorder] = []
        server.run(lambda node: self._recorders.append(ApplicationRecorder(node, folder)))
        self.connection = self.connect()

    def connect(self, name: str = "") -> pika.BlockingConnection:
        parameters = pika.URLParameters(self.server.amqp_url)
        if name:
            parameters.client_properties = {"connection_name": name}
        return pika.BlockingConnection(parameters)

    def channel(self) -> BlockingChannel:
        return self.connection.channel()

    def end(self) -> Recording:
        """Stop, and read what is in the folder."""
        if self.connection.is_open:
            self.connection.close()
        self.server.run(lambda node: self._recorders[0].stop())
        return read_recording(self.folder)


@pytest.fixture(params=["3.12", "4.3"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorded]:
    with simulator.serve(request.param, management_port=0) as server:
        yield Recorded(server, tmp_path)


def consumed(recording: Recording, queue: str) -> dict[str, Any]:
    """What clients did with a queue, without zeros."""
    found = next(each for each in recording.consumed if each.queue == queue)
    return {name: getattr(found, name) for name in found.__struct_fields__ if getattr(found, name)}


def published(recording: Recording, exchange: str, key: str) -> dict[str, Any]:
    """What clients published with a key, without zeros."""
    found = next(each for each in recording.published if (each.exchange, each.routing_key) == (exchange, key))
    return {name: getattr(found, name) for name in found.__struct_fields__ if getattr(found, name)}


def _short_string(pieces: list[bytes], value: str) -> int:
    """Do as pika, and write bytes that are not UTF-8 as they are."""
    encoded = value.encode("utf-8", "surrogateescape")
    pieces += [bytes([len(encoded)]), encoded]
    return 1 + len(encoded)


def take(channel: BlockingChannel, queue: str, number: int, act: Callable[[int, Any, bytes], object]) -> None:
    """Consume that many messages, and have ``act`` end each delivery."""
    for method, properties, body in channel.consume(queue, inactivity_timeout=10):
        assert method is not None, f"{queue}: no message"
        act(method.delivery_tag, properties, body)
        number -= 1
        if not number:
            break
    channel.cancel()


def test_all_that_was_ever_declared_is_in_the_definitions(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.exchange_declare("dlx", "topic", durable=True)
    channel.queue_declare("kept", durable=True, arguments={"x-dead-letter-exchange": "dlx"})
    channel.queue_declare("own", exclusive=True)
    channel.queue_declare("brief", auto_delete=True)
    channel.queue_bind("kept", "dlx", "orders.#")
    channel.queue_delete("brief")
    channel.exchange_delete("dlx")
    recording = recorded.end()
    definitions = read_definitions(recorded.folder / "definitions.json")
    topology = definitions.topology("/")
    assert {"kept", "own", "brief"} == {*topology.queues}
    assert topology.queues["kept"].arguments["x-dead-letter-exchange"] == "dlx"
    assert topology.exchanges["dlx"].type == "topic"
    assert [(b.source, b.destination, b.routing_key) for b in topology.bindings["dlx"]] == [("dlx", "kept", "orders.#")]
    gone = {(each.kind, each.name.partition(" (")[0]) for each in recording.declarations if each.gone_us is not None}
    assert gone == {
        ("queue", "own"), ("queue", "brief"), ("exchange", "dlx"), ("binding", "dlx -> queue kept"),
    }  # fmt: skip
    own = recording.declared("queue", "/", "own")
    assert own is not None
    assert own.item["exclusive"] is True


def test_a_queue_declared_anew_with_other_settings_is_there_with_both(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("jobs", arguments={"x-message-ttl": 1000})
    channel.queue_delete("jobs")
    channel.queue_declare("jobs", arguments={"x-message-ttl": 2000})
    found = recorded.end().declared("queue", "/", "jobs")
    assert found is not None
    assert found.times == 2
    assert found.item["arguments"]["x-message-ttl"] == 2000
    assert [each["arguments"]["x-message-ttl"] for each in found.replaces] == [1000]


def test_a_refused_declaration_names_the_client(recorded: Recorded) -> None:
    recorded.channel().queue_declare("jobs", durable=True)
    other = recorded.connect("worker-7")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        other.channel().queue_declare("jobs", durable=False)
    other.close()
    recording = recorded.end()
    (refusal,) = recording.refusals
    assert (refusal.code, refusal.method, refusal.times) == (406, "queue.declare", 1)
    assert "inequivalent arg 'durable' for queue 'jobs'" in refusal.text
    assert list(recording.clients_of(refusal.connections)) == [
        f"worker-7 (Pika Python Client Library {pika.__version__})"
    ]


def test_how_deliveries_ended(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    for number in range(6):
        channel.basic_publish("", "work", b"%d" % number)
    for end in (
        channel.basic_ack,
        lambda tag: channel.basic_reject(tag, requeue=False),
        lambda tag: channel.basic_nack(tag, requeue=True),
        channel.basic_ack,
        lambda tag: None,
    ):
        method, _, _ = channel.basic_get("work")
        end(method.delivery_tag)
    channel.basic_get("work", auto_ack=True)
    assert consumed(recorded.end(), "work") == {
        "vhost": "/", "queue": "work", "entered": 6, "declared_before": 1, "gets": 6, "deliveries": 6,
        "redeliveries": 1, "automatic": 1, "acked": 2, "rejected": 1, "requeued": 1, "abandoned": 1, "waiting": 2,
        "connections": [1],
    }  # fmt: skip


def test_what_a_delivery_limit_counts_is_told_apart(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.basic_publish("", "work", b"x")
    for give_back in (channel.basic_reject, channel.basic_nack, channel.basic_nack):
        method, _, _ = channel.basic_get("work")
        give_back(method.delivery_tag, requeue=True)
    found = consumed(recorded.end(), "work")
    assert (found["requeued"], found["failed"]) == (3, 1)


def test_a_queue_for_dead_letters_has_its_numbers_without_a_consumer(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("dead")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for _ in range(2):
        channel.basic_publish("", "work", b"x")
        method, _, _ = channel.basic_get("work")
        channel.basic_reject(method.delivery_tag, requeue=False)
    assert consumed(recorded.end(), "dead") == {"vhost": "/", "queue": "dead", "dead_letters": 2, "waiting": 2}


def test_only_what_is_committed_was_done(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.tx_select()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "work", body)
    channel.tx_rollback()
    channel.basic_publish("", "work", b"4")
    channel.tx_commit()
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.basic_publish("", "work", b"5")
    recording = recorded.end()
    found = consumed(recording, "work")
    assert (published(recording, "", "work")["times"], found["entered"]) == (1, 1)
    assert (found["acked"], found.get("rejected", 0)) == (1, 0)


def test_names_that_are_not_utf_8_are_written_as_rabbitmq_shows_them(recorded: Recorded) -> None:
    channel = recorded.channel()
    key = b"k\xff".decode("utf-8", "surrogateescape")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pika.data.encode_short_string", _short_string)
        channel._impl._send_method(
            pika.spec.Basic.Publish(exchange="", routing_key=key), (pika.BasicProperties(), b"x")
        )
    channel.queue_declare("after")
    recording = recorded.end()
    assert [each.routing_key for each in recording.published] == ["Not UTF-8, base64 is: a/8="]
    assert "a/8=" in (recorded.folder / "trace.jsonl").read_text()


def test_direct_replies_are_no_loss(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("requests")
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    channel.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    _, asked, _ = channel.basic_get("requests", auto_ack=True)
    channel.basic_publish("", asked.reply_to, b"!")
    recording = recorded.end()
    assert [each.routing_key for each in recording.published] == ["requests"]
    assert [each.queue for each in recording.consumed] == ["requests"]
    assert recording.omitted_unroutable == 0


def test_unroutable_messages_beyond_the_listed_keys_are_counted(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.record.publishes.KEYS_MAX", 1)
    channel = recorded.channel()
    for key in ("a", "b", "c"):
        channel.basic_publish("amq.topic", key, b"x")
    recording = recorded.end()
    assert (recording.omitted, recording.omitted_unroutable) == (2, 2)


def test_a_large_transaction_enters_as_it_is(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.tx_select()
    for _ in range(1_500):
        channel.basic_publish("", "work", b"x")
    channel.tx_commit()
    found = consumed(recorded.end(), "work")
    assert (found["entered"], found.get("dead_letters", 0)) == (1_500, 0)


def test_polls_count_for_the_queue_that_they_reach(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.basic_get("")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.basic_get("nowhere")
    recording = recorded.end()
    assert [(each.queue, each.gets) for each in recording.consumed] == [("work", 1)]


def test_a_refused_login_is_a_refusal(recorded: Recorded) -> None:
    parameters = pika.URLParameters(recorded.server.amqp_url.replace("://", "://app:secret@"))
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(parameters)
    (refusal,) = recorded.end().refusals
    assert (refusal.code, refusal.times) == (403, 1)
    assert "'app'" in refusal.text
    assert "secret" not in refusal.text


def test_the_management_api_is_no_client(recorded: Recorded) -> None:
    url = str(recorded.server.management_url).replace("://", "://guest:guest@")
    call(url, "queues/%2F/by-api", method="PUT", body={"durable": True})
    recording = recorded.end()
    assert len(recording.connections) == 1
    found = recording.declared("queue", "/", "by-api")
    assert found is not None
    assert list(recording.clients_of(found.connections)) == ["the management API"]


def test_equal_messages_are_not_published_again(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("ticks")
    for _ in range(3):
        channel.basic_publish("", "ticks", b"tick")
        method, _, _ = channel.basic_get("ticks")
        channel.basic_ack(method.delivery_tag)
    assert "republished" not in published(recorded.end(), "", "ticks")


def test_the_trace_has_the_ids_of_the_application_and_who_published(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.basic_publish("", "work", b"x", pika.BasicProperties(message_id="order-7"))
    channel.basic_publish("", "work", b"x")
    channel.basic_get("work")
    recording = recorded.end()
    rows = [row for batch in open_log(recorded.folder / "trace.jsonl") for row in batch.to_pylist()]
    assert [(row["line"], row["message_id"]) for row in rows] == [(1, "order-7"), (2, None), (3, "order-7")]
    assert len({row["message"] for row in rows}) == 2
    assert [row["connection"] for row in rows] == [recording.connections[0].name] * 2 + [""]


def test_consumers_and_their_prefetch(recorded: Recorded) -> None:
    one, other = recorded.channel(), recorded.channel()
    one.queue_declare("work")
    one.basic_qos(prefetch_count=3)
    one.basic_consume("work", lambda *_: None)
    other.basic_consume("work", lambda *_: None)
    one.close()
    other.basic_consume("work", lambda *_: None)
    found = consumed(recorded.end(), "work")
    assert (found["consumers"], found["consumers_max"], found["prefetch"]) == (3, 2, [3, 0])


def test_what_was_published_and_with_what(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.confirm_delivery()
    with_headers = pika.BasicProperties(headers={"tenant": "secret-1"}, expiration="500", delivery_mode=2)
    channel.basic_publish("", "work", b"secret-2", with_headers)
    channel.basic_publish("", "work", b"secret-2", pika.BasicProperties(expiration="9000"))
    channel.basic_publish("", "nowhere", b"x")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)
    recording = recorded.end()
    assert published(recording, "", "work") == {
        "vhost": "/", "routing_key": "work", "times": 2, "headers": {"tenant": 1}, "least_expiration_ms": 500,
        "most_expiration_ms": 9000, "persistent": 1, "confirmed": 2, "connections": [1],
    }  # fmt: skip
    nowhere = published(recording, "", "nowhere")
    assert (nowhere["times"], nowhere["mandatory"], nowhere["unroutable"], nowhere["returned"]) == (2, 1, 2, 1)
    for name in ("recording.json", "definitions.json"):
        assert "secret" not in (recorded.folder / name).read_text()
    assert "secret-2" not in (recorded.folder / "trace.jsonl").read_text()


def test_a_publisher_that_declares_each_time(recorded: Recorded) -> None:
    channel = recorded.channel()
    for _ in range(3):
        channel.queue_declare("each")
        channel.basic_publish("", "each", b"x")
    channel.basic_publish("", "each", b"x")
    found = consumed(recorded.end(), "each")
    assert (found["entered"], found["declared_before"]) == (4, 3)


def test_a_message_published_again_with_a_counter_of_its_own(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    channel.queue_declare("retry")
    channel.basic_publish("", "work", b"x", pika.BasicProperties(message_id="1", headers={"attempt": 1, "size": 9}))

    def again(tag: int, properties: Any, body: bytes) -> None:
        properties.headers["attempt"] += 1
        channel.basic_publish("", "retry", body, properties)
        channel.basic_ack(tag)

    take(channel, "work", 1, again)
    recording = recorded.end()
    assert consumed(recording, "work")["republished"] == 1
    found = published(recording, "", "retry")
    assert (found["republished"], found["counters"]) == (1, {"attempt": 1})
    assert "with_x_death" not in found


def test_a_message_published_again_with_its_x_death(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("dead")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    channel.basic_publish("", "work", b"x")
    take(channel, "work", 1, lambda tag, properties, body: channel.basic_reject(tag, requeue=False))

    def again(tag: int, properties: Any, body: bytes) -> None:
        channel.basic_publish("", "work", body, properties)
        channel.basic_ack(tag)

    take(channel, "dead", 1, again)
    recording = recorded.end()
    assert published(recording, "", "work")["with_x_death"] == 1
    assert "entered" not in consumed(recording, "dead")


def test_a_reply_is_not_published_again(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("requests")
    channel.queue_declare("replies")
    asked = pika.BasicProperties(correlation_id="7", reply_to="replies")
    channel.basic_publish("", "requests", b"?", asked)

    def answer(tag: int, properties: Any, body: bytes) -> None:
        channel.basic_publish("", "replies", b"!", pika.BasicProperties(correlation_id=properties.correlation_id))
        channel.basic_ack(tag)

    take(channel, "requests", 1, answer)
    assert "republished" not in published(recorded.end(), "", "replies")


def test_what_was_lost_is_told_with_its_story(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work")
    for _ in range(2):
        channel.basic_publish("", "work", b"x")
    take(channel, "work", 2, lambda tag, properties, body: channel.basic_reject(tag, requeue=False))
    (lost,) = recorded.end().lost
    assert (lost.event, lost.queue, lost.reason, lost.times) == ("dropped", "work", "rejected", 2)
    assert "published to the default exchange with the routing key 'work'" in lost.story[0]


def test_a_consumer_that_went_away_abandoned_its_deliveries(recorded: Recorded) -> None:
    recorded.channel().queue_declare("work")
    recorded.channel().basic_publish("", "work", b"x")
    other = recorded.connect()
    take_one = other.channel()
    assert take_one.basic_get("work")[0] is not None
    other.close()
    assert consumed(recorded.end(), "work")["abandoned"] == 1


@pytest.mark.parametrize(
    "recorded", ["3.12"], indirect=True
)  # from 4.3 on queues look after it, of quorum queues alone
def test_the_consumer_timeout_is_seen(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("work", durable=True)
    channel.basic_publish("", "work", b"x")
    assert channel.basic_get("work")[0] is not None
    channel.basic_consume("work", lambda *_: None)
    channel.basic_publish("", "work", b"y")
    recorded.connection.process_data_events(0.1)
    recorded.server.clock.advance(hours=2)
    recorded.connection.process_data_events(0.1)
    assert channel.is_closed
    found = consumed(recorded.end(), "work")
    assert found["timed_out"] == 1
    assert found["abandoned"] == 2


def test_the_trace_replays(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("dead")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for _ in range(3):
        channel.basic_publish("", "work", b"x")
    take(channel, "work", 3, lambda tag, properties, body: channel.basic_reject(tag, requeue=False))
    take(channel, "dead", 3, lambda tag, properties, body: channel.basic_ack(tag))
    recording = recorded.end()
    log = open_log(recorded.folder / "trace.jsonl")
    table = replay_table(log, read_definitions(recorded.folder / "definitions.json"), recording.release)
    assert table.num_rows == 9
    assert {*table["verdict"].to_pylist()} == {"agree", None}


def test_more_keys_than_are_kept_are_counted(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.record.publishes.KEYS_MAX", 2)
    channel = recorded.channel()
    for number in range(5):
        channel.basic_publish("amq.topic", f"key.{number}", b"x")
    recording = recorded.end()
    assert [each.routing_key for each in recording.published] == ["key.0", "key.1"]
    assert recording.omitted == 3


def test_dead_letters_that_are_held_at_the_end_are_counted(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.exchange_declare("dead", "direct", durable=True)
    holds = {
        "x-dead-letter-exchange": "dead",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    channel.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum", **holds})
    for _ in range(2):
        channel.basic_publish("", "work", b"")
        method, _, _ = channel.basic_get("work")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    assert consumed(recorded.end(), "work")["held"] == 2
