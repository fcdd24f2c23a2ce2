"""rabbitmqctl, rabbitmq-diagnostics and rabbitmq-plugins against a node in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import simulator
from simulator.server import rabbitmqctl
from simulator.server.in_process import Server

# What RabbitMQ 4.3.6 printed and exited with, one command after the other.
ON_A_SERVER: list[tuple[str, int, str]] = [
    ("add_vhost v", 0, 'Adding vhost "v" ...\n'),
    ("add_vhost v", 0, 'Adding vhost "v" ...\n'),
    (
        "add_user u pw",
        0,
        'Adding user "u" ...\nDone. Don\'t forget to grant the user permissions to some virtual hosts!'
        " See 'rabbitmqctl help set_permissions' to learn more.\n",
    ),
    ("add_user u pw", 70, 'Adding user "u" ...\nError:\nUser "u" already exists\n'),
    ("set_user_tags u management policymaker", 0, 'Setting tags for user "u" to [management, policymaker] ...\n'),
    ("-q set_user_tags nobody management", 67, 'Error:\nUser "nobody" does not exist\n'),
    ("set_permissions -p v u ^a .* ^$", 0, 'Setting permissions for user "u" in vhost "v" ...\n'),
    (
        "list_permissions -p v",
        0,
        'Listing permissions for vhost "v" ...\nuser\tconfigure\twrite\tread\nu\t^a\t.*\t^$\n',
    ),
    ("-q list_permissions -p v", 0, "user\tconfigure\twrite\tread\nu\t^a\t.*\t^$\n"),
    ("-s list_permissions -p v", 0, "u\t^a\t.*\t^$\n"),
    ("-q list_user_permissions u", 0, "vhost\tconfigure\twrite\tread\nv\t^a\t.*\t^$\n"),
    ("-q list_users", 0, "user\ttags\nguest\t[administrator]\nu\t[management, policymaker]\n"),
    ("change_password u pw2", 0, 'Changing password for user "u" ...\n'),
    (
        'set_policy -p v --priority 3 --apply-to queues pol ^q {"max-length":5}',
        0,
        'Setting policy "pol" for pattern "^q" to "{"max-length":5}" with priority "3" for vhost "v" ...\n',
    ),
    (
        "-q list_policies -p v",
        0,
        'vhost\tname\tpattern\tapply-to\tdefinition\tpriority\nv\tpol\t^q\tqueues\t{"max-length":5}\t3\n',
    ),
    (
        'set_policy -p no-vhost a b {"max-length":1}',
        65,
        'Setting policy "a" for pattern "b" to "{"max-length":1}" with priority "0" for vhost "no-vhost" ...\n'
        "Virtual host 'no-vhost' does not exist\n",
    ),
    ("clear_policy -p v pol", 0, 'Clearing policy "pol" on vhost "v" ...\n'),
    ("clear_policy -p v pol", 69, 'Clearing policy "pol" on vhost "v" ...\nError:\nParameter does not exist\n'),
    ("-q list_exchanges -p v type name durable policy", 0, "type\tname\tdurable\tpolicy\ndirect\t\ttrue\t\n"),
    ("list_queues -p no-vhost", 0, "Timeout: 60.0 seconds ...\nListing queues for vhost no-vhost ...\n"),
    ("clear_permissions -p v u", 0, 'Clearing permissions for user "u" in vhost "v" ...\n'),
    ("clear_permissions -p v u", 0, 'Clearing permissions for user "u" in vhost "v" ...\n'),
    ("trace_on -p v", 0, 'Starting tracing for vhost "v" ...\nTrace enabled for vhost v\n'),
    ("delete_user u", 0, 'Deleting user "u" ...\n'),
    ("delete_user u", 0, 'Deleting user "u" ...\n'),
    ("delete_vhost v", 0, 'Deleting vhost "v" ...\n'),
    ("delete_vhost v", 65, "Deleting vhost \"v\" ...\nVirtual host 'v' does not exist\n"),
    ("-q ping", 0, "Ping succeeded\n"),
    ("-q check_running", 0, "RabbitMQ on node rabbit@localhost is fully booted and running\n"),
    ("version", 0, "4.3.6\n"),
]


class Done(NamedTuple):
    status: int
    printed: str


Tool = Callable[..., Done]


@pytest.fixture
def node() -> Iterator[Server]:
    with simulator.serve("4.3", management_port=0) as running:
        yield running


def operators_url(node: Server) -> str:
    assert node.management_url is not None
    node.run(lambda each: setattr(each, "operator", ("rmq-cli", "secret")))
    return node.management_url.replace("//", "//rmq-cli:secret@")


@pytest.fixture
def tool(node: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Tool:
    monkeypatch.setenv("DLX_MANAGEMENT_URL", operators_url(node))

    def run(*words: str) -> Done:
        status = rabbitmqctl.main(words)
        output, errors = capfd.readouterr()
        return Done(status, output + errors)

    return run


def test_it_prints_and_exits_as_on_a_server(tool: Tool) -> None:
    for command, status, printed in ON_A_SERVER:
        done = tool(*command.split(" "))
        if "list_exchanges" in command:  # the others are in the order of their names
            done = Done(done.status, "".join(done.printed.splitlines(keepends=True)[:2]))
        assert done == (status, printed), command


def test_a_new_user_can_log_in_and_keeps_its_tags(tool: Tool, node: Server) -> None:
    tool("add_user", "u", "first")
    tool("set_user_tags", "u", "monitoring")
    tool("change_password", "u", "second")
    assert node.run(lambda each: each.broker.authenticated("u", "second"))
    assert node.run(lambda each: each.broker.users["u"].tags) == ("monitoring",)


def test_definitions_go_out_and_in(tool: Tool, node: Server, tmp_path: Path) -> None:
    tool("add_vhost", "orders")
    kept = tmp_path / "definitions.json"
    assert tool("export_definitions", str(kept)).status == 0
    assert json.loads(tool("export_definitions", "-").printed) == json.loads(kept.read_text())
    tool("delete_vhost", "orders")
    assert tool("import_definitions", str(kept)).status == 0
    assert "orders" in node.run(lambda each: list(each.broker.vhosts))
    missing = tool("import_definitions", str(tmp_path / "missing.json"))
    assert missing.status == 65
    assert "missing.json" in missing.printed


def test_lists_have_the_columns_asked_for(tool: Tool, tmp_path: Path) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}
    arguments = {"x-message-ttl": 5000, "x-dead-letter-exchange": "d"}
    (tmp_path / "one.json").write_text(json.dumps({"queues": [queue | {"arguments": arguments}]}))
    tool("import_definitions", str(tmp_path / "one.json"))
    listed = tool("-q", "list_queues", "name", "messages", "durable", "arguments")
    terms = '[{"x-dead-letter-exchange","d"},{"x-message-ttl",5000},{"x-queue-type","classic"}]'
    assert listed.printed == f"name\tmessages\tdurable\targuments\nq\t0\ttrue\t{terms}\n"
    assert json.loads(tool("list_queues", "--formatter", "json").printed) == [{"name": "q", "messages": 0}]
    assert tool("-s", "list_bindings", "source_kind", "destination_name", "routing_key").printed == "exchange\tq\tq\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list_quues",), "did you mean list_queues?"),
        (("list_queues", "messagse"), "did you mean messages?"),
        (("list_queues", "--vhots", "/"), "did you mean --vhost?"),
        (("add_user",), "add_user takes USER [PASSWORD]"),
        (("set_permissions", "u", ".*"), "set_permissions takes USER CONFIGURE WRITE READ"),
        (("ping", "much"), "ping takes no arguments"),
        ((), "name a command"),
    ],
)
def test_wrong_use_names_what_would_be_right(tool: Tool, words: tuple[str, ...], said: str) -> None:
    done = tool(*words)
    assert done.status == 64
    assert said in done.printed


def test_a_refused_policy_says_why(tool: Tool) -> None:
    done = tool("-q", "set_policy", "bad", "^q", '{"max-length":"x"}')
    assert done.status == 69
    assert "Validation failed" in done.printed


def test_an_alarm_fails_the_check(tool: Tool, node: Server) -> None:
    assert tool("check_local_alarms").status == 0
    rabbitmqctl.call("POST", "faults", body={"fault": "alarm", "resource": "memory"})
    done = tool("check_local_alarms")
    assert done.status == 69
    assert "mem_alarm" in done.printed


def test_its_ports(tool: Tool, node: Server) -> None:
    port = str(node.run(lambda each: each.amqp_port))
    assert port in tool("check_port_connectivity").printed
    assert tool("check_port_listener", port).status == 0
    assert tool("check_port_listener", "1").status == 69


def test_plugins_are_said_not_to_change(tool: Tool) -> None:
    done = tool("enable", "--offline", "rabbitmq_management", "rabbitmq_shovel")
    assert done.status == 0
    assert "nothing changed: rabbitmq_shovel\n" in done.printed
    assert "rabbitmq_management\n" in tool("list", "-e").printed


def test_no_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DLX_NODE_FILE", str(tmp_path / "none.json"))
    assert rabbitmqctl.main(["ping"]) == 69
    assert rabbitmqctl.main(["await_startup", "--timeout", "0"]) == 69
    assert rabbitmqctl.main(["enable", "rabbitmq_management"]) == 0  # a Dockerfile may say so before anything runs
    assert "no node runs here" in capfd.readouterr().err


def test_it_needs_the_standard_library_alone(node: Server) -> None:
    command = [sys.executable, "-IS", rabbitmqctl.__file__, "-q", "ping"]
    done = subprocess.run(command, env={"DLX_MANAGEMENT_URL": operators_url(node)}, capture_output=True, check=True)
    assert done.stdout == b"Ping succeeded\n"
