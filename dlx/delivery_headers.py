"""Put together the headers of a delivery: those the message carries, and those the broker adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.death_annotations import annotated_headers
from dlx.death_headers import sorted_table
from dlx.message import Message
from dlx.releases import Release


def stored_headers(message: Message) -> Mapping[str, Any]:
    """Return the headers with the death history in them; the broker's values cover the client's."""
    return {**(message.headers or {}), **annotated_headers(message)}


def delivered_headers(
    message: Message, release: Release, added: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the headers a consumer sees, in the order it sees them; ``None`` for a message without headers.

    ``added`` are the headers that belong to the delivery alone, such as
    ``x-delivery-count``; adding one sorts the table in every release. Source: mc_amqpl.erl protocol_state.
    """
    headers = {**stored_headers(message), **(added or {})}
    if not headers and not message.headers:
        return None if message.headers is None else {}
    return sorted_table(headers) if added or release.header_order == "sorted when delivered" else headers
