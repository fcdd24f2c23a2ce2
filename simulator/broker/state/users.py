"""Users, and what they may do in each virtual host."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlx.passwords import NO_PASSWORD, SHA256


@dataclass(slots=True)
class Permissions:
    """Regular expressions of the names a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


@dataclass(slots=True)
class User:
    """A user. ``topic_permissions`` are (write, read) by (virtual host, exchange).

    ``password_hash`` is salt and hash by ``hashing_algorithm`` (``dlx.passwords``).
    """

    name: str
    password_hash: bytes = NO_PASSWORD
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permissions] = field(default_factory=dict)
    topic_permissions: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
