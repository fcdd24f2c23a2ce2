"""Dead letters over time: what at-least-once holds is tried again, and what dies is remembered apart."""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from simulator.broker.commands import BindQueue, DeclareExchange
from simulator.broker.replies import Got
from tests import real_servers
from tests.broker.told import CHANNEL, Told, bodies

HELD = {
    "x_queue_type": "quorum",
    "x_dead_letter_exchange": "x",
    "x_dead_letter_strategy": "at-least-once",
    "x_overflow": "reject-publish",
}
WITH_AT_LEAST_ONCE = real_servers.since("3.10")
MINUTE_MS = 60_000


@pytest.mark.parametrize("release", WITH_AT_LEAST_ONCE)
def test_what_was_held_for_want_of_an_exchange_is_tried_again_after_three_minutes(release: str) -> None:
    told = Told(release)
    told.queue("q", **HELD)
    told.queue("d")
    told.publish("q", "job")
    told.rejected("q")
    told(DeclareExchange(channel=CHANNEL, exchange="x", type="fanout"), BindQueue(CHANNEL, "d", "x"))
    told.wait(2 * MINUTE_MS)
    assert told.drained("d") == []
    told.wait(1 * MINUTE_MS)
    assert bodies(told.drained("d")) == ["job"]
    told.wait(10 * MINUTE_MS)
    assert told.drained("d") == [], "it was let go"


@pytest.mark.parametrize("release", WITH_AT_LEAST_ONCE)
def test_a_queue_that_was_full_gets_its_copy_later_and_the_other_no_second_one(release: str) -> None:
    told = Told(release)
    told.queue("q", **HELD)
    told.queue("open")
    told.queue("full", x_max_length=1, x_overflow="reject-publish")
    told(DeclareExchange(channel=CHANNEL, exchange="x", type="fanout"))
    told(BindQueue(CHANNEL, "open", "x"), BindQueue(CHANNEL, "full", "x"))
    told.publish("full", "in the way")
    told.publish("q", "job")
    told.rejected("q")
    assert bodies(told.drained("open")) == ["job"]
    told.wait(4 * MINUTE_MS)
    assert bodies(told.drained("full")) == ["in the way"]
    told.wait(4 * MINUTE_MS)
    assert bodies(told.drained("full")) == ["job"]
    assert told.drained("open") == []


@pytest.mark.parametrize("release", WITH_AT_LEAST_ONCE)
def test_a_dead_letter_that_comes_back_is_held_for_good_on_3_10(release: str) -> None:
    told = Told(release)
    told.queue("q", **{**HELD, "x_dead_letter_exchange": "", "x_dead_letter_routing_key": "q"})
    told.publish("q", "job")
    told.rejected("q")
    told.wait(10 * MINUTE_MS)
    queue = told.broker.vhosts["/"].queues["q"]
    assert (queue.messages_ready, queue.messages) == (1, 2 if release == "3.10" else 1)
    assert bodies(told.drained("q")) == ["job"]


@pytest.mark.parametrize("release", RELEASES)
def test_two_that_look_alike_die_in_one_second_for_reasons_of_their_own(release: str) -> None:
    told = Told(release)
    told.queue("d")
    told.queue("q", x_message_ttl=100, x_dead_letter_exchange="", x_dead_letter_routing_key="d")
    told.publish("q")
    told.publish("q")
    told.rejected("q")
    told.wait(200)
    assert [reasons(got) for got in told.drained("d")] == [["rejected"], ["expired"]]


def reasons(got: Got) -> list[str]:
    """The reasons in the history, wherever the release keeps it."""
    message = got.message
    if message.deaths is not None:
        return [death.reason for death in message.deaths]
    return [entry["reason"] for entry in (message.headers or {})["x-death"]]
