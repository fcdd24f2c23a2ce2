"""How long other clients wait while ``dlx serve`` does long work for one: seconds of wall time.

    python benchmarks/fairness.py [--queues 10000] [--timers 12000] [--messages 100000] [--release 4.3]

A second client publishes and waits for the confirm, and asks for ``GET /api/overview``, in turns and with pauses.
Printed is how long each piece of work took its own client, and the longest wait of the second one: meanwhile, and
afterwards, when there is nothing to wait for but the answer itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pika
from import_speed import document
from management_api import HEADERS, request
from served import Served

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
POLICIES = 50
PAUSE_S, QUIET_S = 0.02, 0.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--timers", type=int, default=12_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--release", default="4.3")
    options = parser.parse_args()
    print(f"{'':<45}{'took':>8}   longest wait: publish and overview, and the same afterwards")
    with Served(options.release, "virtual") as served:
        Bench(served).measure("nothing", lambda: time.sleep(1))
        importing(Bench(served), options.queues)
    with Served(options.release, "virtual") as served:
        passing_time(Bench(served), options.timers)
    with Served(options.release, "virtual") as served:
        bench = Bench(served)
        purging(bench, options.messages)
        expiring(bench, options.messages)


def importing(bench: Bench, queues: int) -> None:
    """Measure imports, and a policy for all queues."""
    for policies in (0, POLICIES):
        given = {**document(queues, policies), "vhosts": [], "users": [], "permissions": []}
        bench.vhost(f"import{policies}")
        body = json.dumps(given).encode()
        what = f"an import of {queues:,} queues and {policies} policies"
        bench.measure(what, lambda path=f"definitions/import{policies}", body=body: bench.api("POST", path, body))
    policy = json.dumps({"pattern": "", "definition": {"max-length": 9}, "priority": 99}).encode()
    bench.measure(f"a policy for {queues:,} queues", lambda: bench.api("PUT", "policies/import50/all", policy))


def passing_time(bench: Bench, timers: int) -> None:
    """Measure an advance of the clock over many deadlines: of queues with a message each, and of unused queues."""
    names = [f"timer{number}" for number in range(timers)]
    kinds: dict[str, Callable[[int], dict[str, Any]]] = {
        "messages of their own queues": lambda number: {"x-message-ttl": 1_000 + number, **DEAD},
        "unused queues": lambda number: {"x-expires": 1_000 + number},
    }
    advance = json.dumps({"milliseconds": timers + 2_000}).encode()
    for number, (what, arguments) in enumerate(kinds.items()):
        vhost = f"timers{number}"
        bench.vhost(vhost)
        queues = [{"name": name, "arguments": arguments(place)} for place, name in enumerate(names)]
        given = {
            "exchanges": [{"name": "all", "type": "fanout"}],
            "queues": [*queues, {"name": "dead", "arguments": {}}],
            "bindings": [
                {"source": "all", "destination": name, "destination_type": "queue", "routing_key": ""} for name in names
            ],
        }
        complete = {section: [defaults(item) for item in items] for section, items in given.items()}
        bench.api("POST", f"definitions/{vhost}", json.dumps(complete).encode())
        bench.publish(vhost, "all", "", 1)
        bench.measure(f"{timers:,} {what} expire", lambda: bench.api("POST", "clock/advance", advance))


def defaults(item: dict[str, Any]) -> dict[str, Any]:
    """What an import needs of each item."""
    return {"durable": True, "auto_delete": False, "internal": False, "arguments": {}, **item}


def purging(bench: Bench, messages: int) -> None:
    """Measure a purge."""
    with bench.channel("/") as channel:
        channel.queue_declare("purged")
        bench.publish("/", "", "purged", messages)
        bench.measure(f"{messages:,} messages purged", lambda: channel.queue_purge("purged"))


def expiring(bench: Bench, messages: int) -> None:
    """Measure messages of one queue that expire at once, are rejected at once, or are pushed out at once."""
    with bench.channel("/") as channel:
        channel.queue_declare("dead", durable=True)
        channel.queue_declare("short", arguments={"x-message-ttl": 1_000, **DEAD})
        bench.publish("/", "", "short", messages)
        bench.measure(f"{messages:,} messages expire", lambda: bench.api("POST", "clock/advance", b'{"seconds": 2}'))
        shrink = json.dumps({"pattern": "^dead$", "definition": {"max-length": 1}}).encode()
        bench.measure(f"{messages:,} messages pushed out", lambda: bench.api("PUT", "policies/%2F/shrink", shrink))


class Bench:
    """A server, and a second client of it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._address = urlsplit(served.management_url).netloc

    def measure(self, what: str, work: Callable[[], object]) -> None:
        """Do the work while the second client measures its waits, and print them."""
        took, waits = self._beside(work)
        _, alone = self._beside(lambda: time.sleep(QUIET_S))
        longest = [max(column) for each in (waits, alone) for column in zip(*each, strict=True)]
        print(f"{what:<45}{took:>6.2f} s", *(f"{wait * 1000:>7.0f} ms" for wait in longest), flush=True)

    def _beside(self, work: Callable[[], object]) -> tuple[float, list[tuple[float, float]]]:
        """How long the work takes, and how long the second client waits meanwhile for a confirm and for an answer."""
        done, ready = threading.Event(), threading.Event()
        waits: list[tuple[float, float]] = []
        second = threading.Thread(target=self._wait, args=(ready, done, waits))
        second.start()
        ready.wait()
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        done.set()
        second.join()
        return took, waits

    def _wait(self, ready: threading.Event, done: threading.Event, waits: list[tuple[float, float]]) -> None:
        """Publish and ask until the work is done."""
        connected = http.client.HTTPConnection(self._address)
        with self.channel("/") as channel:
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.confirm_delivery()
            while not done.is_set() or not waits:
                began = time.perf_counter()
                channel.basic_publish("", queue, b"1")
                confirmed = time.perf_counter()
                connected.request("GET", "/api/overview", headers=HEADERS)
                connected.getresponse().read()
                waits.append((confirmed - began, time.perf_counter() - confirmed))
                ready.set()
                time.sleep(PAUSE_S)

    def channel(self, vhost: str) -> Any:
        """A channel of a new connection."""
        url = self._served.amqp_url.rstrip("/") + f"/{vhost.replace('/', '%2F')}?heartbeat=0"
        return pika.BlockingConnection(pika.URLParameters(url)).channel()

    def publish(self, vhost: str, exchange: str, key: str, messages: int) -> None:
        """Publish so many messages, and wait until all have arrived."""
        with self.channel(vhost) as channel:
            for number in range(messages):
                channel.basic_publish(exchange, key, b"%0100d" % number)
            channel.queue_declare("dead", durable=True)

    def vhost(self, name: str) -> None:
        """Create a virtual host."""
        self.api("PUT", f"vhosts/{name}", b"{}")

    def api(self, method: str, path: str, body: bytes) -> None:
        """One request."""
        request(self._served.management_url, method, path, body)


if __name__ == "__main__":
    main()
