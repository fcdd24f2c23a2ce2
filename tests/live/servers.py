"""The real RabbitMQ servers that a test run was given."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from simulator.testing.brokers.servers import NoSuchServerError, Server, ask

__all__ = ["VARIABLE", "LiveServer", "NoSuchServerError", "fresh_vhost", "given"]

VARIABLE = "DLX_LIVE_SERVERS"
LiveServer = Server


def given(options: Iterable[str] = (), variable: str | None = None) -> list[LiveServer]:
    """The servers of ``options`` (each ``AMQP_URL`` or ``AMQP_URL|MANAGEMENT_URL``), else those of the
    environment variable (``REL=AMQP_URL|MANAGEMENT_URL``, separated by commas), asked for their versions.

    Raises ``NoSuchServerError`` where one does not answer or is of another release than ``REL``.
    """
    named = [("", option) for option in options]
    if not named:
        text = os.environ.get(VARIABLE, "") if variable is None else variable
        entries = [entry.strip().partition("=") for entry in text.split(",") if entry.strip()]
        named = [(release, urls) for release, _, urls in entries]
    return [_ask(release, urls) for release, urls in named]


@contextmanager
def fresh_vhost(server: LiveServer) -> Iterator[str]:
    """The name of a fresh virtual host on the server, deleted at the end."""
    name = f"dlx-test-{uuid.uuid4().hex[:12]}"
    server.api("PUT", f"vhosts/{name}", {})
    server.api("PUT", f"permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        yield name
    finally:
        server.api("DELETE", f"vhosts/{name}")


def _ask(release: str, urls: str) -> LiveServer:
    server = ask(urls)
    if release not in ("", server.release):
        raise NoSuchServerError(f"the server at {server.management_url} is RabbitMQ {server.version}, not {release}")
    return server
