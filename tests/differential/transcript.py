"""Transcripts: what clients saw, as plain JSON values without what differs from run to run.

A transcript has one list of events for each operation of a script, and one at the end for what the queues hold then.
An event is ``{"event": METHOD, "on": CHANNEL, ...}`` with the fields of the method that the server sent. Header
values are plain where JSON has the type (``"text"`` is a longstr, ``5`` a signedint, ``1.5`` a double, ``true``,
``null``, an array); others carry their tag: ``{"l": 1}``, ``{"T": 0}``, ``{"F": {...}}`` a table in wire order.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.differential import wire
from tests.differential.client import Incoming
from tests.vectors.amqp import Field

Event = dict[str, Any]
Transcript = list[list[Event]]

LONGEST_BODY = 60
_GENERATED = re.compile(r"amq\.(gen|ctag|rabbitmq\.reply-to)[-.][\w+/=.-]{8,}")
_PLAIN = frozenset("SItdV")


def event(incoming: Incoming, at: str) -> Event:
    """A method of the server as it stands in a transcript."""
    found: Event = {"event": incoming.method, "on": at, **incoming.values}
    if incoming.is_close and incoming.values:
        found["method"] = wire.method_name(found.pop("class_id"), found.pop("method_id"))
    if incoming.method in ("basic.deliver", "basic.get-ok", "basic.return"):
        properties = dict(incoming.properties)
        headers = properties.pop("headers", None)
        if properties:
            found["properties"] = properties
        if headers is not None:
            found["headers"] = {name: shown(value) for name, value in headers.items()}
        found["body"] = _shortened(incoming.body.decode(errors="surrogateescape"))
    return found


def shown(value: Field) -> Any:
    """A field value as it stands in a transcript."""
    tag, content = value
    match tag:
        case "A":
            return [shown(item) for item in content]
        case "F":
            return {"F": {name: shown(item) for name, item in content.items()}}
        case "x":
            return {"x": base64.b64encode(content).decode()}
    return content if tag in _PLAIN else {tag: content}


def _shortened(body: str) -> str:
    return body if len(body) <= LONGEST_BODY else f"{body[:LONGEST_BODY]}... ({len(body)} characters)"


def confirms_last(events: list[Event]) -> list[Event]:
    """The confirms of each channel together and in the end: a server is free in how it groups them and in whether
    they come before or after deliveries of what they confirm."""
    confirms: dict[str, Event] = {}
    for each in events:
        if each["event"] == "confirms":
            together = confirms.setdefault(each["on"], {**each, "acked": [], "nacked": []})
            for which in ("acked", "nacked"):
                together[which] = sorted(together[which] + each[which])
    return [each for each in events if each["event"] != "confirms"] + list(confirms.values())


def timeless(value: Any, since: float, until: float) -> Any:
    """Times of death between the two replaced by 0, wherever x-death stands; a client's own stay."""
    match value:
        case {"F": {"reason": _, "queue": _, "time": {"T": seconds}} as death} if since <= seconds <= until:
            return {"F": {name: {"T": 0} if name == "time" else item for name, item in death.items()}}
        case {"reason": _, "queue": _, "time": int(seconds)} as death if since <= seconds <= until:  # as JSON
            return {name: 0 if name == "time" else item for name, item in death.items()}
        case dict():
            return {name: timeless(item, since, until) for name, item in value.items()}
        case list():
            return [timeless(item, since, until) for item in value]
    return value


class Names:
    """Names that differ from run to run, and what stands for them in scripts and transcripts."""

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._aliases: dict[str, str] = {}  # real name -> alias
        self._counts: dict[str, int] = {}

    def add(self, real: str, alias: str) -> None:
        """Have an alias stand for a name from now on."""
        self._aliases[real] = alias

    def user(self, name: str) -> str:
        """The real name of a script's user."""
        real = f"{self._vhost}-{name}"
        self._aliases[real] = name
        return real

    def alias(self, real: str) -> str:
        """What stands for a name; the name itself if nothing does."""
        self._learn(real)
        return self._aliases.get(real, real)

    def real(self, value: Any) -> Any:
        """A value to send, with the real names in it."""
        match value:
            case str():
                return next((real for real, alias in self._aliases.items() if alias == value), value)
            case Field():
                return Field(value.tag, self.real(value.value))
            case dict():
                return {key: self.real(item) for key, item in value.items()}
            case list():
                return [self.real(item) for item in value]
        return value

    def replaced(self, value: Any) -> Any:
        """A value to note, with aliases in it; a firehose message also without its node and connection."""
        match value:
            case str():
                self._learn(value)
                for real, alias in self._aliases.items():
                    value = value.replace(real, alias)
                return value.replace(self._vhost, "v")
            case {"node": str(), "connection": str(), "exchange_name": str()}:
                return {key: key if key in ("node", "connection") else self.replaced(v) for key, v in value.items()}
            case dict():
                return {key: self.replaced(item) for key, item in value.items()}
            case list():
                return [self.replaced(item) for item in value]
        return value

    def _learn(self, text: str) -> None:
        for found in _GENERATED.finditer(text):
            if found.group() not in self._aliases and found.group() not in self._aliases.values():
                kind = found.group(1)
                self._counts[kind] = self._counts.get(kind, 0) + 1
                self._aliases[found.group()] = f"amq.{kind}-{self._counts[kind]}"
