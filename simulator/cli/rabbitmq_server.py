"""``rabbitmq-server`` of the image: ``dlx serve`` with the settings and the log lines of RabbitMQ's image.

Whoever starts containers waits for these lines: testcontainers for ``Server startup complete``.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import msgspec

from dlx.releases import DEFAULT, Release, UnknownReleaseError, release
from simulator.bootstrap import add_user
from simulator.broker import Broker
from simulator.broker.commands import AddVhost, DeleteUser, DeleteVhost, SetPermissions
from simulator.cli.options import chosen_release
from simulator.cli.serve import run_until_stopped, take_noting
from simulator.clock import VirtualClock, WallClock
from simulator.definitions import Definitions, DefinitionsError
from simulator.message_history import RecordingBroker
from simulator.server.listeners import Listeners
from simulator.server.node import Node
from simulator.server.rabbitmq_conf import FOLDER, Settings, SettingsError, read_settings, report
from simulator.server.rabbitmqctl import node_file
from simulator.sources import definitions_from_file

_HOST = "0.0.0.0"
_UNNAMED = FOLDER / "definitions.json"


def log(text: str, level: str = "info") -> None:
    """Print a line as RabbitMQ logs it."""
    now = datetime.now(UTC).isoformat(sep=" ", timespec="microseconds")
    click.echo(f"{now} [{level}] {text}")


def main(arguments: Sequence[str]) -> int:
    """Run the node until SIGTERM, and return the exit code."""
    node_file().unlink(missing_ok=True)  # of a container that was started again
    try:
        settings = read_settings(os.environ)
        node = _node(settings)
    except (SettingsError, UnknownReleaseError, DefinitionsError) as error:
        log(str(error), "error")
        return 65
    for line in report(settings):
        log(line, "warning" if line.startswith("ignored") else "info")
    for each in arguments:
        log(f"ignored, for it has no effect here: the argument {each}", "warning")
    try:
        ports = (settings.port, settings.management_port, settings.metrics_port)
        run_until_stopped(node, _HOST, *ports, ready=partial(_ready, node))
    except click.ClickException as error:
        log(error.message, "error")
        return error.exit_code
    finally:
        node_file().unlink(missing_ok=True)
    log("Stopped")
    return 0


def _ready(node: Node, at: Listeners) -> None:
    """Let the commands in the container find the node, and say that it is ready, in the words of a server."""
    assert at.management_url is not None
    operator, password = node.operator
    url = at.management_url.replace("//", f"//{operator}:{password}@")
    with open(os.open(node_file(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    management = at.management_url.rstrip("/").rpartition(":")[2]
    broker = node.broker
    log(f"Management plugin: HTTP (non-TLS) listener started on port {management}")
    log(f"started TCP listener on {_HOST}:{node.amqp_port}")
    log(f"dlx simulates RabbitMQ {broker.release.version}; what it lost, and why: port {management} in a browser")
    if not broker.users:
        log("no user can log in: the definitions have none, and a node that loads some makes none", "warning")
    click.echo("  Starting broker... completed with 4 plugins.")
    log("Server startup complete; 4 plugins started.")


def _node(settings: Settings) -> Node:
    """Make the node. Raises ``UnknownReleaseError`` and ``DefinitionsError``."""
    clock = WallClock() if settings.clock == "wall" else VirtualClock()
    files = settings.definitions or ([_UNNAMED] if _UNNAMED.is_file() else [])
    read = [_read(path) for path in files]
    name = chosen_release(read[0], settings.release) if read else settings.release or DEFAULT
    broker = Broker(_rules(name, settings), node=settings.node)
    now_us = clock.now_us()
    _replace_defaults(broker, settings, now_us)
    for definitions in read:
        take_noting(broker, definitions, now_us)
    node = Node(RecordingBroker.taking_over(broker), clock)
    node.loopback_users = settings.loopback_users
    node.operator = ("rmq-cli", secrets.token_urlsafe())
    return node


def _read(path: Path) -> Definitions:
    log(f"Applying definitions from file at '{path}'")
    return definitions_from_file(path)


def _rules(name: str, settings: Settings) -> Release:
    """Return the rules of the release, with the consumer timeout of the settings."""
    rules = release(name)
    if settings.consumer_timeout_ms is None:
        return rules
    if rules.consumer_timeout_ms is None:
        settings.ignored.append(f"consumer_timeout, which RabbitMQ {rules.version} does not have")
        return rules
    return msgspec.structs.replace(rules, consumer_timeout_ms=settings.consumer_timeout_ms)


def _replace_defaults(broker: Broker, settings: Settings, now_us: int) -> None:
    """Put the user and the virtual host of the settings in place of guest and ``/``.

    As on a server, there is neither beside definitions that a setting names.
    """
    broker.handle(DeleteUser("guest"), now_us)
    broker.handle(DeleteVhost("/"), now_us)
    if settings.definitions:
        return
    broker.handle(AddVhost(settings.vhost), now_us)
    add_user(broker, settings.user, now_us, password=settings.password, tags=settings.tags)
    rights = (settings.configure, settings.write, settings.read)
    broker.handle(SetPermissions(settings.user, settings.vhost, *rights), now_us)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
