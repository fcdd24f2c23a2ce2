"""The rows about limits of virtual hosts and users."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class LimitRows:
    """Limits of virtual hosts and users."""

    user_limits: bool = since(
        "3.9", True, before=False,
        meaning="Users have limits.",
        evidence="live",
    )
    vhost_deletion_protection: bool = since(
        "4.1", True, before=False,
        meaning="Virtual hosts may be protected from deletion, and show whether they are: protected_from_deletion.",
        evidence="four live; vhost.erl info_keys, rabbit_vhost.erl delete (4.1.8, 4.2.9)",
    )
    queue_limit_checked: Literal["by the channel", "by every declaration"] = since(
        "3.13", "by every declaration", before="by the channel",
        meaning=(
            "Where the server checks the queue limit of a virtual host: in queue.declare, before the dead-letter"
            " exchange and the arguments; or wherever a queue is created, after them, so that an import leaves out what"
            " exceeds a limit that it has just set."
        ),
        evidence="rabbit_channel.erl check_vhost_queue_limit (3.12.14); rabbit_queue_type.erl declare (3.13.7)",
    )
    channel_limit_refusal: Literal["user", "node", "bare"] = changed(
        {"3.12.13": "node", "4.2.6": "bare"}, before="user",
        meaning=(
            "The refusal of a channel beyond its user's limit names the user, or the node in place of the user; or it"
            " names the user, and the limit without parentheses."
        ),
        evidence="rabbit_reader.erl create_channel, is_over_limits (3.12.13, 4.2.6)",
    )
