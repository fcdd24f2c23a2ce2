"""Rows of a captured log, in the columns of ``simulator.capture.schema``."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from dlx.message_flow import MessageFlow
from dlx.releases import DEFAULT, Release
from dlx.topology import Topology
from simulator.capture.schema import Observation
from simulator.generate.traced_rows import TRACED, observation, trace_row
from simulator.json_values import plain
from simulator.scenario.player import START_US, Player
from simulator.scenario.steps import AnyStep
from simulator.testing.strategies.building_blocks import (
    NOWHERE,
    built,
    check_count,
    check_flags,
    check_topology,
    checked_release,
)
from simulator.testing.strategies.history import KINDS, LADDER, histories
from simulator.testing.strategies.message import properties
from simulator.testing.strategies.topology import definitions_document

# Definitions are exported once, so a log does not show policies that changed.
_KINDS = tuple(kind for kind in KINDS if kind != "policy")
_DAY_US = 86_400_000_000


def log_rows(
    *, topology: Topology = LADDER, consistent: bool = True, steps_max: int = 12, release: Release | str = DEFAULT
) -> st.SearchStrategy[list[Observation]]:
    """Draw the rows of one log, in its order.

    Consistent rows are what a broker of the release with this topology traces of a history, ``message_id`` on every
    message: a replay under the same release explains each delivery. Only bodies, and the counts that quorum queues
    and streams add to a delivery, are left out.

    Args:
        topology: the topology of the virtual host ``/``; by default a queue, and one in which messages wait.
        consistent: ``False`` draws rows that need not fit each other, the topology, or any broker: made-up
            histories, properties of all types, unknown queues and virtual hosts. Each has its columns' types.
        steps_max: steps of the history, at most; without consistency, rows.
        release: a release or its name.
    """
    rules = checked_release(release)
    check_flags(consistent=consistent)
    check_count("steps_max", steps_max)
    check_topology(topology)
    if not consistent:
        return built(_numbered, st.lists(_arbitrary(tuple(topology.queues)), max_size=steps_max))
    drawn = histories(topology=topology, kinds=_KINDS, steps_max=steps_max, release=rules)
    return built(lambda history: _numbered(traced(history, topology, rules)), drawn)


def traced(history: Iterable[AnyStep], topology: Topology, release: Release) -> list[Observation]:
    """Return the rows that a broker traces while that history is played to it."""
    player, flow = Player(definitions_document(topology, release), release=release.name), MessageFlow(topology, release)
    rows = []
    for step in history:
        player.do(step)
        rows += [
            observation(happened, message, flow) for happened, message in player.events if happened.event in TRACED
        ]
    return rows


def _numbered(rows: list[Observation]) -> list[Observation]:
    for line, row in enumerate(rows, 1):
        row.line = line
    return rows


def _arbitrary(queues: tuple[str, ...]) -> st.SearchStrategy[Observation]:
    names = st.sampled_from((*queues, NOWHERE))
    common = {
        "properties": properties(hostile=True, routing_keys=queues).map(plain),
        "time_us": st.integers(START_US, START_US + _DAY_US),
        "vhost": st.sampled_from(("/", NOWHERE)),
        "exchange": st.sampled_from(("", "dlx")),
        "routing_keys": st.lists(names, min_size=1, max_size=3),
        "payload": st.sampled_from((b"", b"body", b"\xff")),
    }
    publishes = built(trace_row, queue=st.none(), routed_queues=st.lists(names, max_size=2), **common)
    return st.one_of(publishes, built(trace_row, queue=names, routed_queues=st.none(), **common))
