"""Why is it not here? The management API tells it of every way in which a message can end, or not end."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simulator.broker.commands import (
    Ack,
    Command,
    Consume,
    Get,
    OpenChannel,
    OpenConnection,
    Publish,
    SelectConfirms,
    SelectTransactions,
)
from tests.management.client import Simulated

CHANNEL = ("me", 1)
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUORUM = {"x-queue-type": "quorum"}
AT_LEAST_ONCE = QUORUM | {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


_TIME = re.compile(r"(At once|At \S+ \S+|[^.]+ later) ")


class World:
    """A simulated server with the queue ``q`` and a client of it.

    ``told`` is what the API says of the message ``m``, without the times.
    """

    def __init__(self, arguments: dict[str, Any], release: str = "4.3") -> None:
        self.api = Simulated(release)
        self.declare("q", arguments)
        self.do(OpenConnection("me", name="me"))
        self.do(OpenChannel(CHANNEL))

    def do(self, command: Command) -> None:
        self.api.node.handle(command)

    def declare(self, queue: str, arguments: dict[str, Any] | None = None) -> None:
        body = {"durable": True, "arguments": arguments or {}}
        assert self.api("PUT", f"/api/queues/%2F/{queue}", body).status == 201

    def publish(self, message_id: str = "m", key: str = "q", *, mandatory: bool = False, **properties: Any) -> None:
        self.do(Publish(CHANNEL, "", key, {"message_id": message_id, **properties}, b"x", mandatory=mandatory))

    def get(self, ackmode: str, queue: str = "q") -> None:
        body = {"count": 1, "ackmode": ackmode, "encoding": "auto"}
        assert self.api("POST", f"/api/queues/%2F/{queue}/get", body).json

    def advance(self, **duration: float) -> None:
        assert self.api("POST", "/api/clock/advance", duration).status == 200

    def life(self) -> dict[str, Any]:
        uid = self.api("GET", "/api/histories?message_id=m").json[0]["uid"]
        life: dict[str, Any] = self.api("GET", f"/api/histories/{uid}").json
        return life

    def told(self) -> list[str]:
        return [_TIME.sub("", sentence) for sentence in self.life()["sentences"]]


def dropped(reason: str, why: str) -> list[str]:
    """The end of a life that ended in ``q``."""
    told = f"it was dropped: it died in the queue 'q' ({reason}) and went nowhere ({why})."
    return [told, "Nothing is left of it."]


NO_EXCHANGE = "the queue has no dead-letter exchange"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_rejected_in_a_queue_without_a_dead_letter_exchange(kind: str) -> None:
    world = World({"x-queue-type": kind})
    world.publish()
    world.get("reject_requeue_false")
    assert world.told()[-2:] == dropped("rejected", NO_EXCHANGE)
    assert world.told()[-3] == "the consumer of 'q' rejected it for good."
    assert world.life()["ended"]
    assert world.life()["loss"] == world.told()[-2].replace("it was", "It was", 1)


def test_a_dead_letter_exchange_that_does_not_exist() -> None:
    world = World({"x-dead-letter-exchange": "missing"})
    world.publish()
    world.get("reject_requeue_false")
    assert world.told()[-2:] == dropped("rejected", "dead-letter exchange 'missing' of queue 'q' does not exist")


def test_a_dead_letter_that_no_queue_is_bound_for() -> None:
    world = World({"x-dead-letter-exchange": "amq.fanout"})
    world.publish()
    world.get("reject_requeue_false")
    assert world.told()[-1] == "Nothing is left of it."
    assert world.life()["loss"] == (
        "No queue was bound for its dead letter from 'q' (rejected): it is gone"
        " (exchange 'amq.fanout' routes key 'q' to no queue)."
    )


@pytest.mark.parametrize(
    ("arguments", "who"), [(TO_DEAD, "the queue"), (TO_DEAD | AT_LEAST_ONCE, "the dead-letter worker")]
)
def test_a_forged_history_that_crashes_who_reads_it(arguments: dict[str, Any], who: str) -> None:
    world = World(arguments, "3.10")
    world.publish(headers={"x-death": ["forged"]})
    world.get("reject_requeue_false")
    assert world.told()[-2:] == dropped("rejected", f"{who} crashed: x-death holds an element that is not a table")


def test_a_message_that_no_queue_is_bound_for() -> None:
    world = World({})
    world.publish(key="nowhere")
    assert world.life()["loss"].startswith("No queue was bound for it: it is gone (")


def test_a_cycle() -> None:
    world = World({"x-message-ttl": 1000, "x-dead-letter-exchange": ""})
    world.publish()
    world.advance(seconds=1)
    assert world.life()["loss"].startswith(
        "It was dropped: its dead letter from 'q' (expired) would have gone in a circle"
        " (would return to 'q' without a rejection"
    )
    assert world.life()["ended"]


def test_pushed_out_by_a_length_limit() -> None:
    world = World({"x-max-length": 1})
    world.publish()
    world.publish("other")
    assert world.told()[-3] == "a length limit pushed it out of the queue 'q'."
    assert world.told()[-2:] == dropped("maxlen", NO_EXCHANGE)


def test_pushed_out_and_dead_lettered() -> None:
    world = World(TO_DEAD | {"x-max-length": 1})
    world.declare("dead")
    world.publish()
    world.publish("other")
    assert world.told()[-3:] == [
        "it was dead-lettered from the queue 'q' (maxlen) to dead.",
        "it entered the queue 'dead'.",
        "It is in the queue 'dead', ready at place 1 of 1.",
    ]
    assert world.life()["loss"] is None


def test_beyond_the_delivery_limit() -> None:
    world = World(QUORUM | {"x-delivery-limit": 1})
    world.publish()
    world.get("reject_requeue_true")
    world.get("reject_requeue_true")
    assert world.told()[-3] == "it exceeded the delivery limit of the queue 'q'."
    assert world.told()[-2:] == dropped("delivery_limit", NO_EXCHANGE)


def test_expired() -> None:
    world = World({"x-message-ttl": 1500})
    world.publish()
    world.advance(seconds=2)
    assert world.life()["sentences"][-3] == "1 s 500 ms later its time to live ran out in the queue 'q'."
    assert world.told()[-2:] == dropped("expired", NO_EXCHANGE)


def test_purged() -> None:
    world = World({})
    world.publish()
    assert world.api("DELETE", "/api/queues/%2F/q/contents").status == 204
    assert world.told()[-2:] == ["it was removed with what else was in the queue 'q'.", "Nothing is left of it."]


@pytest.mark.parametrize("unacknowledged", [False, True])
def test_its_queue_was_deleted(unacknowledged: bool) -> None:
    world = World({})
    world.publish()
    if unacknowledged:
        world.do(Get(CHANNEL, "q"))
    assert world.api("DELETE", "/api/queues/%2F/q").status == 204
    assert world.told()[-1] == "Nothing is left of it."
    assert "the queue 'q' (" in world.life()["loss"]
    assert "deleted" in world.life()["loss"]


def test_held_until_its_dead_letter_exchange_exists() -> None:
    world = World(AT_LEAST_ONCE | {"x-dead-letter-exchange": "later"})
    world.publish()
    world.get("reject_requeue_false")
    assert world.told()[-1] == "The queue 'q' holds it: dead-letter exchange 'later' of queue 'q' does not exist."
    world.api("PUT", "/api/exchanges/%2F/later", {"type": "fanout", "durable": True})
    assert world.told()[-1] == "The queue 'q' holds it: exchange 'later' routes key 'q' to no queue."
    world.declare("dead", {"x-max-length": 0, "x-overflow": "reject-publish"})
    world.api("POST", "/api/bindings/%2F/e/later/q/dead", {})
    world.advance(minutes=4)
    assert world.told()[-1] == "The queue 'q' holds it: its dead letter was refused by 'dead'."
    assert not world.life()["ended"]
    world.api("DELETE", "/api/queues/%2F/dead")
    world.declare("dead")
    world.api("POST", "/api/bindings/%2F/e/later/q/dead", {})
    world.advance(minutes=4)
    assert world.told()[-1] == "It is in the queue 'dead', ready at place 1 of 1."


def test_held_by_a_cycle_though_another_queue_has_it() -> None:
    world = World(AT_LEAST_ONCE | {"x-dead-letter-exchange": "x", "x-message-ttl": 50})
    world.api("PUT", "/api/exchanges/%2F/x", {"type": "fanout", "durable": True})
    world.api("POST", "/api/bindings/%2F/e/x/q/q", {})
    world.publish()
    world.advance(seconds=1)
    in_a_circle = "its dead letter would go in a circle."
    would_return = "its dead letter would return to 'q' without a rejection on the way: q."
    assert world.told()[-1] == f"The queue 'q' holds it: {would_return}"
    world.declare("dead")
    world.api("POST", "/api/bindings/%2F/e/x/q/dead", {})
    world.advance(minutes=4)
    there = "One copy is in the queue 'dead', ready at place 1 of 1."
    assert world.told()[-2:] == [f"The queue 'q' holds one copy: {in_a_circle}", there]
    assert world.api("DELETE", "/api/bindings/%2F/e/x/q/q/~").status == 204
    waits = "it waits until none of the queues that have it is bound any more."
    assert world.told()[-2:] == [f"The queue 'q' holds one copy: {waits}", there]
    assert world.api("DELETE", "/api/bindings/%2F/e/x/q/dead/~").status == 204
    world.advance(minutes=4)
    assert world.told()[-1] == "It is in the queue 'dead', ready at place 1 of 1."


def test_acknowledged() -> None:
    world = World({})
    world.publish()
    world.do(Get(CHANNEL, "q"))
    world.do(Ack(CHANNEL, 1))
    assert world.told()[-2:] == [
        "the consumer of 'q' acknowledged it: that copy is done with.",
        "Nothing is left of it.",
    ]
    assert (world.life()["ended"], world.life()["loss"]) == (True, None)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_still_in_its_queue(kind: str) -> None:
    world = World({"x-queue-type": kind})
    for message_id in ("before", "m", "behind"):
        world.publish(message_id)
    assert world.told()[-1] == "It is in the queue 'q', ready at place 2 of 3."
    world.do(Get(CHANNEL, "q"))
    assert world.told()[-1] == "It is in the queue 'q', ready at place 1 of 2."
    world.do(Get(CHANNEL, "q"))
    assert world.told()[-1] == "It is in the queue 'q', not yet acknowledged by basic.get on channel 1 of me."


def test_with_a_consumer() -> None:
    world = World({})
    world.do(Consume(channel=CHANNEL, queue="q", consumer_tag="worker"))
    world.publish()
    told = "It is in the queue 'q', not yet acknowledged by the consumer 'worker' on channel 1 of me."
    assert world.told()[-1] == told
    world.do(SelectTransactions(CHANNEL))
    world.do(Ack(CHANNEL, 1))
    told = "It is in the queue 'q', settled in an uncommitted transaction on channel 1 of me."
    assert world.told()[-1] == told


def test_waiting_for_a_delayed_retry() -> None:
    world = World(QUORUM | {"x-delayed-retry-type": "all", "x-delayed-retry-min": 60_000})
    world.publish()
    world.get("reject_requeue_true")
    assert world.told()[-1] == "It is in the queue 'q' and waits for its delayed retry."


def test_in_a_stream() -> None:
    world = World({"x-queue-type": "stream"})
    world.publish("before")
    world.publish()
    assert world.told()[-1] == "It is in the stream 'q' at offset 1."


def test_in_two_queues() -> None:
    world = World({})
    world.declare("r")
    world.do(Publish(CHANNEL, "", "q", {"message_id": "m", "headers": {"CC": ["r"]}}, b"x"))
    assert world.told()[-2:] == [
        "One copy is in the queue 'q', ready at place 1 of 1.",
        "One copy is in the queue 'r', ready at place 1 of 1.",
    ]


def test_two_copies_of_which_one_is_lost() -> None:
    world = World({"x-message-ttl": 1000})
    world.declare("r")
    world.do(Publish(CHANNEL, "", "q", {"message_id": "m", "headers": {"CC": ["r"]}}, b"x"))
    world.advance(seconds=2)
    lost = "copy in 'q' was dropped: it died in the queue 'q' (expired) and went nowhere"
    assert world.told()[-2].startswith(f"the {lost}")
    assert world.told()[-1] == "One copy is in the queue 'r', ready at place 1 of 1."
    assert world.life()["loss"] == world.told()[-2].replace("the", "The", 1)
    assert world.api("DELETE", "/api/queues/%2F/r/contents").status == 204
    told = world.life()["loss"]
    assert told.startswith(f"The {lost}")
    assert told.endswith("The copy in 'r' was removed with what else was in the queue 'r'.")


def test_returned_to_its_publisher() -> None:
    world = World({})
    world.publish(key="nowhere", mandatory=True)
    assert world.told()[-2].startswith("no queue was bound for it, and it went back to its publisher (")
    assert (world.life()["ended"], world.life()["loss"]) == (True, None)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_refused_by_a_full_queue(kind: str) -> None:
    world = World({"x-queue-type": kind, "x-max-length": 1, "x-overflow": "reject-publish"})
    world.do(SelectConfirms(CHANNEL))
    for message_id in ("first", "second", "m"):
        world.publish(message_id)
    assert world.life()["loss"] == "The queue 'q' refused it (queue 'q' is full)."
    assert world.life()["sentences"][-1] == "Nothing is left of it."


def test_a_dead_letter_refused_by_a_full_queue() -> None:
    world = World(TO_DEAD)
    world.declare("dead", {"x-max-length": 0, "x-overflow": "reject-publish"})
    world.publish()
    world.get("reject_requeue_false")
    told = "It was dropped: it died in the queue 'dead' (maxlen) and went nowhere (queue 'dead' is full)."
    assert world.life()["loss"] == told
    assert world.life()["ended"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_dead_letter_that_is_refused_and_delivered_later_is_not_lost(overflow: str) -> None:
    """At-least-once dead-lettering holds what a full queue refuses and tries again after three minutes."""
    world = World(TO_DEAD | AT_LEAST_ONCE)
    world.declare("over")
    over = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "over"}
    world.declare("dead", {"x-max-length": 1, "x-overflow": overflow} | over)
    world.publish("other", key="dead")
    world.publish()
    world.get("reject_requeue_false")
    refused = "the queue 'dead' refused it for now: the dead letter is still held and will be sent again (queue"
    assert any(sentence.startswith(refused) for sentence in world.told())
    assert world.life()["queues"][0] == "q"
    assert world.life()["loss"] is None
    world.get("ack_requeue_false", "dead")
    world.advance(minutes=3)
    assert any(told.endswith(" entered the queue 'dead'.") for told in world.told())
    assert any(told.endswith(" is in the queue 'dead', ready at place 1 of 1.") for told in world.told())
    assert world.life()["loss"] is None
    assert world.api("GET", "/api/histories?lost=true").json == []
    assert "No message was lost" in world.api("GET", "/").body.decode()


@pytest.mark.parametrize("letter", [True, False])
def test_what_a_full_queue_dead_letters_instead_of_taking_it_is_not_lost(letter: bool) -> None:
    world = World(TO_DEAD)
    world.declare("over")
    over = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "over"}
    world.declare("dead", {"x-max-length": 0, "x-overflow": "reject-publish-dlx"} | over)
    world.publish(key="q" if letter else "dead")
    if letter:
        world.get("reject_requeue_false")
    assert world.told()[-1] == "It is in the queue 'over', ready at place 1 of 1."
    assert (world.life()["queues"], world.life()["loss"]) == (["over"], None)
    assert world.api("GET", "/api/histories?lost=true").json == []


def test_what_was_lost_can_be_listed() -> None:
    world = World({"x-max-length": 1})
    for message_id in ("m", "kept"):
        world.publish(message_id)
    world.publish("unbound", key="nowhere")
    lost = world.api("GET", "/api/histories?lost=true&columns=message_id").json
    kept = world.api("GET", "/api/histories?lost=false&columns=message_id").json
    assert lost == [{"message_id": "m"}, {"message_id": "unbound"}]
    assert kept == [{"message_id": "kept"}]
