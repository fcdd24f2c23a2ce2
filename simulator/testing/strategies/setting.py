"""Effective settings: what applies to a queue when arguments, policy and operator policy are resolved."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from dlx.releases import DEFAULT, Release
from dlx.settings import Settings, effective_settings
from dlx.topology import Topology
from simulator.testing.strategies.building_blocks import check_flags, checked_release
from simulator.testing.strategies.parts import QUEUE_TYPES, checked_types, queues
from simulator.testing.strategies.policy import policies as drawn_policies


def settings(
    *, types: Collection[str] = QUEUE_TYPES, policies: bool = True, release: Release | str = DEFAULT
) -> st.SearchStrategy[Settings]:
    """Draw the effective settings of a queue that the release declares, by the release's rules.

    Args:
        types: the queue's type, of ``classic``, ``quorum``, ``stream``.
        policies: whether a policy and an operator policy may apply, too.
        release: a release or its name.
    """
    rules = checked_release(release)
    check_flags(policies=policies)
    return _settings(checked_types(types, rules), policies, rules)


@st.composite
def _settings(draw: st.DrawFn, types: tuple[str, ...], policies: bool, release: Release) -> Settings:
    queue = draw(queues(types=types, release=release))
    topology = Topology()
    if policies:
        by_kind = [
            draw(st.lists(drawn_policies(queue_names=(queue.name,), operator=operator, release=release), max_size=1))
            for operator in (False, True)
        ]
        topology = Topology.of(queues=[queue], policies=by_kind[0], operator_policies=by_kind[1])
    return effective_settings(queue, topology, release)
