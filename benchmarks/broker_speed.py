"""The life of a dead letter, by the second: publish, consume, reject, dead-letter, drain.

    python benchmarks/broker_speed.py --live amqp://guest:guest@127.0.0.1:5672/ [--messages 30000] [--rounds 3]

Messages of 100 octets go through a classic queue with a dead-letter exchange on three
sides in turn: a live server, ``dlx serve`` in a process of its own (both by the same
pika client), and the broker in this process, command by command. A round measures
each phase on each side; the medians are printed, and their ratios to the live server.
Without ``--live``, the other sides alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial

import pika
from figures import Figure
from figures import show as show_figures
from served import Served, live_urls

from simulator.broker import Broker, commands
from simulator.broker.replies import Delivered

PHASES = ("publish", "reject", "drain")
BODY = b"x" * 100
PREFETCH = 500
NO_PROPERTIES: dict[str, object] = {}  # equal properties are the same object: the broker remembers them
NO_TIMEOUT = 600
COMMAND = "`benchmarks/broker_speed.py --live URL`"
Times = dict[str, float]
Side = Callable[[int], Times]


def main() -> None:
    """Measure and print."""
    options = parsed()
    rounds = measured(options)
    show(rounds, options.messages)
    print()
    show_figures(figures_of(rounds))


def figures() -> list[Figure]:
    """How the simulator's rates relate to a live server's; nothing without one."""
    live, _management = live_urls()
    return figures_of(measured(parsed(["--live", live, "--messages", "5000"]))) if live else []


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", metavar="AMQP_URL", help="a live server to compare with")
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--release", default="4.3", help="of the simulator (4.3)")
    parser.add_argument("--only", choices=("blocking", "select", "in-process"), help="leave the other clients out")
    return parser.parse_args(arguments)


def measured(options: argparse.Namespace) -> list[dict[str, Times]]:
    """Each round: the seconds of each phase on each side."""
    with Served(options.release) as served:
        sides = chosen(options, served.amqp_url)
        return [{name: side(options.messages) for name, side in sides.items()} for _ in range(options.rounds)]


def figures_of(rounds: list[dict[str, Times]]) -> list[Figure]:
    """The rates of the sides relative to the live server with the same client, in process to the faster one."""
    found = []
    wire, inside = "publish, consume, reject, dead-letter, drain over the wire", "the same by `Broker.handle`"
    for client, name in {"blocking": "BlockingConnection", "select": "SelectConnection"}.items():
        live = f"live, {client}"
        if live in rounds[0]:
            what = f"{wire} with pika's {name}, relative to a live RabbitMQ"
            found.append(Figure(what, "≥ 1", ratios(rounds, [live], f"dlx serve, {client}"), COMMAND))
    every_live = [name for name in rounds[0] if name.startswith("live")]
    if every_live and "in process" in rounds[0]:
        what = f"{inside}, relative to the live server with the faster client"
        found.append(Figure(what, "≥ 12", ratios(rounds, every_live, "in process"), COMMAND))
    return found


def ratios(rounds: list[dict[str, Times]], live: list[str], name: str) -> str:
    """Of each phase, and from end to end: the medians of the live server's time by the side's."""
    said = []
    for phases in (*((phase,) for phase in PHASES), PHASES):
        of_sides = {
            side: statistics.median(sum(each[side][phase] for phase in phases) for each in rounds)
            for side in (*live, name)
        }
        what = "end to end" if phases == PHASES else phases[0]
        said.append(f"{what} {min(of_sides[side] for side in live) / of_sides[name]:.1f}")
    return ", ".join(said)


def chosen(options: argparse.Namespace, served_url: str) -> dict[str, Side]:
    """The sides to measure; those with the same client beside each other."""
    sides: dict[str, Side] = {}
    for client, life in {"blocking": blocking_life, "select": select_life}.items():
        if options.only in (None, client):
            if options.live:
                sides[f"live, {client}"] = partial(life, options.live)
            sides[f"dlx serve, {client}"] = partial(life, served_url)
    if options.only in (None, "in-process"):
        sides["in process"] = partial(in_process_life, options.release)
    return sides


def show(rounds: list[dict[str, Times]], messages: int) -> None:
    """A line for each side: messages per second in each phase and from end to end, medians over the rounds."""
    print(f"{messages:,} messages of {len(BODY)} octets, medians of {len(rounds)} rounds, messages per second\n")
    print(f"{'':<22}" + "".join(f"{phase:>12}" for phase in (*PHASES, "end to end")) + f"{'ratio':>8}")
    ends: dict[str, float] = {}
    for name in rounds[0]:
        taken = [statistics.median(r[name][phase] for r in rounds) for phase in PHASES]
        total = statistics.median(sum(r[name].values()) for r in rounds)
        ends[name] = messages / total
        client = name.partition(", ")[2]
        base = ends.get(f"live, {client}") or max((v for k, v in ends.items() if k.startswith("live")), default=None)
        ratio = "" if base is None else f"{ends[name] / base:8.2f}"
        print(f"{name:<22}" + "".join(f"{messages / each:12,.0f}" for each in (*taken, total)) + ratio)
    print("\nratio: to the live server with the same client; in process: to the faster one")


# Over the wire


def blocking_life(url: str, messages: int) -> Times:
    """With ``pika.BlockingConnection``."""
    connection = pika.BlockingConnection(parameters(url))
    channel = connection.channel()
    work, dead = declare(channel)
    times = {"publish": seconds(lambda: publish_all(channel, work, messages))}
    times["reject"] = seconds(lambda: consume_all(channel, work, messages, reject=True))
    times["drain"] = seconds(lambda: consume_all(channel, dead, messages, reject=False))
    for queue in (work, dead):
        channel.queue_delete(queue)
    connection.close()
    return times


def publish_all(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str, messages: int) -> None:
    """Publish, and wait until the queue has them all."""
    for _ in range(messages):
        channel.basic_publish("", queue, BODY)
    while channel.queue_declare(queue, passive=True).method.message_count < messages:
        time.sleep(0.005)


def consume_all(
    channel: pika.adapters.blocking_connection.BlockingChannel, queue: str, messages: int, *, reject: bool
) -> None:
    """Consume as many messages: reject each, or acknowledge it."""
    channel.basic_qos(prefetch_count=PREFETCH)
    left = messages

    def taken(_channel: object, method: pika.spec.Basic.Deliver, _properties: object, _body: bytes) -> None:
        nonlocal left
        if reject:
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            channel.basic_ack(method.delivery_tag)
        left -= 1
        if not left:
            channel.stop_consuming()

    channel.basic_consume(queue, taken)
    channel.start_consuming()


def declare(channel: pika.adapters.blocking_connection.BlockingChannel) -> tuple[str, str]:
    """A queue whose dead letters go to another; both names."""
    name = f"dlx-speed-{uuid.uuid4().hex[:8]}"
    work, dead = f"{name}.work", f"{name}.dead"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(work, durable=True, arguments=arguments)
    channel.queue_declare(dead, durable=True)
    return work, dead


def select_life(url: str, messages: int) -> Times:
    """With ``pika.SelectConnection``."""
    return Selecting(url, messages).run()


class Selecting:
    """The same life by callbacks; the phases follow each other."""

    def __init__(self, url: str, messages: int) -> None:
        self.messages = messages
        self.times: Times = {}
        self.left = self.started = 0.0
        self.url = url
        setup = pika.BlockingConnection(parameters(url))
        self.work, self.dead = declare(setup.channel())
        setup.close()
        self.connection = pika.SelectConnection(parameters(url), on_open_callback=self.opened)

    def run(self) -> Times:
        """All phases, by the connection's own loop."""
        self.connection.ioloop.start()
        setup = pika.BlockingConnection(parameters(self.url))
        for queue in (self.work, self.dead):
            setup.channel().queue_delete(queue)
        setup.close()
        return self.times

    def opened(self, connection: pika.SelectConnection) -> None:
        connection.channel(on_open_callback=self.channel_opened)

    def channel_opened(self, channel: pika.channel.Channel) -> None:
        self.channel = channel
        channel.basic_qos(prefetch_count=PREFETCH, callback=lambda _frame: self.publish())

    def publish(self) -> None:
        self.started = time.perf_counter()
        for _ in range(self.messages):
            self.channel.basic_publish("", self.work, BODY)
        self.await_published()

    def await_published(self, frame: pika.frame.Method | None = None) -> None:
        if frame is not None and frame.method.message_count >= self.messages:
            self.ended("publish", lambda: self.consume("reject", self.work))
        else:
            self.channel.queue_declare(self.work, passive=True, callback=self.await_published)

    def consume(self, phase: str, queue: str) -> None:
        self.left, tag = self.messages, f"{phase}-tag"

        def taken(channel: pika.channel.Channel, method: pika.spec.Basic.Deliver, _p: object, _body: bytes) -> None:
            if phase == "reject":
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
            self.left -= 1
            if not self.left:
                channel.basic_cancel(tag, callback=lambda _frame: self.ended(phase, self.after(phase)))

        self.channel.basic_consume(queue, taken, consumer_tag=tag)

    def after(self, phase: str) -> Callable[[], None]:
        return (lambda: self.consume("drain", self.dead)) if phase == "reject" else self.close

    def close(self) -> None:
        self.connection.add_on_close_callback(lambda connection, _reason: connection.ioloop.stop())
        self.connection.close()

    def ended(self, phase: str, then: Callable[[], None]) -> None:
        now = time.perf_counter()
        self.times[phase], self.started = now - self.started, now
        then()


def parameters(url: str) -> pika.URLParameters:
    """Of a connection that waits long for a busy server."""
    found = pika.URLParameters(url)
    found.heartbeat = 0
    found.socket_timeout = found.blocked_connection_timeout = NO_TIMEOUT
    return found


# In this process


def in_process_life(release: str, messages: int) -> Times:
    """By the broker's own commands."""
    broker, channel = Broker(release), ("benchmark", 1)
    clock = time.time_ns

    def handle(command: commands.Command) -> list[object]:
        return broker.handle(command, clock() // 1_000)  # type: ignore[return-value]

    handle(commands.OpenConnection("benchmark"))
    handle(commands.OpenChannel(channel))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    handle(commands.DeclareQueue(channel=channel, queue="work", durable=True, arguments=arguments))
    handle(commands.DeclareQueue(channel=channel, queue="dead", durable=True))
    handle(commands.Qos(channel, PREFETCH))

    def publish() -> None:
        for _ in range(messages):
            handle(commands.Publish(channel, "", "work", NO_PROPERTIES, BODY))

    def consume(queue: str, settle: Callable[[int], commands.Command]) -> None:
        waiting = handle(commands.Consume(channel=channel, queue=queue, consumer_tag=queue))
        left = messages
        while waiting:
            coming: list[object] = []
            for reply in waiting:
                if isinstance(reply, Delivered):
                    left -= 1
                    coming += handle(settle(reply.delivery_tag))
            waiting = coming
        if left:
            raise RuntimeError(f"{left} of {messages} messages did not come out of {queue}")
        handle(commands.Cancel(channel, queue))

    return {
        "publish": seconds(publish),
        "reject": seconds(lambda: consume("work", lambda tag: commands.Reject(channel, tag, requeue=False))),
        "drain": seconds(lambda: consume("dead", lambda tag: commands.Ack(channel, tag))),
    }


def seconds(work: Callable[[], None]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
