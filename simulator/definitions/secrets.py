"""What definitions hold that is not for others to read: hashes, passwords, also in URIs, and values of secret keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WHO = re.compile(r"(?<=://)[^/@\s]+@")
_KEY = r"passw(?:or)?d|passphrase|secret|token|credential|private.?key|api.?key"
_SECRET_KEY = re.compile(_KEY, re.IGNORECASE)
_IN_QUERY = re.compile(rf"(?<=[?&])([^=&#\s]*(?:{_KEY})[^=&#\s]*=)[^&#\s]*", re.IGNORECASE)


def redacted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export without password hashes, without user and password in URIs, and without values of secret keys.

    Such a key, also one in the query of a URI, has a word such as ``password``, ``secret`` or ``token`` in it.
    Servers import the empty hash, with which nobody can log in. Source: live servers of 3.8, 3.10, 4.0 and 4.3.
    """
    kept: dict[str, Any] = {section: _without_secrets(items) for section, items in document.items()}
    if "users" in kept:
        kept["users"] = [_without_hash(user) for user in kept["users"]]
    return kept


def note_on_secrets(document: Mapping[str, Any]) -> str | None:
    """Return what to say of an export that is about to be shared; ``None`` where it holds no secret."""
    if redacted(document) == document:
        return None
    where = "holds hashes or passwords, which are not for a repository"
    return f"{where}; `dlx convert --redact FILE --out OTHER` writes its definitions without them"


def _without_hash(user: Any) -> Any:
    if not isinstance(user, Mapping) or not user.keys() & {"password_hash", "password"}:
        return user
    return {**{key: value for key, value in user.items() if key != "password"}, "password_hash": ""}


def _without_secrets(value: Any, is_secret: bool = False) -> Any:
    match value:
        case bool() | None:
            return value
        case Mapping():
            # A parameter's key is its name.
            name = "" if value.get("component") == "operator_policy" else value.get("name")
            named = {"value"} if isinstance(name, str) and _SECRET_KEY.search(name) else set[str]()
            return {
                key: _without_secrets(each, is_secret or key in named or _SECRET_KEY.search(key) is not None)
                for key, each in value.items()
            }
        case list():
            return [_without_secrets(each, is_secret) for each in value]
        case _ if is_secret:
            return ""
        case str():
            return _IN_QUERY.sub(r"\1", _WHO.sub("", value))
    return value
