"""The node ``/management`` of AMQP 1.0: HTTP requests and responses as messages over a pair of links.

What changes something is a command on a channel of its own, which a refusal closes, and the next request opens again.

Source: rabbit_amqp_management.erl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec
from proton import Data, Described, uint, ulong

from dlx.amqp_errors import Refusal, default_exchange, resource
from dlx.declarations import check_type
from dlx.erlang_hash import arguments_hash
from dlx.erlang_printing import printed
from dlx.topology import Binding
from simulator.broker import Broker, QueueState, VirtualHost, replies
from simulator.broker.commands import (
    BindExchange,
    BindQueue,
    ChannelId,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    OpenChannel,
    PurgeQueue,
    UnbindExchange,
    UnbindQueue,
)
from simulator.broker.replies import ChannelClosed, Reply
from simulator.server.amqp10.errors import SessionFault
from simulator.server.amqp10.frames import Codec, Properties, UndecodableError, array
from simulator.server.amqp10.values import NoSuchValueError, erlang_term, field_value, value_of

ADDRESS = "/management"
CREDIT = 8  # rabbit_amqp_session.erl MAX_MANAGEMENT_LINK_CREDIT
CHANNELS = 1 << 16
"""The number of a session's channel for management is so much higher than that of the session."""
_APPLICATION_PROPERTIES, _VALUE = 0x74, 0x77
_BINDING = re.compile(
    r"src=([0-9A-Za-z\-._~%]+);dst([eq])=([0-9A-Za-z\-._~%]+);key=([0-9A-Za-z\-._~%]*);args=([0-9A-Za-z\-_]*)"
)
Answer = tuple[str, Any]
_Work = Generator[Command, None, Answer]


class RefusedRequest(Exception):
    """A request that is answered with a status and an explanation."""

    def __init__(self, status: str, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status
        self.explanation = explanation


class Request(msgspec.Struct):
    """An HTTP request: its method, the segments of its path, its query and its body."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    body: Any


class Management:
    """Answers the requests of one session, as the user of its connection."""

    def __init__(self, channel: ChannelId, broker: Broker, codec: Codec) -> None:
        self._channel = channel
        self._broker = broker
        self._codec = codec
        self._is_open = False
        self._answers: list[Reply] = []

    def take(self, reply: Reply) -> None:
        """Take a reply of the broker on the channel for management."""
        self._answers.append(reply)
        if isinstance(reply, ChannelClosed):
            self._is_open = False

    def answer(self, encoded: bytes) -> Generator[Command, None, bytes]:
        """Yield the commands of a request, and return the response. Raises ``SessionFault``."""
        properties, body = self._read(encoded)
        try:
            status, result = yield from self._done(_request(properties, body))
        except RefusedRequest as refused:
            status, result = refused.status, refused.explanation
        except NoSuchValueError as error:
            raise SessionFault("amqp:internal-error", str(error)) from None
        sections = (
            Properties(subject=status, correlation_id=properties.message_id),
            Described(ulong(_APPLICATION_PROPERTIES), {"http:response": "1.1"}),
            Described(ulong(_VALUE), result),
        )
        return b"".join(map(self._codec.encode, sections))

    def _read(self, encoded: bytes) -> tuple[Properties, Any]:
        properties, body, offset = Properties(), None, 0
        while offset < len(encoded):
            try:
                section, length = self._codec.decode(encoded[offset:])
            except UndecodableError as error:
                raise SessionFault("amqp:internal-error", str(error)) from None
            if isinstance(section, Properties):
                properties = section
            elif getattr(section, "descriptor", None) == _VALUE:
                body = section.value
            offset += length
        if properties.to is None or properties.subject is None or properties.reply_to != "$me":
            raise SessionFault("amqp:internal-error", "a request needs the properties to, subject and reply-to ($me)")
        return properties, body

    def _done(self, request: Request) -> _Work:
        act = _ACTS.get((request.method, *request.path[:1], len(request.path), request.path[2:3]))
        if act is None:
            raise SessionFault("amqp:internal-error", "function_clause")
        result = yield from act(self, request)
        return result

    def _run(self, command: Command, **statuses: str) -> Generator[Command, None, Reply]:
        """Yield a command on the channel for management and return the broker's reply.

        A refusal is answered with the status of ``statuses`` by its code, such as ``code_406``, else with 400; for
        want of a permission the session ends.
        """
        if not self._is_open:
            self._is_open = True
            yield OpenChannel(self._channel)
        self._answers.clear()
        yield command
        reply = next(iter(self._answers), None)
        if isinstance(reply, ChannelClosed):
            explanation = (reply.uncut or reply.text).partition(" - ")[2]
            status = statuses.get(f"code_{reply.code}")
            if reply.code == 403 and status is None:
                raise SessionFault("amqp:unauthorized-access", explanation)
            raise RefusedRequest(status or "400", explanation)
        if reply is None:
            raise SessionFault("amqp:internal-error", "the request was not answered")
        return reply

    @property
    def _vhost(self) -> VirtualHost:
        return self._broker.connections[self._channel[0]].vhost

    # Queues

    def _get_queue(self, request: Request) -> _Work:
        name = unquote(request.path[1])
        queue = self._vhost.queues.get(name)
        if queue is None:
            raise RefusedRequest("404", f"{resource('queue', name, self._vhost.name)} not found")
        if queue.owner is None and self._broker.release.management_reads_need_permissions:
            yield from self._run(DeclareQueue(channel=self._channel, queue=name, passive=True))
        return "200", self._shown(queue)

    def _put_queue(self, request: Request) -> _Work:
        wanted = _decoded(request.body, {"durable": bool, "exclusive": bool, "auto_delete": bool}, "queue property")
        name = unquote(request.path[1])
        if not name:
            raise RefusedRequest("400", "declare queue with empty name not allowed")
        _check_line(name)
        self._check_reserved("queue", name)
        existed = name in self._vhost.queues
        command = DeclareQueue(
            channel=self._channel,
            queue=name,
            durable=wanted.get("durable", True),
            exclusive=wanted.get("exclusive", False),
            durable_if_exclusive=True,
            auto_delete=wanted.get("auto_delete", False),
            arguments=wanted.get("arguments", {}),
        )
        yield from self._run(command, code_406="409")
        return "200" if existed else "201", self._shown(self._vhost.queues[name])

    def _delete_queue(self, request: Request) -> _Work:
        name = unquote(request.path[1])
        _check_line(name)
        reply = yield from self._run(DeleteQueue(self._channel, name))
        return "200", _message_count(reply)

    def _purge_queue(self, request: Request) -> _Work:
        name = unquote(request.path[1])
        missing = self._broker.release.purge_of_missing_queue
        reply = yield from self._run(PurgeQueue(self._channel, name), code_404=missing)
        return "200", _message_count(reply)

    def _shown(self, queue: QueueState) -> dict[Any, Any]:
        definition, node = queue.definition, self._broker.node
        return {
            "leader": node,
            "replicas": array(Data.STRING, (node,)),
            "message_count": ulong(queue.messages_ready),
            "consumer_count": uint(len(queue.consumers)),
            "name": queue.name,
            "vhost": self._vhost.name,
            "durable": definition.durable,
            "auto_delete": definition.auto_delete,
            "exclusive": definition.exclusive,
            "type": definition.type,
            "arguments": _arguments(definition.arguments),
        }

    # Exchanges

    def _put_exchange(self, request: Request) -> _Work:
        name = unquote(request.path[1])
        kinds = {"durable": bool, "auto_delete": bool, "internal": bool, "type": str}
        wanted = _decoded(request.body, kinds, "exchange property")
        kind = wanted.get("type", "direct")
        try:
            check_type(kind, self._broker.release, self._broker.exchange_types)
        except Refusal as refusal:
            raise RefusedRequest("400", refusal.explanation) from None
        _check_default(name)
        if name not in self._vhost.exchanges:
            _check_line(name)
            self._check_reserved("exchange", name)
        command = DeclareExchange(
            channel=self._channel,
            exchange=name,
            type=kind,
            durable=wanted.get("durable", True),
            auto_delete=wanted.get("auto_delete", False),
            internal=wanted.get("internal", False),
            arguments=wanted.get("arguments", {}),
        )
        yield from self._run(command, code_406="409")
        return "204", None

    def _delete_exchange(self, request: Request) -> _Work:
        name = unquote(request.path[1])
        _check_line(name)
        _check_default(name)
        self._check_reserved("exchange", name)
        yield from self._run(DeleteExchange(self._channel, name))
        return "204", None

    # Bindings

    def _post_binding(self, request: Request) -> _Work:
        kinds = {"source": str, "destination_queue": str, "destination_exchange": str, "binding_key": str}
        wanted = _decoded(request.body, kinds, "binding field")
        to_queue = "destination_queue" in wanted
        binding = Binding(
            source=wanted["source"],
            destination=wanted["destination_queue" if to_queue else "destination_exchange"],
            destination_type="queue" if to_queue else "exchange",
            routing_key=wanted["binding_key"],
            arguments=wanted.get("arguments", {}),
        )
        yield from self._bind(binding, BindQueue if to_queue else BindExchange)
        return "204", None

    def _bind(self, binding: Binding, command: Callable[..., Command]) -> Generator[Command, None, None]:
        for name in (binding.source, binding.destination):
            _check_line(name)
        _check_default(binding.source)
        if binding.destination_type == "exchange":
            _check_default(binding.destination)
        names = binding.destination, binding.source
        yield from self._run(command(self._channel, *names, binding.routing_key, binding.arguments))

    def _get_bindings(self, request: Request) -> _Work:
        query = request.query
        if "src" not in query or "key" not in query:
            raise SessionFault("amqp:internal-error", "function_clause")
        kind = next((kind for kind in ("dste", "dstq") if kind in query), None)
        if kind is None:
            term = {key.encode(): value.encode() for key, value in query.items()}
            raise RefusedRequest("400", f"missing 'dste' or 'dstq' in query: {printed(term)}")
        _check_default(query["src"])
        found = self._bindings(query["src"], "exchange" if kind == "dste" else "queue", query[kind], query["key"])
        yield from ()
        return "200", [_binding_shown(binding) for binding in found]

    def _delete_binding(self, request: Request) -> _Work:
        found = _BINDING.fullmatch(request.path[1])
        if found is None:
            raise RefusedRequest("400", f"bad binding path segment '{request.path[1]}'")
        source, destination, key = unquote(found[1]), unquote(found[3]), unquote(found[4])
        _check_default(source)
        kind, command = ("exchange", UnbindExchange) if found[2] == "e" else ("queue", UnbindQueue)
        for binding in self._bindings(source, kind, destination, key):
            if _hash(binding) == found[5]:
                yield from self._bind(binding, command)
        return "204", None

    def _bindings(self, source: str, kind: str, destination: str, key: str) -> list[Binding]:
        return [
            binding
            for binding in self._vhost.bindings.get(source, ())
            if (binding.destination_type, binding.destination, binding.routing_key) == (kind, destination, key)
        ]

    # Others

    def _put_token(self, request: Request) -> _Work:
        if not self._broker.release.management_takes_tokens or not isinstance(request.body, bytes):
            raise SessionFault("amqp:internal-error", "function_clause")
        yield from ()
        return "204", None

    def _check_reserved(self, kind: str, name: str) -> None:
        if name.startswith("amq."):
            of = resource(kind, name, self._vhost.name)
            raise RefusedRequest("403", f"{of} starts with reserved prefix 'amq.'")


_ACTS: dict[tuple[Any, ...], Callable[[Management, Request], _Work]] = {
    ("GET", "queues", 2, ()): Management._get_queue,
    ("PUT", "queues", 2, ()): Management._put_queue,
    ("DELETE", "queues", 2, ()): Management._delete_queue,
    ("DELETE", "queues", 3, ("messages",)): Management._purge_queue,
    ("PUT", "exchanges", 2, ()): Management._put_exchange,
    ("DELETE", "exchanges", 2, ()): Management._delete_exchange,
    ("POST", "bindings", 1, ()): Management._post_binding,
    ("GET", "bindings", 1, ()): Management._get_bindings,
    ("DELETE", "bindings", 2, ()): Management._delete_binding,
    ("PUT", "auth", 2, ()): Management._put_token,
}


def _request(properties: Properties, body: Any) -> Request:
    found = urlsplit(properties.to or "")
    query = dict(parse_qsl(found.query, keep_blank_values=True))
    return Request(properties.subject or "", tuple(found.path.split("/")[1:]), query, body)


def _decoded(body: Any, kinds: Mapping[str, type], what: str) -> dict[str, Any]:
    """Return the fields of a body by their names. Raises ``RefusedRequest`` and ``SessionFault``."""
    if not isinstance(body, dict):
        raise SessionFault("amqp:internal-error", "function_clause")
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name == "arguments" and isinstance(value, dict):
            found["arguments"] = {str(key): field_value(each) for key, each in value.items()}
        elif type(name) is str and name in kinds and type(value) is kinds[name]:
            found[name] = value
        else:
            raise RefusedRequest("400", f"bad {what} {printed((erlang_term(name), erlang_term(value)))}")
    return found


def _arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value_of(value) for name, value in arguments.items()}


def _binding_shown(binding: Binding) -> dict[str, Any]:
    kind = binding.destination_type
    location = (
        f"/bindings/src={quote(binding.source, safe='')};dst{kind[0]}={quote(binding.destination, safe='')}"
        f";key={quote(binding.routing_key, safe='')};args={_hash(binding)}"
    )
    return {
        "source": binding.source,
        f"destination_{kind}": binding.destination,
        "binding_key": binding.routing_key,
        "arguments": _arguments(binding.arguments),
        "location": location,
    }


def _hash(binding: Binding) -> str:
    return arguments_hash(binding.arguments) if binding.arguments else ""


def _message_count(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply, (replies.QueuePurged, replies.QueueDeleted))
    return {"message_count": ulong(reply.messages)}


def _check_line(name: str) -> None:
    if "\n" in name or "\r" in name:
        raise RefusedRequest("400", f"Bad name '{name}': line feed and carriage return characters not allowed")


def _check_default(exchange: str) -> None:
    if not exchange:
        raise RefusedRequest("403", default_exchange().explanation)
