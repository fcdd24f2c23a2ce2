"""The logs that real brokers wrote replay without a difference under their own release."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.replay.logs import EXAMPLES, deliveries, example_definitions


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_every_delivery_agrees(release):
    rows = deliveries(EXAMPLES / f"captured-{release}" / "trace.log.gz", example_definitions(release), release)
    assert Counter(row["verdict"] for row in rows) == {"agree": len(rows)}
    assert len(rows) > 2000


def test_every_reason_is_reconstructed():
    rows = deliveries(EXAMPLES / "captured-4.3" / "trace.log.gz", example_definitions("4.3"))
    reasons = {hop["reason"] for row in rows for hop in row["hops"]}
    assert reasons == {"rejected", "expired", "maxlen", "delivery_limit"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("captured", "rules"), [("4.3", "3.10"), ("4.3", "3.8"), ("4.3", "4.0"), ("4.3", "3.13"), ("3.10", "4.3")]
)
def test_under_another_release_each_difference_names_its_behaviour(captured, rules):
    rows = deliveries(EXAMPLES / f"captured-{captured}" / "trace.log.gz", example_definitions(captured), rules)
    differing = [row for row in rows if row["verdict"] in ("differ", "unexplained")]
    assert differing
    for row in differing:
        assert row["differences"], row
        for difference in row["differences"]:
            assert difference["behaviours"], (row["queue"], row["line"], difference)


@pytest.mark.slow
def test_no_difference_is_explained_by_another_queue():
    rows = deliveries(EXAMPLES / "captured-3.10" / "trace.log.gz", example_definitions("3.10"), "4.3")
    fields = {d["field"] for row in rows for d in row["differences"]}
    assert not any(field.endswith((".queue", ".reason")) and "[" in field for field in fields), fields


@pytest.mark.slow
def test_under_3_10_the_log_of_4_3_differs_where_the_releases_do():
    rows = deliveries(EXAMPLES / "captured-4.3" / "trace.log.gz", example_definitions("4.3"), "3.10")
    behaviours = {name for row in rows for d in row["differences"] for name in d["behaviours"]}
    assert behaviours == {
        "cc_header_after_dead_letter_routing_key",
        "client_deaths_continued",
        "death_history",
        "death_order",
        "death_routing_keys",
        "last_death_headers",
        "quorum_acquired_count_header",
    }
    undisturbed = [row for row in rows if not row["hops"] and row["verdict"] != "agree"]
    counted = {d["field"] for row in undisturbed for d in row["differences"]}
    assert counted <= {"x-acquired-count", "path"}, "without a death, only counts differ"
