"""The limits of a queue in a few words."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.settings import Settings
from simulator.time_spans import span


def limits_shown(settings: Settings) -> Iterator[str]:
    """Yield each limit that takes messages out of a queue or keeps them out."""
    if settings.message_ttl_ms is not None:
        yield f"TTL {span(settings.message_ttl_ms * 1_000)}"
    if settings.max_length is not None:
        yield f"at most {settings.max_length:,}"
    if settings.max_length_bytes is not None:
        yield f"at most {settings.max_length_bytes:,} bytes"
    if settings.has_length_limit:
        yield settings.overflow
    if settings.delivery_limit is not None:
        yield f"{settings.delivery_limit:,} deliveries"
