"""``rabbitmq-server`` of the image, in a process here: what it reads, what it logs, how commands find it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ProbableAuthenticationError

from simulator.server import rabbitmqctl
from simulator.server.rabbitmq_conf import SettingsError, read_settings

COMMAND = [sys.executable, "-m", "simulator.cli.rabbitmq_server"]
FREE_PORTS = "listeners.tcp.default = 0\nmanagement.tcp.port = 0\nprometheus.tcp.port = 0\n"


class Node:
    """A process of ``rabbitmq-server`` that is ready, and what it logged until then."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.log += line
            if "Server startup complete" in line:
                break
        found = re.search(r"started TCP listener on \S+:(\d+)", self.log)
        assert found, self.log
        self.port = int(found[1])

    def connect(self, user: str, password: str, vhost: str) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials))


@contextlib.contextmanager
def running(tmp_path: Path, conf: str = "", **environment: str) -> Iterator[Node]:
    (tmp_path / "rabbitmq.conf").write_text(FREE_PORTS + conf)
    own = {"RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq"), "DLX_NODE_FILE": str(tmp_path / "node.json")}
    process = subprocess.Popen(
        COMMAND, env=os.environ | own | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield Node(process)
    finally:
        process.kill()
        process.communicate()


def test_variables_name_the_user_and_the_vhost(tmp_path: Path) -> None:
    variables = {f"RABBITMQ_DEFAULT_{name}": value for name, value in (("USER", "me"), ("PASS", "pw"), ("VHOST", "v"))}
    with running(tmp_path, "default_user = other\ncluster_name = x\n", **variables, RABBITMQ_SSL_DEPTH="1") as node:
        connection = node.connect("me", "pw", "v")
        connection.channel().queue_declare("q")
        connection.close()
        with pytest.raises(ProbableAuthenticationError):
            node.connect("guest", "guest", "v")
        assert f"cluster_name ({tmp_path / 'rabbitmq.conf'}:5)" in node.log
        assert "no effect here: RABBITMQ_SSL_DEPTH" in node.log
        assert "default_user" not in node.log


def test_definitions_of_the_settings_stand_in_place_of_the_default_user(tmp_path: Path) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_text(json.dumps({"vhosts": [{"name": "app"}], "users": [], "permissions": []}))
    with running(tmp_path, f"load_definitions = {definitions}\n") as node:
        with pytest.raises(ProbableAuthenticationError):
            node.connect("guest", "guest", "/")
        assert "no user can log in" in node.log
        assert asked(tmp_path, "-s", "list_vhosts") == (0, "app\n")


def asked(tmp_path: Path, *words: str) -> tuple[int, str]:
    """What rabbitmqctl answers, which finds the node by its file."""
    command = [sys.executable, "-IS", rabbitmqctl.__file__, *words]
    environment = {"DLX_NODE_FILE": str(tmp_path / "node.json")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_commands_work_without_any_user_and_only_for_who_may_read_the_file(tmp_path: Path) -> None:
    with running(tmp_path):
        assert (tmp_path / "node.json").stat().st_mode & 0o077 == 0
        assert asked(tmp_path, "-q", "delete_user", "guest") == (0, "")
        assert asked(tmp_path, "add_vhost", "orders")[0] == 0
        assert asked(tmp_path, "-q", "list_users") == (0, "")
        wrong = json.loads((tmp_path / "node.json").read_text())["url"].replace("rmq-cli:", "rmq-cli:x")
        (tmp_path / "node.json").write_text(json.dumps({"url": wrong}))
        assert asked(tmp_path, "-q", "ping")[0] == 69


def test_the_release_the_clock_and_the_consumer_timeout(tmp_path: Path) -> None:
    with running(tmp_path, "consumer_timeout = 60000\n", DLX_RELEASE="4.0", DLX_CLOCK="virtual") as node:
        assert "simulates RabbitMQ 4.0." in node.log
        connection = node.connect("guest", "guest", "/")
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"")
        channel.basic_get("q")
        url = json.loads((tmp_path / "node.json").read_text())["url"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DLX_MANAGEMENT_URL", url)
            assert rabbitmqctl.call("GET", "clock")["virtual"] is True
            rabbitmqctl.call("POST", "clock", "advance", body={"minutes": 2})
        with pytest.raises(
            pika.exceptions.ChannelClosedByBroker, match="delivery acknowledgement on channel 1 timed out"
        ):
            channel.queue_declare("q", passive=True)
        connection.close()


@pytest.mark.parametrize("how", ["SIGTERM", "rabbitmqctl"])
def test_it_stops_when_it_is_told(tmp_path: Path, how: str) -> None:
    with running(tmp_path) as node:
        if how == "SIGTERM":
            node.process.send_signal(signal.SIGTERM)
        else:
            assert asked(tmp_path, "stop")[0] == 0
        assert node.process.wait(timeout=20) == 0
        assert not (tmp_path / "node.json").exists()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"DLX_RELEASE": "4.9"}, "4.9"),
        ({"DLX_CLOCK": "virtul"}, "did you mean 'virtual'?"),
        ({"RABBITMQ_CONFIG_FILE": "/none/there"}, "RABBITMQ_CONFIG_FILE names /none/there.conf"),
    ],
)
def test_what_it_cannot_do_ends_it_with_a_reason(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    environment = os.environ | {"DLX_NODE_FILE": str(tmp_path / "node.json")} | variables
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 65
    assert said in done.stdout


def test_files_of_conf_d_win_over_the_main_one_and_variables_over_both(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (tmp_path / "rabbitmq.conf").write_text("# ours\ndefault_user = a # not b\ndefault_pass = 'se#cret'\n")
    (folder / "10-first.conf").write_text("default_vhost = first\nloopback_users.guest = true\n")
    (folder / "20-second.conf").write_text("default_vhost = second\nlisteners.tcp.local = 127.0.0.1:5673\n")
    files = {"RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq.conf"), "RABBITMQ_CONFIG_FILES": str(folder)}
    found = read_settings(files)
    assert (found.user, found.password, found.vhost, found.port) == ("a", "se#cret", "second", 5673)
    assert found.loopback_users == {"guest"}
    assert found.ignored == []
    assert read_settings(files | {"RABBITMQ_DEFAULT_VHOST": "third"}).vhost == "third"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("default_user", "expected KEY = VALUE, got 'default_user'"),
        (
            "listeners.tcp.default = many",
            "takes a port such as 5672, or ADDRESS:PORT; got 'many'",
        ),
        ("management.tcp.port = 70000", "management.tcp.port takes a port"),
        ("consumer_timeout = 1h", "consumer_timeout takes a number of milliseconds, got '1h'"),
        ("loopback_users.guest = no", "loopback_users.guest takes true or false, got 'no'"),
        ("load_definitions = /none/there.json", "load_definitions names /none/there.json, and there is no such file"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(f"\n{line}\n")
    with pytest.raises(SettingsError, match=f"^{re.escape(f'{path}:2: ')}.*{re.escape(said)}"):
        read_settings({"RABBITMQ_CONFIG_FILE": str(path)})
