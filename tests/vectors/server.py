"""One real server: declaring, publishing and reading in a virtual host of its own."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByBroker, NackError

from tests.vectors import amqp
from tests.vectors import wire as wire  # makes pika speak in fields

VHOST = "dlx-vectors"
BODY = b"m"
FILLER = b"filler"
TICK_S = 0.008  # between two looks at a queue


class Refused(Exception):
    """The server answered with an error: AMQP reply code or HTTP status, and its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code, self.text = code, text

    def to_json(self) -> dict[str, Any]:
        """As it stands in an outcome."""
        return {"code": self.code, "text": self.text}


class Server:
    """A server of one release. Use as a context manager: the virtual host exists only inside."""

    def __init__(self, release: str, amqp_url: str, http_url: str) -> None:
        self.release = release
        self._parameters = pika.URLParameters(amqp_url)
        self._parameters.virtual_host = VHOST
        self._parameters.heartbeat = 0
        self._http_url = http_url.rstrip("/")
        user = self._parameters.credentials
        self._user = user.username
        token = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        self._authorization = f"Basic {token}"
        self._connection: pika.BlockingConnection | None = None
        self._channel: Any = None

    def __enter__(self) -> Server:
        self.drop_vhost(VHOST)
        self.make_vhost(VHOST)
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.close()
        self.drop_vhost(VHOST)

    # -- management API ---------------------------------------------------

    def http(self, method: str, *path: str, body: Any = None) -> Any:
        """Call the management API; raises Refused with the reason the server gave."""
        url = "/".join([self._http_url, "api", *(urllib.parse.quote(part, safe="") for part in path)])
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": self._authorization, "content-type": "application/json"}
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            content = error.read()
            try:
                reason = json.loads(content)["reason"]
            except (ValueError, KeyError):
                reason = content.decode(errors="replace")
            text = reason if isinstance(reason, str) else json.dumps(reason)
            raise Refused(error.code, html.unescape(text)) from None  # escaped until 4.0, and not everywhere
        return json.loads(content) if content else None

    def make_vhost(self, name: str) -> None:
        """Create a virtual host that the user may do everything in."""
        self.http("PUT", "vhosts", name, body={})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.http("PUT", "permissions", name, self._user, body=everything)

    def drop_vhost(self, name: str) -> None:
        """Delete a virtual host if it is there."""
        with contextlib.suppress(Refused):
            self.http("DELETE", "vhosts", name)

    # -- AMQP -------------------------------------------------------------

    @property
    def channel(self) -> Any:
        """An open channel in confirm mode, a new one where the last was closed."""
        if self._connection is None or not self._connection.is_open:
            self._connection = pika.BlockingConnection(self._parameters)
            self._channel = None
        if self._channel is None or not self._channel.is_open:
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
        return self._channel

    def close_channel(self) -> None:
        """Close the channel as a client does, which gives back what is unacknowledged."""
        self.channel.close()

    def declare(self, what: str, definition: dict[str, Any], vhost: str = VHOST) -> None:
        """Declare one thing: ``what`` is a key of definitions; raises Refused."""
        if what in ("policies", "operator_policies"):
            kind = what.replace("_", "-")
            self.http("PUT", kind, vhost, definition["name"], body=definition)
            return
        with _refusals():
            match what:
                case "queues":
                    self.channel.queue_declare(
                        definition["name"],
                        durable=definition["durable"],
                        auto_delete=definition["auto_delete"],
                        arguments=definition["arguments"],
                    )
                case "exchanges":
                    self.channel.exchange_declare(
                        definition["name"],
                        definition["type"],
                        durable=definition["durable"],
                        internal=definition["internal"],
                        arguments=definition["arguments"],
                    )
                case "bindings":
                    self._bind(definition)

    def _bind(self, definition: dict[str, Any]) -> None:
        to_queue = definition["destination_type"] == "queue"
        (self.channel.queue_bind if to_queue else self.channel.exchange_bind)(
            definition["destination"],
            definition["source"],
            routing_key=definition["routing_key"],
            arguments=amqp.table_from_json(definition["arguments"]),
        )

    def delete(self, what: str, name: str) -> None:
        """Delete a queue, exchange, policy or operator policy if it is there."""
        match what:
            case "queues":
                with contextlib.suppress(Refused), _refusals():
                    self.channel.queue_delete(name)
            case "exchanges":
                with contextlib.suppress(Refused), _refusals():
                    self.channel.exchange_delete(name)
            case "policies" | "operator_policies":
                with contextlib.suppress(Refused):
                    self.http("DELETE", what.replace("_", "-"), VHOST, name)

    def publish(
        self,
        exchange: str,
        key: str,
        body: bytes = BODY,
        headers: dict[str, Any] | None = None,
        **properties: Any,
    ) -> bool:
        """Publish and wait for the confirm: whether it was an ack; raises Refused."""
        with _refusals():
            try:
                given = pika.BasicProperties(headers=headers, **properties)
                self.channel.basic_publish(exchange, key, body, given)
            except NackError:
                return False
        return True

    def get(self, queue: str, wait_s: float = 0.0, body: bytes | None = None) -> Any:
        """``(method, properties)`` of the next message, unacknowledged, or None after ``wait_s``.

        With ``body`` any other message is acknowledged and skipped.
        """
        until = time.monotonic() + wait_s
        while True:
            with _refusals():
                method, properties, content = self.channel.basic_get(queue)
            if method is not None:
                if body is None or content == body:
                    return method, properties, content
                self.channel.basic_ack(method.delivery_tag)
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(TICK_S)

    def read_stream(self, queue: str, quiet_s: float) -> Iterator[tuple[Any, Any, bytes]]:
        """All messages of a stream from its first, until nothing comes for ``quiet_s``."""
        channel = self.channel
        channel.basic_qos(prefetch_count=10)
        offset = {"x-stream-offset": "first"}
        for method, properties, content in channel.consume(queue, arguments=offset, inactivity_timeout=quiet_s):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)
            yield method, properties, content
        channel.close()

    def count(self, queue: str) -> int:
        """Ready messages of the queue."""
        with _refusals():
            return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def wait_count(self, queue: str, wanted: int, wait_s: float) -> bool:
        """Whether the queue came to hold ``wanted`` ready messages within ``wait_s``."""
        until = time.monotonic() + wait_s
        while self.count(queue) != wanted:
            if time.monotonic() >= until:
                return False
            time.sleep(TICK_S)
        return True


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
        raise Refused(error.reply_code, error.reply_text) from None
    except AMQPConnectionError as error:
        raise Refused(0, f"connection lost: {error!r}") from None
