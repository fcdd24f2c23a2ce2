"""Search and oracle agree, and it is noticed when they do not."""

from __future__ import annotations

import random

import pytest

from dlx.releases import RELEASES, release
from dlx.settings import DROP_HEAD, REJECT_PUBLISH
from dlx.topology import CLASSIC, QUORUM
from tests.enumeration.check import check
from tests.enumeration.oracle import CYCLE, FULL, LOOP, NO_EXCHANGE, Oracle, Queue
from tests.enumeration.run import enumerated
from tests.enumeration.space import NO_LIMIT, NOWHERE, Kind, Space, Topology
from tests.enumeration.tally import Tally
from tests.long import some_in_ci

PLAIN = Kind(CLASSIC)
PAUSE = Kind(CLASSIC, ttl_ms=1_000)
SHORT = Kind(CLASSIC, overflow=DROP_HEAD)


def tally_of(space: Space, topologies: list[Topology]) -> Tally:
    tally = Tally(space.release.name, space.queues, space.all())
    for topology in topologies:
        tally.add(check(space, topology))
    return tally


def of(*queues: tuple[Kind, int], name: str = "4.3") -> Oracle:
    return Oracle([Queue(*queue) for queue in queues], release(name))


def test_a_retry_ladder_loses_nothing_and_settles() -> None:
    ladder = of((PLAIN, 1), (PAUSE, 0))
    assert (ladder.losses(), ladder.restless()) == (set(), set())


def test_a_ladder_without_a_pause_does_not_settle() -> None:
    assert of((PLAIN, 1), (PLAIN, 0)).restless() == {LOOP}


def test_a_circle_of_limits_drops_its_messages() -> None:
    assert of((SHORT, 1), (PAUSE, 0)).losses() == {CYCLE}
    held = Kind(QUORUM, ttl_ms=1_000, delivery_limit=NO_LIMIT, at_least_once=True)
    assert of((held, 1), (held, 0)).losses() == set()


def test_a_full_queue_refuses_dead_letters_if_it_is_classic() -> None:
    full = Kind(CLASSIC, overflow=REJECT_PUBLISH)
    assert of((PLAIN, 1), (full, NOWHERE)).losses() == {FULL}
    quorum = Kind(QUORUM, overflow=REJECT_PUBLISH, delivery_limit=NO_LIMIT)
    assert of((PLAIN, 1), (quorum, NOWHERE)).losses() == set()


@pytest.mark.parametrize(("name", "lost"), [("3.13", set()), ("4.0", {NO_EXCHANGE})])
def test_the_default_delivery_limit_came_with_4_0(name: str, lost: set[str]) -> None:
    assert of((Kind(QUORUM), NOWHERE), name=name).losses() == lost


@pytest.mark.slow
@pytest.mark.parametrize("name", some_in_ci(RELEASES, ["3.8", "3.12", "4.3"]))
def test_one_queue(name: str) -> None:
    space = Space(1, release(name))
    tally = tally_of(space, list(space.topologies()))
    assert tally.agrees, "\n".join(tally.lines())


@pytest.mark.slow
@pytest.mark.parametrize("count", some_in_ci([60, 300], [60]))
def test_some_of_two_queues(count: int) -> None:
    space = Space(2, release("4.3"))
    tally = tally_of(space, random.Random(3).sample(list(space.topologies()), count))
    assert tally.agrees, "\n".join(tally.lines())


def test_a_wrong_oracle_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(1, release("4.3"))
    topology = next(iter(space.topologies()))
    right = tally_of(space, [topology])
    assert right.agrees
    wrong = set() if Oracle.losses(of((space.kinds[topology[0][0]], topology[0][1]))) else {CYCLE}
    monkeypatch.setattr(Oracle, "losses", lambda self: wrong)
    assert not tally_of(space, [topology]).agrees


def test_parts_together_are_the_whole() -> None:
    space = Space(1, release("4.3"))
    parts = [enumerated(space, 1, (number, 20)) for number in (1, 20)]
    assert [part.topologies for part in parts] == [7, 7]
    assert all(part.agrees and part.histories for part in parts)
