"""What recording costs the simulated broker: the processor time of its thread, recorded and not.

    python benchmarks/record_speed.py [--messages 5000] [--rounds 5]

A client publishes messages of 100 octets, takes them, rejects every tenth and acknowledges the rest. Each round plays
it to a broker as ``dlx serve`` has it, to one that is recorded without a trace, and to one with the trace.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import pika
from figures import Figure
from figures import show as show_figures

import simulator
from simulator.record.recorder import ApplicationRecorder
from simulator.server.node import Node

COMMAND = "`benchmarks/record_speed.py`"
SIDES = ("not recorded", "recorded", "recorded with the trace")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    show_figures(figures_of(parser.parse_args()))


def figures() -> list[Figure]:
    """How much longer a recorded broker takes."""
    return figures_of(argparse.Namespace(messages=3_000, rounds=3))


def figures_of(options: argparse.Namespace) -> list[Figure]:
    """The ratio of each recorded side to the other."""
    rounds = [{side: seconds(side, options.messages) for side in SIDES} for _ in range(options.rounds)]
    what = "processor time of a broker that is {}, relative to one that is not"
    return [
        Figure(
            what.format(side),
            "≤ 1.1",
            f"{statistics.median(each[side] / each[SIDES[0]] for each in rounds):.2f}",
            COMMAND,
        )
        for side in SIDES[1:]
    ]


def seconds(side: str, messages: int) -> float:
    """The processor time that the broker takes."""
    with tempfile.TemporaryDirectory() as folder, simulator.serve(management_port=0) as server:
        if side != SIDES[0]:
            server.run(partial(record, folder=Path(folder) if side == SIDES[2] else None))
        began_s = server.run(lambda node: time.thread_time())
        work(server.amqp_url, messages)
        return server.run(lambda node: time.thread_time()) - began_s


def record(node: Node, folder: Path | None) -> ApplicationRecorder:
    """Record a node; not its trace where there is no folder."""
    return ApplicationRecorder(node, folder)


def work(url: str, messages: int) -> None:
    """Publish, and settle what comes."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("dead")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    properties = pika.BasicProperties(headers={"kind": "order"}, delivery_mode=2)
    for number in range(messages):
        channel.basic_publish("", "work", number.to_bytes(4, "big") * 25, properties)
    channel.basic_qos(prefetch_count=500)
    for method, _, _ in channel.consume("work"):
        if method.delivery_tag % 10:
            channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_reject(method.delivery_tag, requeue=False)
        if method.delivery_tag == messages:
            break
    connection.close()


if __name__ == "__main__":
    main()
