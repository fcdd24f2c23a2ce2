"""Reserving with ``wait``: whoever waits is answered when a message comes, or when the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.applications import Starlette

from simulator.clock import VirtualClock
from simulator.systems.ironmq.http import app
from tests.systems.ironmq.client import Answer, ask

Ask = Callable[..., Awaitable[Answer]]
QUEUE = "/3/projects/p/queues/q"


async def waiting(application: Starlette, **request: Any) -> asyncio.Task[Answer]:
    """A client that has begun to wait."""
    task = asyncio.create_task(ask(application, "POST", f"{QUEUE}/reservations", {"wait": 30, **request}))
    for _ in range(10):
        await asyncio.sleep(0)
    return task


def bodies(task: asyncio.Task[Answer]) -> list[str]:
    assert task.done()
    return [message["body"] for message in task.result().body["messages"]]


async def turns() -> None:
    """Let those that were answered run."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def application() -> Starlette:
    """An IronMQ on a clock that stands still."""
    return app(clock=VirtualClock(start_us=0))


async def advance(application: Starlette, seconds: int) -> None:
    await ask(application, "POST", "/clock/advance", {"seconds": seconds})
    await turns()


async def post(application: Starlette, *texts: str, delay: int = 0) -> None:
    messages = [{"body": text, "delay": delay} for text in texts]
    await ask(application, "POST", f"{QUEUE}/messages", {"messages": messages})
    await turns()


def test_a_message_that_comes_is_handed_to_the_one_who_waits_longest(application: Starlette) -> None:
    async def run() -> None:
        await ask(application, "PUT", QUEUE)
        first, second = await waiting(application), await waiting(application)
        assert not first.done()
        await post(application, "a")
        assert bodies(first) == ["a"]
        assert not second.done()
        await post(application, "b")
        assert bodies(second) == ["b"]

    asyncio.run(run())


def test_waiting_ends_with_an_empty_answer(application: Starlette) -> None:
    async def run() -> None:
        await ask(application, "PUT", QUEUE)
        client = await waiting(application)
        await advance(application, 29)
        assert not client.done()
        await advance(application, 1)
        assert bodies(client) == []

    asyncio.run(run())


def test_a_message_that_times_out_or_becomes_available_meanwhile_is_handed_out_at_that_moment(
    application: Starlette,
) -> None:
    async def run() -> None:
        await post(application, "late", delay=10)
        client = await waiting(application, timeout=40)
        await advance(application, 3600)  # far beyond the end of waiting, and of the reservation
        assert bodies(client) == ["late"]
        assert client.result().body["messages"][0]["reserved_count"] == 1
        clock = (await ask(application, "GET", "/clock")).body
        assert clock["now_us"] == 3_600_000_000
        (message,) = (await ask(application, "POST", f"{QUEUE}/reservations")).body["messages"]
        assert message["reserved_count"] == 2

    asyncio.run(run())


def test_dead_messages_end_no_waiting(application: Starlette) -> None:
    async def run() -> None:
        body = {"queue": {"dead_letter": {"queue_name": "dead", "max_reservations": 1}}}
        await ask(application, "PUT", QUEUE, body)
        await post(application, "dies")
        await ask(application, "POST", f"{QUEUE}/reservations", {"timeout": 10})
        client = await waiting(application)
        await advance(application, 10)
        assert not client.done()
        dead = await ask(application, "GET", "/3/projects/p/queues/dead/messages")
        assert [message["body"] for message in dead.body["messages"]] == ["dies"]
        await advance(application, 20)
        assert bodies(client) == []

    asyncio.run(run())


def test_deleting_the_queue_ends_waiting(application: Starlette) -> None:
    async def run() -> None:
        await ask(application, "PUT", QUEUE)
        client = await waiting(application)
        await ask(application, "DELETE", QUEUE)
        assert await client == Answer(404, {"msg": "Queue not found"})

    asyncio.run(run())


@pytest.mark.parametrize("long_ago", [False, True])
def test_one_who_has_gone_takes_no_message(application: Starlette, long_ago: bool) -> None:
    async def run() -> None:
        await ask(application, "PUT", QUEUE)
        client = await waiting(application)
        client.cancel()
        if long_ago:
            await turns()
        await post(application, "a")
        (message,) = (await ask(application, "POST", f"{QUEUE}/reservations")).body["messages"]
        assert (message["body"], message["reserved_count"]) == ("a", 1)

    asyncio.run(run())


def test_on_a_clock_that_runs_nobody_needs_to_move_it() -> None:
    application = app(clock=VirtualClock(start_us=0, rate=3600))

    async def run() -> None:
        await post(application, "late", delay=20)
        client = await waiting(application)
        assert [message["body"] for message in (await client).body["messages"]] == ["late"]
        nothing = await ask(application, "POST", f"{QUEUE}/reservations", {"wait": 1})
        assert nothing.body["messages"] == []

    asyncio.run(asyncio.wait_for(run(), 5))
