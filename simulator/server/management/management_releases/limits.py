"""Limits of virtual hosts and users in the management API."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import since

_LIST: list[Any] | dict[str, Any] = []
_MAP: list[Any] | dict[str, Any] = {}


class LimitCallRows:
    """Limits of virtual hosts and users in the management API; ``dlx.releases`` has what they do."""

    limits_of_nobody: Literal["crashes", "not found"] = since(
        "3.12", "not found", before="crashes",
        meaning="How the DELETE of a limit is answered if the virtual host or user does not exist.",
        evidence="four live; rabbit_mgmt_wm_limit.erl, rabbit_mgmt_wm_user_limit.erl delete_resource",
    )
    vhost_limits_cleared: list[Any] | dict[str, Any] = since(
        "3.13", _MAP, before=_LIST,
        meaning="The value in the list of all limits for a virtual host whose limits were all cleared.",
        evidence="four live; rabbit_mgmt_wm_limits.erl limits",
    )
    user_limits_seen_by: Literal["all users", "monitors and the user"] = since(
        "4.2.9", "monitors and the user", before="all users",
        meaning="Who sees the limits of a user; the list for all users is for all, or for administrators.",
        evidence="four live; rabbit_mgmt_wm_user_limits.erl is_authorized",
    )
