"""The kernel gives the same verdicts however the rows come in batches, and falls over nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlx.releases import RELEASES, release
from simulator.capture import open_log
from simulator.replay.engines.local import arranged_table, replay_table
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.kernel.signatures import Signatures
from simulator.replay.rows.topologies import topologies
from tests.long import some_in_ci
from tests.replay.logs import (
    EXAMPLES,
    Log,
    death,
    definitions_of,
    died,
    example_definitions,
    write_log,
)

DEFINITIONS = example_definitions("4.3")


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return arranged_table(open_log(EXAMPLES / "captured-4.3" / "trace.log.gz"))


def replayed(rows, size, rules="4.3"):
    kernel = Kernel(topologies(DEFINITIONS), release(rules), None)
    return pa.Table.from_batches(list(kernel.replay(iter(rows.to_batches(max_chunksize=size)))))


@pytest.mark.slow
@pytest.mark.parametrize("size", some_in_ci([1, 7, 1000], [7]))
def test_the_size_of_batches_changes_nothing(rows, size):
    assert replayed(rows, size).equals(replayed(rows, 100_000).slice(0)), size


@pytest.mark.long
def test_differences_do_not_depend_on_batches_either(rows):
    assert replayed(rows, 50, "3.10").equals(replayed(rows, 100_000, "3.10"))


def test_a_kernel_that_goes_on_with_another_partition_gives_what_a_new_one_gives(rows):
    kernel = Kernel(topologies(DEFINITIONS), release("4.3"), None)
    once, again = (pa.Table.from_batches(list(kernel.replay(iter(rows.to_batches())))) for _ in range(2))
    assert again.equals(once)
    assert any(once.column("shown").to_pylist())


def test_every_row_comes_back_once(rows):
    out = replayed(rows, 1000)
    assert out.column("line").to_pylist() == rows.column("line").to_pylist()


JITTER = definitions_of({"wait": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}, "work": {}})


def expired(identity, expiration, shown):
    entry = {"original-expiration": shown, **death("wait", "expired", keys=["wait"])}
    log = Log().publish("", "wait", message_id=identity, expiration=expiration)
    return log.deliver("work", "", ["work"], message_id=identity, headers=died(entry)).records


def test_expirations_are_compared_though_signatures_leave_them_out(tmp_path):
    records = [record for n in range(50) for record in expired(f"m{n}", str(1000 + n), str(1000 + n))]
    records += expired("odd", "7000", "7001")
    log = write_log(tmp_path / "trace.log", records)
    out = replay_table(open_log(log), JITTER).to_pylist()
    bad = [row for row in out if row["verdict"] not in ("agree", None)]
    assert [(row["lineage"], row["verdict"]) for row in bad] == [("/\nodd", "differ")]
    (difference,) = bad[0]["differences"]
    assert difference["field"] == "x-death[0].original-expiration"
    assert (difference["expected"], difference["seen"]) == ('"7000"', '"7001"')


def test_routing_keys_that_are_numbers_are_no_expirations(tmp_path):
    """The key of the second message leads elsewhere than where it was delivered."""
    topology = definitions_of({"one": {}, "two": {}}, {"x": "direct"}, [("x", "one", "1"), ("x", "two", "2")])
    log = Log()
    leads_to = {"1": ["one"], "2": ["two"]}
    for identity, key in (("m1", "1"), ("m2", "2"), ("m3", "1")):  # the last one of a batch is not compared
        log.publish("x", key, message_id=identity, routed=leads_to[key]).deliver("one", "x", [key], message_id=identity)
    out = replay_table(open_log(write_log(tmp_path / "trace.log", log.records)), topology).to_pylist()
    assert [row["verdict"] for row in out] == [None, "agree", None, "unexplained", None, "agree"]


def test_random_expirations_share_a_template():
    signatures = Signatures(lambda vhost: None)
    texts = [f'published\n["/",null,"","{n}"]\n["q"]\n{{}}\n\n' for n in range(1, 200)]
    numbers = signatures.numbers(texts)
    assert len(set(signatures.templates(numbers).tolist())) == 1
    assert signatures.row(int(numbers[41])).visible.expiration == "42"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(0, 3) | ANY_JSON,
        "reason": st.sampled_from(["rejected", "expired", "maxlen"]) | ANY_JSON,
        "queue": st.sampled_from(["wait", "work"]) | ANY_JSON,
        "exchange": st.just("") | ANY_JSON,
        "routing-keys": st.just(["wait"]) | ANY_JSON,
        "original-expiration": ANY_JSON,
        "time": st.just(1_790_000_000) | ANY_JSON,
    },
)
HEADERS = st.dictionaries(
    st.sampled_from(["x-death", "CC", "x-first-death-queue", "x-last-death-reason", "x-delivery-count", "user"]),
    st.lists(ENTRY, max_size=3) | ANY_JSON,
    max_size=4,
)  # fmt: skip
ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from(["wait", "work", "gone"]), HEADERS), max_size=6)


@given(ROWS, st.sampled_from(RELEASES))
def test_no_row_makes_it_fall_over(tmp_path_factory, steps, rules):
    log = Log()
    for is_publish, queue, headers in steps:
        keys = [queue]
        if is_publish:
            log.publish("", queue)
        else:
            log.deliver(queue, "", keys)
        log.records[-1]["properties"]["headers"] = json.loads(json.dumps(headers))
    if not log.records:
        return
    path = write_log(tmp_path_factory.mktemp("hostile") / "trace.log", log.records)
    out = replay_table(open_log(path, on_broken=lambda _broken: None), JITTER, rules).to_pylist()
    delivered = [row for row in out if row["event"] == "delivered"]
    assert all(row["verdict"] in ("agree", "ambiguous", "differ", "unexplained") for row in delivered)
