"""The real RabbitMQ servers that a test run was given, and how to reach them."""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

VARIABLE = "DLX_LIVE_SERVERS"
MANAGEMENT_OFFSET = 10_000  # RabbitMQ's own habit: AMQP at 5672, management at 15672


class NoSuchServerError(Exception):
    """A server was named that does not answer, or that is of another release than was said."""


@dataclass(frozen=True)
class LiveServer:
    """One running server. ``release`` is such as ``"4.3"``, ``version`` such as ``"4.3.6"``."""

    release: str
    version: str
    amqp_url: str
    management_url: str

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API (``path`` such as ``vhosts/x``); its answer, None for an empty one."""
        return _call(self.amqp_url, self.management_url, method, path, body)

    def vhost_url(self, vhost: str) -> str:
        """The AMQP URL of one of its virtual hosts."""
        return self.amqp_url.rstrip("/") + "/" + quote(vhost, safe="")


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
    amqp_url, _, management_url = urls.partition("|")
    if not management_url:
        parts = urlsplit(amqp_url)
        management_url = f"http://{parts.hostname}:{(parts.port or 5672) + MANAGEMENT_OFFSET}/"
    try:
        version = _call(amqp_url, management_url, "GET", "overview")["rabbitmq_version"]
    except OSError as error:
        raise NoSuchServerError(
            f"no RabbitMQ management API answers at {management_url} ({error}); give it as '{amqp_url}|http://...'"
        ) from error
    found = ".".join(version.split(".")[:2])
    if release not in ("", found):
        raise NoSuchServerError(f"the server at {management_url} is RabbitMQ {version}, not {release}")
    return LiveServer(found, version, amqp_url, management_url)


def _call(amqp_url: str, management_url: str, method: str, path: str, body: object = None) -> Any:
    parts = urlsplit(amqp_url)
    user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    request = urllib.request.Request(
        f"{management_url.rstrip('/')}/api/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(),
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read()
    return json.loads(text) if text else None
