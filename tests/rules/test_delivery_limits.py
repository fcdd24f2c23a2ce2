"""Delivery limits that are no integers, as live servers took them: a message was delivered once more than the limit."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.releases import release
from dlx.settings import effective_settings
from dlx.topology import Policy, Queue, Topology


def limit_of(argument: Any, by_policy: int | None, name: str) -> int | None:
    queue = Queue(name="q", type="quorum", arguments={"x-queue-type": "quorum", "x-delivery-limit": argument})
    policies = [] if by_policy is None else [Policy(name="p", pattern="q", definition={"delivery-limit": by_policy})]
    topology = Topology.of(queues=[queue], policies=policies)
    return effective_settings(queue, topology, release(name)).delivery_limit


@pytest.mark.parametrize(
    ("argument", "by_policy", "on_38", "on_310", "on_40", "on_43"),
    [
        ("two", None, None, None, None, 20),
        (True, None, None, None, None, 20),
        (2.5, None, 2, 2, 2, 20),
        (2.0, None, 2, 2, 2, 20),
        (-2.5, None, 0, 0, None, 20),
        (2.5, 4, 2, 2, 2, 20),
        (4.5, 2, 2, 2, 2, 2),
        (-2.5, 3, 0, 0, 3, 3),
        ("two", 3, 3, 3, 3, 3),
        (True, 3, 3, 3, 3, 3),
    ],
)
def test_a_limit_that_is_no_integer_holds_as_on_the_servers(
    argument: Any, by_policy: int | None, on_38: int | None, on_310: int | None, on_40: int | None, on_43: int | None
) -> None:
    found = [limit_of(argument, by_policy, name) for name in ("3.8", "3.10", "4.0", "4.3")]
    assert found == [on_38, on_310, on_40, on_43]
