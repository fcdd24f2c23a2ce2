"""What definitions hold that is not for others to read: hashes of passwords, and passwords in URIs of plugins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WHO = re.compile(r"(?<=://)[^/@\s]+@")
_WITH_URIS = ("parameters", "global_parameters")


def redacted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export without password hashes, and without user and password in the URIs of parameters.

    Servers import the empty hash, with which nobody can log in. Source: live servers of 3.8, 3.10, 4.0 and 4.3.
    """
    kept = dict(document)
    if "users" in kept:
        kept["users"] = [_without_hash(user) for user in kept["users"]]
    for section in _WITH_URIS:
        if section in kept:
            kept[section] = [_without_who(item) for item in kept[section]]
    return kept


def note_on_secrets(document: Mapping[str, Any]) -> str | None:
    """Return what to say of an export that is about to be shared; ``None`` where it holds no secret."""
    if redacted(document) == document:
        return None
    where = "holds hashes or passwords, which are not for a repository"
    return f"{where}; `dlx convert --redact FILE --out OTHER` writes it without them"


def _without_hash(user: Any) -> Any:
    if not isinstance(user, Mapping) or not user.keys() & {"password_hash", "password"}:
        return user
    return {**{key: value for key, value in user.items() if key != "password"}, "password_hash": ""}


def _without_who(value: Any) -> Any:
    match value:
        case str():
            return _WHO.sub("", value)
        case Mapping():
            return {key: _without_who(each) for key, each in value.items()}
        case list():
            return [_without_who(each) for each in value]
    return value
