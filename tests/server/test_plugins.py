"""Plugins of a served node: which exchange types it has, and what it says of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

import simulator
from dlx.server_plugins import UnknownPluginError, enabled_plugins
from simulator.cli.main import main


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
