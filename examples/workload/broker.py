"""The RabbitMQ server to record: its AMQP address, its management API, its release."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import pika


class Unavailable(Exception):
    """The broker or its management API cannot do what is asked."""


class Management:
    """The few calls of the management API that a capture needs."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url.rstrip("/") + "/api"
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def call(self, method: str, *path: str, body: Any = None) -> bytes:
        """Send one request; raises Unavailable, naming the call, unless the answer is 2xx."""
        target = "/".join([self.url, *(quote(part, safe="") for part in path)])
        headers = {"Authorization": self.authorization, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{method} {target}: {error.code} {error.read().decode()[:200]}") from error
        except OSError as error:
            raise Unavailable(f"{method} {target}: {error}") from error

    def get(self, *path: str) -> Any:
        return json.loads(self.call("GET", *path))


class Broker:
    """A server, and the name of the virtual host on it that the workload creates.

    ``version`` is such as ``"4.3.6"``, ``release`` the same as numbers, to compare.
    """

    def __init__(self, url: str, management_url: str, vhost: str) -> None:
        """Ask the server for its version; raises Unavailable."""
        self.vhost = vhost
        self.parameters = pika.URLParameters(url)
        self.parameters.virtual_host = vhost
        self.user: str = self.parameters.credentials.username
        self.password: str = self.parameters.credentials.password
        self.management = Management(management_url, self.user, self.password)
        self.version: str = self.management.get("overview")["rabbitmq_version"]
        numbers = self.version.split("+")[0].split("-")[0]
        self.release = tuple(int(part) for part in numbers.split("."))
