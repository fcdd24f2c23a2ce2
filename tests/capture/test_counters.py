"""The counters beside a capture: read from a node's metrics, written, read again; errors say what is wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

import simulator
from dlx.global_counters import Account
from simulator.capture import CaptureError, CaptureUnavailable
from simulator.capture.counters import CounterReadings, path_beside, read_counters, write_counters
from simulator.capture.live import parsed, read_metrics
from simulator.cli.main import main

LOST = Account("expired", "classic", "disabled")
TEXT = """\
# TYPE rabbitmq_identity_info untyped
rabbitmq_identity_info{rabbitmq_node="rabbit@a",rabbitmq_cluster="rabbit@a"} 1
rabbitmq_build_info{rabbitmq_version="4.0.5",erlang_version="27.2"} 1
# TYPE erlang_vm_memory_bytes_total gauge
erlang_vm_memory_bytes_total{kind="system"} 70000000
# TYPE rabbitmq_global_messages_dead_lettered_expired_total counter
# HELP rabbitmq_global_messages_dead_lettered_expired_total Total number
rabbitmq_global_messages_dead_lettered_expired_total{LABELS} 7
""".replace("LABELS", 'queue_type="rabbit_classic_queue",dead_letter_strategy="disabled"')


def readings(before: int, after: int, **changes: Any) -> CounterReadings:
    first = parsed(TEXT.replace("} 7", f"}} {before}"), 1_000)
    node = first.until(parsed(TEXT.replace("} 7", f"}} {after}"), 2_000))
    return CounterReadings(nodes=(node,), vhost="/", **changes)


def document(tmp_path: Path, **changes: Any) -> Path:
    """A file of counters in which some fields are others; ``None`` leaves a field out."""
    write_counters(tmp_path / "log.counters.json", readings(3, 10))
    content = json.loads((tmp_path / "log.counters.json").read_text()) | changes
    path = tmp_path / "changed.json"
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    return path


# The metrics


def test_metrics_tell_node_release_and_counters() -> None:
    found = parsed(TEXT, 5)
    assert (found.node, found.release, found.reading.time_us) == ("rabbit@a", "4.0.5", 5)
    assert found.reading.by_series() == {LOST.series: 7}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<html>no metrics</html>", "not Prometheus' text"),
        ("", "does not name the node"),
        (TEXT.replace("rabbitmq_identity_info{", "other_info{"), "does not name the node"),
        (TEXT.replace("_expired_total", "_elapsed_total").replace("4.0.5", "3.8.9"), "RabbitMQ 3.8.9 does not count"),
    ],
)
def test_metrics_of_something_else_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parsed(text, 0)


def test_a_simulated_node_shows_what_it_counts() -> None:
    with simulator.serve("4.0", metrics_port=0) as server:
        before = read_metrics(str(server.metrics_url))
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q", arguments={"x-message-ttl": 0})
            channel.basic_publish("", "q", b"")
            channel.queue_delete("q")
        after = read_metrics(str(server.metrics_url).removesuffix("/metrics"))
    risen = {series: count for series, count in before.until(after).counted().items() if count}
    assert risen.pop(LOST.series) == 1
    assert {series.name: count for series, count in risen.items()} == {"messages_received": 1, "messages_routed": 1}


def test_a_simulated_3_8_counts_no_dead_letters() -> None:
    says = r"RabbitMQ 3\.8\.9 does not count dead letters: RabbitMQ 3\.10 and later do"
    with simulator.serve("3.8", metrics_port=0) as server, pytest.raises(CaptureUnavailable, match=says):
        read_metrics(str(server.metrics_url))


def test_a_wrong_url_is_told_without_its_password() -> None:
    with simulator.serve("4.3", metrics_port=0) as server:
        wrong = str(server.metrics_url).replace("http://", "http://me:secret@") + "/nothing"
        with pytest.raises(CaptureUnavailable, match="404 Not Found; expected the metrics of") as error:
            read_metrics(wrong)
    assert "secret" not in str(error.value)
    with pytest.raises(CaptureUnavailable, match=r"no answer: .*; is the Prometheus plugin on\?"):
        read_metrics(wrong)


def test_another_node_in_the_same_place_is_not_the_same() -> None:
    first, other = parsed(TEXT, 0), parsed(TEXT.replace("rabbit@a", "rabbit@b"), 1)
    with pytest.raises(ValueError, match=r"first rabbit@a of RabbitMQ 4\.0\.5 answered, then rabbit@b of 4\.0\.5"):
        first.until(other)


# The file


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    written = readings(3, 10, cut=("it ended after 5 rows, as requested",))
    write_counters(path_beside(tmp_path / "log.parquet"), written)
    found = read_counters(tmp_path / "log.counters.json")
    assert found == written
    assert found.counted() == {LOST.series: 7}


def test_several_nodes_count_together() -> None:
    one = readings(3, 10).nodes[0]
    other = parsed(TEXT.replace("rabbit@a", "rabbit@b"), 0)
    both = CounterReadings(nodes=(one, other.until(other)), vhost="/")
    assert both.counted() == {LOST.series: 7}
    assert both.names == ("rabbit@a", "rabbit@b")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "something"}, "its format is not 'dlx global counters'; expected the file that `dlx capture"),
        ({"version": 2}, "version: expected 1, got 2"),
        ({"nodes": []}, r"nodes: expected a list of length >= 1"),
        ({"nodes": None}, "nodes: is missing; expected the file that `dlx capture"),
        ({"vhost": 3}, r"vhost: expected text, got a whole number"),
        ({"nodes": [{"node": "a"}]}, r"nodes\[0\].release: is missing"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = document(tmp_path, **changes)
    with pytest.raises(CaptureError, match=says) as error:
        read_counters(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_node_that_is_there_twice_would_count_twice(tmp_path: Path) -> None:
    nodes = json.loads(document(tmp_path).read_text())["nodes"]
    with pytest.raises(CaptureError, match=r"nodes\[1\].node: 'rabbit@a' is there twice"):
        read_counters(document(tmp_path, nodes=nodes * 2))


def test_times_that_run_backwards_are_refused(tmp_path: Path) -> None:
    (node,) = json.loads(document(tmp_path).read_text())["nodes"]
    node["after"]["time_us"] = 1
    with pytest.raises(CaptureError, match=r"nodes\[0\].after.time_us: expected a time after"):
        read_counters(document(tmp_path, nodes=[node]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"value": "x"}, r"nodes\[0\].after.counters\[0\].value: expected a whole number, got text"),
        ({"value": -1}, r"nodes\[0\].after.counters\[0\].value: expected a whole number >= 0"),
        ({"name": "messages_received"}, r"nodes\[0\].after.counters: has no counters of dead letters"),
    ],
)
def test_a_wrong_counter_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    (node,) = json.loads(document(tmp_path).read_text())["nodes"]
    node["after"]["counters"][0] |= changes
    with pytest.raises(CaptureError, match=says):
        read_counters(document(tmp_path, nodes=[node]))


def test_a_restarted_node_is_told(tmp_path: Path) -> None:
    write_counters(tmp_path / "x.json", readings(10, 3))
    with pytest.raises(CaptureError, match="node rabbit@a was restarted during the capture"):
        read_counters(tmp_path / "x.json")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"[]", TEXT.encode(), b"\xff"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(CaptureError, match="expected the file that `dlx capture --metrics-url` writes"):
        read_counters(tmp_path / "other")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"nowhere\.json: No such file or directory; expected the file"):
        read_counters(tmp_path / "nowhere.json")


# dlx capture


def captured(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["capture", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@contextmanager
def publishing(url: str) -> Iterator[None]:
    """Publish a message now and then, from a thread."""
    stop = threading.Event()

    def publish() -> None:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            while not stop.wait(0.02):
                channel.basic_publish("", "nowhere", b"")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_capture_writes_the_counters_beside_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    with simulator.serve("4.3", management_port=0, metrics_port=0) as server:
        urls = ["--url", f"{server.amqp_url}%2F", "--management-url", str(server.management_url)]
        more = ["--metrics-url", str(server.metrics_url), "--limit", "3", "--pattern", "publish.#"]
        with publishing(server.amqp_url):
            code, shown, _ = captured(capsys, *urls, *more, "--out", str(out))
    beside = tmp_path / "log.counters.json"
    assert (code, shown) == (0, f"3 rows in {out}\nthe broker's counters are in {beside}\n")
    found = read_counters(beside)
    assert [(node.node, node.release) for node in found.nodes] == [("rabbit@localhost", "4.3.6")]
    assert found.cut == ("it ended after 3 rows, as requested", "it has only the traces that match publish.#")
    risen = {series.name: count for series, count in found.counted().items() if count}
    assert risen["messages_received"] == risen["messages_unroutable_dropped"] >= 3


def test_without_the_counters_nothing_is_captured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with simulator.serve("3.8", metrics_port=0) as server:
        urls = ["--url", server.amqp_url, "--metrics-url", str(server.metrics_url), "--out", str(tmp_path / "x")]
        code, _, shown = captured(capsys, *urls)
    assert code == 69
    assert "RabbitMQ 3.8.9 does not count dead letters" in shown
    assert list(tmp_path.iterdir()) == []


def test_a_url_of_another_kind_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, shown = captured(capsys, "--url", "amqp://x", "--out", str(tmp_path / "x"), "--metrics-url", "ftp://x")
    assert code == 64
    assert "--metrics-url: expected a URL such as http://user:password@host:port" in shown
