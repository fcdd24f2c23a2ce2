"""Parts of a topology that are equal up to names: what is proved of one holds for the others, and is told once."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis import losses
from simulator.analysis.lint.grouping import groups, pattern
from simulator.analysis.lint.linting import lint
from simulator.analysis.losses import Losses, find_losses
from simulator.analysis.proofs import proof
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import Lossless
from simulator.scenario.trial import Trial
from tests.enumeration.space import Space
from tests.long import some_in_ci
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

PARTS = ("one.{}", "other-{}", "{}_three")
SPACE = Space(2, release("4.3"))
EVERY = 40
_NAMES = ("x-dead-letter-exchange", "x-dead-letter-routing-key")


def tripled(document: dict[str, Any]) -> dict[str, Any]:
    """The definitions with every queue and exchange three times, under other names."""
    sections: dict[str, Any] = {"queues": [], "exchanges": [], "bindings": []}
    for part in PARTS:
        for section, items in sections.items():
            items += [_renamed(item, part) for item in document.get(section, ())]
    return {**document, **sections}


def _renamed(item: dict[str, Any], part: str) -> dict[str, Any]:
    named = {key: part.format(item[key]) for key in ("name", "source", "destination") if item.get(key)}
    arguments = {
        key: part.format(value) if key in _NAMES and value else value for key, value in item["arguments"].items()
    }
    return {**item, **named, "arguments": arguments}


def found_in(document: dict[str, Any]) -> Losses:
    return find_losses(Snapshot(Definitions(document, "definitions"), SPACE.release))


def kinds(found: Losses) -> list[Any]:
    return [
        (each.queue, each.reason, each.fate, each.target, each.history)
        for each in (*found.lost, *found.promised, *found.unproven)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("first", some_in_ci(range(EVERY), [0, 17]))
def test_what_is_proved_once_is_what_is_proved_one_by_one(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every topology of two queues, three times under other names: the same losses by the same histories."""
    judged = lossy = 0
    for case in islice(SPACE.topologies(), first, None, EVERY):
        document = tripled(SPACE.definitions(case))
        once = found_in(document)
        with monkeypatch.context() as patched:
            patched.setattr(losses, "shape", lambda *_: None)
            one_by_one = found_in(document)
        assert kinds(once) == kinds(one_by_one)
        judged, lossy = judged + 1, lossy + bool(once.lost)
        for loss in once.lost:
            with pytest.raises(PropertyBroken):
                Trial(document, properties=[Lossless()]).play(loss.history)
    assert judged > lossy > 5


@pytest.mark.slow
def test_groups_have_every_finding_and_as_many_of_each_part() -> None:
    for case in islice(SPACE.topologies(), 0, None, EVERY):
        document = SPACE.definitions(case)
        alone = lint(Definitions(document, "definitions"), SPACE.release).findings
        findings = lint(Definitions(tripled(document), "definitions"), SPACE.release).findings
        alike = groups(findings)
        assert sorted(each for group in alike for each in [(one.code, one.about) for one in group]) == sorted(
            (each.code, each.about) for each in findings
        )
        assert len(findings) == len(PARTS) * len(alone)
        assert len(alike) == len(groups(alone))
        assert all(len({(each.code, each.severity, each.needs) for each in group}) == 1 for group in alike)
        told = {each.about.name for each in findings if each.code != "DLX010" and each.history}
        lost = found_in(tripled(document)).lost
        assert {loss.target if loss.fate == losses.REFUSED else loss.queue for loss in lost} <= told


def test_equal_parts_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(*args: Any) -> Any:
        asked.append(args)
        return proof(*args)

    monkeypatch.setattr(losses, "proof", counted)
    names = [f"service-{number}.work" for number in range(20)]
    found = found_in(topology([queue(name, message_ttl=1_000) for name in names]))
    assert {each.queue for each in found.lost} == set(names)
    assert all(each.history[0].routing_key == each.queue for each in found.lost)  # type: ignore[union-attr]
    assert len(asked) == 2  # it expires, or a consumer rejects it


@pytest.mark.parametrize(
    "other",
    [
        queue("other", message_ttl=2_000),
        queue("other", message_ttl=1_000, max_length=5),
        queue("other", queue_type="quorum", message_ttl=1_000),
        queue("other", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="other"),
    ],
    ids=["ttl", "length", "type", "target"],
)
def test_parts_that_differ_in_more_than_names_are_told_apart(other: dict[str, Any]) -> None:
    found = lint(Definitions(topology([queue("one", message_ttl=1_000), other]), "definitions"), SPACE.release)
    assert len({each.shape for each in found.findings}) == len(found.findings) >= 2


def test_a_policy_for_one_of_two_queues_tells_them_apart() -> None:
    document = topology([queue("a"), queue("b")]) | {
        "policies": [{"vhost": "/", "name": "brief", "pattern": "^a$", "definition": {"message-ttl": 9}}]
    }
    assert {each.queue for each in found_in(document).lost} == {"a"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a-1.work", "a-22.work", "a-333.work", "a-4.work"], "'a-*.work'"),
        (["orders", "orders.dead", "orders.1", "orders.2"], "'orders*'"),
        (["orders", "orders.dead"], "'orders', 'orders.dead'"),
        (["a", "b"], "'a', 'b'"),
        (["q1", "q2", "q3", "q4"], "'q*'"),
        (["a", "b", "c", "d", "e"], "'a', 'b', 'c' and 2 more"),
        (["work", "work"], "'work'"),
    ],
)
def test_what_names_have_in_common(names: list[str], expected: str) -> None:
    assert pattern(names) == expected
