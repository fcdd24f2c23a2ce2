"""What the headers of STOMP are to a message of ActiveMQ, and the message to STOMP's headers.

A SEND with a content-length is a BytesMessage, any other a TextMessage. Headers that STOMP does not know are the
message's properties, all of them texts.

Source: activemq-stomp, FrameTranslator, LegacyFrameTranslator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from simulator.systems.activemq.destinations import COMPOSITE, KINDS, Destination, parse_destination
from simulator.systems.activemq.messages import GROUP, GROUP_SEQUENCE, NEVER, Message, without_expiration
from simulator.systems.activemq.stomp_frames import ClientDropped, Frame, StompError

PRIORITY, PRIORITY_MAX = 4, 9
_TYPE, _CORRELATION, _REPLY_TO = "JMSType", "JMSCorrelationID", "JMSReplyTo"
_PREFIXES = {
    "/queue/": "queue",
    "/topic/": "topic",
    "/remote-temp-queue/": "temp-queue",
    "/remote-temp-topic/": "temp-topic",
}
_TEMPORARY = {"/temp-queue/": "temp-queue", "/temp-topic/": "temp-topic"}
_NOT_PASSED_ON = ("receipt", "message-id", "redelivered", "subscription", "JMSXUserID", "transaction")
_HEADERS = {"JMSPriority": "priority", "JMSExpiration": "expires", "JMSTimestamp": "timestamp"}
"""Names of JMS that count before those of STOMP."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def destination_of(name: str, temporary: Callable[[str, str], Destination]) -> Destination:
    """Read the name of a destination, or several with commas between them.

    ``temporary`` makes one of the client's own, from its kind and its name. Any other name is that of a queue.
    Raises ``ClientDropped`` where there is none.
    """
    named = [_one(each, temporary) for each in name.strip().split(COMPOSITE)]
    try:
        return parse_destination(COMPOSITE.join(map(str, named)))
    except ValueError as error:
        raise ClientDropped from error


def is_named_in_full(name: str) -> bool:
    """Return whether a name says which kind of destination it is."""
    return all(each.startswith((*_PREFIXES, *_TEMPORARY)) for each in name.strip().split(COMPOSITE))


def _one(name: str, temporary: Callable[[str, str], Destination]) -> Destination:
    for prefix, kind in _TEMPORARY.items():
        if name.startswith(prefix):
            return temporary(kind, name)
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix):
            return Destination(KINDS[KINDS.index(kind)], name.removeprefix(prefix))
    return Destination("queue", name)


def name_of(destination: Destination) -> str:
    """Return how STOMP names a destination."""
    prefixes = {kind: prefix for prefix, kind in _PREFIXES.items()}
    return prefixes[destination.kind] + destination.name


def message_of(
    frame: Frame, message_id: str, now_ms: int, destination: Destination, reply_to: Destination | None
) -> Message:
    """Return the message that a SEND is.

    Raises ``StompError``, and ``ClientDropped`` for ``expires``, ``timestamp`` and ``priority`` that are not numbers,
    and for a ``JMSReplyTo`` that is not a destination.
    """
    headers = {name: value for name, value in frame.headers.items() if name not in _NOT_PASSED_ON}
    kind = headers.get("amq-msg-type", "bytes" if "content-length" in headers else "text").lower()
    if kind not in ("text", "bytes"):
        raise StompError(f"Unsupported message type '{headers['amq-msg-type']}'")
    if "amq-msg-type" not in headers:
        headers.pop("content-length", None)
    headers.pop("destination")
    headers |= {stomp: headers.pop(jms) for jms, stomp in _HEADERS.items() if jms in headers}
    if "JMSDeliveryMode" in headers:
        headers["persistent"] = "true" if headers.pop("JMSDeliveryMode") == "2" else "false"
    renamed: dict[str, str | None] = {
        _CORRELATION: headers.pop("correlation-id", None),
        _TYPE: headers.pop("type", None),
    }
    if reply_to is not None:
        headers.pop("reply-to")
        renamed[_REPLY_TO] = str(reply_to)
    if _REPLY_TO in headers:
        renamed[_REPLY_TO] = _destination(headers.pop(_REPLY_TO))
    return Message(
        message_id=message_id,
        destination=destination,
        body=frame.body if kind == "bytes" else frame.body.decode(errors="replace"),
        expiration_ms=_number(headers.pop("expires", str(NEVER))),
        timestamp_ms=_number(headers.pop("timestamp", str(now_ms))),
        priority=min(max(_number(headers.pop("priority", str(PRIORITY))), 0), PRIORITY_MAX),
        persistent=headers.pop("persistent", "") == "true",
        properties=without_expiration(headers) | {name: value for name, value in renamed.items() if value is not None},
    )


def headers_of(message: Message, name: Callable[[Destination], str]) -> dict[str, str]:
    """Return the headers of a MESSAGE. ``name``: how the client that gets it knows a destination."""
    headers = {
        "destination": name(message.destination),
        "message-id": message.message_id,
        "expires": str(message.expiration_ms),
        "priority": str(message.priority),
        "timestamp": str(message.timestamp_ms),
    }
    if message.redelivery_counter > 0:
        headers["redelivered"] = "true"
    if message.original_destination is not None:
        headers["original-destination"] = name(message.original_destination)
    if message.persistent:
        headers["persistent"] = "true"
    headers |= _properties(message.properties, name)
    if isinstance(message.body, bytes):
        headers["content-length"] = str(len(message.body))
    return headers


def body_of(message: Message) -> bytes:
    """Return the body of a MESSAGE."""
    return message.body if isinstance(message.body, bytes) else message.body.encode()


def _properties(properties: Mapping[str, Any], name: Callable[[Destination], str]) -> dict[str, str]:
    renamed = {_TYPE: "type", _CORRELATION: "correlation-id", _REPLY_TO: "reply-to"}
    found = {}
    for key, value in properties.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key not in (GROUP, GROUP_SEQUENCE):
            found[renamed.get(key, key)] = name(parse_destination(text)) if key == _REPLY_TO else text
    return found


def _destination(text: str) -> str:
    try:
        return str(parse_destination(text))
    except ValueError as error:
        raise ClientDropped from error


def is_delay(value: object) -> bool:
    """Return whether a scheduler can read a delay."""
    return _NUMBER.fullmatch(str(value)) is not None and int(str(value)) >= 0


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ClientDropped
    return int(text)
