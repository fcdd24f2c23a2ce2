"""Check the values of runtime parameters as a server does, and say in its words what is wrong with them.

Source: rabbit_parameter_validation.erl proplist, integer, number, regex.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dlx.erlang_printing import json_term, printed


class Member(msgspec.Struct, frozen=True):
    """One member of a parameter's value: ``wrong`` says what is wrong with it, or ``None``."""

    name: str
    wrong: Callable[[Any], str | None]
    mandatory: bool = False


def wrong_members(value: Any, members: Sequence[Member], what: Any) -> list[str]:
    """Return what is wrong with an object: unknown members, then the known ones, the last of them first.

    ``what`` is the name of the object in the texts. An empty list counts as an empty object.
    """
    if not isinstance(value, Mapping | list):
        return [said(f"{what} not a list {{}}", value)]
    given = value if isinstance(value, Mapping) else {}
    known = {member.name for member in members}
    unknown = [(json_term(name), json_term(given[name])) for name in sorted(given) if name not in known]
    unknown += [json_term(item) for item in value] if isinstance(value, list) else []
    start = "Unrecognised terms "
    found = [f"{start}{printed(unknown, len(start))} in {what}"] if unknown else []
    wrong = (_wrong(member, given, what) for member in reversed(members))
    return found + [text for text in wrong if text is not None]


def _wrong(member: Member, given: Mapping[str, Any], what: Any) -> str | None:
    if member.name in given:
        return member.wrong(given[member.name])
    return f'Key "{member.name}" not found in {what}' if member.mandatory else None


def said(text: str, value: Any) -> str:
    """Return the text with a JSON value, printed, in place of its braces."""
    before, after = text.split("{}")
    return before + printed(json_term(value), len(before)) + after


def is_integer(value: Any) -> bool:
    """Return whether a JSON value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrong_number(name: str, value: Any, fits: Callable[[Any], bool]) -> str | None:
    """Return the text for a value that is not the number it should be."""
    return None if fits(value) else said(f"{name} should be a number, actually was {{}}", value)
