"""The rows about permissions, and about the words of a refusal."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import since


class PermissionRows:
    """Who may do what, and how a refusal says so."""

    passive_declare_needs: Literal["nothing", "any permission"] = since(
        "4.2", "any permission", before="nothing",
        meaning="The permission that a passive declaration needs.",
        evidence="live; rabbit_channel.erl handle_method queue.declare, exchange.declare",
    )
    access_refusal_names_permission: bool = since(
        "3.12", True, before=False,
        meaning="A refused access names the permission that was missing.",
        evidence="live; rabbit_access_control.erl check_resource_access",
    )
    topic_permission_expansion: Literal["verbatim", "escaped"] = since(
        "4.2", "escaped", before="verbatim",
        meaning=(
            "How {username} and {vhost} are put into a topic permission: as part of the regular expression, or"
            " literally."
        ),
        evidence="live; rabbit_auth_backend_internal.erl expand_topic_permission",
    )
    topic_permission_keys: Literal["first", "all"] = since(
        "4.0", "all", before="first",
        meaning=(
            "The routing keys of a publish that a topic permission must allow: the first, or those of CC and BCC too."
        ),
        evidence="live; rabbit_channel.erl check_write_permitted_on_topics",
    )
    topic_permissions_need_exchange: bool = since(
        "4.3", True, before=False,
        meaning="Topic permissions are refused for an exchange that does not exist.",
        evidence="live",
    )
    user_tags: Literal["string", "list"] = since(
        "3.9", "list", before="string",
        meaning="User tags in answers are one string with commas, or a list. Until 3.8 a request cannot give a list.",
        evidence="live",
    )
