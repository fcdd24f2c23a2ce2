"""Runs an application against a broker, in a virtual host of its own, and collects what it leaves there.

The broker is the simulator or a real server; what tells one from the other is the URLs alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika

import simulator
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import SECTIONS, Recording
from simulator.testing.brokers.servers import Server, ask

APPLICATION_SECONDS = 60
# A connection that its process did not close is gone a little later, and only then its messages are back.
QUIET_SECONDS = 0.2

KINDS = ("exchanges", "queues", "bindings", "policies", "parameters")
# What no two runs have in common, and what stands for it.
UNLIKE = (
    (re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z)?"), "TIME"),
    (re.compile(r"\b1[6-9]\d{8}(?:\.\d+|\d{3})?\b"), "TIME"),  # seconds or milliseconds since 1970
    (re.compile(r'"traceback": ?"(?:[^"\\]|\\.)*"'), '"traceback":"..."'),
    (re.compile(r"\b(?:gen)?\d+@[\w.-]+"), "PROCESS"),
)


@dataclass(frozen=True)
class Message:
    """A message as a consumer gets it, without what differs from run to run: times, UUIDs and the like."""

    exchange: str
    routing_key: str
    body: str
    properties: dict[str, Any]  # the headers are one of them, where the message has some


@dataclass(frozen=True)
class Outcome:
    """What an application did to its virtual host, and how it ended."""

    definitions: dict[str, list[dict[str, Any]]]  # the export of the virtual host, each list in order
    messages: dict[str, list[Message]]  # by queue, oldest first; of queues that are durable
    exit_code: int
    output: str

    def left(self) -> dict[str, Any]:
        """What is in the virtual host, as plain JSON values: what the test files keep of a server."""
        left = {
            "definitions": self.definitions,
            "messages": {
                queue: [vars(message) for message in messages] for queue, messages in self.messages.items() if messages
            },
        }
        return json.loads(json.dumps(left, default=str))


@contextmanager
def simulated(release: str = "4.3") -> Iterator[Server]:
    """The simulator in this process, in real time, as clients and the management API see it."""
    with simulator.serve(release, clock="wall", management_port=0) as serving:
        yield ask(f"{serving.amqp_url.replace('amqp://', 'amqp://guest:guest@')}|{serving.management_url}")


@contextmanager
def recorded_simulator(release: str) -> Iterator[tuple[Server, ApplicationRecorder]]:
    """The simulator, and what is recorded of its clients."""
    found: list[ApplicationRecorder] = []
    with simulator.serve(release, clock="wall", management_port=0) as serving:
        serving.run(lambda node: found.append(ApplicationRecorder(node)))
        yield ask(f"{serving.amqp_url.replace('amqp://', 'amqp://guest:guest@')}|{serving.management_url}"), found[0]
        serving.run(lambda _: found[0].stop())


def check_recorded(recording: Recording, outcome: Outcome) -> None:
    """What an application declared is recorded as the export had it, and what the export lacks was gone before."""
    declarations = [each for each in recording.declarations if each.item["vhost"].startswith("frameworks-")]
    items = {(each.kind, _text({**_steady(each.item), "vhost": "/"})): each.gone_us or 0 for each in declarations}
    left = {(kind, _text(row)) for kind, section in SECTIONS.items() for row in outcome.definitions[section]}
    assert left <= items.keys()
    assert max((items[each] for each in items.keys() - left), default=0) <= min(items[each] for each in left)


def run(command: Sequence[str | Path], env: Mapping[str, str], broker: Server) -> Outcome:
    """Run ``command`` to its end with ``AMQP_URL`` set, and collect what is in the virtual host afterwards.

    It also finds ``AMQP_HOST``, ``AMQP_PORT``, ``AMQP_VHOST`` and ``MANAGEMENT_URL``.
    """
    vhost = f"frameworks-{uuid.uuid4()}"  # which makes it the same in each outcome
    broker.api("PUT", f"vhosts/{vhost}", {})
    try:
        broker.api("PUT", f"permissions/{vhost}/{broker.user}", {"configure": ".*", "write": ".*", "read": ".*"})
        exit_code, output = _run_to_end(command, {**_where(broker, vhost), **env})
        exported = broker.api("GET", f"definitions/{vhost}")
        messages = _taken(broker.vhost_url(vhost), [queue["name"] for queue in exported["queues"]])
        return Outcome(_in_order(exported), messages, exit_code, output)
    finally:
        broker.api("DELETE", f"vhosts/{vhost}")


def _where(broker: Server, vhost: str) -> dict[str, str]:
    address = pika.URLParameters(broker.vhost_url(vhost))
    return {
        "AMQP_URL": broker.vhost_url(vhost), "AMQP_HOST": address.host, "AMQP_PORT": str(address.port),
        "AMQP_VHOST": vhost, "MANAGEMENT_URL": broker.management_url,
    }  # fmt: skip


def _run_to_end(command: Sequence[str | Path], env: Mapping[str, str]) -> tuple[int, str]:
    """Its exit code and output; whatever it started is ended with it."""
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            exit_code = process.wait(APPLICATION_SECONDS)
        except subprocess.TimeoutExpired:
            exit_code = -signal.SIGKILL
        finally:
            _end_group(process)
        log.seek(0)
        return exit_code, log.read()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _in_order(exported: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The export, without what names the server or its virtual host."""
    return {kind: sorted(({**_steady(row), "vhost": "/"} for row in exported[kind]), key=_text) for kind in KINDS}


def _text(row: object) -> str:
    return json.dumps(row, sort_keys=True)


def _taken(url: str, queues: Sequence[str]) -> dict[str, list[Message]]:
    """Take all messages, until none came back for a while from connections that were lost."""
    taken: dict[str, list[Message]] = {queue: [] for queue in queues}
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        while True:
            found = sum(_take(channel, queue, taken[queue]) for queue in queues)
            if not found:
                return {_steady(queue): messages for queue, messages in taken.items()}
            time.sleep(QUIET_SECONDS)
    finally:
        connection.close()


def _take(channel: Any, queue: str, taken: list[Message]) -> int:
    before = len(taken)
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append(_message(*got))
    return len(taken) - before


def _message(method: Any, properties: pika.BasicProperties, body: bytes) -> Message:
    fields = {name: value for name, value in vars(properties).items() if value is not None and name != "timestamp"}
    return Message(
        _steady(method.exchange), _steady(method.routing_key), _steady(body.decode("utf-8", "replace")), _steady(fields)
    )


def _steady(value: Any) -> Any:
    """The value without times of deaths, and with one word for each thing that no two runs have in common."""
    if isinstance(value, Mapping):
        return {_steady(key): _steady(each) for key, each in value.items() if key != "time"}
    if isinstance(value, list):
        return [_steady(each) for each in value]
    if isinstance(value, str):
        for pattern, word in UNLIKE:
            value = pattern.sub(word, value)
    return value


# What each application left on a server, which the test files compare with.


def recorded(name: str) -> dict[str, Any]:
    """What the application left on a server."""
    return json.loads(_file(name).read_text())


def keep(name: str, outcome: Outcome) -> None:
    """Keep what the application left on a server, if it ended well."""
    if outcome.exit_code:
        raise SystemExit(f"{name} ended with {outcome.exit_code}:\n{outcome.output}")
    _file(name).write_text(json.dumps(outcome.left(), indent=1, sort_keys=True) + "\n")


def _file(name: str) -> Path:
    return Path(__file__).parent / "recorded" / f"{name}.json"
