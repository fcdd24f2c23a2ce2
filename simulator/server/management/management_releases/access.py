"""Who may use the management API, how a login is refused, and what is said of users."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import changed, since


class AccessRows:
    """Who may use the management API, how a login is refused, and what is said of users."""

    login_refusal: tuple[str, str] = changed(
        {
            "3.9": ("not_authorized", "Login failed"),
            "3.11": ("not_authorized", "Not_Authorized"),
        },
        before=("not_authorised", "Login failed"),
        meaning="The error and reason when user and password do not match.",
        evidence="live; rabbit_web_dispatch_access_control.erl not_authenticated",
    )
    login_refusal_challenges: bool = changed(
        {"3.9": True, "3.13": False}, before=False,
        meaning="That refusal has the header WWW-Authenticate.",
        evidence=(
            "four live; rabbit_mgmt_util.erl not_authenticated (3.9.29), rabbit_web_dispatch_access_control.erl"
            " not_authenticated"
        ),
    )
    hidden_vhost: Literal["refused", "not found"] = since(
        "4.2", "not found", before="refused",
        meaning="How a virtual host that the user may not enter is answered: 401, or 404 as if it did not exist.",
        evidence="live; rabbit_web_dispatch_access_control.erl user_matches_vhost",
    )
    users_say_whether_internal: bool = since(
        "3.13", True, before=False,
        meaning="whoami has is_internal_user.",
        evidence="live; rabbit_mgmt_format.erl user",
    )
    unknown_user_in_bulk_delete: Literal["refused", "ignored"] = since(
        "3.12", "ignored", before="refused",
        meaning="How bulk-delete of users treats a name that does not exist.",
        evidence="live; rabbit_auth_backend_internal.erl delete_user",
    )
    auth_settings: dict[str, Any] | None = changed(
        {
            "3.11": {"oauth_enabled": False},
            "4.2": None,
        },
        before={"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},
        meaning="The answer to GET /api/auth; from 4.2 on the resource does not exist.",
        evidence="live; rabbit_mgmt_wm_auth.erl authSettings",
    )
    hash_password_endpoint: bool = since(
        "3.11", True, before=False,
        meaning="There is GET /api/auth/hash_password.",
        evidence="live, asked directly; rabbit_mgmt_dispatcher.erl",
    )
