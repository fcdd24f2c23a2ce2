"""One AMQP channel that opens again by itself, and the management API, both as the recorded cases show them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.differential.client import TIMEOUT_S, Connection, Incoming
from tests.vectors.amqp import Field

_CHANNEL = 1
_LOGIN = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "content-type": "application/json"}  # guest, guest
_PLAIN = frozenset("SIt")
_RECENT_S = 120


class Closed(Exception):
    """The server closed the channel or the connection: ``channel 406 PRECONDITION_FAILED - ...``."""


class Address(NamedTuple):
    """Where a server is."""

    amqp_url: str
    http_url: str


class Client:
    """A connection to a virtual host with one channel, which confirms; what was closed opens again when it is used."""

    def __init__(self, url: str, vhost: str) -> None:
        self._url, self._vhost = url, vhost
        self._connection: Connection | None = None
        self._is_open = False

    def call(self, method: str, **values: Any) -> Incoming:
        """Send a method and return its answer. Raises ``Closed``."""
        return self._checked(self._opened().call(_CHANNEL, method, **values))

    def send(self, method: str, **values: Any) -> list[Incoming]:
        """Send a method that has no answer, and return what came because of it. Raises ``Closed``."""
        self._opened().send(_CHANNEL, method, **values)
        return self.arrived()

    def publish(self, properties: dict[str, Any], body: bytes, **values: Any) -> list[Incoming]:
        """Publish and return what came back at once: returns, confirms, or how the server closed."""
        self._opened().publish(_CHANNEL, properties, body, **values)
        return self.arrived()

    def arrived(self) -> list[Incoming]:
        """Return what the server has sent until now, with its close if it closed."""
        assert self._connection is not None
        answer = self._connection.call(_CHANNEL, "channel.flow", active=True)
        found = list(self._connection.inbox.pop(_CHANNEL, []))
        if answer.is_close:
            self._is_open = False
            found.append(answer)
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _opened(self) -> Connection:
        """Return the connection with an open channel, on which nothing has arrived unread."""
        if self._connection is not None and self._is_open:
            self.arrived()
        if self._connection is None or not self._connection.is_open:
            self._connection, self._is_open = Connection(self._url, self._vhost), False
            self._checked(self._connection.opened)
        if not self._is_open:
            self._checked(self._connection.call(_CHANNEL, "channel.open"))
            self._is_open = True
            self._checked(self._connection.call(_CHANNEL, "confirm.select"))
        return self._connection

    def _checked(self, answer: Incoming) -> Incoming:
        if answer.is_close:
            self._is_open = False
            raise Closed(closing(answer))
        return answer


def closing(incoming: Incoming) -> str:
    """Return how the server closed, as the cases write it."""
    return f"{incoming.method.partition('.')[0]} {incoming.values['code']} {incoming.values['text']}"


def http(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the body of an answer of the management API: as JSON, text, or ``None`` for no body."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url.rstrip("/") + path, data, _LOGIN, method=method), timeout=TIMEOUT_S) as answer:
            status, content = answer.status, answer.read()
    except HTTPError as error:
        status, content = error.code, error.read()
    try:
        return status, json.loads(content) if content else None
    except ValueError:
        return status, content.decode("utf-8", "replace")


# -- field values: {"l": 5} has that type, and "text", 5, true, 1.5, null and [...] have the type a client would choose


def field(value: Any, now_s: float) -> Field:
    """Return the field that a case writes as this value; ``now`` is the time."""
    match value:
        case None:
            return Field("V", None)
        case bool():
            return Field("t", value)
        case int():
            return Field("I", value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value)
        case list():
            return Field("A", [field(item, now_s) for item in value])
    ((tag, content),) = value.items()
    match tag:
        case "F":
            return Field("F", table(content, now_s))
        case "A":
            return field(content, now_s)
        case "x":
            return Field("x", content.encode("latin-1"))
        case "T" if content == "now":
            return Field("T", int(now_s))
    return Field(tag, content)


def table(values: dict[str, Any], now_s: float) -> dict[str, Field]:
    """Return the table that a case writes as this object."""
    return {name: field(value, now_s) for name, value in values.items()}


def written(value: Field, now_s: float) -> Any:
    """Return a field as a case writes it; a time of the last two minutes is ``now``."""
    tag, content = value
    match tag:
        case "A":
            return [written(item, now_s) for item in content]
        case "F":
            return {"F": {name: written(item, now_s) for name, item in content.items()}}
        case "x":
            return {"x": content.decode("latin-1")}
        case "T":
            return {"T": moment(content, now_s)}
        case "V":
            return {"V": 0}
    return content if tag in _PLAIN else {tag: content}


def moment(time_s: int, now_s: float) -> int | str:
    """Return ``now`` for a time of the last two minutes, and any other time as it is."""
    return "now" if abs(time_s - now_s) < _RECENT_S else time_s
