"""What a consumer reads from ``x-death``: of every release, through every client, and from rubbish."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aio_pika
import amqp.basic_message
import kombu
import pika
import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlx
from dlx.deaths import REASONS, Death, DeathPoint
from tests import real_servers
from tests.rules.vector_values import plain_table

TESTS = Path(__file__).parent.parent
DIED = datetime(2026, 11, 21, 2, 37, 52, tzinfo=UTC)


def entry(queue: str = "orders", reason: str = "rejected", count: Any = 1, **more: Any) -> dict[str, Any]:
    """One entry as pika decodes it."""
    table = {"count": count, "reason": reason, "queue": queue, "time": DIED, "exchange": "shop"}
    return {**table, "routing-keys": ["order.new"], **more}


def history_of(*entries: Any) -> dlx.DeathHistory:
    return dlx.death_history({"x-death": list(entries)})


# -- counts --------------------------------------------------------------------


def test_a_retry_loop_is_counted_by_queue_and_reason() -> None:
    history = history_of(entry("orders.wait", "expired", 3), entry("orders", "rejected", 3), entry("mail"))
    assert history.attempts == 4
    assert history.rejected_in("orders") == 3
    assert history.rejected_in("orders.wait") == 0
    assert history.count(reason="expired") == history.count(queue="orders.wait") == 3
    assert history.total == 7
    assert history.path == "mail rejected -> orders rejected x3 -> orders.wait expired x3"


def test_the_count_alone_needs_no_history() -> None:
    properties = pika.BasicProperties(headers={"x-death": [entry(count=3), entry("mail"), entry("mail", "expired")]})
    assert dlx.attempts(properties) == 4
    assert dlx.attempts(properties, "orders") == 3
    assert dlx.attempts(None) == 0
    with pytest.raises(TypeError, match="source: expected a message's properties"):
        dlx.attempts("orders")  # type: ignore[arg-type]


def test_other_reasons_are_no_rejection() -> None:
    history = history_of(*(entry("q", reason) for reason in REASONS))
    assert (history.attempts, history.total) == (1, 4)
    assert history.count(queue="q", reason="delivery_limit") == 1


def test_entries_that_no_broker_merged_add_up() -> None:
    assert history_of(entry(), entry(count=2), entry()).rejected_in("orders") == 4


@pytest.mark.parametrize("source", [None, {}, {"x-death": None}, pika.BasicProperties(), {"headers": None}])
def test_a_message_that_never_died(source: Any) -> None:
    history = dlx.death_history(source)
    assert not history
    assert (history.attempts, history.total, history.path, history.malformed) == (0, 0, "", ())
    assert history.first is history.last is history.first_death_at is None


# -- where the headers are -----------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        lambda headers: headers,
        lambda headers: {"headers": headers, "app_id": "shop"},
        lambda headers: pika.BasicProperties(headers=headers),
        lambda headers: SimpleNamespace(headers=headers),
        lambda headers: {name.encode(): value for name, value in headers.items()},
        lambda headers: {b"headers": {name.encode(): value for name, value in headers.items()}},
        lambda headers: kombu.Message(headers=headers),
        lambda headers: amqp.basic_message.Message(application_headers=headers),
        lambda headers: aio_pika.Message(b"", headers=headers),
    ],
    ids=[
        *("headers", "properties mapping", "pika", "object with headers", "bytes", "bytes in properties"),
        *("kombu", "amqp", "aio-pika"),
    ],
)
def test_every_form_of_source_reads_the_same(wrap: Any) -> None:
    headers = {
        "x-death": [entry(count=2)],
        "x-first-death-queue": "start",
        "x-first-death-reason": "expired",
        "x-first-death-exchange": "",
    }
    history = dlx.death_history(wrap(headers))
    assert history.rejected_in("orders") == 2
    assert history.first == DeathPoint("expired", "start", "")
    assert history.malformed == ()


def test_a_user_header_of_that_name_is_no_wrapping() -> None:
    inner = {"x-death": [entry("forged", count=9)]}
    history = dlx.death_history({"x-death": [entry()], "headers": inner})
    assert (history.rejected_in("orders"), history.rejected_in("forged")) == (1, 0)


def test_a_header_named_headers_stays_one_of_the_properties_headers() -> None:
    properties = pika.BasicProperties(headers={"headers": {"x-death": [entry("forged")]}, "tenant": "a"})
    assert not dlx.death_history(properties)
    kept = dlx.republish_headers(properties, attempts=1)
    assert kept == {**properties.headers, "x-failed-attempts": 1}


def test_the_text_of_a_history_is_its_path() -> None:
    history = history_of(entry("orders.wait"), entry(count=2))
    assert str(history) == f"{history}" == history.path == "orders rejected x2 -> orders.wait rejected"
    assert str(dlx.death_history(None)) == ""


def test_the_list_alone_is_read() -> None:
    assert dlx.death_history([entry(count=2)]) == history_of(entry(count=2))


@pytest.mark.parametrize("source", [pika.spec.Basic.Deliver(), pika.BasicProperties, b"body", "text", 7])
def test_what_has_no_headers_is_refused(source: Any) -> None:
    """A consumer that hands over pika's ``method`` would see no death, and retry for ever."""
    with pytest.raises(TypeError, match="source: expected a message's properties, or their headers, got a"):
        dlx.death_history(source)
    with pytest.raises(TypeError, match="source: expected"):
        dlx.republish_headers(source, attempts=1)


@pytest.mark.parametrize("source", [{"headers": 3}, {"headers": "x", "app_id": "shop"}, {b"headers": [], "type": "t"}])
def test_properties_whose_headers_are_no_table_are_refused(source: Any) -> None:
    with pytest.raises(TypeError, match=r"source: expected a message's properties, .* got a table without headers"):
        dlx.death_history(source)
    with pytest.raises(TypeError, match="source: expected"):
        dlx.republish_headers(source, attempts=1)


@pytest.mark.parametrize("headers", [{"headers": 3, "tenant": "a"}, {"headers": 3, "x-death": [entry()]}])
def test_a_header_that_a_publisher_named_headers_does_not_raise(headers: dict[str, Any]) -> None:
    assert dlx.death_history(headers).total == ("x-death" in headers)
    assert dlx.republish_headers(headers, attempts=1)["headers"] == 3


def test_texts_may_be_bytes() -> None:
    raw = {b"queue": b"caf\xc3\xa9", b"reason": b"rejected", b"count": 2, b"routing-keys": [b"k", "l"]}
    (death,) = history_of(raw).deaths
    assert (death.queue, death.reason, death.count, death.routing_keys) == ("café", "rejected", 2, ("k", "l"))


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert history_of({b"queue": b"\xff", b"reason": b"rejected"}).deaths[0].queue == "�"


def test_pika_decodes_from_the_wire_what_is_read_here() -> None:
    sent = pika.BasicProperties(headers={"x-death": [entry(count=2)]}, content_type="text/plain")
    received = pika.BasicProperties()
    received.decode(b"".join(sent.encode()))
    history = dlx.death_history(received)
    assert history.deaths == dlx.death_history(sent).deaths
    assert history.first_death_at == DIED


# -- first and last ------------------------------------------------------------


def test_first_and_last_come_from_their_headers() -> None:
    headers = {"x-death": [entry()]}
    for when, queue in (("first", "one"), ("last", "two")):
        headers |= {f"x-{when}-death-{name}": f"{queue} {name}" for name in ("reason", "queue", "exchange")}
    history = dlx.death_history(headers)
    assert history.first == DeathPoint("one reason", "one queue", "one exchange")
    assert history.last == DeathPoint("two reason", "two queue", "two exchange")


def test_without_their_headers_x_death_tells() -> None:
    history = history_of(entry("c", time=30), entry("a", time=10), entry("b", time=20))
    assert history.last == DeathPoint("rejected", "c", "shop")
    assert history.first == DeathPoint("rejected", "a", "shop")


def test_an_entry_without_time_is_not_the_oldest() -> None:
    assert history_of(entry("a", time=10), entry("b", time=None)).first == DeathPoint("rejected", "a", "shop")


def test_the_last_of_the_list_is_the_oldest_where_no_time_tells() -> None:
    history = history_of(entry("c", time=7), entry("b", time=7), entry("a", time=7))
    assert history.first == DeathPoint("rejected", "a", "shop")


@pytest.mark.parametrize(
    "time", [DIED, DIED.replace(tzinfo=None), int(DIED.timestamp())], ids=["aware", "naive", "seconds"]
)
def test_the_first_death_has_a_time(time: Any) -> None:
    assert history_of(entry(time=DIED.replace(year=2030)), entry("wait", time=time)).first_death_at == DIED


@pytest.mark.parametrize("time", [None, 0, 2**62, "2026-11-21", -5, True, datetime.max])
def test_a_time_that_makes_no_sense_is_none(time: Any) -> None:
    history = history_of(entry(time=time))
    assert history.attempts == 1
    assert time is datetime.max or history.first_death_at is None


# -- what is malformed ---------------------------------------------------------

OUT_OF_RANGE = "an integer out of range (0 to 9223372036854775807)"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("rejected", "x-death is a string, not an array"),
        ({"queue": "q"}, "x-death is a table, not an array"),
        (["rejected"], "x-death[0] is a string, not a table"),
        ([7], "x-death[0] is an integer, not a table"),
        ([None], "x-death[0] is nothing (None), not a table"),
        ([{"queue": "q"}], "x-death[0] lacks a queue or a reason"),
        ([{"reason": "rejected", "queue": 7}], "x-death[0] lacks a queue or a reason"),
        ([entry(count="3")], "x-death[0].count is a string, not a number of deaths"),
        ([entry(count=-1)], f"x-death[0].count is {OUT_OF_RANGE}, not a number of deaths"),
        ([entry(count=10**5000)], f"x-death[0].count is {OUT_OF_RANGE}, not a number of deaths"),
        ([entry(count=2.5)], "x-death[0].count is a fraction, not a number of deaths"),
        ([entry(count=True)], "x-death[0].count is a boolean, not a number of deaths"),
        ([entry(time="now")], "x-death[0].time is a string, not a time since 1970"),
    ],
)
def test_what_is_passed_over_is_named(value: Any, said: str) -> None:
    assert dlx.death_history({"x-death": value}).malformed == (said,)


def test_the_rest_of_a_broken_header_is_read() -> None:
    history = history_of("rubbish", entry("a"), {"queue": "b"}, entry("c", count="many"))
    assert [death.queue for death in history.deaths] == ["a", "c"]
    assert history.attempts == 2
    assert len(history.malformed) == 3


def test_a_missing_count_is_one_and_missing_fields_are_empty() -> None:
    history = history_of({"queue": "q", "reason": "rejected"})
    assert history.deaths == (Death(queue="q", reason="rejected", count=1, exchange="", routing_keys=()),)
    assert history.malformed == ()


class Hostile(Mapping[str, Any]):
    """A mapping that fails on every access."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        return 1


class HostileMessage:
    @property
    def headers(self) -> Any:
        raise RuntimeError("gone")


UNREADABLE = [Hostile(), HostileMessage(), {"headers": Hostile()}, SimpleNamespace(headers=7), []]


@pytest.mark.parametrize("source", UNREADABLE)
def test_a_source_that_cannot_be_read_is_empty(source: Any) -> None:
    assert not dlx.death_history(source)


def test_an_entry_that_cannot_be_read_is_named() -> None:
    history = history_of(Hostile(), entry())
    assert history.malformed == ("x-death[0] cannot be read: RuntimeError",)
    assert history.attempts == 1


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.decimals(),
)
_names = st.one_of(
    st.sampled_from(["queue", "reason", "count", "time", "exchange", "routing-keys", "original-expiration"]),
    st.sampled_from([b"queue", b"reason", b"count"]),
    st.text(max_size=8),
    st.integers(),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=6),
    max_leaves=12,
)
_points = [f"x-{when}-death-{name}" for when in ("first", "last") for name in ("queue", "reason", "exchange")]
_headers = st.dictionaries(st.sampled_from(["x-death", b"x-death", "headers", *_points]), _values)
_entries = st.fixed_dictionaries(
    {"queue": st.text(max_size=4) | _values, "reason": st.sampled_from(REASONS) | _values},
    optional={"count": st.integers() | _values, "time": st.integers() | st.datetimes() | _values},
)


_messages = _values.map(lambda value: SimpleNamespace(headers=value))


# Among headers alone, one other than properties' names says that they are headers.
_bare = _headers.map(lambda headers: {"tenant": "a", **headers})
_in_properties = _headers.map(lambda headers: {"headers": headers})


@given(st.one_of(_messages, _bare, _in_properties, st.lists(_entries | _values).map(lambda found: {"x-death": found})))
def test_no_header_whatsoever_raises(source: Any) -> None:
    history = dlx.death_history(source)
    assert history.total >= history.attempts >= 0
    assert isinstance(history.path, str)
    assert history.first_death_at is None or history.first_death_at.tzinfo is UTC
    assert bool(history) == bool(history.deaths)
    assert all(isinstance(text, str) for text in history.malformed)


@given(st.lists(st.builds(entry, st.text(max_size=3), st.sampled_from(REASONS), st.integers(0, 9))))
def test_counts_add_up(entries: list[dict[str, Any]]) -> None:
    history = history_of(*entries)
    assert history.total == sum(each["count"] for each in entries)
    assert history.total == sum(history.count(reason=reason) for reason in REASONS)
    assert history.malformed == ()


# -- what real servers deliver -------------------------------------------------


def traced(release: str) -> list[dict[str, Any]]:
    """The headers of real deliveries of dead letters, as the tracing plugin wrote them."""
    log = (TESTS / "capture" / "samples" / f"trace-json-{release}.log").read_text(encoding="utf-8")
    records = [json.loads(line) for line in log.splitlines()]
    found = [r["properties"].get("headers", {}) for r in records if r["type"] == "received"]
    # One message of the log was published with "not an array" for a history.
    return [headers for headers in found if isinstance(headers.get("x-death"), list)]


@pytest.mark.parametrize("release", real_servers.LIVE)
def test_real_deliveries_of_every_release(release: str) -> None:
    all_headers = traced(release)
    assert len(all_headers) >= 3
    for headers in all_headers:
        history = dlx.death_history(headers)
        assert history.malformed == ()
        assert history.total == sum(each["count"] for each in headers["x-death"])
        assert history.first is not None
        assert history.first.queue == headers["x-first-death-queue"]
        assert history.last == history_of(headers["x-death"][0]).last
        assert history.first_death_at is not None
        assert history.first_death_at.timestamp() == min(each["time"] for each in headers["x-death"])


def recorded(release: str) -> Iterator[dict[str, Any]]:
    """The headers of recorded deliveries, as pika decodes them; without those that a client made up."""
    for group in ("deaths", "cycles", "targets", "keys"):
        cases = (TESTS / "vectors" / "recorded" / f"{group}.json").read_text(encoding="utf-8")
        for case in json.loads(cases):
            if "x-death" in json.dumps(case.get("steps", "x-death")):
                continue
            for seen in case["seen"]:
                copies = seen["outcome"].get("copies", {}) if release in seen["releases"] else {}
                for copy in (each for queue in copies.values() for each in queue):
                    headers = plain_table(copy.get("headers") or {})
                    if "x-death" in headers:
                        yield headers


@pytest.mark.parametrize("release", real_servers.RECORDED)
def test_recorded_deliveries_of_every_release(release: str) -> None:
    """``x-death`` alone tells what the broker's other headers say, and nothing in it is malformed."""
    checked = 0
    for headers in recorded(release):
        history = dlx.death_history(headers)
        assert history.malformed == ()
        assert len(history.deaths) == len(headers["x-death"])
        if "x-last-death-queue" in headers:
            assert history.last == history_of(*headers["x-death"]).last
        checked += 1
    assert checked > 20


def test_by_amqp_1_0_the_attempts_are_in_the_application_properties() -> None:
    proton = pytest.importorskip("proton")
    deaths = [{"queue": "work", "reason": "rejected", "count": 1}]
    message = proton.Message(
        annotations={proton.symbol("x-opt-deaths"): deaths, proton.symbol("x-exchange"): ""}, properties={"tenant": "a"}
    )
    again = proton.Message(properties=dlx.republish_headers(message, attempts=2))
    assert again.properties == {"tenant": "a", "x-failed-attempts": 2}
    assert dlx.death_history(again).attempts_before == 2
    assert dlx.RetryPlan(delays_ms=(1, 2, 3)).decide(dlx.death_history(again)) == dlx.Retry(attempt=3, delay_ms=3)
