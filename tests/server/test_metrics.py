"""What a simulated node shows Prometheus, read as Prometheus and the project's own reader read it."""

from __future__ import annotations

import urllib.error
import urllib.request

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

import simulator
from dlx.global_counters import Account, Series
from simulator.broker.commands import SetGlobalParameter
from simulator.capture.live import parsed, read_metrics

PLAIN = {
    "rabbitmq_connections", "rabbitmq_channels", "rabbitmq_consumers", "rabbitmq_queues",
    "rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked", "rabbitmq_queue_messages",
}  # fmt: skip


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return response.read().decode()


def totals(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {each.name: each.value for family in families for each in family.samples if each.name in PLAIN}


def test_sums_over_all_queues_and_clients_are_those_of_now() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        url = f"{server.management_url}metrics"
        assert totals(fetched(url)) == dict.fromkeys(PLAIN, 0)
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel, _ = connection.channel(), connection.channel()
            for queue in ("consumed", "other"):
                channel.queue_declare(queue)
                for _ in range(2):
                    channel.basic_publish("", queue, b"")
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume("consumed", lambda *_: None)
            assert totals(fetched(url)) == {
                "rabbitmq_connections": 1, "rabbitmq_channels": 2, "rabbitmq_consumers": 1, "rabbitmq_queues": 2,
                "rabbitmq_queue_messages_ready": 3, "rabbitmq_queue_messages_unacked": 1, "rabbitmq_queue_messages": 4,
            }  # fmt: skip


def test_the_management_port_shows_what_the_metrics_port_shows_without_a_password() -> None:
    with simulator.serve("4.0", management_port=0, metrics_port=0) as server:
        assert fetched(f"{server.management_url}metrics") == fetched(str(server.metrics_url))
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(f"{server.management_url}metrics", b"", timeout=10)


def test_a_day_of_retries_is_counted_by_reason_and_strategy() -> None:
    retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    wait = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    with simulator.serve("4.3", management_port=0) as server:
        before = read_metrics(f"{server.management_url}metrics")
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum", **retry})
            channel.queue_declare("wait", arguments=wait)
            channel.basic_publish("", "work", b"")
            for _ in range(3):
                method, _, _ = channel.basic_get("work")
                channel.basic_reject(method.delivery_tag, requeue=False)
                channel.queue_declare("wait", passive=True)
                server.clock.advance(minutes=1)
        risen = before.until(read_metrics(f"{server.management_url}metrics")).counted()
    by_protocol = (("protocol", "amqp091"),)
    got = Series("messages_delivered_get_manual_ack", (*by_protocol, ("queue_type", "rabbit_quorum_queue")))
    assert risen[Account("rejected", "quorum", "at_most_once").series] == 3
    assert risen[Account("expired", "classic", "at_most_once").series] == 3
    assert risen[Series("messages_received", by_protocol)] == 1
    assert risen[got] == 3


def test_3_8_has_sums_but_no_global_counters() -> None:
    with simulator.serve("3.8", management_port=0) as server:
        text = fetched(f"{server.management_url}metrics")
    assert "rabbitmq_global" not in text
    assert totals(text).keys() == PLAIN
    assert 'rabbitmq_build_info{prometheus_plugin_version="3.8.9",rabbitmq_version="3.8.9"} 1.0' in text


def test_an_alarm_is_shown_from_3_10_on() -> None:
    for release, shown in (("3.8", []), ("4.3", ["free_disk_space_watermark 0.0", "memory_used_watermark 1.0"])):
        with simulator.serve(release, management_port=0) as server:
            server.faults.add("alarm", resource="memory")
            lines = fetched(f"{server.management_url}metrics").splitlines()
        assert [line for line in lines if line.startswith("rabbitmq_alarms")] == [f"rabbitmq_alarms_{s}" for s in shown]


def test_the_node_and_cluster_are_named() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        server.handle(SetGlobalParameter("cluster_name", "orders"))
        text = fetched(f"{server.management_url}metrics")
    assert 'rabbitmq_identity_info{rabbitmq_cluster="orders",rabbitmq_node="rabbit@localhost"} 1.0' in text
    assert parsed(text, 0).node == "rabbit@localhost"
