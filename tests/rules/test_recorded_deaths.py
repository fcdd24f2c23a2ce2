"""The one reading of the deaths behind a message, by release."""

from __future__ import annotations

from typing import Any

import pytest

from dlx import Message, Queue, Topology, dead_letter, effective_settings, published, release
from dlx.recorded_deaths import RecordedDeath, death_counts, recorded_deaths
from dlx.releases import RELEASES

TIMELESS = {"queue": "q", "reason": "rejected", "count": 3, "exchange": "", "routing-keys": ["q"]}
"""An entry as clients write them who have seen one printed: the time is missing."""


def died(message: Message, rules: str) -> Message:
    where = Topology.of(queues=[Queue(name="q", arguments={"x-dead-letter-exchange": ""})])
    settings = effective_settings(where.queues["q"], where, release(rules))
    letter = dead_letter(message, "rejected", settings, where, release(rules)).message
    assert letter is not None
    return letter


@pytest.mark.parametrize("name", RELEASES)
def test_a_death_of_the_broker_s_is_read(name: str) -> None:
    twice = died(died(published("", "q", release=release(name)), name), name)
    assert recorded_deaths(twice, release(name)) == (RecordedDeath("q", "rejected", 2),)
    assert death_counts(recorded_deaths(twice, release(name))) == {("q", "rejected"): 2}


@pytest.mark.parametrize(("name", "before", "after"), [
    ("3.8", 3, 4),
    ("3.10", 3, 4),
    ("3.13", None, 1),  # an entry that lacks its time is not taken over
    ("4.0", None, 1),
    ("4.3", None, 1),
])  # fmt: skip
def test_an_entry_of_a_client_s_is_read_where_the_release_goes_on_counting(
    name: str, before: int | None, after: int
) -> None:
    message = published("", "q", headers={"x-death": [TIMELESS]}, release=release(name))
    assert [death and death.times for death in recorded_deaths(message, release(name))] == ([before] if before else [])
    assert recorded_deaths(died(message, name), release(name))[0] == RecordedDeath("q", "rejected", after)


@pytest.mark.parametrize(("entries", "read"), [
    (["no table"], [None]),
    ([{"queue": "q"}], [RecordedDeath("q", None, 1, has_count=False)]),
    ([{"queue": ["a list"], "reason": "r", "count": "many"}], [RecordedDeath(["a list"], "r", 0)]),
    ("no array", []),
])  # fmt: skip
def test_what_is_malformed_is_read_as_far_as_it_can_be(entries: Any, read: list[Any]) -> None:
    message = published("", "q", headers={"x-death": entries}, release=release("3.10"))
    assert [*recorded_deaths(message, release("3.10"))] == read
    assert all(isinstance(queue, str) for queue, _ in death_counts(recorded_deaths(message, release("3.10"))))


@pytest.mark.parametrize(("entries", "before", "after"), [
    ([2, 7], 2, 3),
    ([None, 7, None], 3, 4),
    ([0, 1], 0, 1),
])  # fmt: skip
def test_of_a_client_s_entries_of_one_kind_the_first_counts(entries: list[int | None], before: int, after: int) -> None:
    """Those without a count before it are counted themselves."""
    kind = {"queue": "q", "reason": "rejected"}
    deaths = [kind if count is None else {**kind, "count": count} for count in entries]
    message = published("", "q", headers={"x-death": deaths}, release=release("3.10"))
    for each, count in ((message, before), (died(message, "3.10"), after)):
        assert death_counts(recorded_deaths(each, release("3.10"))) == {("q", "rejected"): count}
