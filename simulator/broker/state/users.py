"""Users, and what they may do in each virtual host."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Permissions:
    """Regular expressions of the names a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


@dataclass(slots=True)
class User:
    """A user. ``topic_permissions`` are (write, read) by (virtual host, exchange)."""

    name: str
    password: str
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permissions] = field(default_factory=dict)
    topic_permissions: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
