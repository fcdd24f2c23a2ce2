"""Who looks into a dead-letter queue leaves it as it was: the same messages in the same order, with counts as said."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from dlx.releases import RELEASES
from simulator.redrive import peek as peeking
from simulator.redrive.how_to_peek import Way, how_to_peek
from simulator.redrive.peek import PeekResult
from simulator.redrive.server import queue_on
from tests.redrive.dead_letters import DEAD, Place, declare, let_die, simulated

MESSAGES = 12
TYPES = ("classic", "quorum")
MIXING = ("3.8", "3.9", "3.10")  # whose management API gives back by closing its channel
KILLED = """
import os, signal, sys
from simulator.redrive.how_to_peek import how_to_peek
from simulator.redrive.peek import peek
from simulator.redrive.server import queue_on, server_at
server = server_at(*sys.argv[1:4])
def killed(rows, of):
    if rows == of // 2:
        os.kill(os.getpid(), signal.SIGKILL)
peek(server.amqp_url, server.vhost, how_to_peek(queue_on(server, "dead").settings, "consume"), on_row=killed)
"""


@pytest.mark.parametrize("way", ["consume", "management"])
@pytest.mark.parametrize("queue_type", TYPES)
def test_it_stays_as_it_was(place: Place, queue_type: str, way: Way) -> None:
    check_that_it_stays(place, queue_type, way)


@pytest.mark.parametrize("way", ["consume", "management"])
@pytest.mark.parametrize("queue_type", TYPES)
def test_it_stays_as_it_was_on_a_real_server(live_place: Place, queue_type: str, way: Way) -> None:
    check_that_it_stays(live_place, queue_type, way)


@pytest.mark.parametrize("queue_type", TYPES)
def test_windows_of_several_channels_keep_the_order(
    place: Place, queue_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peeking, "WINDOW", 5)
    check_that_it_stays(place, queue_type, "consume")


@pytest.mark.parametrize("queue_type", TYPES)
def test_windows_keep_the_order_on_a_real_server(
    live_place: Place, queue_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peeking, "WINDOW", 5)
    check_that_it_stays(live_place, queue_type, "consume")


def test_windows_keep_the_order_where_a_queue_hears_late_of_a_channels_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker says that a channel is closed before the channel's process is gone (seen on 3.10, under load)."""
    monkeypatch.setattr(peeking, "WINDOW", 5)
    close, delays_s = BlockingChannel.close, itertools.cycle([0.2, 0.1, 0.0])

    def late(channel: BlockingChannel, *reason: Any) -> None:
        if reason:  # the connection ends
            close(channel, *reason)
        else:
            channel.connection.call_later(next(delays_s), lambda: close(channel))

    monkeypatch.setattr(BlockingChannel, "close", late)
    with simulated("3.10") as place:
        check_that_it_stays(place, "quorum", "consume")


def test_more_than_come_back_together_stay_in_order_on_a_real_server(live_place: Place) -> None:
    """A nack of more than 32, or a channel closed before they are back, mixes them, and 4.3 counts failures."""
    check_that_it_stays(live_place, "quorum", "consume", 100)


@pytest.mark.parametrize("queue_type", TYPES)
def test_a_killed_look_leaves_it_too(live_place: Place, queue_type: str) -> None:
    declare(live_place, queue_type)
    let_die(live_place, MESSAGES)
    server = live_place.server
    given = (live_place.amqp_url, server.management_url, server.vhost)
    ended = subprocess.run([sys.executable, "-c", KILLED, *given], check=False, env=os.environ, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert ids(look(live_place, "consume")) == [f"m{number}" for number in range(MESSAGES)]


@pytest.mark.parametrize("place", [name for name in RELEASES if name != "3.8"], indirect=True)
def test_a_stream_is_read_from_its_beginning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeking, "IDLE_S", 0.3)
    declare(place, "stream")
    with place.channel() as channel:
        channel.confirm_delivery()
        for number in range(MESSAGES):
            channel.basic_publish("", DEAD, b"body", pika.BasicProperties(message_id=f"m{number}"))
    assert ids(look(place, "consume")) == [f"m{number}" for number in range(MESSAGES)]
    assert ids(look(place, "consume")) == [f"m{number}" for number in range(MESSAGES)]


def test_a_look_that_would_kill_is_known_beforehand(place: Place) -> None:
    """Where returns count towards the limit, a limit of 0 kills whatever anybody looks at."""
    declare(place, "quorum", delivery_limit=0)
    settings = queue_on(place.server, DEAD).settings
    deadly = place.release != "4.3"  # which counts failures only
    assert how_to_peek(settings, "consume").kills_at_once == deadly
    if not deadly:
        let_die(place, 2)  # a rejected one brings a failed delivery along
        assert [(each.killed, ids(each)) for each in (look(place, "consume"), look(place, "consume"))] == [
            (1, ["m0", "m1"]),
            (0, ["m0"]),
        ]


@pytest.mark.parametrize("place", [name for name in RELEASES if name != "4.3"], indirect=True)
def test_it_ends_at_the_first_message_that_it_kills(place: Place) -> None:
    declare(place, "quorum", delivery_limit=1)
    let_die(place, 3)
    assert look(place, "consume").killed == 0
    last = look(place, "consume")
    assert (last.killed, ids(last)) == (1, ["m0"])
    assert [properties.message_id for _, properties, _ in place.waiting()] == ["m1", "m2"]


@pytest.mark.parametrize("release", MIXING)
def test_where_the_management_api_would_mix_them_is_known_beforehand(release: str) -> None:
    with simulated(release) as place:
        declare(place, "quorum")
        assert how_to_peek(queue_on(place.server, DEAD).settings, "management").mixes
        assert not how_to_peek(queue_on(place.server, DEAD).settings, "consume").mixes


def check_that_it_stays(place: Place, queue_type: str, way: Way, messages: int = MESSAGES) -> None:
    """Look twice, and then take everything out."""
    declare(place, queue_type)
    if how_to_peek(queue_on(place.server, DEAD).settings, way).mixes:  # which the command refuses
        assert (place.release in MIXING, queue_type, way) == (True, "quorum", "management")
        return
    let_die(place, messages)
    wanted = [f"m{number}" for number in range(messages)]
    assert [ids(look(place, way)) for _ in range(2)] == [wanted, wanted]
    taken = place.waiting()
    assert [properties.message_id for _, properties, _ in taken] == wanted
    assert all(method.redelivered for method, _, _ in taken)
    assert {returns_shown(properties.headers) for _, properties, _ in taken} == {returns_said(place, queue_type, way)}


def test_messages_that_cannot_die_are_read_together_in_order(place: Place) -> None:
    check_that_they_are_read_together(place)


def test_messages_that_cannot_die_are_read_together_on_a_real_server(live_place: Place) -> None:
    check_that_they_are_read_together(live_place)


def check_that_they_are_read_together(place: Place) -> None:
    """Look three times, also at some of those that came back, which stay before those that did not."""
    declare(place, "quorum", delivery_limit=20)
    wanted = [f"m{number}" for number in range(70)]
    with place.channel() as channel:
        channel.confirm_delivery()
        for each in wanted:
            channel.basic_publish("", DEAD, b"body", pika.BasicProperties(message_id=each))
    how = how_to_peek(queue_on(place.server, DEAD).settings, "consume", brought=False)
    for limit in (40, 3, None):
        found = peeking.peek(place.amqp_url, place.server.vhost, how, limit=limit)
        assert (ids(found), found.killed) == (wanted[:limit], 0)
    assert [properties.message_id for _, properties, _ in place.waiting()] == wanted


def look(place: Place, way: Way) -> PeekResult:
    """Look into the dead-letter queue."""
    server = place.server
    how = how_to_peek(queue_on(server, DEAD).settings, way)
    if way == "management":
        return peeking.peek_by_management(server.management_url, server.vhost, how)
    return peeking.peek(place.amqp_url, server.vhost, how)


def ids(found: PeekResult) -> list[str]:
    """The ids of what was found."""
    return [row.message for row in found.rows]


def returns_shown(headers: dict[str, Any]) -> int:
    """How often a delivery says that its message was returned. 4.3 has failed deliveries beside that."""
    return int(headers.get("x-acquired-count", headers.get("x-delivery-count", 0)))


def returns_said(place: Place, queue_type: str, way: Way) -> int:
    """What the notes of two looks promise."""
    notes = " ".join(how_to_peek(queue_on(place.server, DEAD).settings, way).notes)
    assert ("rises by 1" in notes) == (queue_type == "quorum")
    return 2 * ("rises by 1" in notes)
