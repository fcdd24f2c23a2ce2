"""The releases that real servers speak for: those that can be asked, and those whose answers are recorded."""

from __future__ import annotations

LIVE = ("3.8", "3.10", "4.0", "4.3")
"""The releases that ``tests/live/broker`` starts."""

RECORDED = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3")
"""The releases whose answers are recorded: those above, and servers made from their source for it."""


def since(first: str) -> tuple[str, ...]:
    """The recorded releases from this one on."""
    return RECORDED[RECORDED.index(first) :]


def until(last: str) -> tuple[str, ...]:
    """The recorded releases up to this one, with it."""
    return RECORDED[: RECORDED.index(last) + 1]
