"""What a recorder writes down of a consumer: each delivery and what became of it, whatever ends the consumer."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

import simulator
from simulator.capture import CaptureError, open_log
from simulator.capture.journal import CaptureFile
from simulator.capture.recorder import UNSETTLED_MAX, RecordedChannel, Recorder, journal_of, recover
from simulator.server.in_process import Server

Events = list[tuple[str, str]]


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve("4.3") as running:
        yield running


@pytest.fixture
def connection(server: Server) -> Iterator[pika.BlockingConnection]:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        connection.channel().queue_declare("work")
        yield connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker.parquet"


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for batch in open_log(path) for row in batch.to_pylist()]


def events(path: Path) -> Events:
    """Each event with the message's identity."""
    return [(row["event"], row["message"]) for row in rows(path)]


def publish(channel: Any, *identities: str, **properties: Any) -> None:
    for identity in identities:
        channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id=identity, **properties))
    channel.queue_declare("work", passive=True)


def get(channel: RecordedChannel) -> int:
    method, _, _ = channel.basic_get("work")
    return method.delivery_tag


# -- every way in which a delivery ends ----------------------------------------

ENDINGS: dict[str, tuple[Callable[[Any, int], Any], list[str]]] = {
    "ack": (lambda channel, last: channel.basic_ack(last), [None, "acked"]),
    "ack multiple": (lambda channel, last: channel.basic_ack(last, multiple=True), ["acked", "acked"]),
    "ack all": (lambda channel, last: channel.basic_ack(0, multiple=True), ["acked", "acked"]),
    "nack": (lambda channel, last: channel.basic_nack(last), [None, "requeued"]),
    "nack for good": (lambda channel, last: channel.basic_nack(last, requeue=False), [None, "rejected"]),
    "nack multiple": (lambda channel, last: channel.basic_nack(last, True, False), ["rejected", "rejected"]),
    "reject": (lambda channel, last: channel.basic_reject(last, requeue=False), [None, "rejected"]),
    "requeue": (lambda channel, last: channel.basic_reject(last), [None, "requeued"]),
    "recover": (lambda channel, last: channel.basic_recover(requeue=True), ["requeued", "requeued"]),
    "close the channel": (lambda channel, last: channel.close(), ["requeued", "requeued"]),
    "close the connection": (lambda channel, last: channel.connection.close(), ["requeued", "requeued"]),
    "nothing": (lambda channel, last: None, [None, None]),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_becomes_of_a_delivery(ending: str, server: Server, path: Path) -> None:
    act, expected = ENDINGS[ending]
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
    connection.channel().queue_declare("work")
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one", "two")
        get(channel)
        act(channel, get(channel))
    settled = [(event, name) for event, name in zip(expected, ("one", "two"), strict=True) if event]
    published = [("published", "one"), ("published", "two")]
    assert events(path) == [*published, ("delivered", "one"), ("delivered", "two"), *settled]
    if connection.is_open:
        connection.close()


def test_a_channel_that_the_broker_closes_gives_back_what_it_held(
    connection: pika.BlockingConnection, path: Path
) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one")
        get(channel)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("no such queue", passive=True)
        again = recorder.wrap(connection.channel())
        again.basic_ack(get(again))
    assert [event for event, _ in events(path)] == ["published", "delivered", "requeued", "delivered", "acked"]
    assert [row["redelivered"] for row in rows(path)] == [None, False, False, True, True]


def test_what_a_closed_channel_held_goes_back_before_another_gets_it(
    connection: pika.BlockingConnection, path: Path
) -> None:
    with Recorder(path) as recorder:
        first, second = recorder.wrap(connection.channel()), recorder.wrap(connection.channel())
        publish(first, "one")
        get(first)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            first.queue_declare("no such queue", passive=True)
        second.basic_ack(get(second))
    assert [(row["event"], row["channel"]) for row in rows(path)[1:]] == [
        ("delivered", first.channel_number),
        ("requeued", first.channel_number),
        ("delivered", second.channel_number),
        ("acked", second.channel_number),
    ]


def test_with_automatic_acknowledgement_the_ack_follows_at_once(
    connection: pika.BlockingConnection, path: Path
) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one", "two", "three")
        channel.basic_get("work", auto_ack=True)
        channel.basic_consume("work", lambda *_: None, auto_ack=True)
        connection.process_data_events(0)
    done = [(event, name) for name in ("one", "two", "three") for event in ("delivered", "acked")]
    assert events(path)[3:] == done


@pytest.mark.parametrize(
    "cancel",
    [lambda channel: channel.basic_cancel("mine"), lambda channel: channel.stop_consuming()],
    ids=["basic_cancel", "stop_consuming"],
)
def test_what_a_cancelled_consumer_had_received_is_delivered(
    cancel: Callable[[Any], Any], connection: pika.BlockingConnection, path: Path
) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one", "two")
        channel.basic_consume("work", lambda *_: None, auto_ack=True, consumer_tag="mine")
        channel.queue_declare("work", passive=True)  # both have arrived when the answer has
        cancel(channel)
        assert channel.consumer_tags == []
    assert events(path)[2:] == [(event, name) for name in ("one", "two") for event in ("delivered", "acked")]
    assert {row["queue"] for row in rows(path)[2:]} == {"work"}


@pytest.mark.parametrize(
    "publish_wrongly",
    [
        lambda channel: channel.basic_publish("", "work", 5),
        lambda channel: channel.basic_publish("", "work", None),
        lambda channel: channel.basic_publish("", 7, b"job"),
        lambda channel: channel.basic_publish("", "k" * 256, b"job"),
        lambda channel: channel.basic_publish("", "work", b"job", pika.BasicProperties(headers={"a": object()})),
        lambda channel: (channel.close(), channel.basic_publish("", "work", b"job")),
    ],
    ids=["number", "no body", "routing key of the wrong type", "long routing key", "header", "closed channel"],
)
def test_a_publish_that_pika_refuses_is_no_row(
    publish_wrongly: Callable[[Any], Any], connection: pika.BlockingConnection, path: Path
) -> None:
    with pytest.raises(Exception) as plainly:
        publish_wrongly(connection.channel())
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one")
        with pytest.raises(type(plainly.value)):
            publish_wrongly(channel)
    assert events(path) == [("published", "one")]


def test_an_empty_queue_and_an_unknown_tag_are_no_rows(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        assert channel.basic_get("work") == (None, None, None)
        channel.basic_ack(7)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag 7"):
            channel.queue_declare("work", passive=True)
    with pytest.raises(CaptureError, match="no record in it"):
        events(path)


# -- the consumer notices nothing ----------------------------------------------


def test_callbacks_get_the_recorded_channel(connection: pika.BlockingConnection, path: Path) -> None:
    seen = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        seen.append((channel, method.routing_key, properties.message_id, body))
        channel.basic_ack(method.delivery_tag)
        channel.stop_consuming()

    with Recorder(path) as recorder, recorder.wrap(connection.channel()) as channel:
        publish(channel, "one")
        tag = channel.basic_consume("work", on_message, consumer_tag="mine", exclusive=True)
        channel.start_consuming()
        assert (tag, channel.consumer_tags, channel.is_open) == ("mine", [], True)
    assert seen == [(channel, "work", "one", b"job")]
    assert channel.is_closed
    assert [event for event, _ in events(path)] == ["published", "delivered", "acked"]


def test_the_generator_of_a_blocking_channel_is_recorded(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one", "two")
        for method, _, _ in channel.consume("work", inactivity_timeout=0.01):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
    assert [event for event, _ in events(path)[2:]] == ["delivered", "acked"] * 2


def test_a_select_connection_is_recorded(server: Server, path: Path) -> None:
    recorder = Recorder(path)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.basic_cancel("mine", callback=lambda _: on_cancelled(channel))

    def on_cancelled(channel: Any) -> None:
        channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id="two"))
        channel.basic_get("", on_got)

    def on_got(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        connection.close()

    def on_channel(channel: Any) -> None:
        recorded = recorder.wrap(channel)
        recorded.queue_declare("work", callback=lambda _: on_queue(recorded))

    def on_queue(channel: Any) -> None:
        channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id="one"))
        channel.basic_consume("work", on_message, consumer_tag="mine")

    connection = pika.SelectConnection(
        pika.URLParameters(server.amqp_url),
        on_open_callback=lambda opened: opened.channel(on_open_callback=on_channel),
        # Not at once: the socket is closed by what is still to be done.
        on_close_callback=lambda closed, _: closed.ioloop.add_callback_threadsafe(closed.ioloop.stop),
    )
    connection.ioloop.start()
    connection.ioloop.close()
    recorder.close()
    one = [("published", "one"), ("delivered", "one"), ("rejected", "one"), ("published", "two")]
    assert events(path) == [*one, ("delivered", "two"), ("requeued", "two")]
    assert [row["queue"] for row in rows(path)] == [None, "work", "work", None, "work", "work"]


# -- what a row says -----------------------------------------------------------


def test_a_row_says_who_where_and_when(server: Server, connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path, vhost="/", user="guest", connection="worker 1", now_us=server.clock.now_us) as recorder:
        channel = recorder.wrap(connection.channel())
        headers = {"n": 15, "CC": ["other"], "BCC": ["hidden"]}
        publish(channel, "one", headers=headers, expiration="60000", content_type="text/plain")
        get(channel)
        channel.close()
    published, delivered, requeued = rows(path)
    assert published["time_us"] == server.clock.now_us()
    assert [row["line"] for row in (published, delivered, requeued)] == [1, 2, 3]
    for row in (published, delivered, requeued):
        assert (row["file"], row["vhost"], row["user"], row["connection"]) == (path.name, "/", "guest", "worker 1")
        assert (row["channel"], row["exchange"]) == (channel.channel_number, "")
        assert (row["expiration"], row["properties"]) == ("60000", '{"content_type":"text/plain"}')
        assert row["broker_headers"] == '{"CC":["other"]}'
        assert row["headers"] == published["headers"]
    assert published["routing_keys"] == ["work", "other", "hidden"]
    assert delivered["routing_keys"] == requeued["routing_keys"] == ["work", "other"]
    assert [row["queue"] for row in (published, delivered, requeued)] == [None, "work", "work"]
    assert [row["payload"] for row in (published, delivered, requeued)] == [b"job", b"job", b""]


def test_without_a_name_the_queue_is_the_one_declared_last(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        name = channel.queue_declare("", exclusive=True).method.queue
        for identity in ("one", "two", "three"):
            channel.basic_publish("", name, b"job", pika.BasicProperties(message_id=identity))
        channel.basic_get("", auto_ack=True)
        next(channel.consume("", auto_ack=True))
        channel.cancel()
        publish(channel, "four")
        get_any = channel.basic_get("")
        assert get_any[1].message_id == "four"
    delivered = [(row["message"], row["queue"]) for row in rows(path) if row["event"] == "delivered"]
    assert delivered == [("one", name), ("two", name), ("four", "work")]


def test_names_that_are_no_utf_8_are_written_as_everywhere(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        channel.exchange_declare("fan", "fanout")
        channel.queue_bind("work", "fan")
        channel.basic_publish("fan", b"\xff\xfe", b"job", pika.BasicProperties(headers={"CC": [b"\xfe"]}))
        channel.queue_declare("work", passive=True)
        channel.basic_ack(get(channel))
    found = rows(path)
    assert [row["event"] for row in found] == ["published", "delivered", "acked"]
    for row in found:
        assert row["routing_keys"] == ["Not UTF-8, base64 is: //4=", "Not UTF-8, base64 is: /g=="]


def test_a_message_without_an_id_keeps_its_identity(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        channel.basic_publish("", "work", "jöb")
        channel.basic_publish("", "work", "other")
        channel.queue_declare("work", passive=True)
        channel.basic_ack(get(channel))
    (first, one), (_, two), *rest = events(path)
    assert first == "published"
    assert one != two
    assert rest == [("delivered", one), ("acked", one)]


# -- what is wrapped -----------------------------------------------------------


def test_only_a_channel_can_be_wrapped_and_only_once(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        with pytest.raises(TypeError, match=r"channel: expected a channel of pika, .* got a BlockingConnection"):
            recorder.wrap(connection)
        with pytest.raises(TypeError, match=r"channel: expected a channel of pika, .* got a string"):
            recorder.wrap("orders")
        channel = recorder.wrap(connection.channel())
        with pytest.raises(ValueError, match="channel: expected one without a recorder"):
            recorder.wrap(channel)


# -- whatever ends the consumer ------------------------------------------------

CRASHES = """
import os, signal, sys
import pika
from simulator.capture.recorder import Recorder

channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel = Recorder(sys.argv[2]).wrap(channel)
channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id="one"))
channel.queue_declare("work", passive=True)
channel.basic_get("work")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_consumer_had_done_is_recovered(
    server: Server, connection: pika.BlockingConnection, path: Path
) -> None:
    done = subprocess.run([sys.executable, "-c", CRASHES, server.amqp_url, str(path)], check=False)
    assert done.returncode == -9
    assert not path.exists()
    with pytest.raises(CaptureError, match=r"worker.parquet.journal: belongs to a recording that is running"):
        Recorder(path)
    assert recover(path) == 2
    assert events(path) == [("published", "one"), ("delivered", "one")]
    assert not journal_of(path).exists()


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import pika
from simulator.capture.capture_errors import CaptureError
from simulator.capture.recorder import Recorder
from simulator.capture.schema import Observation

recorder = Recorder(sys.argv[2])
channel = recorder.wrap(pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel())
channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id="one"))
channel.basic_get("work")
try:
    recorder.close()
except CaptureError as error:
    print(error)
"""


def test_recording_takes_no_pyarrow_only_making_the_capture_does(
    server: Server, connection: pika.BlockingConnection, path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_PYARROW, server.amqp_url, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: this needs pyarrow: pip install ")
    assert done.stdout.endswith(f"; the rows stay in {journal_of(path)}\n")
    assert recover(path) == 2
    assert events(path) == [("published", "one"), ("delivered", "one")]


def test_a_torn_last_line_is_left_out_and_another_one_is_named(connection: pika.BlockingConnection, path: Path) -> None:
    recorder = Recorder(path)
    publish(recorder.wrap(connection.channel()), "one", "two")
    whole = journal_of(path).read_bytes()
    recorder.close()
    path.unlink()
    journal_of(path).write_bytes(whole[:-9])
    assert recover(path) == 1
    path.unlink()
    journal_of(path).write_bytes(b"rubbish\n" + whole)
    with pytest.raises(CaptureError, match="line 1: not a row of a journal: JSON is malformed"):
        recover(path)
    assert journal_of(path).read_bytes() == b"rubbish\n" + whole
    assert not path.exists()


def test_a_consumer_that_fails_is_recorded_to_its_end(connection: pika.BlockingConnection, path: Path) -> None:
    def fail() -> None:
        with Recorder(path) as recorder:
            publish(recorder.wrap(connection.channel()), "one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert events(path) == [("published", "one")]


def test_a_full_disk_ends_the_recording_and_not_the_consumer(
    connection: pika.BlockingConnection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(path)
    channel = recorder.wrap(connection.channel())
    publish(channel, "one")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(CaptureFile, "append", full)
        publish(channel, "two")
    publish(channel, "three")
    assert [get(channel), get(channel), get(channel)] == [1, 2, 3]
    with pytest.raises(CaptureError, match="recording ended after 1 rows: No space left on device"):
        recorder.close()
    recorder.close()
    assert recover(path) == 1


def test_nothing_is_recorded_after_the_end(connection: pika.BlockingConnection, path: Path) -> None:
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one")
    publish(channel, "two")
    channel.basic_ack(get(channel))
    assert events(path) == [("published", "one")]


@pytest.mark.parametrize("name", ["there.parquet", "none/worker.parquet"])
def test_a_path_that_cannot_be_used_is_refused_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "there.parquet").touch()
    with pytest.raises(CaptureError, match=r"each recording needs a path of its own|No such file or directory"):
        Recorder(tmp_path / name)


def test_there_is_nothing_to_recover(path: Path) -> None:
    with pytest.raises(CaptureError, match=r"worker.parquet.journal: cannot be read: No such file"):
        recover(path)
    assert not path.exists()


# -- threads and memory --------------------------------------------------------


def test_channels_of_several_threads_share_a_recorder(server: Server, path: Path) -> None:
    def work(name: str) -> None:
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = recorder.wrap(connection.channel())
            channel.queue_declare("work")
            for number in range(100):
                publish(channel, f"{name}-{number}")
                channel.basic_ack(get(channel))

    with Recorder(path) as recorder:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = rows(path)
    assert [row["line"] for row in found] == list(range(1, 1201))
    for event in ("published", "delivered", "acked"):
        assert sum(row["event"] == event for row in found) == 400


def test_what_is_kept_of_unsettled_deliveries_is_bounded(
    connection: pika.BlockingConnection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert UNSETTLED_MAX >= 65_535  # the largest prefetch
    monkeypatch.setattr("simulator.capture.recorder.UNSETTLED_MAX", 2)
    with Recorder(path) as recorder:
        channel = recorder.wrap(connection.channel())
        publish(channel, "one", "two", "three")
        for _ in range(3):
            get(channel)
        channel.basic_ack(0, multiple=True)
    assert events(path)[6:] == [("acked", "two"), ("acked", "three")]
