"""What stomp.py sees of a broker: ``python with_stomp_py.py PORT QUIET_S``, with stomp.py installed.

It prints a line for each behaviour. ``test_stomp_clients.py`` runs it against a new ``dlx serve activemq``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any, ClassVar

import stomp

QUIET_S = float(sys.argv[2]) if __name__ == "__main__" else 0
"""After so long nothing more comes."""
SHOWN = ("destination", "redelivered", "persistent", "priority", "original-destination", "originalExpiration", "own")


class Listener(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Keeps what comes."""

    def __init__(self) -> None:
        self.came: Queue[tuple[str, Any]] = Queue()

    def on_message(self, frame: Any) -> None:
        self.came.put(("message", frame))

    def on_error(self, frame: Any) -> None:
        self.came.put(("error", frame))

    def on_receipt(self, frame: Any) -> None:
        self.came.put(("receipt", frame))

    def on_disconnected(self) -> None:
        self.came.put(("disconnected", None))


class Client:
    """A client, and what it has seen."""

    connected: ClassVar[list[Client]] = []

    def __init__(self, port: int, kind: type = stomp.Connection12, client_id: str | None = None) -> None:
        self.listener = Listener()
        self.stomp = kind([("127.0.0.1", port)])
        self.stomp.set_listener("", self.listener)
        self.stomp.connect(wait=True, headers={} if client_id is None else {"client-id": client_id})
        self.frames: dict[str, Any] = {}
        self.connected.append(self)

    def seen(self) -> list[Any]:
        """Return what has come, until nothing more does."""
        found = []
        while True:
            try:
                kind, frame = self.listener.came.get(timeout=QUIET_S)
            except Empty:
                return found
            if kind == "message":
                self.frames[frame.body] = frame.headers
                found.append([frame.body, {name: frame.headers[name] for name in SHOWN if name in frame.headers}])
            else:
                headers = {} if frame is None else frame.headers
                found.append([kind, headers.get("message")])


def main(port: int) -> None:
    """Print what is seen."""
    for name, act in BEHAVIOURS.items():
        print(json.dumps({name: act(port)}, sort_keys=True), flush=True)
        while Client.connected:
            client = Client.connected.pop()
            if client.stomp.is_connected():
                client.stomp.disconnect()


def three(client: Client, queue: str, **headers: str) -> None:
    for body in "ABC":
        client.stomp.send(queue, body, headers=headers)


def of_1_2(port: int, mode: str, act: Callable[[Client], None]) -> list[Any]:
    queue = f"/queue/{mode}.{act.__name__}"
    client = Client(port)
    three(client, queue, persistent="true")
    client.stomp.subscribe(queue, id="1", ack=mode)
    found = [client.seen()]
    act(client)
    found.append(client.seen())
    client.stomp.disconnect()
    found.append(client.seen())
    other = Client(port)
    other.stomp.subscribe(queue, id="7", ack="auto")
    other.stomp.subscribe("/queue/ActiveMQ.DLQ", id="8", ack="auto")
    return [*found, other.seen()]


def acknowledges_b(client: Client) -> None:
    client.stomp.ack(client.frames["B"]["ack"])


def rejects_b(client: Client) -> None:
    client.stomp.nack(client.frames["B"]["ack"])


def aborts(client: Client) -> None:
    transaction = client.stomp.begin()
    client.stomp.ack(client.frames["B"]["ack"], transaction=transaction)
    client.stomp.abort(transaction)


def commits(client: Client) -> None:
    transaction = client.stomp.begin()
    client.stomp.ack(client.frames["B"]["ack"], transaction=transaction)
    client.stomp.commit(transaction)


def of_1_1(port: int) -> list[Any]:
    client = Client(port, stomp.Connection11)
    three(client, "/queue/eleven", persistent="true")
    client.stomp.subscribe("/queue/eleven", id="1", ack="client-individual")
    found = [client.seen()]
    client.stomp.nack(client.frames["A"]["message-id"], "1")
    client.stomp.ack(client.frames["B"]["message-id"], "1")
    client.stomp.unsubscribe("1", receipt="gone")
    client.stomp.subscribe("/queue/ActiveMQ.DLQ", id="2", ack="auto")
    return [*found, client.seen()]


def of_1_0(port: int) -> list[Any]:
    client = Client(port, stomp.Connection10)
    client.stomp.send("/queue/ten", "A", headers={"own": "a:b"})
    client.stomp.subscribe("/queue/ten", ack="client")
    found = [client.seen()]
    client.stomp.ack(client.frames["A"]["message-id"])
    return [*found, client.seen()]


def not_persistent(port: int) -> list[Any]:
    client = Client(port)
    client.stomp.send("/queue/light", "A")
    client.stomp.subscribe("/queue/light", id="1", ack="client-individual")
    found = [client.seen()]
    client.stomp.nack(client.frames["A"]["ack"])
    client.stomp.subscribe("/queue/ActiveMQ.DLQ", id="2", ack="auto")
    return [*found, client.seen()]


def durable(port: int) -> list[Any]:
    headers = {"activemq.subscriptionName": "news"}
    first = Client(port, client_id="reader")
    first.stomp.subscribe("/topic/news", id="1", ack="client", headers=headers)
    first.seen()
    first.stomp.disconnect()
    first.seen()
    Client(port).stomp.send("/topic/news", "A", headers={"persistent": "true"})
    second = Client(port, client_id="reader")
    second.stomp.subscribe("/topic/news", id="1", ack="client", headers=headers)
    return second.seen()


def selects(port: int) -> list[Any]:
    client = Client(port)
    for number in (1, 20, 3):
        client.stomp.send("/queue/selected", str(number), headers={"own": str(number)})
    client.stomp.subscribe("/queue/selected", id="1", ack="client", headers={"selector": "own > 2"})
    return client.seen()


def expires(port: int) -> list[Any]:
    client = Client(port)
    soon = str(int(time.time() * 1000) + 300)
    client.stomp.send("/queue/soon", "A", headers={"expires": soon, "persistent": "true"})
    time.sleep(0.6)
    client.stomp.subscribe("/queue/soon", id="1", ack="auto")
    found = [client.seen()]
    client.stomp.subscribe("/queue/ActiveMQ.DLQ", id="2", ack="auto")
    return [*found, [each[0] for each in client.seen()]]


def errs(port: int) -> list[Any]:
    client = Client(port)
    client.stomp.ack("nobody")
    client.stomp.commit("nothing")
    return client.seen()


BEHAVIOURS: dict[str, Callable[[int], list[Any]]] = {
    **{
        f"{mode} {act.__name__}": lambda port, mode=mode, act=act: of_1_2(port, mode, act)
        for mode in ("client", "client-individual")
        for act in (acknowledges_b, rejects_b, aborts, commits)
    },
    "1.1": of_1_1,
    "1.0": of_1_0,
    "not persistent": not_persistent,
    "durable": durable,
    "a selector": selects,
    "expires": expires,
    "errors": errs,
}

if __name__ == "__main__":
    main(int(sys.argv[1]))
