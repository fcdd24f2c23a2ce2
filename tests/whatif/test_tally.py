"""What is added up is the same in whatever parts it comes, and takes bounded memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from simulator.definitions import Definitions
from simulator.whatif import correlates as marks_module
from simulator.whatif import tally as tally_module
from simulator.whatif.both_sides import ComparedMessage, Playbacks, compare
from simulator.whatif.causes import PlayedGroup, find_causes
from simulator.whatif.correlates import Correlates
from simulator.whatif.differences import differences
from simulator.whatif.outcomes import Ends, Fate
from simulator.whatif.sides import prepared, side_of
from simulator.whatif.stories import Publication, Shown, Story, StoryDelivery
from simulator.whatif.tally import Tally
from tests.whatif.asking import shown_by

WORK, LOST = Ends(acknowledged=(("work", 1),)), Ends(lost=(("work", "expired", 1),))


def case(number: int, after: Ends = WORK, **headers: str) -> ComparedMessage:
    key = f"key.{number}"
    published = Publication(0, 0, "orders", "order" if headers else key, {"headers": headers}, b"")
    delivered = StoryDelivery(Shown("work", "orders", (key,), ""), 1, 1, "")
    return ComparedMessage(Story("/", f"m{number}", [published], [delivered]), Fate(WORK), Fate(after), True)


def in_parts(cases: Sequence[ComparedMessage], parts: int) -> Tally:
    return Tally.whole(Tally(cases[number::parts]) for number in range(parts))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "VALUES_MAX", 10)
    monkeypatch.setattr(tally_module, "LAST_SEEN_MAX", 10)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_what_has_a_value_of_its_own_for_each_message_is_not_counted(parts: int) -> None:
    cases = [case(number, LOST if number % 2 else WORK, trace=str(number), kind="mail" if number % 2 else "order")
             for number in range(40)]  # fmt: skip
    random.Random(parts).shuffle(cases)
    found = in_parts(cases, parts)
    assert found.marks.too_many == {"header trace"}
    told = [(each.what, each.value, each.ratio) for each in found.answer().over_represented]
    assert told == [("header kind", "mail", 2.0)]


def test_ten_values_are_counted_and_one_more_is_too_many() -> None:
    marks = Correlates()
    marks.add(("routing key", str(number)) for number in range(10))
    assert (marks.of("routing key", "3"), marks.too_many) == (1, set())
    marks.add([("routing key", "another")])
    assert (marks.of("routing key", "3"), marks.too_many) == (0, {"routing key"})


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_all_last_deliveries_are_counted_whatever_their_keys(parts: int) -> None:
    found = in_parts([case(number) for number in range(40)], parts)
    assert found.ended.total() == 40
    assert len(found.ended) == 10


def test_messages_of_one_id_in_two_virtual_hosts_change_because_of_their_own_queues() -> None:
    def side(**arguments: int) -> Any:
        of_queue = {"durable": True, "auto_delete": False, "arguments": arguments}
        queues = [{"vhost": vhost, "name": queue, **of_queue} for vhost, queue in (("one", "x"), ("other", "y"))]
        document = {"vhosts": [{"name": "one"}, {"name": "other"}], "queues": queues, "exchanges": [], "bindings": []}
        return prepared(side_of(Definitions(document, "definitions.json"), "4.3"))

    stories = [
        Story(vhost, f"same {number}", [Publication(number, number, "", queue, {}, b"")], [])
        for vhost, queue in (("one", "x"), ("other", "y"))
        for number in range(5)
    ]
    before, after = side(), side(**{"x-message-ttl": 1})
    playbacks, together = compare(stories, Playbacks(before, after, "ack", shown_by(stories)))
    groups = [PlayedGroup.of(unit, own) for unit, own in together]
    causes, _ = find_causes(playbacks, differences(before.side, after.side), groups)
    assert sorted(cause.messages for cause in causes) == [5, 5]
