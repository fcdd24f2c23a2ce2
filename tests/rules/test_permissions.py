"""Permissions: regular expressions of names and routing keys, and what is said without one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dlx.amqp_errors import Refusal
from dlx.permissions import NEEDED, check, check_topic
from dlx.releases import RELEASES, release


@dataclass
class Granted:
    configure: str = ""
    write: str = ""
    read: str = ""


def refused(granted: Granted | None, what: str, kind: str, name: str, of: str = "4.3") -> str | None:
    """The text of the refusal, which begins with the name of its code; ``None`` without one."""
    try:
        check(granted, what, kind, name, vhost="/", user="bob", release=release(of))
    except Refusal as refusal:
        return refusal.text
    return None


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        ("q", "my-queue", True),  # found anywhere
        ("^q$", "my-queue", False),
        ("", "q", False),
        ("", "", True),
        (".*", "", True),
        ("^(a|b)\\.", "b.c", True),
        ("(", "(", False),  # broken; no server keeps such a one
    ],
)
def test_an_expression_is_found_in_the_name(pattern: str, name: str, allowed: bool) -> None:
    assert (refused(Granted(read=pattern), "read", "queue", name) is None) is allowed


def test_the_refusal_names_the_permission_from_3_12_on() -> None:
    for name in RELEASES:
        verb = "access" if name in ("3.8", "3.9", "3.10", "3.11") else "write access"
        text = f"ACCESS_REFUSED - {verb} to queue 'q' in vhost '/' refused for user 'bob'"
        assert refused(Granted(configure=".*", read=".*"), "write", "queue", "q", name) == text
        assert refused(None, "write", "queue", "q", name) == text


def test_the_default_exchange_has_a_name_of_its_own() -> None:
    assert refused(Granted(write="^amq\\.default$"), "write", "exchange", "") is None
    assert refused(Granted(write="^$"), "write", "exchange", "") == (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'bob'"
    )


def test_topic_permissions_are_of_routing_keys() -> None:
    asked = {"exchange": "x", "vhost": "/", "user": "a.b", "release": release("4.3")}
    check_topic(("^{username}\\.", ""), "write", routing_key="a.b.c", **asked)
    check_topic(("", "{vhost}"), "read", routing_key="a/b", **asked)
    with pytest.raises(Refusal) as refusal:
        check_topic(("^{username}\\.", ".*"), "write", routing_key="axb.c", **asked)
    assert refusal.value.text == (
        "ACCESS_REFUSED - write access to topic 'axb.c' in exchange 'x' in vhost '/' refused for user 'a.b'"
    )
    asked["release"] = release("4.0")  # where the name is part of the expression, and its point any character
    check_topic(("^{username}\\.", ".*"), "write", routing_key="axb.c", **asked)


def test_a_dead_letter_exchange_needs_three_permissions() -> None:
    assert [(needed.what, needed.kind, needed.of) for needed in NEEDED["queue.declare"]] == [
        ("configure", "queue", "queue"),
        ("read", "queue", "queue"),
        ("write", "exchange", "x-dead-letter-exchange"),
    ]
