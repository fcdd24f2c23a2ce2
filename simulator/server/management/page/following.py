"""Tells the script of the page, as server-sent events, when the page may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from simulator.clock import VirtualClock
from simulator.server.management.request import Request
from simulator.server.node import Node

BETWEEN_S, QUIET_S = 0.5, 5.0
"""At least and at most so many seconds of wall time lie between two messages to the script."""
FOLLOWERS_MAX = 100
"""Pages that are told of changes; the script of any other asks every few seconds."""
_HEADERS = {"Cache-Control": "no-store"}


def follow(request: Request) -> Response:
    """Return a stream of an event whenever something may have changed, until the node stops; 503: too many have one."""
    changes = request.node.changes
    if changes.followers >= FOLLOWERS_MAX:
        return Response("too many pages are open", 503, _HEADERS, "text/plain")
    return StreamingResponse(_events(request.node), headers=_HEADERS, media_type="text/event-stream")


async def _events(node: Node) -> AsyncIterator[str]:
    changes = node.changes
    changes.followers += 1
    try:
        yield "retry: 1000\n\n"
        seen = -1
        while not changes.ended:
            changed = await changes.after(seen, QUIET_S)
            seen = changes.number
            if changed or _runs(node):
                yield f"event: change\ndata: {seen}\n\n"
                await asyncio.sleep(BETWEEN_S)
            else:
                yield ": nothing new\n\n"  # a client that is gone is noticed
    finally:
        changes.followers -= 1


def _runs(node: Node) -> bool:
    """Tell whether time passes by itself: then the page's clock and ages change, too."""
    return not isinstance(node.clock, VirtualClock) or node.clock.rate > 0
