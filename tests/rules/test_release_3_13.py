"""What 3.13 does where its neighbours do otherwise, rule by rule; more of it is in ``test_dead_lettering.py``.

The recordings of 3.13.7 judge the broker as a whole (``tests/vectors``, ``tests/differential``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dlx import Binding, Exchange, Policy, Queue, Topology, dead_letter, effective_settings, published, release
from dlx.binding_index import headers_match
from dlx.dead_lettering import DeadLetter
from dlx.death_headers import delivered_headers
from dlx.delivery_counts import Counts, carried, count_headers
from dlx.settings import Settings

RELEASE = release("3.13")


def settings(queue: Queue, **policies: list[Policy]) -> Settings:
    """The settings of a queue under these ``policies`` and ``operator_policies``."""
    return effective_settings(queue, Topology.of(queues=[queue], **policies), RELEASE)


def rejected(message: Any, where: Topology, queue: str) -> DeadLetter:
    """The dead letter of a rejection."""
    return dead_letter(message, "rejected", effective_settings(where.queues[queue], where, RELEASE), where, RELEASE)


@pytest.mark.parametrize(("key", "recorded"), [("wait", ["wait"]), ("hidden", [])])
def test_a_death_records_all_keys_but_those_published_as_bcc(key: str, recorded: list[str]) -> None:
    """Even one that a dead-letter routing key has put there since; CC keys that it replaced are gone."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key}
    where = Topology.of(queues=[Queue(name="work", arguments=arguments), Queue(name=key, arguments=arguments)])
    message = published("", "work", headers={"CC": ["copy"], "BCC": ["hidden"]}, release=RELEASE)
    first = rejected(message, where, "work").message
    assert first is not None
    second = rejected(first, where, key).message
    assert second is not None
    deaths = (delivered_headers(second, RELEASE) or {})["x-death"]
    assert [death["routing-keys"] for death in deaths] == [recorded, ["work", "copy"]]


def test_expirations_are_normalised_and_headers_sorted() -> None:
    message = published("", "q", headers={"b": 1, "a": 2}, expiration="+060000", release=RELEASE)
    assert message.expiration == "60000"
    assert list(delivered_headers(message, RELEASE) or {}) == ["a", "b"]


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "value", "matches"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (NOON, NOON, False),
        (int(NOON.timestamp()), NOON, False),
        (int(NOON.timestamp()) * 1000, NOON, True),
    ],
)
def test_headers_bindings_tell_numbers_apart_and_see_milliseconds(wanted: Any, value: Any, matches: bool) -> None:
    assert headers_match({"x-match": "all", "h": wanted}, {"h": value}, RELEASE) is matches


@pytest.mark.parametrize(("header", "found"), [("x-death", False), ("x-first-death-queue", True)])
def test_headers_bindings_do_not_see_x_death(header: str, found: bool) -> None:
    where = Topology.of(
        exchanges=[Exchange(name="h", type="headers")],
        queues=[Queue(name="work", arguments={"x-dead-letter-exchange": "h"}), Queue(name="dead")],
        bindings=[Binding(source="h", destination="dead", arguments={"x-match": "any-with-x", header: None})],
    )
    letter = rejected(published("", "work", release=RELEASE), where, "work")
    assert letter.queues == (("dead",) if found else ())


def test_a_policy_s_expires_wins_over_a_quorum_queue_s_argument() -> None:
    queue = Queue(name="q", type="quorum", arguments={"x-expires": 1_000})
    policy = Policy(name="p", pattern="q", definition={"expires": 5_000})
    assert settings(queue, policies=[policy]).expires_ms == 5_000


def test_a_negative_delivery_limit_allows_no_return() -> None:
    assert settings(Queue(name="q", type="quorum", arguments={"x-delivery-limit": -1})).delivery_limit == 0


def test_delivery_counts_stay_in_their_queue_and_are_not_shown_before_a_return() -> None:
    assert carried(2, "quorum", RELEASE) is None
    assert count_headers(Counts(), RELEASE, first_get=True) == {}
    assert count_headers(Counts(acquired=2), RELEASE) == {"x-delivery-count": 2}


@pytest.mark.parametrize(
    ("apply_to", "kind", "applies"),
    [
        ("classic_queues", "classic", True),
        ("quorum_queues", "quorum", True),
        ("streams", "stream", True),
        ("quorum_queues", "classic", False),
        ("queues", "stream", True),
    ],
)
def test_policies_apply_to_queue_types(apply_to: str, kind: str, applies: bool) -> None:
    policy = Policy(name="p", pattern="q", definition={"max-length-bytes": 1}, apply_to=apply_to)
    assert settings(Queue(name="q", type=kind), policies=[policy]).max_length_bytes == (1 if applies else None)


def test_an_operator_may_set_overflow_and_wins() -> None:
    mine = Policy(name="mine", pattern="q", definition={"overflow": "drop-head"})
    operators = Policy(name="operators", pattern="q", definition={"overflow": "reject-publish"})
    found = settings(Queue(name="q"), policies=[mine], operator_policies=[operators])
    assert found.overflow == "reject-publish"


@pytest.mark.parametrize(("kind", "applies"), [("classic", False), ("stream", False), ("quorum", True)])
def test_a_policy_with_a_target_group_size_is_for_quorum_queues(kind: str, applies: bool) -> None:
    policy = Policy(name="p", pattern="q", definition={"max-length-bytes": 1, "target-group-size": 3})
    assert (settings(Queue(name="q", type=kind), policies=[policy]).policy.policy is not None) is applies
