"""Publish over many bindings, all routing keys different: the broker in this process, ``dlx serve``, a live server.

    python benchmarks/routing_speed.py [--live amqp://guest:guest@127.0.0.1:5672/] [--messages 20000] [--rounds 3]

One queue hangs on a topic exchange by ``eu.#``, and by as many further bindings as are asked for, of
which each message meets one. Over the wire the same pika client publishes to both servers in turn; a round ends
when the queue has all messages. Medians are printed, and the ratio to the live server; then the processor time of pika
and of ``dlx serve``: no server makes a publish faster than pika's. Without
``--live``, the 4.3 that ``DLX_LIVE_SERVERS`` names stands for it, if there is one.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pika
from broker_speed import BODY, NO_PROPERTIES, parameters, seconds
from figures import Figure
from served import Served, live_urls
from startup import processor_seconds

from simulator.broker import Broker, commands

BINDINGS = (0, 200, 4_000)
PATTERNS = {"topic": "eu.{0}.*.#", "direct": "eu.{0}.paid.{0}"}
Side = Callable[[int, int], float]
Taken = TypeVar("Taken")


def main() -> None:
    """Measure and print."""
    options = parsed()
    show(measured(options), options.messages)
    if options.only != "in-process":
        show_processor_times(options)


def figures() -> list[Figure]:
    """How the simulator's rates relate to a live server's; nothing without one."""
    options = parsed(["--messages", "5000", "--rounds", "1"])
    if not options.live:
        return []
    ratios: dict[str, list[str]] = {}
    for rounds in measured(options).values():
        for name, taken in rounds[0].items():
            ratios.setdefault(name, []).append(f"{rounds[0]['live'] / taken:.1f}")
    served, topic, direct = (
        ", ".join(ratios[name]) for name in ("dlx serve", "in process, topic", "in process, direct")
    )
    counts = ", ".join(f"{count:,}" for count in options.bindings)
    what = f"publishes over {counts} topic bindings, all keys different, over the wire, relative to a live RabbitMQ"
    found = f"{served}; by `Broker.handle` {topic}, direct bindings {direct}"
    return [Figure(what, "≥ 1", found, "`benchmarks/routing_speed.py --live URL`")]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", metavar="AMQP_URL", default=live_urls()[0], help="a live server to compare with")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bindings", type=int, nargs="+", default=BINDINGS, help="how many, besides eu.#")
    parser.add_argument("--release", default="4.3", help="of the simulator (4.3)")
    parser.add_argument("--only", choices=("in-process", "wire"), help="leave the other side out")
    return parser.parse_args(arguments)


def measured(options: argparse.Namespace) -> dict[int, list[dict[str, float]]]:
    """Seconds of each side in each round, for each number of bindings."""
    with Served(options.release) as served:
        sides = chosen(options, served.amqp_url)
        return {
            count: [
                {name: side(count, options.messages) for name, side in sides.items()} for _ in range(options.rounds)
            ]
            for count in options.bindings
        }


def chosen(options: argparse.Namespace, served_url: str) -> dict[str, Side]:
    """The sides to measure."""
    sides: dict[str, Side] = {}
    if options.only != "in-process":
        if options.live:
            sides["live"] = partial(over_the_wire, options.live)
        sides["dlx serve"] = partial(over_the_wire, served_url)
    if options.only != "wire":
        for kind in PATTERNS:
            sides[f"in process, {kind}"] = partial(in_process, options.release, kind)
    return sides


def show(measured: dict[int, list[dict[str, float]]], messages: int) -> None:
    """A line for each side: publishes per second over as many bindings, and their ratio to the live server's."""
    rounds = len(next(iter(measured.values())))
    print(f"{messages:,} messages of {len(BODY)} octets, medians of {rounds} rounds, publishes per second (ratio)\n")
    print(f"{'bindings':<22}" + "".join(f"{count:>18,}" for count in measured))
    for name in next(iter(measured.values()))[0]:
        print(f"{name:<22}" + "".join(f"{cell(name, rounds, messages):>18}" for rounds in measured.values()))
    print("\nratio: to the live server")


def cell(name: str, rounds: list[dict[str, float]], messages: int) -> str:
    taken = {side: statistics.median(each[side] for each in rounds) for side in rounds[0]}
    ratio = f" ({taken['live'] / taken[name]:.2f})" if "live" in taken else ""
    return f"{messages / taken[name]:,.0f}{ratio}"


def show_processor_times(options: argparse.Namespace) -> None:
    """Processor time for each publish to ``dlx serve``: pika's and the server's. It depends less on what else runs."""
    print("\nprocessor time for each publish to dlx serve, the least of the rounds:")
    with Served(options.release) as served:
        measure = partial(processor_times, served.pid)
        for count in options.bindings:
            rounds = [over_the_wire(served.amqp_url, count, options.messages, measure) for _ in range(options.rounds)]
            pika_us, served_us = (1e6 * min(taken) / options.messages for taken in zip(*rounds, strict=True))
            print(f"{count:>6,} bindings: pika {pika_us:.0f} µs, dlx serve {served_us:.0f} µs")


def processor_times(pid: int, work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of processor time that some work takes in this process, and in another."""
    before = time.process_time(), processor_seconds(pid)
    work()
    return time.process_time() - before[0], processor_seconds(pid) - before[1]


def keys(count: int, messages: int) -> Iterator[str]:
    """Routing keys, no two of them the same, each for one of the bindings in turn."""
    return (f"eu.{number % max(count, 1)}.paid.{number}" for number in range(messages))


def over_the_wire(
    url: str, count: int, messages: int, measure: Callable[[Callable[[], None]], Taken] = seconds
) -> Taken:
    """What ``measure`` finds from the first publish until the queue has all, with ``pika.BlockingConnection``."""
    connection = pika.BlockingConnection(parameters(url))
    channel = connection.channel()
    name = f"dlx-routing-{uuid.uuid4().hex[:8]}"
    channel.exchange_declare(name, "topic")
    channel.queue_declare(name)
    for key in ("eu.#", *(PATTERNS["topic"].format(number) for number in range(count))):
        channel.queue_bind(name, name, key)

    def publish() -> None:
        for key in keys(count, messages):
            channel.basic_publish(name, key, BODY)
        while channel.queue_declare(name, passive=True).method.message_count < messages:
            time.sleep(0.005)

    try:
        return measure(publish)
    finally:
        channel.exchange_delete(name)
        channel.queue_delete(name)
        connection.close()


def in_process(release: str, kind: str, count: int, messages: int) -> float:
    """Seconds for as many ``Publish`` commands; a direct exchange's bindings have the keys of the first messages."""
    broker, channel = Broker(release), ("benchmark", 1)
    clock = time.time_ns

    def handle(command: commands.Command) -> None:
        broker.handle(command, clock() // 1_000)

    handle(commands.OpenConnection("benchmark"))
    handle(commands.OpenChannel(channel))
    handle(commands.DeclareExchange(channel=channel, exchange="x", type=kind))
    handle(commands.DeclareQueue(channel=channel, queue="q"))
    for key in ("eu.#", *(PATTERNS[kind].format(number) for number in range(count))):
        handle(commands.BindQueue(channel=channel, queue="q", exchange="x", routing_key=key))

    def publish() -> None:
        for key in keys(count, messages):
            handle(commands.Publish(channel, "x", key, NO_PROPERTIES, BODY))

    return seconds(publish)


if __name__ == "__main__":
    main()
