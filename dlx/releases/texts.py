"""The values of release rows in words, for the documents and the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlx.releases.rows import Row
from dlx.releases.versions import VERSIONS


def value_text(value: Any) -> str:
    """Return one value in words: yes, 20, "recency", none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def members_text(members: Iterable[Any], quote: str = "") -> str:
    """Return the members of a set in order, each between quotes; the empty name can always be seen."""
    return ", ".join(f"{quote}{member}{quote}" if member != "" else f'{quote}""{quote}' for member in sorted(members))


def change_texts(row: Row, one: str, other: str, quote: str = "") -> tuple[str, str]:
    """Return the values in two versions; of a set nothing, and what came and what went.

    Where a change between them is known to the exact version, the second text has it.
    """
    old, new = row.value_in(one), row.value_in(other)
    exact = [date for date in row.dates_between(one, other) if date not in VERSIONS]
    since = f" (from {', '.join(exact)})" if exact else ""
    if not is_set(row):
        return value_text(old), value_text(new) + since
    came, went = new - old, old - new
    parts = [f"also {members_text(came, quote)}"] if came else []
    parts += [f"no longer {members_text(went, quote)}"] if went else []
    return "", "; ".join(parts) + since


def is_set(row: Row) -> bool:
    """Return whether the row's values are sets, which are described by what came and what went."""
    return isinstance(row.before, frozenset)


def subject_text(subject: type) -> str:
    """Return what a subject's rows are about, without the full stop."""
    return (subject.__doc__ or "").strip().rstrip(".")
