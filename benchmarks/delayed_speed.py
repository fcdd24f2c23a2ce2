"""Publishing through a delayed exchange beside a direct one: by the message, until it is in its queue.

    python benchmarks/delayed_speed.py [--messages 50000] [--rounds 5] [--release 4.3]

The same messages with an ``x-delay`` go through ``Broker.handle`` to a direct exchange, and to an
``x-delayed-message`` exchange that routes as one; then time passes until all are in the queue. The delays differ, so
that each message is due on its own. Printed are the medians of each side and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time

from figures import Figure
from figures import show as show_figures

from dlx.server_plugins import DELAYED, named_plugins
from simulator.broker import Broker, commands

COMMAND = "`benchmarks/delayed_speed.py`"
BODY = b"x" * 100
DELAYS_MS = 1_000
CHANNEL = ("client", 1)


def main() -> None:
    """Measure and print."""
    show_figures(figures_of(parsed()))


def figures() -> list[Figure]:
    """How much longer a message takes through a delayed exchange."""
    return figures_of(parsed([]))


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--release", default="4.3")
    return parser.parse_args(arguments)


def figures_of(options: argparse.Namespace) -> list[Figure]:
    """The rates and their ratio."""
    rounds = [
        (seconds("direct", options.release, options.messages), seconds(DELAYED, options.release, options.messages))
        for _ in range(options.rounds)
    ]
    direct, delayed = (statistics.median(side) for side in zip(*rounds, strict=True))
    rates = [f"{options.messages / taken:,.0f}" for taken in (direct, delayed)]
    what = "time of a message through a delayed exchange by `Broker.handle`, relative to a direct one"
    return [Figure(what, "≤ 8", f"{delayed / direct:.1f} ({rates[1]} and {rates[0]} a second)", COMMAND)]


def seconds(kind: str, release: str, messages: int) -> float:
    """The time to publish that number of messages to an exchange and have all of them in its queue."""
    broker = Broker(release, plugins=named_plugins(["delayed"]))
    for command in (
        commands.OpenConnection("client"),
        commands.OpenChannel(CHANNEL),
        commands.DeclareExchange(channel=CHANNEL, exchange="x", type=kind, arguments={"x-delayed-type": "direct"}),
        commands.DeclareQueue(channel=CHANNEL, queue="q"),
        commands.BindQueue(CHANNEL, "q", "x", "k"),
    ):
        broker.handle(command, 0)
    properties = [{"headers": {"x-delay": 1 + number}} for number in range(DELAYS_MS)]  # equal ones are the same object
    publishes = [commands.Publish(CHANNEL, "x", "k", each, BODY) for each in properties]
    handle = broker.handle
    began = time.perf_counter()
    for number in range(messages):
        handle(publishes[number % DELAYS_MS], number)
    handle(commands.PassTime(), messages + DELAYS_MS * 1_000)
    taken = time.perf_counter() - began
    arrived = broker.vhosts["/"].queues["q"].messages_ready
    assert arrived == messages, f"{arrived} of {messages} messages arrived"
    return taken


if __name__ == "__main__":
    main()
