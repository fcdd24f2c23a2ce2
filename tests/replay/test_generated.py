"""Drawn histories on the simulator's broker: its own definitions are never flagged, others are where they matter."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dlx.releases import RELEASES
from dlx.settings import MAX_LENGTH_BYTES
from dlx.topology import Queue, Topology
from simulator.capture.schema import Observation, to_batches
from simulator.definitions import Definitions
from simulator.replay import Assumptions, replay_table
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep
from simulator.testing.strategies import definitions_document, histories, topologies
from tests.replay.broker_logs import broker_log
from tests.testing.reaching import reached

TOLERANCE_MS = 2
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
KINDS = ("publish", "ack", "reject", "requeue", "crash", "hold", "get", "leave", "wait", "repeat")
TTL_MS, LIMIT, LENGTH = 700, 2, 2
Row = dict[str, Any]


def shop(ttl_ms: int = TTL_MS, limit: int = LIMIT, length: int = LENGTH) -> Topology:
    """What is rejected in ``work`` waits and comes back; what is poison, or does not fit into ``box``, is parked."""
    to_wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    to_parked = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    poison = {"x-queue-type": "quorum", "x-delivery-limit": limit, **to_parked}
    return Topology.of(
        queues=[
            Queue(name="work", arguments=to_wait),
            Queue(name="wait", arguments={"x-message-ttl": ttl_ms, **back}),
            Queue(name="poison", type="quorum", arguments=poison),
            Queue(name="box", arguments={"x-max-length": length, **to_parked}),
            Queue(name="parked"),
        ]
    )


def _repeated(kind: Any, *queues: str) -> st.SearchStrategy[AnyStep]:
    return st.builds(kind, st.sampled_from(queues), st.integers(1, 3))


STEPS: st.SearchStrategy[AnyStep] = st.one_of(
    st.builds(steps.Publish, st.just(""), st.sampled_from(("work", "poison", "box")), times=st.integers(1, 4)),
    _repeated(steps.Reject, "work", "poison"),
    _repeated(steps.Requeue, "poison", "work"),
    _repeated(steps.Crash, "poison", "work"),
    _repeated(steps.Ack, "work", "parked", "box"),
    _repeated(steps.Hold, "work", "parked"),
    st.sampled_from((1, 300, TTL_MS, 1_500)).map(steps.Wait),
)
Log = tuple[str, list[Observation]]


def logs_of(drawn: st.SearchStrategy[list[AnyStep]]) -> st.SearchStrategy[Log]:
    return st.tuples(st.sampled_from(RELEASES), drawn).map(lambda it: (it[0], broker_log(it[1], shop(), it[0])))


def logs_with(*story: AnyStep) -> st.SearchStrategy[Log]:
    """Logs in which these steps happen, and drawn ones before, between and after them."""
    few = st.lists(STEPS, max_size=4)
    parts = [part for step in story for part in (few, st.just([step]))]
    return logs_of(st.tuples(*parts, few).map(lambda lists: [*chain.from_iterable(lists)]))


LOGS = logs_of(st.lists(STEPS, min_size=3, max_size=16))
EXPIRIES = logs_with(steps.Publish("", "work"), steps.Reject("work"), steps.Wait(1_500), steps.Ack("work"))
POISON = logs_with(steps.Publish("", "poison"), steps.Crash("poison", 3), steps.Ack("parked"))
FULL = logs_with(steps.Publish("", "box", times=4), steps.Ack("parked"))
LATE = logs_with(steps.Publish("", "work"), steps.Wait(300), steps.Ack("work"))


def replayed(rows: list[Observation], topology: Topology, name: str, *, complete: bool = True) -> list[Row]:
    definitions = Definitions(definitions_document(topology, name), "drawn")
    assumptions = Assumptions(tolerance_ms=TOLERANCE_MS, complete=complete)
    found = replay_table(to_batches(rows), definitions, name, assumptions).to_pylist() if rows else []
    return [row for row in found if row["event"] == "delivered"]


def with_death(rows: list[Row], queue: str, reason: str) -> list[Row]:
    return [row for row in rows if (queue, reason) in [(hop["queue"], hop["reason"]) for hop in row["hops"]]]


def unchecked(row: Row) -> set[str]:
    return {each["what"] for each in row["unchecked"]}


# -- the broker's own definitions ----------------------------------------------


@SLOW
@given(LOGS)
def test_the_right_definitions_are_never_flagged(log: Log) -> None:
    for row in replayed(log[1], shop(), log[0]):
        assert row["verdict"] in ("agree", "ambiguous"), row
        # A channel may take a message along that it was never traced to have delivered.
        assert unchecked(row) <= {"delivery-limit"}, row
        for hop in row["hops"]:
            assert hop["earliest_us"] <= hop["latest_us"] <= row["time_us"]


def test_a_dead_letter_may_have_the_flag_at_once() -> None:
    """From 4.3 a classic queue flags what was rejected elsewhere, if it had to wait for its consumer."""
    history = [steps.Publish("", "poison"), steps.Reject("poison"), steps.Ack("parked")]
    rows = broker_log(history, shop(), "4.3")
    assert [row.redelivered for row in rows] == [None, False, True]
    assert [unchecked(row) for row in replayed(rows, shop(), "4.3")] == [set(), set()]
    assert [unchecked(row) for row in replayed(rows, shop(), "4.2")] == [set(), {"redelivered"}]


ANY = st.sampled_from(RELEASES).flatmap(
    lambda name: topologies(release=name, cyclic=False).flatmap(
        lambda topology: st.tuples(
            st.just(name), st.just(topology), histories(topology=topology, kinds=KINDS, release=name)
        )
    )
)


@SLOW
@given(ANY)
def test_no_topology_is_flagged_with_its_own_log(case: Any) -> None:
    name, topology, history = case
    parts = [*(queue.arguments for queue in topology.queues.values()), *(p.definition for p in topology.policies)]
    has_bytes = any(key.endswith(MAX_LENGTH_BYTES) for part in parts for key in part)
    for row in replayed(broker_log(history, topology, name), topology, name, complete=not has_bytes):
        assert row["verdict"] in ("agree", "ambiguous"), row


# -- and others ----------------------------------------------------------------


@SLOW
@given(EXPIRIES, st.integers(1, 10**6))
def test_a_ttl_that_is_longer_than_the_log_is_flagged(log: Log, more_ms: int) -> None:
    name, rows = log
    right = with_death(replayed(rows, shop(), name), "wait", "expired")
    assume(right)
    span_ms = (rows[-1].time_us - rows[0].time_us) // 1000
    wrong = replayed(rows, shop(ttl_ms=span_ms + TOLERANCE_MS + more_ms), name)
    flagged = {row["line"] for row in wrong if row["verdict"] == "differ"}
    assert {row["line"] for row in right} <= flagged
    fields = {each["field"] for row in wrong for each in row["differences"]}
    assert fields == {"time in 'wait'"}


@SLOW
@given(POISON, st.integers(0, 1))
def test_a_delivery_limit_below_a_count_is_flagged(log: Log, limit: int) -> None:
    name, rows = log
    counted = {
        row.line
        for row in rows
        if row.queue == "poison" and msgspec.json.decode(row.broker_headers).get("x-delivery-count", 0) > limit
    }
    assume(counted)
    wrong = replayed(rows, shop(limit=limit), name)
    flagged = {row["line"] for row in wrong if row["verdict"] == "differ"}
    assert counted <= flagged


@SLOW
@given(POISON, st.integers(1, 50))
def test_a_delivery_limit_above_all_counts_is_unchecked(log: Log, more: int) -> None:
    name, rows = log
    right = with_death(replayed(rows, shop(), name), "poison", "delivery_limit")
    assume(right)
    wrong = {row["line"]: row for row in replayed(rows, shop(limit=LIMIT + more), name)}
    for row in right:
        assert "delivery-limit" in unchecked(wrong[row["line"]])


@SLOW
@given(FULL, st.integers(0, 10**6), st.booleans())
def test_a_length_that_all_messages_do_not_fill_is_flagged(log: Log, more: int, complete: bool) -> None:
    name, rows = log
    right = with_death(replayed(rows, shop(), name), "box", "maxlen")
    assume(right)
    published = sum(row.event == "published" and row.routing_keys == ["box"] for row in rows)
    wrong = {row["line"]: row for row in replayed(rows, shop(length=published + more), name, complete=complete)}
    for row in right:
        found = wrong[row["line"]]
        assert found["verdict"] == "differ" if complete else "max-length" in unchecked(found)


@SLOW
@given(LATE)
def test_a_ttl_of_a_millisecond_is_flagged_where_a_message_outlived_it(log: Log) -> None:
    """Of a queue whose messages are seen to wait: ``work`` is given the TTL."""
    name, rows = log
    right = replayed(rows, shop(), name)
    published = {row.message: row.time_us for row in rows if row.event == "published" and row.routing_keys == ["work"]}
    first = {}
    for row in right:
        if row["queue"] == "work" and not row["hops"]:
            first.setdefault(row["lineage"].partition("\n")[2], row)
    late = [row["line"] for message, row in first.items() if row["time_us"] > published[message] + 10_000]
    assume(late)
    queues = [
        msgspec.structs.replace(queue, arguments={**queue.arguments, "x-message-ttl": 1}) if name_ == "work" else queue
        for name_, queue in shop().queues.items()
    ]
    wrong = replayed(rows, Topology.of(queues=queues), name)
    assert set(late) <= {row["line"] for row in wrong if row["verdict"] == "differ"}


REACHED = {
    "an expiry": ("wait", "expired"),
    "a poison message": ("poison", "delivery_limit"),
    "a full box": ("box", "maxlen"),
}


@pytest.mark.parametrize("what", REACHED)
def test_what_matters_is_reached(what: str) -> None:
    name, rows = reached(LOGS, lambda log: with_death(replayed(log[1], shop(), log[0]), *REACHED[what]))
    assert with_death(replayed(rows, shop(), name), *REACHED[what])
