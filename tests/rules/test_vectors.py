"""The pure rules by themselves against what real servers of each release did.

What needs queues that hold messages, and all that a server refuses, is held to the
same vectors in ``tests/vectors/test_recorded.py``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlx.amqp_errors import as_told
from dlx.message import PublishRefusedError
from dlx.policies import choose_policy
from dlx.possible_deaths import why_impossible
from dlx.releases import Release, release
from dlx.routing import route
from dlx.settings import KEYS, effective_settings
from dlx.topology import Topology
from tests import real_servers
from tests.rules.vector_values import message_of, topology_of

RECORDED = Path(__file__).parent.parent / "vectors" / "recorded"
REFUSED_BY_THE_CHANNEL = ("ACCESS_REFUSED", "NOT_FOUND", "PRECONDITION_FAILED - user_id")


def vectors(name: str, *kinds: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the vectors of these kinds that a release was recorded on, with what it did."""
    for vector in _read():
        for seen in vector["seen"]:
            if vector["kind"] in kinds and "refused" not in seen["outcome"] and name in seen["releases"]:
                yield vector, seen["outcome"]


@functools.cache
def _read() -> list[dict[str, Any]]:
    return [
        vector for path in sorted(RECORDED.glob("*.json")) for vector in json.loads(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("name", real_servers.RECORDED)
def test_the_deaths_that_happened_are_possible(name: str) -> None:
    """Each recorded death that no client claimed is one that the queue's settings allow."""
    for vector, outcome in vectors(name, "letters"):
        topologies = list(_topologies(vector))
        copies = [copy for found in outcome["copies"].values() for copy in found]
        for each in (each for copy in copies for each in copy.get("headers", {}).get("x-death", {}).get("A", ())):
            entry = each.get("F", {})
            if entry.get("time") != {"T": 0}:
                continue
            queue, reason = entry["queue"]["S"], entry["reason"]["S"]
            whys = [
                why_impossible(
                    reason,
                    effective_settings(topology.queues[queue], topology, release(name)),
                    release(name),
                    has_expiration="original-expiration" in entry,
                )
                for topology in topologies
            ]
            assert None in whys, (vector["name"], entry)


def _topologies(vector: dict[str, Any]) -> Iterator[Topology]:
    """The topology at first, and after each declaration in the middle of the vector."""
    definitions = {what: list(parts) for what, parts in vector["definitions"].items()}
    yield topology_of(definitions)
    for step in vector["steps"]:
        if step["do"] == "declare":
            definitions.setdefault(step["what"], []).append(step["definition"])
            yield topology_of(definitions)


@pytest.mark.parametrize("name", real_servers.RECORDED)
def test_messages_reach_the_queues_they_reached(name: str) -> None:
    """Each publish reaches the recorded queues, or is refused with the recorded text."""
    for vector, outcome in vectors(name, "routing", "publish"):
        topology = topology_of(vector["definitions"])
        for publish, seen in zip(vector["publishes"], outcome["publishes"], strict=True):
            if seen.get("error", {}).get("text", "").startswith(REFUSED_BY_THE_CHANNEL):
                continue
            if publish.get("properties", {}).get("expiration") in ("0", "-0"):
                continue  # accepted, and gone before anybody could look
            assert _published(publish, topology, release(name)) == seen, (vector["name"], publish)


def _published(publish: dict[str, Any], topology: Topology, rules: Release) -> dict[str, Any]:
    try:
        message = message_of(publish, rules)
    except PublishRefusedError as refused:
        told = as_told(refused, rules)
        return {"error": {"code": told.code, "text": told.text}}
    return {"queues": sorted(route(message, topology, rules))}


@pytest.mark.parametrize("name", real_servers.RECORDED)
def test_policies_apply_as_on_the_server(name: str) -> None:
    """The policy and operator policy of each queue and exchange, and what the queue makes of both."""
    rules = release(name)
    for vector, outcome in vectors(name, "settings"):
        topology = topology_of(vector["definitions"])
        for queue, seen in outcome["queues"].items():
            settings = effective_settings(topology.queues[queue], topology, rules)
            policy, operator = settings.policy.policy, settings.operator_policy.policy
            assert (policy.name if policy else None) == seen["policy"], (vector["name"], queue)
            assert (operator.name if operator else None) == seen["operator_policy"], (vector["name"], queue)
            ignored = {setting.key for setting, _ in settings.ignored}
            for key, value in seen["effective_policy_definition"].items():
                assert key in ignored or key not in KEYS or settings.value(key) == value, (vector["name"], queue, key)
        for exchange, seen in outcome.get("exchanges", {}).items():
            policy = choose_policy(topology.exchanges[exchange], topology.policies, rules).policy
            assert (policy.name if policy else None) == seen["policy"], (vector["name"], exchange)


@pytest.mark.parametrize("name", real_servers.RECORDED)
def test_the_value_in_force_is_the_servers(name: str) -> None:
    """Argument or policy: the value by which the queue behaved."""
    for vector, outcome in vectors(name, "effective"):
        topology = topology_of(vector["definitions"])
        for queue, values in outcome["values"].items():
            settings = effective_settings(topology.queues[queue], topology, release(name))
            mine = {
                "dead-letter-exchange": settings.dead_letter_exchange,
                "dead-letter-routing-key": settings.dead_letter_routing_key,
                "message-ttl": settings.message_ttl_ms,
                "expires": settings.expires_ms,
                "max-length": settings.max_length,
                "max-length-bytes": settings.max_length_bytes,
                "overflow": settings.overflow,
                "delivery-limit": "unlimited" if settings.delivery_limit is None else settings.delivery_limit,
            }
            for probe in vector["probes"]:
                if probe["queue"] == queue and "candidates" in probe and mine[probe["key"]] is None:
                    mine[probe["key"]] = max(probe["candidates"])  # no limit looks to the probe like the longest one
            assert {key: mine[key] for key in values} == values, (vector["name"], queue)


def test_there_are_vectors_of_every_kind_and_release() -> None:
    """A lost file or a changed form must not turn these tests into none."""
    least = {"letters": 120, "routing": 40, "publish": 6, "settings": 22, "effective": 30}
    for kind, number in least.items():
        for name in real_servers.RECORDED:
            assert len({vector["name"] for vector, _ in vectors(name, kind)}) >= number, (kind, name)
