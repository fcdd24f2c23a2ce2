"""The properties of a delivery: those of the message, with the headers that a consumer sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.delivery_headers import delivered_headers
from dlx.message import Message
from dlx.releases import Release


def delivered_properties(message: Message, release: Release, added: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the basic properties of a delivery by their names in the protocol, without absent ones.

    ``added`` are headers that belong to this delivery alone (``Delivered.added``).
    """
    properties = dict(message.properties)
    if message.expiration is not None:
        properties["expiration"] = message.expiration
    headers = delivered_headers(message, release, added)
    if headers is not None:
        properties["headers"] = headers
    return properties
