"""Tags of users and virtual hosts, as requests and definitions give them.

Source: rabbit_auth_backend_internal.erl tag_list_from; rabbit_vhost.erl parse_tags.
"""

from __future__ import annotations

from typing import Any

from dlx import operator_errors


def tag_names(given: Any) -> tuple[str, ...]:
    """Return tags given as a list, or as a string that commas divide. Raises ``UnforeseenError`` for other values."""
    tags = given.split(",") if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str | int) for tag in tags):
        raise operator_errors.wrong_type()
    return tuple(tag for tag in (str(tag).strip() for tag in tags) if tag)
