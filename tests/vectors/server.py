"""One server, real or simulated: declaring, publishing and reading in a virtual host of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.differential.client import Connection, Incoming
from tests.differential.management import Management, RefusedError
from tests.vectors import amqp

VHOST = "dlx-vectors"
BODY = b"m"
FILLER = b"filler"
TICK_S = 0.008  # between two looks at a queue
_CHANNEL = 1
_READER = "reader"


class Refused(Exception):
    """The server answered with an error: AMQP reply code or HTTP status, and its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code, self.text = code, text

    def to_json(self) -> dict[str, Any]:
        """Return the error as it stands in an outcome."""
        return {"code": self.code, "text": self.text}


class Server:
    """A server of one release. Use as a context manager: the virtual host exists only inside.

    Args:
        release: such as ``4.3``.
        amqp_url, http_url: where it listens.
        now: its clock, in seconds since 1970.
        sleep: waits for so many seconds by that clock.
    """

    def __init__(
        self,
        release: str,
        amqp_url: str,
        http_url: str,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.release, self.now, self.sleep = release, now, sleep
        self._amqp_url = amqp_url
        self._management = Management(http_url, amqp_url)
        self._connection: Connection | None = None
        self._channel_is_open = False

    def __enter__(self) -> Server:
        self.drop_vhost(VHOST)
        self.make_vhost(VHOST)
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()
        self.drop_vhost(VHOST)

    # -- management API ---------------------------------------------------

    def http(self, method: str, *path: str, body: Any = None) -> Any:
        """Call the management API; raises Refused with the reason the server gave."""
        try:
            return self._management.call(method, *path, body=body)
        except RefusedError as error:
            raise Refused(error.status, error.reason) from None

    def make_vhost(self, name: str) -> None:
        """Create a virtual host that the user may do everything in."""
        self._management.make_vhost(name)

    def drop_vhost(self, name: str) -> None:
        """Delete a virtual host if it is there."""
        self._management.delete("vhosts", name)

    # -- AMQP -------------------------------------------------------------

    def call(self, method: str, **values: Any) -> Incoming:
        """Send a method and return its answer; raises Refused where the server closes the channel or connection."""
        return self._checked(self._opened().call(_CHANNEL, method, **values))

    def _opened(self) -> Connection:
        """Return the connection with an open channel in confirm mode; both are new where the last were closed."""
        if self._connection is None or not self._connection.is_open:
            self._connection, self._channel_is_open = Connection(self._amqp_url, VHOST), False
            self._checked(self._connection.opened)
        if not self._channel_is_open:
            self._connection.inbox.clear()
            self._checked(self._connection.call(_CHANNEL, "channel.open"))
            self._channel_is_open = True
            self._checked(self._connection.call(_CHANNEL, "confirm.select"))
        return self._connection

    def _checked(self, answer: Incoming) -> Incoming:
        if answer.is_close:
            self._channel_is_open = False
            raise Refused(answer.values.get("code", 0), answer.values.get("text", answer.method))
        return answer

    def close_channel(self) -> None:
        """Close the channel as a client does, which gives back what is unacknowledged."""
        if self._channel_is_open:
            self.call("channel.close", code=200, text="bye")
            self._channel_is_open = False

    def declare(self, what: str, definition: dict[str, Any], vhost: str = VHOST) -> None:
        """Declare one thing: ``what`` is a key of definitions; raises Refused."""
        match what:
            case "policies" | "operator_policies":
                self.http("PUT", what.replace("_", "-"), vhost, definition["name"], body=definition)
            case "queues":
                given = {name: definition[name] for name in ("durable", "auto_delete", "arguments")}
                self.call("queue.declare", queue=definition["name"], **given)
            case "exchanges":
                given = {name: definition[name] for name in ("type", "durable", "internal", "arguments")}
                self.call("exchange.declare", exchange=definition["name"], **given)
            case "bindings":
                self._bind(definition)

    def _bind(self, definition: dict[str, Any]) -> None:
        given = {"routing_key": definition["routing_key"], "arguments": amqp.table_from_json(definition["arguments"])}
        if definition["destination_type"] == "queue":
            self.call("queue.bind", queue=definition["destination"], exchange=definition["source"], **given)
        else:
            self.call("exchange.bind", destination=definition["destination"], source=definition["source"], **given)

    def delete(self, what: str, name: str) -> None:
        """Delete a queue, exchange, policy or operator policy if it is there."""
        with contextlib.suppress(Refused):
            match what:
                case "queues":
                    self.call("queue.delete", queue=name)
                case "exchanges":
                    self.call("exchange.delete", exchange=name)
                case "policies" | "operator_policies":
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
        connection = self._opened()
        connection.publish(_CHANNEL, {"headers": headers, **properties}, body, exchange=exchange, routing_key=key)
        return self._checked(connection.wait(_CHANNEL, "basic.ack", "basic.nack")).method == "basic.ack"

    def get(self, queue: str, wait_s: float = 0.0, body: bytes | None = None) -> Incoming | None:
        """Return the next message, unacknowledged, or None after ``wait_s``.

        With ``body`` any other message is acknowledged and skipped.
        """
        until = self.now() + wait_s
        while True:
            got = self.call("basic.get", queue=queue)
            if got.method == "basic.get-ok":
                if body is None or got.body == body:
                    return got
                self.ack(got)
            elif self.now() >= until:
                return None
            else:
                self.sleep(TICK_S)

    def ack(self, got: Incoming) -> None:
        """Acknowledge a message."""
        self._opened().send(_CHANNEL, "basic.ack", delivery_tag=got.values["delivery_tag"])

    def give_back(self, got: Incoming, by: str, *, requeue: bool) -> None:
        """Send basic.reject or basic.nack, which ``by`` names."""
        self._opened().send(_CHANNEL, f"basic.{by}", delivery_tag=got.values["delivery_tag"], requeue=requeue)

    def read_stream(self, queue: str, quiet_s: float) -> Iterator[Incoming]:
        """Read all messages of a stream from its first, until nothing has come for ``quiet_s``."""
        self.call("basic.qos", prefetch_count=10)
        self.call("basic.consume", queue=queue, consumer_tag=_READER, arguments={"x-stream-offset": "first"})
        until = self.now() + quiet_s
        while self.now() < until:
            self.count(queue)  # what was sent before the answer has arrived with it
            arrived, self._opened().inbox[_CHANNEL] = self._opened().inbox[_CHANNEL], []
            for delivered in arrived:
                self.ack(delivered)
                yield delivered
            if arrived:
                until = self.now() + quiet_s
            self.sleep(TICK_S)
        self.close_channel()

    def count(self, queue: str) -> int:
        """Count the ready messages of the queue."""
        return int(self.call("queue.declare", queue=queue, passive=True).values["messages"])

    def wait_count(self, queue: str, wanted: int, wait_s: float) -> bool:
        """Whether the queue came to hold ``wanted`` ready messages within ``wait_s``."""
        until = self.now() + wait_s
        while self.count(queue) != wanted:
            if self.now() >= until:
                return False
            self.sleep(TICK_S)
        return True
