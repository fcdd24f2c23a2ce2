"""The space has what its definition says, each topology once."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from dlx.releases import RELEASES, release
from simulator.testing import Trial
from tests.enumeration.space import NOWHERE, Space, Topology, canonical, connected, renumbered


@pytest.mark.parametrize("queues", [2, 3])
def test_all_numberings_of_a_topology_have_one_canonical_form(queues: int) -> None:
    drawn = random.Random(queues)
    for _ in range(500):
        topology = tuple((drawn.randrange(5), drawn.randrange(-3, queues)) for _ in range(queues))
        forms = {canonical(renumbered(topology, order)) for order in permutations(range(queues))}
        assert len(forms) == 1
        assert forms <= {renumbered(topology, order) for order in permutations(range(queues))}


def test_numbers_of_targets_change_with_those_of_queues() -> None:
    ring: Topology = ((7, 1), (8, 2), (9, 0))
    assert renumbered(ring, (2, 0, 1)) == ((9, 1), (7, 2), (8, 0))


@pytest.mark.parametrize(
    ("topology", "whole"),
    [
        (((0, NOWHERE),), True),
        (((0, 0), (0, 1)), False),
        (((0, 1), (0, NOWHERE)), True),
        (((0, 2), (0, 2), (0, NOWHERE)), True),
        (((0, 1), (0, 0), (0, 2)), False),
        (((0, NOWHERE), (0, 0), (0, 1)), True),
    ],
)
def test_unconnected_topologies_are_left_out(topology: Topology, whole: bool) -> None:
    assert connected(topology) is whole


def test_how_many_topologies_of_one_queue_there_are() -> None:
    """8 classic and 18 quorum kinds with 4 targets, 12 with at-least-once with 3; fewer quorum kinds until 3.9."""
    counts = {name: sum(1 for _ in Space(1, release(name)).topologies()) for name in RELEASES}
    assert counts.pop("3.8") == 8 * 4 + 6 * 4
    assert counts.pop("3.9") == 8 * 4 + 9 * 4
    assert set(counts.values()) == {8 * 4 + 18 * 4 + 12 * 3}


def test_no_topology_of_two_queues_comes_twice_or_is_missing() -> None:
    space = Space(2, release("3.8"))
    topologies = list(space.topologies())
    forms = {canonical(topology) for topology in topologies}
    assert len(forms) == len(topologies) == 774


@pytest.mark.parametrize("name", RELEASES)
def test_every_kind_can_be_declared(name: str) -> None:
    space = Space(1, release(name))
    for topology in space.topologies():
        queue = Trial(space.definitions(topology), release=name).queue("a")
        assert queue is not None
        assert not queue.settings.ignored
