"""Many queues, many waiting messages and large imports, each at two sizes, beside a live server.

    python benchmarks/broker_at_scale.py [--live amqp://… --management http://…]
        [--queues 2500 10000] [--messages 100000 400000] [--only expiry waiting import]

Expiry: queues with a TTL each take a message each, and all dead letters arrive in one queue. Waiting: messages
of 100 octets are published to one classic queue and drained. Import: ``POST /api/definitions`` of classic queues
with a binding each and 50 policies. (Publishing over 4,000 bindings is in ``routing_speed.py``.) The same client does
the same to ``dlx serve`` and to the live server, in turn, in a virtual host of its own, which is deleted afterwards.

Printed are the seconds that the client waited, the processor time of the server and the memory that it grew by,
the latter two where the live server runs on this machine; how many times more of each the live server took; and the
time of one item at the large size relative to the small one: about 1, but the ratio of the sizes where something
takes the square. RabbitMQ hangs up on a request that takes it minutes: then give fewer queues. Without ``--live``, the
4.3 that ``DLX_LIVE_SERVERS`` names stands for it, if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
from broker_speed import consume_all, parameters, publish_all
from figures import Figure
from figures import show as show_figures
from idle_memory import resident_bytes
from import_speed import document
from management_api import request
from served import Served, live_urls
from startup import processor_seconds

POLICIES = 50
COMMAND = "`benchmarks/broker_at_scale.py`"
LIVE_COMMAND = "`benchmarks/broker_at_scale.py --live URL --management URL`"
LISTENING = "0A"  # in /proc/net/tcp
TTL_MS = 1_000
ATTEMPTS = 30
TTL_QUEUE = {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@dataclass(frozen=True)
class Taken:
    """What a phase took: seconds of the client and of the server's processor, and bytes that the server grew by."""

    seconds: float
    processor_s: float | None
    grown: int | None


Phases = dict[str, Taken]


class Side:
    """A server: its addresses, and its process, if that runs here."""

    def __init__(self, amqp_url: str, management_url: str, process: int | None) -> None:
        self.amqp_url, self.management_url, self.process = amqp_url, management_url, process

    def taken(self, work: Callable[[], object], waited_s: float = 0) -> Taken:
        """Do the work; what it took, less the seconds that it waits by intention."""
        before, began = self._used(), time.perf_counter()
        work()
        seconds = time.perf_counter() - began - waited_s
        if before is None or (after := self._used()) is None:
            return Taken(seconds, None, None)
        return Taken(seconds, after[0] - before[0], after[1] - before[1])

    def _used(self) -> tuple[float, int] | None:
        return None if self.process is None else (processor_seconds(self.process), resident_bytes(self.process))

    @contextmanager
    def vhost(self) -> Iterator[str]:
        """A virtual host for the block."""
        name = f"dlx-scale-{uuid.uuid4().hex[:8]}"
        request(self.management_url, "PUT", f"vhosts/{name}", b"{}")
        try:
            yield name
        finally:
            self._delete(name)

    def _delete(self, vhost: str) -> None:
        """Delete a virtual host, in several requests where its queues take the server too long for one."""
        for _ in range(ATTEMPTS):
            with suppress(TimeoutError):
                request(self.management_url, "DELETE", f"vhosts/{vhost}")
                return
        raise TimeoutError(f"{vhost} could not be deleted from {self.management_url}: delete it there")

    @contextmanager
    def channel(self, vhost: str) -> Iterator[Any]:
        """A channel of a connection for the block."""
        given = parameters(self.amqp_url)
        given.virtual_host = vhost
        connection = pika.BlockingConnection(given)
        yield connection.channel()
        connection.close()


def main() -> None:
    """Measure and print."""
    options = parsed()
    for subject in options.only:
        found = measured(subject, options)
        show(found, sizes(subject, options))
        show_figures(figures_of(found, sizes(subject, options)))
        print(flush=True)


def figures() -> list[Figure]:
    """What small sizes show."""
    options = parsed(["--queues", "250", "1000", "--messages", "5000", "20000"])
    found = [figures_of(measured(subject, options), sizes(subject, options)) for subject in SUBJECTS]
    return [figure for several in found for figure in several]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options. Ends the program where an address is missing."""
    live, management = live_urls()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", metavar="AMQP_URL", default=live, help="a live server to compare with")
    parser.add_argument("--management", metavar="URL", default=management, help="its management API")
    parser.add_argument("--queues", type=int, nargs=2, default=(2_500, 10_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--messages", type=int, nargs=2, default=(100_000, 400_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--release", default="4.3", help="of the simulator (4.3)")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=tuple(SUBJECTS), help="leave the others out")
    options = parser.parse_args(arguments)
    if options.live and not options.management:
        parser.error("--live needs --management, for the virtual host and the import")
    return options


def sizes(subject: str, options: argparse.Namespace) -> tuple[int, int]:
    """Small and large."""
    return tuple(options.messages if subject == "waiting" else options.queues)


def measured(subject: str, options: argparse.Namespace) -> dict[str, list[Phases]]:
    """For each side the phases at the small and at the large size; each size anew, the sides in turn."""
    found: dict[str, list[Phases]] = {}
    for size in sizes(subject, options):
        with Served(options.release) as served:
            sides = {"dlx serve": Side(served.amqp_url, served.management_url, served.pid)}
            if options.live:
                sides["live"] = Side(options.live, options.management, process_that_listens(options.live))
            for name, side in sides.items():
                with side.vhost() as vhost:
                    found.setdefault(name, []).append(SUBJECTS[subject](side, vhost, size))
    return found


def process_that_listens(url: str) -> int | None:
    """The process that listens on the port of an address, if it runs here and may be looked into (Linux)."""
    port = f":{urlsplit(url).port:04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(port) and line[3] == LISTENING}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if os.readlink(descriptor) in sockets:
                return int(descriptor.parts[2])
    return None


def show(found: dict[str, list[Phases]], both: tuple[int, int]) -> None:
    """A line for each phase, size and side."""
    head = (
        f"{'seconds':>9}",
        f"{'processor':>11}",
        f"{'memory':>10}",
        f"{'bytes each':>12}",
        "  per item, large to small",
    )
    print(f"{'':<42}" + "".join(head))
    for phase in found["dlx serve"][0]:
        for at, size in enumerate(both):
            taken = {name: phases[at][phase] for name, phases in found.items()}
            for name, each in taken.items():
                growth = f"{growth_per_item(found[name], phase, both):14.2f}" if at else ""
                print(f"{f'{size:,} {phase}, {name}':<42}{columns(each, size)}{growth}")
            if "live" in taken:
                print(f"{'    live takes so many times as much':<42}{ratios(taken['live'], taken['dlx serve'])}")


def figures_of(found: dict[str, list[Phases]], both: tuple[int, int]) -> list[Figure]:
    """For each phase how the times grow, and how they relate to the live server's at the large size."""
    return [figure for phase in found["dlx serve"][0] for figure in figures_of_phase(found, phase, both)]


def figures_of_phase(found: dict[str, list[Phases]], phase: str, both: tuple[int, int]) -> Iterator[Figure]:
    growth = growth_per_item(found["dlx serve"], phase, both)
    times = both[1] / both[0]
    what = f"{phase}, {times:.0f} times as many: processor time of each, relative to fewer"
    yield Figure(what, "≤ 1.5", f"{growth:.1f} ({both[0]:,} and {both[1]:,})", COMMAND)
    if "live" in found:
        live, simulated = found["live"][1][phase], found["dlx serve"][1][phase]
        ratio = f"{live.seconds / simulated.seconds:.1f}"
        if live.processor_s and simulated.processor_s:
            ratio += f"; of processor time {live.processor_s / simulated.processor_s:.1f}"
        yield Figure(f"{phase}, relative to a live RabbitMQ", "≥ 1", f"{ratio} ({both[1]:,})", LIVE_COMMAND)


def columns(taken: Taken, size: int) -> str:
    if taken.processor_s is None or taken.grown is None:
        return f"{taken.seconds:9.2f}"
    megabytes = f"{taken.grown / 1e6:,.0f} MB"
    return f"{taken.seconds:9.2f}{taken.processor_s:11.2f}{megabytes:>10}{taken.grown / size:12,.0f}"


def ratios(live: Taken, simulated: Taken) -> str:
    both = [(live.seconds, simulated.seconds), (live.processor_s, simulated.processor_s), (live.grown, simulated.grown)]
    widths = (9, 11, 10)
    return "".join(
        f"{a / b:{w}.2f}" if a and b and min(a, b) > 0 else f"{'':{w}}" for (a, b), w in zip(both, widths, strict=True)
    )


def growth_per_item(phases: list[Phases], phase: str, both: tuple[int, int]) -> float:
    """The time of one item at the large size relative to the small one: of the processor, where it is known."""
    times = [each[phase].processor_s or each[phase].seconds for each in phases]
    return (times[1] / both[1]) / (times[0] / both[0])


# The subjects


def expiry(side: Side, vhost: str, queues: int) -> Phases:
    """Declare queues with a TTL; publish to each, until all dead letters have arrived, less the TTL itself."""
    with side.channel(vhost) as channel:
        channel.queue_declare("dead", durable=True)

        def declare() -> None:
            for number in range(queues):
                channel.queue_declare(f"short{number}", durable=True, arguments=TTL_QUEUE)

        def publish() -> None:
            for number in range(queues):
                channel.basic_publish("", f"short{number}", b"x")
            while channel.queue_declare("dead", passive=True).method.message_count < queues:
                time.sleep(0.02)

        return {"queues declared": side.taken(declare), "messages dead": side.taken(publish, TTL_MS / 1_000)}


def waiting(side: Side, vhost: str, messages: int) -> Phases:
    """Publish to one queue, and drain it."""
    with side.channel(vhost) as channel:
        channel.queue_declare("waiting", durable=True)
        return {
            "messages published": side.taken(lambda: publish_all(channel, "waiting", messages)),
            "messages drained": side.taken(lambda: consume_all(channel, "waiting", messages, reject=False)),
        }


def importing(side: Side, vhost: str, queues: int) -> Phases:
    """Import queues and policies, and the same once more."""
    given = json.dumps(document(queues, POLICIES, vhost, types=("classic",))).encode()
    post = lambda: request(side.management_url, "POST", "definitions", given)  # noqa: E731
    return {"queues imported": side.taken(post), "queues imported again": side.taken(post)}


SUBJECTS: dict[str, Callable[[Side, str, int], Phases]] = {"expiry": expiry, "waiting": waiting, "import": importing}


if __name__ == "__main__":
    main()
