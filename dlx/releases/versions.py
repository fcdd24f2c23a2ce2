"""The releases whose rules are known, and the version that each was read from or observed on."""

from __future__ import annotations

import re
from typing import Literal

ReleaseName = Literal["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3"]
"""A release by name, for type checkers: the keys of ``VERSIONS``."""

# To add a release, add a line here and its name above. Unless a row says otherwise, it behaves as the one before it.
VERSIONS: dict[str, str] = {
    "3.8": "3.8.9",
    "3.9": "3.9.29",
    "3.10": "3.10.8",
    "3.11": "3.11.28",
    "3.12": "3.12.14",
    "3.13": "3.13.7",
    "4.0": "4.0.5",
    "4.1": "4.1.8",
    "4.2": "4.2.9",
    "4.3": "4.3.6",
}
RELEASES = tuple(VERSIONS)
DEFAULT = "4.3"

_VERSION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)|([0-9]{1,9}(?:\.[0-9]{1,9}){2,})(?:[-+~.].*)?")


class UnknownReleaseError(ValueError):
    """A release whose rules are not known."""


class StandInRelease(UserWarning):
    """The rules of another version of the same release stand in for those of the version that was asked for."""


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that versions are compared by, (4, 3, 6) for ``4.3.6-rc.1``; () for other text."""
    found = _VERSION.fullmatch(version)
    return tuple(map(int, (found[1] or found[2]).split("."))) if found else ()


def known_release(version: str) -> str | None:
    """Return the release to which a version belongs: ``4.3`` for ``4.3``, ``4.3.6`` or ``4.3.0-rc.1``."""
    minor = numbers(version)[:2]
    return next((name for name in RELEASES if numbers(name) == minor), None)


def neighbours(version: str) -> tuple[str | None, str | None]:
    """Return the nearest releases below and above a version; both ``None`` for text that is not a version."""
    asked = numbers(version)
    if not asked:
        return None, None
    below = [name for name in RELEASES if numbers(name) <= asked]
    above = [name for name in RELEASES if numbers(name) > asked]
    return (below[-1] if below else None), (above[0] if above else None)
