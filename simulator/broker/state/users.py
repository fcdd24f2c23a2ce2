"""Users, and what they may do in each virtual host."""

from __future__ import annotations

import msgspec

from dlx.passwords import NO_PASSWORD, SHA256


class Permissions(msgspec.Struct):
    """Regular expressions of the names a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


class User(msgspec.Struct):
    """A user. ``topic_permissions`` are (write, read) by (virtual host, exchange).

    ``password_hash`` is salt and hash by ``hashing_algorithm`` (``dlx.passwords``).
    """

    name: str
    password_hash: bytes = NO_PASSWORD
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permissions] = msgspec.field(default_factory=dict)
    topic_permissions: dict[tuple[str, str], tuple[str, str]] = msgspec.field(default_factory=dict)
    limits: dict[str, int] = msgspec.field(default_factory=dict)
