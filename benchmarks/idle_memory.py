"""What a message that waits in a queue costs, in bytes of memory, and what of that stays when it is purged.

    python benchmarks/idle_memory.py [--messages 200000] [--release 4.3]

Bodies of 100 octets, each its own, in a classic queue: in a fresh process by the
broker's commands, and in ``dlx serve`` by a pika client. Measured is what the process
grew by, once with properties that all messages share and once with headers of their own,
and what it is still larger by after a purge.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
from figures import Figure
from served import Served

WARM_UP = 2_000
SETTLED_S = 3
QUEUE = "idle"
NO_PROPERTIES: dict[str, Any] = {}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--release", default="4.3")
    parser.add_argument("--in-process", choices=("shared", "own"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        print(*broker_growth(options.release, options.messages, own=options.in_process == "own"))
        return
    print(f"{options.messages:,} messages of 100 octets in a classic queue: bytes for each, and what a purge leaves\n")
    for what, growth in measured(options.release, options.messages):
        show(what, growth, options.messages)


def figures() -> list[Figure]:
    """What a message takes, and what 200,000 leave behind."""
    (alike, alike_kept), (own, own_kept), (_, served_kept), (_, served_own_kept) = (
        (grown / 200_000, kept / 1e6) for _what, (grown, kept) in measured("4.3", 200_000)
    )
    each = f"{alike:.0f} bytes; {own:.0f} with headers of its own"
    kept = f"{alike_kept:.0f} MB; {own_kept:.0f} MB with headers of their own"
    served = f"(`dlx serve`: {served_kept:.0f} and {served_own_kept:.0f} MB)"
    by = "`benchmarks/idle_memory.py`"
    return [
        Figure("a message of 100 octets that waits in a classic queue", "1,500 bytes", each, by),
        Figure("what 200,000 such messages leave behind when they are purged", "", f"{kept} {served}", by),
    ]


def measured(release: str, messages: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """What each kind of message is, and the bytes that so many take and leave behind."""
    kinds = {"shared": "no properties", "own": "headers of their own"}
    for kind, what in kinds.items():
        yield f"in process, {what}", in_fresh_process(kind, release, messages)
    for kind, what in kinds.items():
        yield f"dlx serve,  {what}", server_growth(release, messages, own=kind == "own")


def show(what: str, growth: tuple[int, int], messages: int) -> None:
    """Print what the messages took, and what stays."""
    grown, kept = growth
    print(f"{what:<36}{grown / messages:8,.0f}{kept / 1e6:8,.0f} MB", flush=True)


def in_fresh_process(kind: str, release: str, messages: int) -> tuple[int, int]:
    """``broker_growth`` where nothing was freed before that could be used again."""
    given = ["--messages", str(messages), "--release", release, "--in-process", kind]
    said = subprocess.run([sys.executable, __file__, *given], check=True, capture_output=True).stdout
    grown, kept = map(int, said.split())
    return grown, kept


def broker_growth(release: str, messages: int, *, own: bool) -> tuple[int, int]:
    """Bytes by which this process grows as the broker takes the messages, and which stay after a purge."""
    from simulator.broker import Broker, commands

    broker, channel = Broker(release), ("benchmark", 1)
    setup = [
        commands.OpenConnection("benchmark"),
        commands.OpenChannel(channel),
        commands.DeclareQueue(channel=channel, queue=QUEUE, durable=True),
    ]
    for command in setup:
        broker.handle(command, 1)

    def publish(start: int, stop: int) -> None:
        for number, body in bodies(start, stop):
            properties = {"headers": {"number": number, "tenant": f"tenant {number}"}} if own else NO_PROPERTIES
            broker.handle(commands.Publish(channel, "", QUEUE, properties, body), 1)

    publish(0, WARM_UP)
    gc.collect()
    before = resident_bytes("self")
    publish(WARM_UP, WARM_UP + messages)
    gc.collect()
    grown = resident_bytes("self") - before
    broker.handle(commands.PurgeQueue(channel, QUEUE), 1)
    return grown, resident_bytes("self") - before


def server_growth(release: str, messages: int, *, own: bool) -> tuple[int, int]:
    """Bytes by which ``dlx serve`` grows as a client publishes the messages, and which stay after a purge."""
    with Served(release) as served:
        connection = pika.BlockingConnection(pika.URLParameters(served.amqp_url))
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)

        def publish(start: int, stop: int) -> None:
            for number, body in bodies(start, stop):
                headers: dict[str, Any] = {"number": number, "tenant": f"tenant {number}"}
                channel.basic_publish("", QUEUE, body, pika.BasicProperties(headers=headers) if own else None)
            while channel.queue_declare(QUEUE, passive=True).method.message_count < stop:
                time.sleep(0.01)

        publish(0, WARM_UP)
        before = resident_bytes(served.pid)
        publish(WARM_UP, WARM_UP + messages)
        grown = resident_bytes(served.pid) - before
        channel.queue_purge(QUEUE)
        connection.close()
        time.sleep(SETTLED_S)
        return grown, resident_bytes(served.pid) - before


def bodies(start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Numbered bodies of 100 octets."""
    for number in range(start, stop):
        yield number, b"%0100d" % number


def resident_bytes(process: int | str) -> int:
    """What a process occupies (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096


if __name__ == "__main__":
    main()
