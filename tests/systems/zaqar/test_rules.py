"""The pure rules: what is accepted, what a claim does to a message, and what metadata say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.zaqar import claims, limits, metadata
from simulator.systems.zaqar.claims import Message, Terms, posted
from simulator.systems.zaqar.limits import Invalid
from simulator.systems.zaqar.metadata import DeadLettering
from simulator.systems.zaqar.profiles import PROFILES, Profile

REDIS, SPEC, MONGODB, SWIFT = (PROFILES[name] for name in ("redis", "spec", "mongodb", "swift"))
RULE = DeadLettering(max_claim_count=2, target="dead")
profiles = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


def message(**fields: Any) -> Message:
    one = posted("a", "body", ttl_s=300, delay_s=0, client="c", now_s=1000)
    return Message(**{name: getattr(one, name) for name in one.__struct_fields__} | fields)


# What is accepted


@pytest.mark.parametrize(("ttl_s", "right"), [(59, False), (60, True), (1_209_600, True), (1_209_601, False)])
def test_the_ttl_of_a_message(ttl_s: int, right: bool) -> None:
    assert _accepted(limits.check_message_ttl, ttl_s) is right
    assert _accepted(metadata.check, {"_dead_letter_queue_messages_ttl": ttl_s}) is right
    assert _accepted(metadata.check, {"_default_message_ttl": ttl_s}) is right


@pytest.mark.parametrize(
    ("ttl_s", "grace_s", "limit", "said"),
    [
        (59, 60, 1, "The TTL for a claim"),
        (43_201, 60, 1, "The TTL for a claim"),
        (60, 59, 1, "The grace for a claim"),
        (60, 43_201, None, "The grace for a claim"),
        (60, 60, 0, "Limit must be"),
        (60, 60, 21, "Limit must be"),
        (59, 59, 0, "The TTL for a claim"),
        (60, 59, 0, "Limit must be"),
    ],
)
def test_the_terms_of_a_claim(ttl_s: int, grace_s: int, limit: int | None, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        limits.check_claim(ttl_s, grace_s, limit)


def test_terms_at_their_limits() -> None:
    for span_s in (60, 43_200):
        limits.check_claim(span_s, span_s, None)


@pytest.mark.parametrize(
    ("name", "right"),
    [("a", True), ("a-b_c.D9", True), ("x" * 64, True), ("x" * 65, False), ("", False), ("a b", False), ("ä", False)],
)
def test_names_of_queues(name: str, right: bool) -> None:
    assert _accepted(limits.check_name, "queue", name, "p") is right


@pytest.mark.parametrize("value", [None, 0, -5, 3, True, "", [], 0.0])
def test_nearly_anything_is_a_maximum(value: Any) -> None:
    metadata.check({"_max_claim_count": value})


@pytest.mark.parametrize("value", ["3", 1.5, [1], {"a": 1}])
def test_a_maximum_that_is_none(value: Any) -> None:
    with pytest.raises(Invalid, match=r"^_max_claim_count must be integer\.$"):
        metadata.check({"_max_claim_count": value})


def test_an_empty_text_for_a_ttl_is_more_than_zaqar_can_take() -> None:
    with pytest.raises(TypeError, match="'<=' not supported between instances of 'int' and 'str'"):
        metadata.check({"_dead_letter_queue_messages_ttl": ""})


def test_what_is_shown_of_a_queue() -> None:
    seen = metadata.shown({"_max_claim_count": 0, "note": "", "_dead_letter_queue": "dead"})
    assert seen == {
        "_max_claim_count": None,
        "note": "",
        "_dead_letter_queue": "dead",
        "_dead_letter_queue_messages_ttl": None,
        "_default_message_ttl": 3600,
        "_default_message_delay": 0,
        "_max_messages_post_size": 262_144,
        "_enable_encrypt_messages": False,
    }


# Patches


@given(
    st.dictionaries(st.text("abc_", min_size=1), st.integers()),
    st.dictionaries(st.text("abc_", min_size=1), st.integers()),
)
def test_adding_is_updating_and_removing_undoes_it(before: dict[str, Any], added: dict[str, Any]) -> None:
    adds = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in added.items()]
    after = metadata.patched(before, metadata.read_changes(adds))
    assert after == before | added
    removes = [{"op": "remove", "path": f"/metadata/{name}"} for name in added]
    left = metadata.patched(after, metadata.read_changes(removes))
    assert left == {name: value for name, value in before.items() if name not in added}


def test_only_what_is_there_is_replaced() -> None:
    (change,) = metadata.read_changes([{"op": "replace", "path": "/metadata/note", "value": 1}])
    assert metadata.patched({"note": 0}, [change]) == {"note": 1}
    with pytest.raises(metadata.Conflict, match=r"^Can't replace non-existent object note\.$"):
        metadata.patched({}, [change])


# When a message is moved


@pytest.mark.parametrize(
    ("maximum", "claims_that_hand_out"), [(3, 3), (1, 1), (True, 1), (False, 0), (0, 0), (-1, 0), (0.0, 0)]
)
@profiles
def test_so_many_claims_hand_it_out(profile: Profile, maximum: Any, claims_that_hand_out: int) -> None:
    rule, one, handed = DeadLettering(max_claim_count=maximum, target="dead"), message(), 0
    while not claims.exhausted(one, rule):
        one, handed = claims.counted(claims.held(one, "x", Terms(60, 60), 1000, profile), one), handed + 1
    assert handed == claims_that_hand_out


@pytest.mark.parametrize("maximum", [None, "", []])
def test_what_is_no_number_cannot_be_counted_against(maximum: Any) -> None:
    with pytest.raises(claims.Uncountable):
        claims.exhausted(message(), DeadLettering(max_claim_count=maximum, target="dead"))


@pytest.mark.parametrize("attributes", [{}, {"_max_claim_count": 1}, {"_dead_letter_queue": "d"}])
@profiles
def test_half_of_the_attributes_is_nothing(profile: Profile, attributes: dict[str, Any]) -> None:
    assert metadata.dead_lettering(attributes, profile) is None


def test_attributes_that_are_there_but_empty_count_for_the_drivers_and_not_for_the_document() -> None:
    for attributes in (
        {"_max_claim_count": None, "_dead_letter_queue": "d"},
        {"_max_claim_count": 1, "_dead_letter_queue": ""},
    ):
        on = {name: metadata.dead_lettering(attributes, profile) is not None for name, profile in PROFILES.items()}
        assert on == {"spec": False, "redis": True, "mongodb": True, "swift": True}


@pytest.mark.parametrize(("target", "found"), [("dead", "dead"), ("", ""), (None, ""), (5, None)])
def test_the_name_of_the_dead_letter_queue(target: Any, found: str | None) -> None:
    rule = DeadLettering(max_claim_count=1, target=target)
    assert claims.target(rule, SWIFT) == str(target)
    if found is None:
        with pytest.raises(claims.Uncountable):
            claims.target(rule, REDIS)
    else:
        assert claims.target(rule, REDIS) == found


# What becomes of a message


@profiles
def test_a_dead_letter_keeps_its_id_and_body(profile: Profile) -> None:
    taken = claims.held(message(), "x", Terms(60, 60), 1000, profile)
    letter = claims.moved(taken, message(), RULE, 1000, profile)
    assert (letter.id, letter.body, letter.claim_id, letter.created_s) == ("a", "body", "x", 1000)
    assert letter.held(1000) is profile.hides_dead_letters


@pytest.mark.parametrize("ttl_s", [90, 3000])
@profiles
def test_the_ttl_of_dead_letters_is_shown_and_here_and_there_real(profile: Profile, ttl_s: int) -> None:
    rule = DeadLettering(max_claim_count=0, target="dead", ttl_s=ttl_s)
    letter = claims.moved(message(), message(), rule, 1010, profile)
    assert letter.ttl_s == ttl_s
    assert letter.expires_s == (1010 + ttl_s if profile.name in ("spec", "swift") else 1300)


@profiles
def test_a_claim_that_outlasts_a_message_prolongs_its_life(profile: Profile) -> None:
    longer = claims.held(message(), "x", Terms(301, 60), 1000, profile)
    assert (longer.ttl_s, longer.expires_s) == (361, 1361)
    shorter = claims.held(message(), "x", Terms(60, 60), 1100, profile)
    # Swift writes the object anew, and with it its whole life.
    assert (shorter.ttl_s, shorter.expires_s) == (300, 1400 if profile is SWIFT else 1300)


def test_a_renewal_of_just_the_life_of_a_message() -> None:
    lives = {name: claims.renewed(message(), "x", Terms(300, 60), 1000, one).ttl_s for name, one in PROFILES.items()}
    assert lives == {"spec": 300, "redis": 360, "mongodb": 300, "swift": 300}


def test_who_forgets_the_count() -> None:
    claimed = message(claim_id="x", claim_expires_s=1060, claim_count=2)
    released = {name: claims.released(claimed, 1010, one).count for name, one in PROFILES.items()}
    assert released == {"spec": 2, "redis": 2, "mongodb": 0, "swift": 0}
    renewed = {name: claims.renewed(claimed, "x", Terms(60, 60), 1010, one).count for name, one in PROFILES.items()}
    assert renewed == {"spec": 2, "redis": 2, "mongodb": 0, "swift": 2}


@given(ttl_s=st.integers(60, 43_200), grace_s=st.integers(60, 43_200), age_s=st.integers(0, 299))
@profiles
def test_no_message_dies_in_its_claim(profile: Profile, ttl_s: int, grace_s: int, age_s: int) -> None:
    taken = claims.held(message(), "x", Terms(ttl_s, grace_s), 1000 + age_s, profile)
    assert taken.expires_s >= taken.claim_expires_s


def _accepted(check: Any, *values: Any) -> bool:
    try:
        check(*values)
    except Invalid:
        return False
    return True
