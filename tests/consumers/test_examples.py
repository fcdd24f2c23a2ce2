"""The consumers of ``examples/consumers`` on the simulator, in virtual time: what becomes of their messages."""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aio_pika
import kombu
import pika
import pytest

import dlx
import dlx.releases
import simulator
from examples.consumers import with_aio_pika, with_kombu, with_pika
from examples.consumers.ladder import DELAYS_MS, PARKING, TRY_QUEUES, WAIT_QUEUES
from simulator.server.in_process import Server
from tests import real_servers

RELEASES = real_servers.since("3.10")
START_US = 1_790_000_000_000_000
LOOKS_MAX = 2_000
MODULES = ("with_pika", "with_aio_pika", "with_kombu", "with_rabbitmq_amqp")
WAIT_S = 30
ROOT = Path(__file__).parents[2]


def held(server: Server, queues: Iterable[str]) -> int:
    """How many messages the queues hold, with a consumer or without."""

    def count(node: Any) -> int:
        found = node.broker.vhosts["/"].queues
        return sum(found[name].store.ready + found[name].unacked for name in queues)

    return server.run(count)


def is_over(server: Server) -> bool:
    """Move the time when only waiting is left to be done; whether nothing is left to be done."""
    if held(server, TRY_QUEUES):
        return False
    return not held(server, WAIT_QUEUES) or not server.clock.jump()


def played(server: Server, look: Callable[[], Any]) -> None:
    """Let the consumers work until nothing is left to be done.

    ``look`` asks the server something, which lets the client handle what has arrived before the answer.
    """
    for _ in range(LOOKS_MAX):
        look()
        if is_over(server):
            return
    raise AssertionError("the consumers do not come to an end")


def publish(server: Server) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        for name in ("good", "broken"):
            properties = pika.BasicProperties(
                message_id=f"m-{name}", headers={"tenant": "a"}, correlation_id="c", type="order", user_id="guest"
            )
            channel.basic_publish("", TRY_QUEUES[0], name.encode(), properties)
        channel.queue_declare(TRY_QUEUES[0], passive=True)


def play_pika(server: Server) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        with_pika.consume(channel)
        publish(server)

        def look() -> None:
            connection.process_data_events(0)
            channel.queue_declare(PARKING, passive=True)

        played(server, look)


def play_kombu(server: Server) -> None:
    connection = kombu.Connection(server.amqp_url, transport_options=with_kombu.CONFIRMED)
    with connection, with_kombu.consume(connection) as consumer:
        publish(server)
        played(server, lambda: consumer.channel.queue_declare(PARKING, passive=True))


def play_aio_pika(server: Server) -> None:
    async def play() -> None:
        async with await aio_pika.connect(server.amqp_url) as connection:
            channel = await connection.channel()
            await with_aio_pika.consume(channel)
            await asyncio.to_thread(publish, server)
            for _ in range(LOOKS_MAX):
                await channel.declare_queue(PARKING, passive=True)
                if is_over(server):
                    return
            raise AssertionError("the consumer does not come to an end")

    asyncio.run(play())


def play_rabbitmq_amqp(server: Server) -> None:
    """As a process of its own: this client cannot be stopped from another thread and be closed then."""
    with command(server, "with_rabbitmq_amqp") as process:
        wait_until(lambda: consumers(server) == len(TRY_QUEUES), process)
        publish(server)
        wait_until(lambda: is_over(server), process)


@contextmanager
def command(server: Server, module: str) -> Iterator[subprocess.Popen[bytes]]:
    """The consumer that the command runs, until it is ended; prints what that printed."""
    url = server.amqp_url.replace("://", "://guest:guest@")
    arguments = [sys.executable, "-u", "-m", f"examples.consumers.{module}", url]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()
            print(process.communicate(timeout=WAIT_S)[0].decode(), end="")


PLAYERS = {"pika": play_pika, "aio-pika": play_aio_pika, "kombu": play_kombu, "rabbitmq-amqp": play_rabbitmq_amqp}
PLAYED = [
    (client, release)
    for client in PLAYERS
    for release in RELEASES
    if client != "rabbitmq-amqp" or dlx.releases.release(release).speaks_amqp_1_0
]


@pytest.mark.parametrize(("client", "release"), PLAYED)
def test_a_broken_order_is_tried_four_times_and_parked(
    client: str, release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulator.serve(release, start_us=START_US) as server:
        PLAYERS[client](server)
        assert server.clock.now_us() - START_US == sum(DELAYS_MS) * 1_000
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            _, properties, body = channel.basic_get(PARKING, auto_ack=True)
            left = {
                queue: channel.queue_declare(queue, passive=True).method.message_count
                for queue in (*TRY_QUEUES, *WAIT_QUEUES, PARKING)
            }
    assert capsys.readouterr().out == "handled good\n"
    assert (body, properties.message_id) == (b"broken", "m-broken")
    assert properties.correlation_id == "c"
    assert properties.type == (None if client == "rabbitmq-amqp" else "order")  # AMQP 1.0 has no such property
    assert properties.headers.pop("x-delivery-count", 0) == 0  # 3.10 shows it to basic.get
    assert properties.headers == {
        "tenant": "a",
        "x-failed-attempts": 4,
        "parked-because": "attempt 4 of 4 failed",
    }
    assert dlx.death_history(properties).failures() == 4
    assert left == dict.fromkeys(left, 0)


@pytest.mark.parametrize("module", MODULES)
def test_the_command_consumes(module: str) -> None:
    with simulator.serve("4.3", start_us=START_US) as server:
        with command(server, module) as process:
            wait_until(lambda: consumers(server) == len(TRY_QUEUES), process)
            publish(server)
            wait_until(lambda: is_over(server), process)
        assert held(server, [PARKING]) == 1


@pytest.mark.parametrize("arguments", [[], ["--help"], ["amqp://localhost", "amqp://localhost"]])
@pytest.mark.parametrize("module", MODULES)
def test_without_a_url_the_command_says_how_to_use_it(
    module: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(ROOT / "examples" / "consumers" / f"{module}.py")
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(path, run_name="__main__")
    assert ended.value.code == 64
    usage = f"usage: python -m examples.consumers.{module} amqp://user:password@host:port/vhost\n"
    assert capsys.readouterr().err == usage


def consumers(server: Server) -> int:
    """How many consumers the work queues have."""

    def count(node: Any) -> int:
        found = node.broker.vhosts["/"].queues
        return sum(len(found[name].consumers) for name in TRY_QUEUES if name in found)

    return server.run(count)


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for another process; real time is all it knows."""
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
