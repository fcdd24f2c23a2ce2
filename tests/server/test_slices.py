"""Long work is done in slices: other clients are answered in between, and what comes of it is what would come at once.

Slices are as short as can be here: one step each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dlx.topology import Policy
from simulator.broker import Broker, OperatorError, commands
from simulator.clock import VirtualClock
from simulator.events import Event, Happened
from simulator.server.node import Node
from tests.server.peer import Peer, message, method, names

START_US = 1_700_000_000_000_000
CHANNEL = ("worker", 1)
MANY = 1_500  # more than leave a queue in one step
TO_DEAD: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
DOCUMENT: dict[str, Any] = {
    "policies": [{"vhost": "/", "name": "p", "pattern": "1$", "definition": {"max-length": 5}}],
    "queues": [
        {"vhost": "/", "name": f"q{number}", "durable": True, "auto_delete": False, "arguments": {}}
        for number in range(60)
    ],
}


def broker() -> Broker:
    made = Broker("4.3")
    made.handle(commands.OpenConnection("worker"), START_US)
    made.handle(commands.OpenChannel(CHANNEL), START_US)
    made.handle(commands.DeclareQueue(channel=CHANNEL, queue="dead"), START_US)
    return made


def sliced(work: Callable[[Node, Peer], Awaitable[None]], of: Broker) -> None:
    """Do the work on a node in an event loop, whose slices have one step, beside a second client."""

    async def working() -> None:
        node = Node(of, VirtualClock(START_US), asyncio.get_running_loop())
        node.slice_s = 0
        peer = Peer.connected(node=node)
        peer.says(method(1, "confirm.select"), method(1, "queue.declare", queue="second"))
        await work(node, peer)

    asyncio.run(working())


def depth(node: Node, queue: str) -> int:
    return node.broker.vhosts["/"].queues[queue].messages_ready


async def answers(peer: Peer, task: asyncio.Task[Any]) -> int:
    """Publish until the task is done; return how often that was confirmed meanwhile."""
    confirmed = 0
    while not task.done():
        await asyncio.sleep(0)
        if not task.done():
            assert names(peer.says(message(1, "second", b"x"))) == ["basic.ack"]
            confirmed += 1
    return confirmed


def test_others_are_answered_during_an_import() -> None:
    async def work(node: Node, peer: Peer) -> None:
        task = asyncio.create_task(node.carry_out(commands.ImportDefinitions(DOCUMENT)))
        assert await answers(peer, task) > 50
        await task
        assert {f"q{number}" for number in range(60)} <= node.broker.vhosts["/"].queues.keys()

    sliced(work, broker())


def test_an_import_in_slices_leaves_what_one_at_once_leaves() -> None:
    whole = broker()
    whole.handle(commands.ImportDefinitions(DOCUMENT), START_US)

    async def work(node: Node, peer: Peer) -> None:
        await node.carry_out(commands.ImportDefinitions(DOCUMENT))
        mine, its = node.broker.vhosts["/"], whole.vhosts["/"]
        assert [name for name in mine.queues if name != "second"] == list(its.queues)
        assert {n: q.settings.max_length for n, q in mine.queues.items() if n != "second"} == {
            n: q.settings.max_length for n, q in its.queues.items()
        }

    sliced(work, broker())


@pytest.mark.parametrize(
    "wrong", [{"queues": [{"vhost": "/", "name": 5}]}, {"policies": [{"vhost": "/", "name": "p"}]}]
)
def test_an_import_is_refused_as_it_is_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(OperatorError) as at_once:
        broker().handle(commands.ImportDefinitions(DOCUMENT | wrong), START_US)

    async def work(node: Node, peer: Peer) -> None:
        with pytest.raises(OperatorError) as refused:
            await node.carry_out(commands.ImportDefinitions(DOCUMENT | wrong))
        assert (refused.value.status, refused.value.text) == (at_once.value.status, at_once.value.text)

    sliced(work, broker())


def test_a_policy_is_answered_when_all_queues_have_it() -> None:
    made = broker()
    made.handle(commands.ImportDefinitions(DOCUMENT), START_US)

    async def work(node: Node, peer: Peer) -> None:
        policy = Policy(name="p", pattern="^q", definition={"max-length": 9}, priority=5)
        task = asyncio.create_task(node.carry_out(commands.SetPolicy("/", policy)))
        assert await answers(peer, task) > 20
        queues = node.broker.vhosts["/"].queues.values()
        assert {queue.settings.max_length for queue in queues if queue.name.startswith("q")} == {9}

    sliced(work, made)


def timers() -> tuple[Broker, list[Happened]]:
    """A broker with fifty deadlines, and a list of the messages that expire there."""
    made, expired = broker(), list[Happened]()
    made.observe(lambda happened, _: expired.append(happened) if happened.event is Event.EXPIRED else None)
    for number in range(50):
        arguments = {"x-message-ttl": 1_000 + number * 7 % 50, **TO_DEAD}
        made.handle(commands.DeclareQueue(channel=CHANNEL, queue=f"q{number}", arguments=arguments), START_US)
        made.handle(commands.Publish(CHANNEL, "", f"q{number}"), START_US)
    return made, expired


def test_others_are_answered_while_time_passes_and_each_deadline_comes_at_its_time() -> None:
    whole, at_once = timers()
    whole.handle(commands.PassTime(), START_US + 5_000_000)
    made, expired = timers()

    async def work(node: Node, peer: Peer) -> None:
        times: list[int] = []
        task = asyncio.create_task(node.pass_time(5_000_000))
        while not task.done():
            await asyncio.sleep(0)
            times.append(node.clock.now_us())
            assert names(peer.says(message(1, "second", b"x"))) == ["basic.ack"]
        assert task.result() == node.clock.now_us() == START_US + 5_000_000
        assert times == sorted(times)
        assert len(set(times)) > 25
        assert [(each.queue, each.time_us) for each in expired] == [(each.queue, each.time_us) for each in at_once]

    sliced(work, made)


def test_two_who_move_the_clock_at_once_move_it_by_both() -> None:
    async def work(node: Node, peer: Peer) -> None:
        moved = await asyncio.gather(node.pass_time(5_000_000), node.pass_time(2_000_000))
        assert sorted(moved) == [START_US + 5_000_000, START_US + 7_000_000]

    sliced(work, timers()[0])


def test_the_next_deadline_may_be_jumped_to_in_slices() -> None:
    async def work(node: Node, peer: Peer) -> None:
        assert await node.pass_to_next()
        assert node.clock.now_us() == START_US + 1_000_000
        assert depth(node, "dead") == 1

    sliced(work, timers()[0])


def full() -> Broker:
    """A broker with many messages, which are about to expire together."""
    made = broker()
    made.handle(
        commands.DeclareQueue(channel=CHANNEL, queue="short", arguments={"x-message-ttl": 1_000, **TO_DEAD}), START_US
    )
    for number in range(MANY):
        made.handle(commands.Publish(CHANNEL, "", "short", {}, b"%d" % number), START_US)
    return made


def bodies(of: Broker, queue: str) -> list[bytes]:
    return [copy.body for copy in of.vhosts["/"].queues[queue].store.waiting()]


def test_many_messages_that_expire_together_leave_their_queue_at_once_and_arrive_in_their_order() -> None:
    async def work(node: Node, peer: Peer) -> None:
        task = asyncio.create_task(node.pass_time(2_000_000))
        while depth(node, "short"):
            await asyncio.sleep(0)
        assert depth(node, "dead") < MANY
        assert await answers(peer, task) > 100
        assert bodies(node.broker, "dead") == [b"%d" % number for number in range(MANY)]

    sliced(work, full())


def test_a_queue_that_is_deleted_while_its_messages_die_loses_none() -> None:
    async def work(node: Node, peer: Peer) -> None:
        task = asyncio.create_task(node.pass_time(2_000_000))
        while not 100 < depth(node, "dead") < MANY:
            await asyncio.sleep(0)
        assert names(peer.says(method(1, "queue.delete", queue="short"))) == ["queue.delete-ok"]
        await task
        assert bodies(node.broker, "dead") == [b"%d" % number for number in range(MANY)]

    sliced(work, full())


def test_a_snapshot_between_two_slices_goes_on() -> None:
    async def work(node: Node, peer: Peer) -> None:
        task = asyncio.create_task(node.pass_time(2_000_000))
        while not 100 < depth(node, "dead") < MANY:
            await asyncio.sleep(0)
        again = Broker.restore(node.broker.snapshot())
        while again.next_due() == again.now_us:
            again.handle(commands.PassTime(), again.now_us)
        assert bodies(again, "dead") == [b"%d" % number for number in range(MANY)]
        await task

    sliced(work, full())


@pytest.mark.parametrize("command", [commands.PurgeQueue(CHANNEL, "short"), commands.DeleteQueue(CHANNEL, "short")])
def test_a_purge_is_one_step_for_clients_and_told_message_by_message(command: commands.Command) -> None:
    made, told = full(), list[Happened]()
    made.observe(lambda happened, _: told.append(happened) if happened.event is Event.PURGED else None)

    async def work(node: Node, peer: Peer) -> None:
        node.handle(command)
        queue = node.broker.vhosts["/"].queues.get("short")
        assert queue is None or not queue.messages
        assert names(peer.says(message(1, "second", b"x"))) == ["basic.ack"]
        assert len(told) < MANY
        await node.caught_up()
        assert len({each.uid for each in told}) == len(told) == MANY

    sliced(work, made)
