"""Plugins of a served node: which exchange types it has, and what it says of others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

import simulator
from dlx.server_plugins import UnknownPluginError, enabled_plugins, named_plugins
from simulator.cli.main import main
from tests.management.client import Simulated
from tests.plugins.client import http


def _declare(server: Any, type: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        connection.channel().exchange_declare("spread", exchange_type=type, durable=True)


def test_a_plugin_that_is_enabled_has_its_exchange_type() -> None:
    with simulator.serve("4.0", plugins=["random"]) as server:
        _declare(server, "x-random")


@pytest.mark.parametrize(
    ("release", "error", "text"),
    [
        ("3.8", ConnectionClosedByBroker, "COMMAND_INVALID - unknown exchange type 'x-random'"),
        ("4.0", ChannelClosedByBroker, "PRECONDITION_FAILED - unknown exchange type 'x-random'"),
    ],
)
def test_without_it_the_type_is_refused_in_the_servers_words(release: str, error: Any, text: str) -> None:
    with simulator.serve(release) as server, pytest.raises(error) as refused:
        _declare(server, "x-random")
    assert refused.value.reply_text == text


def test_the_management_api_lists_plugins_and_their_exchange_types() -> None:
    with simulator.serve("4.0", plugins=["random", "shovel"], management_port=0) as server:
        (node,) = _asked(server, "/api/nodes")
        types = [each["name"] for each in node["exchange_types"]]
        assert types == ["direct", "fanout", "headers", "topic", "x-local-random", "x-random"]
        management, random, shovel, tracing = node["enabled_plugins"]
        assert (random, shovel) == ("rabbitmq_random_exchange", "rabbitmq_shovel")
        assert (management, tracing) == ("rabbitmq_management", "rabbitmq_tracing")
        assert _asked(server, "/api/overview")["exchange_types"] == node["exchange_types"]


def test_an_exchange_whose_plugin_was_disabled_routes_again_when_it_is_enabled() -> None:
    def serve(snapshot: bytes | None = None, plugins: list[str] | None = None) -> simulator.Server:
        return simulator.serve("4.3", snapshot=snapshot, plugins=plugins)

    with serve(plugins=["random"]) as server:
        _declare(server, "x-random")
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.queue_bind("q", "spread")
        before = server.snapshot()
    with serve(before, plugins=[]) as server:
        with pytest.raises(ChannelClosedByBroker, match="exchange type x-random not found"):
            _publish(server)
        disabled = server.snapshot()
    with serve(disabled) as server, pytest.raises(ChannelClosedByBroker, match="exchange type x-random not found"):
        _publish(server)
    with serve(disabled, plugins=["random"]) as server:
        _publish(server)


def _asked(server: simulator.Server, path: str) -> Any:
    assert server.management_url is not None
    status, body = http(server.management_url, "GET", path)
    assert status == 200
    return body


def _publish(server: simulator.Server) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("spread", "", b"", mandatory=True)


def test_definitions_that_use_a_plugin_enable_it() -> None:
    exchange = {"name": "spread", "vhost": "/", "type": "x-random", "durable": True, "auto_delete": False}
    with simulator.serve("4.0", definitions={"exchanges": [{**exchange, "arguments": {}}]}) as server:
        _declare(server, "x-random")


def test_an_unknown_plugin_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownPluginError, match="did you mean 'shovel'"):
        simulator.serve(plugins=["shovels"])


def test_the_command_line_names_an_unknown_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--plugins", "delayd"]) == 64
    assert "did you mean 'delayed'?" in capsys.readouterr().err


def test_a_servers_own_file_names_its_plugins(tmp_path: Path) -> None:
    assert enabled_plugins("[rabbitmq_management,\n rabbitmq_shovel].\n") == {"rabbitmq_shovel"}
    with pytest.raises(ValueError, match="expected a list of plugins"):
        enabled_plugins("rabbitmq_shovel")


SHOVEL = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "parked", "dest-queue": "work"}


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("3.10", {}),
        ("4.0", {"blocked_status": "running"}),
        ("4.3", {"blocked_status": "running", "forwarded": 0, "pending": 0, "remaining": 5, "remaining_unacked": 5}),
    ],
)
def test_a_running_shovel_tells_what_a_server_of_the_release_does(release: str, told: dict[str, Any]) -> None:
    value = {**SHOVEL, "src-delete-after": 5}
    at = int(datetime(2026, 11, 28, 2, 5, 9, tzinfo=UTC).timestamp()) * 1_000_000
    with simulator.serve(release, plugins=["shovel"], management_port=0, start_us=at) as server:
        url = server.management_url
        assert url is not None
        http(url, "PUT", "/api/parameters/shovel/%2F/back", {"value": value})
        (state,) = http(url, "GET", "/api/shovels")[1]
        named = {"src_queue": "parked", "dest_queue": "work", "type": "dynamic", "name": "back", "vhost": "/"}
        addresses = {"src_uri": "amqp://", "src_protocol": "amqp091", "dest_uri": "amqp://", "dest_protocol": "amqp091"}
        when = {"node": state["node"], "timestamp": "2026-11-28 2:05:09"}
        assert state == {"state": "running", **named, **addresses, **when, **told}
        one = [state] if release == "3.10" else {"value": value, "vhost": "/", "component": "shovel", "name": "back"}
        assert http(url, "GET", "/api/shovels/vhost/%2F/back") == (200, one)
        assert http(url, "DELETE", "/api/shovels/vhost/%2F/other/restart")[0] == 404


@pytest.mark.parametrize(
    ("release", "tag", "seen", "restarted"),
    [
        ("4.0", "monitoring", 200, 204),
        ("4.0", "policymaker", 401, 401),
        ("4.3", "monitoring", 200, 401),
        ("4.3", "policymaker", 401, 204),
    ],
)
def test_whose_tag_lets_a_user_see_and_restart_a_shovel(release: str, tag: str, seen: int, restarted: int) -> None:
    ask = Simulated(release)
    ask.node.broker.enable(named_plugins(["shovel"]))
    ask("PUT", "/api/users/ops", {"password": "secret", "tags": tag})
    ask("PUT", "/api/permissions/%2F/ops", {"configure": "", "write": "", "read": ""})
    ask("PUT", "/api/parameters/shovel/%2F/back", {"value": SHOVEL})
    at = "/api/shovels/vhost/%2F/back"
    assert ask("GET", at, auth="ops:secret").status == seen
    assert ask("DELETE", f"{at}/restart", auth="ops:secret").status == restarted
    assert ask("DELETE", at, auth="ops:secret").status == restarted


@pytest.mark.parametrize("value", [5, True, [1]])
def test_a_header_to_hash_that_is_no_text_is_answered_with_400(value: Any) -> None:
    with simulator.serve("4.3", plugins=["consistent-hash"], management_port=0) as server:
        body = {"type": "x-consistent-hash", "arguments": {"hash-header": value}}
        assert server.management_url is not None
        status, answer = http(server.management_url, "PUT", "/api/exchanges/%2F/spread", body)
        assert (status, answer["error"]) == (400, "bad_request")
        assert answer["reason"].startswith("Request to node rabbit@localhost failed with")


def test_a_text_in_place_of_a_list_of_plugins_is_named() -> None:
    with pytest.raises(UnknownPluginError, match=r"expected a list of plugins, such as \['shovel'\]"):
        simulator.serve(plugins="shovel")
