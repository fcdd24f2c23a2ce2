"""Messages that a client publishes with an ``x-death`` of its own: until 3.12 brokers go on with it."""

from __future__ import annotations

from typing import Any

from tests.replay.logs import Log, death, definitions_of

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
LONG_AGO_S = 1_704_067_200


def test_a_death_that_was_counted_zero_times_keeps_its_time(tmp_path: Any) -> None:
    forged = {**death("work", "rejected", count=0, keys=["work"]), "time": LONG_AGO_S}
    log = sent([forged])
    log.deliver("dead", "", ["dead"], headers={"x-death": [{**forged, "count": 1}]})
    assert verdicts(log, tmp_path) == ["agree", "agree"]


def test_of_two_entries_of_a_kind_one_is_kept(tmp_path: Any) -> None:
    """The first one is kept; the exchange and the keys of the other are gone."""
    none = {**death("dead", "maxlen", count=0, keys=["dead"]), "time": LONG_AGO_S}
    other = {**death("else", "expired", count=2, keys=["else"]), "time": LONG_AGO_S}
    forged = [none, {"count": 1, "queue": "dead", "reason": "maxlen", "time": LONG_AGO_S}, other]
    log = sent(forged)
    own = death("work", "rejected", keys=["work"])
    log.deliver("dead", "", ["dead"], headers={"x-death": [own, other, none]})
    assert verdicts(log, tmp_path) == ["agree", "agree"]


def test_of_two_counts_of_a_kind_the_first_goes_on(tmp_path: Any) -> None:
    first = {**death("work", "rejected", count=2, keys=["work"]), "time": LONG_AGO_S}
    log = sent([first, {**first, "count": 7}])
    log.deliver("dead", "", ["dead"], headers={"x-death": [{**first, "count": 3}]})
    assert verdicts(log, tmp_path) == ["agree", "agree"]


def verdicts(log: Log, tmp_path: Any) -> list[str]:
    return [row["verdict"] for row in log.replay(tmp_path, definitions_of({"work": TO_DEAD, "dead": {}}), "3.8")]


def sent(deaths: list[Any]) -> Log:
    """A log in which a client publishes a message with these deaths, and another gets it."""
    headers = {"x-death": deaths}
    return Log().publish("", "work", headers=headers).deliver("work", "", ["work"], headers=headers)
