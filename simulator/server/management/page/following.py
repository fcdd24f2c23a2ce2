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


def follow(request: Request) -> Response:
    """Return a stream that has an event whenever something may have changed, until the node stops."""
    return StreamingResponse(
        _events(request.node), headers={"Cache-Control": "no-store"}, media_type="text/event-stream"
    )


async def _events(node: Node) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    seen = -1
    while not node.changes.ended:
        changed = await node.changes.after(seen, QUIET_S)
        seen = node.changes.number
        if changed or _runs(node):
            yield f"event: change\ndata: {seen}\n\n"
            await asyncio.sleep(BETWEEN_S)
        else:
            yield ": nothing new\n\n"  # a client that is gone is noticed


def _runs(node: Node) -> bool:
    """Tell whether time passes by itself: then the page's clock and ages change, too."""
    return not isinstance(node.clock, VirtualClock) or node.clock.rate > 0
