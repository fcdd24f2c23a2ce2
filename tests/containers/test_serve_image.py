"""The image of docker/serve: what stands in docs/how-to/image.md, with other people's clients and modules.

Run by ``make test-compose``, which makes the image first.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.clients.cache import npm_packages

pytestmark = pytest.mark.containers

IMAGE = "dlx-serve:local"
PAGE = (Path(__file__).parents[2] / "docs/how-to/image.md").read_text()
SECONDS = 120
GO_PATH = "/usr/share/gocode"  # where Debian's packages of Go libraries are


def run(*command: str, **environment: str) -> str:
    """The output of a command; what it printed is the message of its failure."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def block(language: str) -> str:
    """The first example of the page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


class Started:
    """A container of the image, started by testcontainers' own class for RabbitMQ."""

    def __init__(self, container: Any) -> None:
        self.container = container
        host, user = container.get_container_host_ip(), f"{container.username}:{container.password}"
        self.amqp_url = f"amqp://{user}@{host}:{container.get_exposed_port(5672)}"
        self.management_url = f"http://{user}@{host}:{container.get_exposed_port(15672)}"

    def __call__(self, *command: str) -> tuple[int, str]:
        """Run a command in the container, and return its exit code and what it printed."""
        status, printed = self.container.exec([*command])
        return status, printed.decode()


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Started]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of where the module was before
        from testcontainers.rabbitmq import RabbitMqContainer
    container = RabbitMqContainer(IMAGE, username="shop", password="secret")
    with container.with_exposed_ports(5672, 15672).with_env("DLX_CLOCK", "virtual") as started:
        yield Started(started)


def test_the_image_is_small_and_not_roots() -> None:
    facts = json.loads(run("docker", "image", "inspect", IMAGE))[0]
    assert facts["Size"] <= 200_000_000
    assert facts["Config"]["User"] == "rabbitmq"


def test_the_module_of_python_finds_it_ready(rabbitmq: Started) -> None:
    connection = pika.BlockingConnection(rabbitmq.container.get_connection_params())
    channel = connection.channel()
    channel.queue_declare("dead")
    channel.queue_declare(
        "work",
        arguments={"x-message-ttl": 86_400_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    )
    channel.basic_publish("", "work", b"job")
    assert channel.queue_declare("work", passive=True).method.message_count == 1
    advance(rabbitmq, hours=24)
    _, properties, body = channel.basic_get("dead", auto_ack=True)
    assert (properties.headers["x-death"][0]["reason"], body) == ("expired", b"job")
    connection.close()


def advance(rabbitmq: Started, **by: int) -> None:
    passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
    plain = rabbitmq.management_url.replace("shop:secret@", "")
    passwords.add_password(None, plain, "shop", "secret", is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    asked = urllib.request.Request(
        f"{plain}/api/clock/advance", json.dumps(by).encode(), {"Content-Type": "application/json"}
    )
    opener.open(asked, timeout=SECONDS).close()


def on_node(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """Run the page's example with amqplib."""
    packages = npm_packages("amqplib", ("amqplib@0.10.9",))
    (tmp_path / "example.js").write_text(block("js"))
    return ["node", str(tmp_path / "example.js")], {"NODE_PATH": str(packages / "node_modules")}


def in_go(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """Run the page's example with the library that Debian has."""
    (tmp_path / "example.go").write_text(block("go"))
    settings = {"GOPATH": GO_PATH, "GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache")}
    return ["go", "run", str(tmp_path / "example.go")], settings


@pytest.mark.parametrize("example", [on_node, in_go])
def test_an_example_of_the_page_prints_what_stands_there(
    example: Callable[[Path], tuple[list[str], dict[str, str]]], rabbitmq: Started, tmp_path: Path
) -> None:
    command, environment = example(tmp_path)
    urls = {"AMQP_URL": rabbitmq.amqp_url, "MANAGEMENT_URL": rabbitmq.management_url}
    assert run(*command, **environment, **urls) == block("text")


def test_its_commands_and_its_log(rabbitmq: Started) -> None:
    assert rabbitmq("rabbitmq-diagnostics", "-q", "ping") == (0, "Ping succeeded\n")
    assert rabbitmq("rabbitmq-diagnostics", "check_port_connectivity")[0] == 0
    assert rabbitmq("rabbitmqctl", "await_startup")[0] == 0
    assert rabbitmq("rabbitmqctl", "add_vhost", "orders") == (0, 'Adding vhost "orders" ...\n')
    assert rabbitmq("rabbitmqctl", "-q", "list_queues", "-p", "orders", "name") == (0, "")
    assert rabbitmq("rabbitmq-plugins", "enable", "rabbitmq_shovel")[0] == 0
    assert rabbitmq("id", "-u") == (0, "999\n")
    output, _ = rabbitmq.container.get_logs()
    assert re.search(r"^.*Server startup complete.*$", output.decode(), re.MULTILINE)


def test_the_compose_file_of_the_page_with_definitions(tmp_path: Path) -> None:
    queue = {"name": "work", "vhost": "orders", "durable": True, "auto_delete": False, "arguments": {}}
    (tmp_path / "definitions.json").write_text(json.dumps({"queues": [queue]}))
    (tmp_path / "20-more.conf").write_text("consumer_timeout = 60000\ncluster_name = shop\n")
    mounts = {
        "definitions.json": "/etc/rabbitmq/definitions.json",
        "20-more.conf": "/etc/rabbitmq/conf.d/20-more.conf",
    }
    volumes = "".join(f"      - {tmp_path / name}:{inside}:ro\n" for name, inside in mounts.items())
    service = f"{block('yaml')}    volumes:\n{volumes}    command: rabbitmq-server\n"
    (tmp_path / "compose.yaml").write_text(f'version: "3"\n{service}')  # 1.29 wants a version
    tool = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    compose = [*tool, "-p", "dlx-serve-test", "-f", str(tmp_path / "compose.yaml")]
    try:
        run(*compose, "up", "-d")
        name = run(*compose, "ps", "-q").strip()
        health = ["docker", "inspect", "-f", "{{.State.Health.Status}}", name]
        until = time.monotonic() + SECONDS
        while (state := run(*health).strip()) != "healthy":
            assert time.monotonic() < until, f"{state}: {run(*compose, 'logs')}"
            time.sleep(0.5)
        credentials = pika.PlainCredentials("shop", "secret")
        asked = pika.ConnectionParameters("127.0.0.1", 5672, "orders", credentials)
        connection = pika.BlockingConnection(asked)
        connection.channel().queue_declare("work", passive=True)
        connection.close()
        assert run("docker", "exec", name, "rabbitmqctl", "version").startswith("4.0.")
        logs = run("docker", "logs", name)
        assert "ignored, for it has no effect here: cluster_name (/etc/rabbitmq/conf.d/20-more.conf:2)" in logs
        run("docker", "stop", "--time", "60", name)
        assert run("docker", "inspect", "-f", "{{.State.ExitCode}}", name).strip() == "0"  # and not killed
    finally:
        run(*compose, "down", "--volumes", "--timeout", "5")
