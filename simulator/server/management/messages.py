"""Publishes a message to an exchange, and gets messages from a queue, over HTTP.

Source: rabbit_mgmt_wm_exchange_publish.erl, rabbit_mgmt_wm_queue_get.erl; rabbit_mgmt_format.erl
to_basic_properties, basic_properties.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from simulator.broker import VirtualHost, delivered_properties
from simulator.broker.commands import Commit, Get, Nack, Publish, Reject, SelectConfirms, SelectTransactions
from simulator.broker.replies import PROPERTIES, Got, Refused, Returned
from simulator.json_values import plain
from simulator.server.management.http_errors import HandlerCrash, bad_request, not_found
from simulator.server.management.internal_channel import InternalChannel
from simulator.server.management.internal_connections import getting_channel, publishing_channel
from simulator.server.management.request import Request
from simulator.server.management.values import amqp_table

_NUMBERS = ("delivery_mode", "priority", "timestamp")
_ACKMODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
_GOT_MAX = 100_000


# Publishing


def publish(request: Request) -> dict[str, Any]:
    """Publish a message (``POST .../publish``); answer whether it was routed to a queue."""
    _check_exchange(request)
    document = request.json("routing_key", "properties", "payload", "payload_encoding")
    payload = document["payload"]
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    with publishing_channel(request) as channel:
        channel.run(SelectConfirms(channel.id))
        properties = _basic_properties(document["properties"])
        body = _decoded(payload, document["payload_encoding"])
        key = document["routing_key"]
        if not isinstance(key, str):
            raise HandlerCrash
        command = Publish(channel.id, request.name("exchange"), key, properties, body, mandatory=True, encoded=False)
        replies = channel.run(command)
    if any(isinstance(reply, Refused) for reply in replies):
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return {"routed": not any(isinstance(reply, Returned) for reply in replies)}


def _check_exchange(request: Request) -> None:
    vhost = _checked_vhost(request)
    if request.api.missing_targets == "not found" and vhost and request.name("exchange") not in vhost.exchanges:
        raise not_found("exchange_not_found")


def _checked_vhost(request: Request) -> VirtualHost | None:
    """Return the virtual host asked about; ``None``: it does not exist, and AMQP is to refuse it."""
    if request.vhost is None and request.api.missing_vhost == "crashes":
        raise HandlerCrash
    return request.needed_vhost() if request.api.missing_vhost == "not found" else request.vhost


def _decoded(payload: str, encoding: Any) -> bytes:
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request(["not_base64", payload]) from error


def _basic_properties(given: Any) -> dict[str, Any]:
    """Return the basic properties that the request gives; other names are ignored."""
    if not isinstance(given, dict):
        raise HandlerCrash
    properties = {}
    for name in reversed(PROPERTIES):
        if name in given:
            properties[name] = _property(name, given[name])
    return properties


def _property(name: str, value: Any) -> Any:
    if name == "headers":
        return amqp_table(value)
    if name in _NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(["not_int", name])
        return value
    if not isinstance(value, str):
        raise bad_request(["not_string", name])
    return value


# Getting


def get(request: Request) -> list[dict[str, Any]]:
    """Get messages from the front of a queue (``POST .../get``); whether they stay there depends on ``ackmode``."""
    _check_queue(request)
    document = request.json("ackmode", "count", "encoding")
    ackmode, encoding = document["ackmode"], document["encoding"]
    if not isinstance(ackmode, str | list):
        raise HandlerCrash
    if request.api.unknown_ackmode == "refused":
        _check_ackmode(ackmode)
    elif not isinstance(ackmode, str):
        raise HandlerCrash
    with getting_channel(request) as channel:
        count = _integer(document["count"])
        if encoding not in ("auto", "base64"):
            raise bad_request("Unsupported encoding. Please use auto or base64.")
        truncate = _integer(document["truncate"]) if "truncate" in document else None
        if count and ackmode not in _ACKMODES:
            raise HandlerCrash
        most = _GOT_MAX if count < 0 else min(count, _GOT_MAX)  # servers count down to 0, and negative numbers for ever
        got = _got(channel, request, most, no_ack=ackmode == "ack_requeue_false")
        if got:
            _give_back(channel, request, ackmode, got)
    return [_message_json(message, request, encoding, truncate) for message in got]


def _check_queue(request: Request) -> None:
    vhost = _checked_vhost(request)
    if request.api.missing_targets == "not found" and vhost and request.name("queue") not in vhost.queues:
        raise not_found("queue_not_found")


def _check_ackmode(ackmode: Any) -> None:
    if ackmode not in _ACKMODES:
        shown = "".join(map(str, ackmode)) if isinstance(ackmode, list) else ackmode
        raise bad_request(f"Invalid ackmode value: {shown}. Valid values are: {', '.join(_ACKMODES)}")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise bad_request(["not_integer", value]) from error


def _got(channel: InternalChannel, request: Request, count: int, *, no_ack: bool) -> list[Got]:
    got: list[Got] = []
    while len(got) < count:
        replies = channel.run(Get(channel.id, request.name("queue"), no_ack))
        message = next((reply for reply in replies if isinstance(reply, Got)), None)
        if message is None:
            break
        got.append(message)
    return got


def _give_back(channel: InternalChannel, request: Request, ackmode: str, got: list[Got]) -> None:
    """Return the messages to the queue, all at the end: returned one by one, each would be the next one got."""
    rejects = ackmode.startswith("reject")
    if rejects and len(got) > 1:  # all are on their way before the first has any consequence
        channel.run(SelectTransactions(channel.id))
    for message in got:
        if rejects:
            channel.run(Reject(channel.id, message.delivery_tag, ackmode == "reject_requeue_true"))
        elif ackmode == "ack_requeue_true" and request.api.get_requeues_by == "basic.nack":
            channel.run(Nack(channel.id, message.delivery_tag))
    if rejects and len(got) > 1:
        channel.run(Commit(channel.id))


def _message_json(got: Got, request: Request, encoding: str, truncate: int | None) -> dict[str, Any]:
    properties = delivered_properties(got.message, request.broker.release, got.added)
    payload, shown = _encoded(got.body[:truncate], encoding)
    return {
        "payload_bytes": len(got.body),
        "redelivered": got.redelivered,
        "exchange": got.message.exchange,
        "routing_key": got.message.routing_key,
        "message_count": got.messages,
        "properties": _shown_properties(properties),
        "payload": payload,
        "payload_encoding": shown,
    }


def _shown_properties(properties: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
    shown = {name: plain(properties[name]) for name in PROPERTIES if name in properties}
    return shown or []


def _encoded(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"
