"""What a recording of a running server has, and what it says that it could not see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest

import simulator
from simulator.capture import CaptureUnavailable
from simulator.capture.capture_errors import CaptureError
from simulator.capture.management_api import call
from simulator.cli.main import main
from simulator.record import live
from simulator.record.live import record_server
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import DEFINITIONS, FORMAT, Recording, read_recording
from simulator.record.server_objects import GrowingCounters, Poll, ServerObjects
from simulator.server.in_process import Server
from tests.record.random_client import recorded, told

SEEDS = (21, 34, 55, 89)


@pytest.mark.parametrize("release", ["3.12", "4.3"])
def test_it_has_what_a_recorder_inside_the_broker_has(release: str, tmp_path: Path) -> None:
    inside: list[ApplicationRecorder] = []
    with simulator.serve(release=release, port=0, management_port=0) as server:
        server.run(lambda node: inside.append(ApplicationRecorder(node)))
        outside = recorded(_url(server), server.amqp_url, "/", tmp_path / "recording", SEEDS)
        server.run(lambda node: inside[0].stop())
    assert told(outside) == told(inside[0].recording)
    by_key = {(each.exchange, each.routing_key): each for each in inside[0].recording.published}
    for each in outside.published:
        known = by_key[each.exchange, each.routing_key]
        assert each.mandatory <= known.mandatory
        assert each.returned <= known.returned
    assert any(" unroutable messages of one channel" in clause for clause in outside.not_seen)
    by_queue = {each.queue: each for each in inside[0].recording.consumed}
    for queue in outside.consumed:
        assert queue.rejected <= by_queue[queue.queue].rejected
    assert any(queue.rejected for queue in outside.consumed)


class Recorded:
    """A server and a recording of it, which a test ends."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.polled = threading.Semaphore(0)
        self.ended, self._stop = threading.Event(), threading.Event()

    def while_it(self, act: Callable[[], object], **options: Any) -> Recording:
        """Record while ``act`` does something; ``polls`` waits for polls."""

        def run() -> None:
            try:
                self.polls()
                act()
            finally:
                self._stop.set()

        acting = threading.Thread(target=run)
        acting.start()
        self.folder.mkdir()
        settings = {"seconds": 60, "poll_seconds": 0.05, "stop": self._stop.is_set, "on_poll": self.polled.release}
        found = record_server(options.pop("url", _url(self.server)), self.folder, **{**settings, **options})
        self.ended.set()
        acting.join()
        assert found == read_recording(self.folder)
        return found

    def polls(self) -> None:
        """Wait until it has polled twice more."""
        while self.polled.acquire(blocking=False):
            pass
        for _ in range(2):
            assert self.polled.acquire(timeout=30)

    def publish(self) -> None:
        """Declare a queue, publish to it and get one message."""
        with pika.BlockingConnection(pika.URLParameters(self.server.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("orders")
            self.polls()
            for _ in range(3):
                channel.basic_publish("", "orders", b"secret body")
            channel.basic_get("orders", auto_ack=True)
            self.polls()


@pytest.fixture
def server() -> Any:
    with simulator.serve(port=0, management_port=0) as started:
        yield started


@pytest.fixture
def recording(server: Server, tmp_path: Path) -> Recorded:
    return Recorded(server, tmp_path / "recording")


def test_without_tracing_it_has_declarations_and_counters(recording: Recorded) -> None:
    found = recording.while_it(recording.publish)
    [orders] = found.consumed
    assert (orders.queue, orders.entered, orders.deliveries, orders.gets, orders.automatic) == ("orders", 3, 1, 1, 1)
    assert [(each.kind, each.name, each.times) for each in found.declarations] == [("queue", "orders", 1)]
    assert not found.published
    assert any("--enable" in clause and "rabbitmqctl trace_on -p /" in clause for clause in found.not_seen)
    assert any("rabbitmq-plugins enable rabbitmq_event_exchange" in clause for clause in found.not_seen)
    assert (recording.folder / "trace.jsonl").read_text() == ""
    assert not call(_url(recording.server), "vhosts/%2F")["tracing"]


def test_enabled_it_has_messages_without_their_bodies_and_leaves_nothing(recording: Recorded) -> None:
    found = recording.while_it(recording.publish, enable=True)
    [orders] = found.published
    assert (orders.exchange, orders.routing_key, orders.times, orders.unroutable) == ("", "orders", 3, 0)
    assert not any("--enable" in clause for clause in found.not_seen)
    rows = [json.loads(line) for line in (recording.folder / "trace.jsonl").read_text().splitlines()]
    assert [(row["event"], row["payload"]) for row in rows] == [("published", "")] * 3 + [("delivered", "")]
    assert not call(_url(recording.server), "vhosts/%2F")["tracing"]
    assert [queue["name"] for queue in call(_url(recording.server), "queues")] == ["orders"]
    assert [each["name"] for each in json.loads((recording.folder / DEFINITIONS).read_text())["queues"]] == ["orders"]


def test_what_was_there_before_was_declared_by_nobody(recording: Recorded) -> None:
    call(_url(recording.server), "queues/%2F/old", method="PUT", body={"durable": True})
    found = recording.while_it(recording.publish)
    assert {each.name: each.times for each in found.declarations} == {"old": 0, "orders": 1}


def test_a_queue_declared_anew_with_other_settings_replaces_the_one_before(recording: Recorded) -> None:
    def declare_twice() -> None:
        for durable in (True, False):
            call(_url(recording.server), "queues/%2F/orders", method="PUT", body={"durable": durable})
            recording.polls()
            call(_url(recording.server), "queues/%2F/orders", method="DELETE")
            recording.polls()

    [orders] = recording.while_it(declare_twice).declarations
    assert (orders.times, orders.gone_us is not None) == (2, True)
    assert (orders.item["durable"], [each["durable"] for each in orders.replaces]) == (False, [True])


def test_a_server_that_goes_away_ends_it_with_what_there_is(recording: Recorded) -> None:
    def publish_and_stop() -> None:
        recording.publish()
        recording.server.stop()
        assert recording.ended.wait(30)

    found = recording.while_it(publish_and_stop, enable=True)
    assert sum(each.times for each in found.published) == 3
    assert any("when the server went away" in clause for clause in found.not_seen)
    assert any("rabbitmqctl trace_off -p /" in clause for clause in found.not_seen)


def test_ctrl_c_ends_it_with_what_there_is(server: Server, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    call(_url(server), "queues/%2F/orders", method="PUT", body={})
    found = record_server(_url(server), tmp_path, enable=True, on_poll=interrupt)
    assert [each.name for each in found.declarations] == ["orders"]
    assert found == read_recording(tmp_path)
    assert not call(_url(server), "vhosts/%2F")["tracing"]


@pytest.mark.parametrize("command", ["record", "capture"])
def test_the_end_of_the_terminal_switches_tracing_off(command: str, server: Server, tmp_path: Path) -> None:
    out = os.fspath(tmp_path / "out")
    options = {
        "record": ["--url", _url(server), "--enable", "--out", out],
        "capture": ["--url", server.amqp_url, "--management-url", _url(server), "--out", f"{out}.jsonl"],
    }
    run = [sys.executable, "-m", "simulator.cli.main", command, *options[command]]
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is, and then in the command, too
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    signal.signal(signal.SIGHUP, ignored)
    try:
        _wait_until(lambda: _is_traced(server))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode >= 0
    assert not _is_traced(server)


def test_tracing_that_was_on_already_stays_on_and_is_named(recording: Recorded) -> None:
    call(_url(recording.server), "vhosts/%2F", method="PUT", body={"tracing": True})
    found = recording.while_it(recording.publish, enable=True)
    assert _clauses(found, "rabbitmqctl trace_off") == [
        "who switched tracing of / on: it was on already, and it stays on (rabbitmqctl trace_off -p /)"
    ]
    assert _is_traced(recording.server)


@pytest.mark.parametrize("enable", [True, False])
def test_a_firehose_that_somebody_switches_off_is_named(recording: Recorded, enable: bool) -> None:
    url = _url(recording.server)
    call(url, "vhosts/%2F", method="PUT", body={"tracing": True})  # as another recording does

    def switch_off_and_publish() -> None:
        call(url, "vhosts/%2F", method="PUT", body={"tracing": False})
        recording.polls()
        recording.publish()

    found = recording.while_it(switch_off_and_publish, enable=enable)
    [clause] = _clauses(found, "somebody else switched off")
    assert clause.startswith("messages in / from " if enable else "messages in / after ")
    assert sum(each.times for each in found.published) == (3 if enable else 0)
    assert not _clauses(found, "rabbitmqctl trace_off")
    assert not _is_traced(recording.server)


def test_amqp_that_does_not_answer_is_named(recording: Recorded) -> None:
    found = recording.while_it(recording.polls, enable=True, amqp_url="amqp://guest:guest@127.0.0.1:1/")
    assert "AMQP at 127.0.0.1:1/" in _clauses(found, "its firehose could not be read")[0]
    assert not _clauses(found, "the firehose was off")


@pytest.mark.parametrize("release", ["3.8", "4.3"])
def test_only_a_release_that_does_not_count_them_misses_empty_polls(release: str, tmp_path: Path) -> None:
    with simulator.serve(release, port=0, management_port=0) as server:
        found = record_server(_url(server), tmp_path, seconds=0.1)
    assert len(_clauses(found, "polls by basic.get that found nothing")) == (release == "3.8")


@pytest.mark.parametrize(
    ("seconds", "stats", "messages", "unseen"),
    [
        (20, {"deliver_get": 6}, 0, ["how 6 deliveries of 'jobs' ended, which nobody acknowledged"]),
        (20, {"deliver_get": 9, "ack": 4, "redeliver": 2, "get_no_ack": 2}, 0, ["how 1 delivery of 'jobs' ended"]),
        (20, {"deliver_get": 6, "ack": 6}, 0, []),
        (20, {"deliver_get": 6}, 1, []),  # which may be unacknowledged
        (2, {"deliver_get": 6}, 0, []),  # whose acknowledgements the server may not have counted yet
    ],
)
def test_deliveries_that_end_unseen_are_named(
    seconds: int, stats: dict[str, int], messages: int, unseen: list[str]
) -> None:
    objects = ServerObjects(None, "own")
    queue = {"name": "jobs", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    polls = [(0, {}, 0), (1, stats, messages), (1 + seconds, stats, messages)]
    for at_s, counted, there in polls:
        queues = [{**queue, "message_stats": counted, "messages": there}]
        objects.polled(
            Poll(
                at_us=at_s * 1_000_000,
                queues=queues,
                exchanges=[],
                bindings=[],
                connections=[],
                channels=[],
                consumers=[],
            )
        )
    found = Recording(format=FORMAT, of="test", release="4.3", began_us=0)
    objects.finish(found, traced=[])
    assert len(found.not_seen) == len(unseen)
    assert all(clause.startswith(start) for clause, start in zip(found.not_seen, unseen, strict=True))


def test_a_consumer_whose_event_comes_late_counts_once() -> None:
    objects = ServerObjects(None, "own")
    objects.event("channel.created", {"pid": "<1>", "name": "a -> b (1)", "timestamp_in_ms": 1000})
    there = [{"consumer_tag": "t", "channel_details": {"name": "a -> b (1)"}, "queue": {"vhost": "/", "name": "jobs"}}]
    for at_us, consumers in ((1_100_000, there), (1_300_000, [])):
        objects.polled(
            Poll(at_us=at_us, queues=[], exchanges=[], bindings=[], connections=[], channels=[], consumers=consumers)
        )
    fields = {"channel": "<1>", "consumer_tag": "t", "vhost": "/", "queue": "jobs", "prefetch_count": 0}
    objects.event("consumer.created", {**fields, "timestamp_in_ms": 1050})
    assert objects.consumption("/", "jobs").consumers == 1


def test_a_consumer_that_a_server_lists_again_counts_once() -> None:
    objects = ServerObjects(None, "own")
    there = [{"consumer_tag": "t", "channel_details": {"name": "a -> b (1)"}, "queue": {"vhost": "/", "name": "jobs"}}]
    for at_us, consumers in enumerate(([], there, [], there)):
        objects.polled(
            Poll(at_us=at_us, queues=[], exchanges=[], bindings=[], connections=[], channels=[], consumers=consumers)
        )
    assert objects.consumption("/", "jobs").consumers == 1


def test_who_is_no_administrator_is_told_what_is_missing(recording: Recorded) -> None:
    url = _url(recording.server)
    call(url, "users/op", method="PUT", body={"password": "a-password", "tags": "management"})
    call(url, "permissions/%2F/op", method="PUT", body={"configure": ".*", "write": ".*", "read": ".*"})
    call(url, "policies/%2F/limits", method="PUT", body={"pattern": ".*", "definition": {"max-length": 5}})
    found = recording.while_it(recording.publish, url=url.replace("guest:guest", "op:a-password"))
    assert "orders" in [each.name for each in found.declarations]
    assert any("the user 'op' is no administrator, so this was not seen: users" in clause for clause in found.not_seen)
    assert any("no tag 'monitoring'" in clause for clause in found.not_seen)
    document = json.loads((recording.folder / DEFINITIONS).read_text())
    assert [each["name"] for each in document["policies"]] == ["limits"]
    assert all("a-password" not in path.read_text() for path in recording.folder.iterdir())
    with pytest.raises(CaptureUnavailable, match="`rabbitmqctl trace_on -p /` switches it on"):
        record_server(url.replace("guest:guest", "op:a-password"), recording.folder, enable=True)


def test_a_virtual_host_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(CaptureUnavailable, match="no virtual host 'shop' for this user; there is /"):
        record_server(_url(server), tmp_path, vhost="shop")


def test_tracing_needs_one_virtual_host(server: Server, tmp_path: Path) -> None:
    call(_url(server), "vhosts/shop", method="PUT", body={})
    with pytest.raises(CaptureError, match="expected which one of /, shop"):
        record_server(_url(server), tmp_path, enable=True)


def test_a_wrong_password_is_not_printed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(CaptureUnavailable, match="wrong user or password") as caught:
        record_server(_url(server).replace("guest:guest", "guest:a-password"), tmp_path)
    assert "a-password" not in str(caught.value)


def test_the_command_says_what_was_not_seen(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(_url(server), "queues/%2F/orders", method="PUT", body={})
    out = tmp_path / "recording"
    assert main(["record", "--url", _url(server), "--for", "0.2s", "--out", os.fspath(out)]) == 0
    printed = capsys.readouterr()
    assert "Not recorded: what was published in /" in printed.out
    assert "`rabbitmqctl trace_on -p /` for good" in printed.out
    assert f"0 messages published, 0 connections; the recording is in {out}" in printed.err
    assert [each.name for each in read_recording(out).declarations] == ["orders"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--url", "http://localhost:1", "--", "ls"], 64, "COMMAND: not with --url, which records a running server"),
        (["--url", "http://localhost:1", "--port", "5672"], 64, "--port: not with --url"),
        (["--url", "amqp://guest:a-password@localhost"], 64, "expected the management URL of a server"),
        (["--enable", "--", "ls"], 64, "--enable: only with --url"),
        ([], 64, "Missing argument 'COMMAND...', or --url for a running server"),
        (["--url", "http://guest:a-password@127.0.0.1:1"], 69, "http://127.0.0.1:1: management API: no answer"),
    ],
)
def test_wrong_usage_says_what_would_be_right(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "--out", os.fspath(tmp_path / "recording"), *words]) == code
    printed = capsys.readouterr().err
    assert said in printed
    assert "a-password" not in printed


def _clauses(found: Recording, text: str) -> list[str]:
    return [clause for clause in found.not_seen if text in clause]


def _is_traced(server: Server) -> bool:
    return bool(call(_url(server), "vhosts/%2F")["tracing"])


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _url(server: Server) -> str:
    assert server.management_url is not None
    return server.management_url.replace("://", "://guest:guest@")


@pytest.mark.parametrize(
    ("url", "ports", "found"),
    [
        ("https://u:p@broker.example:15671/", {"amqp": 5672, "amqp/ssl": 5671}, "amqps://u:p@broker.example:5671/"),
        ("http://u:p@broker.example:15672/", {"amqp": 5672, "amqp/ssl": 5671}, "amqp://u:p@broker.example:5672/"),
        ("http://u:p@broker.example:15671/", {"amqp/ssl": 5671}, "amqps://u:p@broker.example:5671/"),
        ("https://u:p@broker.example:15671/", {}, "amqps://u:p@broker.example:5671/"),
    ],
)
def test_amqp_is_encrypted_where_the_management_api_is(url: str, ports: dict[str, int], found: str) -> None:
    listeners = [{"protocol": protocol, "port": port} for protocol, port in ports.items()]
    assert live._amqp_url(url, {"listeners": listeners}) == found


def test_a_password_does_not_go_to_a_port_without_tls_on_its_own() -> None:
    listeners = [{"protocol": "amqp", "port": 5672}]
    with pytest.raises(CaptureError, match="--amqp-url"):
        live._amqp_url("https://u:p@broker.example:15671/", {"listeners": listeners})


def test_a_poll_without_counters_forgets_none() -> None:
    counters = GrowingCounters(("ack",))
    for poll in ({"q": {"ack": 1_000}}, {"q": {}}, {"q": {"ack": 1_001}}):
        counters.read(poll)
    assert counters.totals["q"]["ack"] == 1


@pytest.mark.parametrize(
    ("counts", "held"),
    [([2, 5, 5], 2), ([5, 0, 5], 0), ([5, 5, None], 0), ([None, None, 5], 0), ([0, 0, 9, 4, 6, 5], 4)],
)
def test_dead_letters_that_were_there_for_long_were_held(counts: list[int | None], held: int) -> None:
    """Polls are six seconds apart: what only one of them shows was on its way."""
    objects = ServerObjects(None, "own")
    for number, count in enumerate(counts):
        queues = [{"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}]
        if count is not None:
            queues[0]["messages_dlx"] = count
        nothing: dict[str, Any] = {"exchanges": [], "bindings": [], "connections": [], "channels": [], "consumers": []}
        objects.polled(Poll(at_us=number * 6_000_000, queues=queues, **nothing))
    objects.finish(Recording(format=FORMAT, of="test", release="4.3", began_us=0), traced=[])
    assert objects.consumption("/", "q").held == held
