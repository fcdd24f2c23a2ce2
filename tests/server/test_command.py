"""``dlx serve``: ready lines, signals and exit codes."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

READY = re.compile(r"amqp://127\.0\.0\.1:(\d+)/ http://127\.0\.0\.1:(\d+)/\n")
COMMAND = [sys.executable, "-m", "simulator.cli.main", "serve"]


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", "--management-port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_stops_when_it_is_told(number: signal.Signals) -> None:
    with serving() as (process, line):
        found = READY.fullmatch(line)
        assert found, line
        for port in found.groups():
            socket.create_connection(("127.0.0.1", int(port)), 10).close()
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(found[1])))
        connection.channel().queue_declare("q")
        connection.close()
        process.send_signal(number)
        assert process.communicate(timeout=20)[0] == ""
        assert process.returncode == 0


def test_its_users_and_definitions(tmp_path: Path) -> None:
    export = tmp_path / "definitions.json"
    export.write_text(
        '{"queues": [{"name": "q", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}]}'
    )
    with serving("--user", "me:secret:too", "--definitions", str(export)) as (_, line):
        url = line.split()[0].replace("//", "//me:secret%3Atoo@")
        connection = pika.BlockingConnection(pika.URLParameters(url))
        connection.channel().queue_declare("q", passive=True)
        connection.close()


def failing(*options: str) -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, problem = failing("--port", port, "--management-port", "0")
        assert status == 69
        assert port in problem
        assert "--port" in problem
        status, problem = failing("--port", "0", "--management-port", port)
        assert status == 69
        assert port in problem


def test_definitions_that_are_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert failing("--port", "0", "--definitions", str(broken))[0] == 65
    assert failing("--port", "0", "--definitions", str(tmp_path / "missing.json"))[0] == 65


@pytest.mark.parametrize(
    "options",
    [("--port", "70000"), ("--release", "2.8"), ("--user", "nobody"), ("--memory-limit", "much"), ("--clock", "sun")],
)
def test_options_that_are_wrong(options: tuple[str, ...]) -> None:
    assert failing(*options)[0] == 64
