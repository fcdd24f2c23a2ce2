"""The real RabbitMQ servers that a test run was given."""

from __future__ import annotations

import os
from collections.abc import Iterable

from simulator.testing.brokers.servers import NoSuchServerError, Server, ask

__all__ = ["VARIABLE", "LiveServer", "NoSuchServerError", "given"]

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


def _ask(release: str, urls: str) -> LiveServer:
    server = ask(urls)
    if release not in ("", server.release):
        raise NoSuchServerError(f"the server at {server.management_url} is RabbitMQ {server.version}, not {release}")
    return server
