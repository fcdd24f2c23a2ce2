"""A client of the simulator's IronMQ in this process, on a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette

from simulator.clock import VirtualClock
from simulator.events import Happened
from simulator.systems.ironmq.http import app
from tests.systems import asgi

AUTHORIZED = {"authorization": "OAuth token"}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: Any


async def ask(
    application: Starlette, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    """Send one request to an ASGI application. Bytes go as they are, anything else as JSON."""
    encoded = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    answer = await asgi.ask(application, method, path, AUTHORIZED if headers is None else headers, encoded)
    return Answer(answer.status, json.loads(answer.content))


class Client:
    """The calls of the API on one project. Those with a plain name must succeed; ``call`` shows refusals."""

    def __init__(self, *, strict: bool = False) -> None:
        self.clock = VirtualClock(start_us=0)
        self.events: list[Happened] = []
        self.application = app(clock=self.clock, tell=self.events.append, strict=strict)

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Any call below the project."""
        return asyncio.run(ask(self.application, method, f"/3/projects/p{path}", body))

    def _done(self, method: str, path: str, body: object = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.status in (200, 201), answer
        return answer.body

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        asyncio.run(ask(self.application, "POST", "/clock/advance", {"seconds": seconds}))

    def out_of_reach(self, queue: str) -> None:
        """Take a queue's replicas offline."""
        asyncio.run(ask(self.application, "PUT", f"/out_of_reach/p/{queue}"))

    def in_reach(self, queue: str) -> None:
        """Bring them back."""
        asyncio.run(ask(self.application, "DELETE", f"/out_of_reach/p/{queue}"))

    def create(self, queue: str, **settings: Any) -> Any:
        """Create or update a queue."""
        return self._done("PUT", f"/queues/{queue}", {"queue": settings})["queue"]

    def update(self, queue: str, **settings: Any) -> Any:
        """Update a queue."""
        return self._done("PATCH", f"/queues/{queue}", {"queue": settings})["queue"]

    def info(self, queue: str) -> Any:
        """Describe a queue."""
        return self._done("GET", f"/queues/{queue}")["queue"]

    def post(self, queue: str, *bodies: str, **fields: Any) -> list[str]:
        """Post messages."""
        messages = [{"body": body, **fields} for body in bodies]
        return self._done("POST", f"/queues/{queue}/messages", {"messages": messages})["ids"]

    def reserve(self, queue: str, **fields: Any) -> list[Any]:
        """Reserve messages."""
        return self._done("POST", f"/queues/{queue}/reservations", fields)["messages"]

    def peek(self, queue: str, n: int = 100) -> list[Any]:
        """Look at the next messages."""
        return self._done("GET", f"/queues/{queue}/messages?n={n}")["messages"]

    def get(self, queue: str, message_id: str) -> Any:
        """Look at one message."""
        return self._done("GET", f"/queues/{queue}/messages/{message_id}")["message"]

    def touch(self, queue: str, message: Any, **fields: Any) -> Any:
        """Extend a reservation; the message with its new one."""
        request = {"reservation_id": message["reservation_id"], **fields}
        answer = self._done("POST", f"/queues/{queue}/messages/{message['id']}/touch", request)
        return {**message, "reservation_id": answer["reservation_id"]}

    def release(self, queue: str, message: Any, **fields: Any) -> None:
        """Give up a reservation."""
        request = {"reservation_id": message["reservation_id"], **fields}
        self._done("POST", f"/queues/{queue}/messages/{message['id']}/release", request)

    def delete(self, queue: str, message: Any) -> None:
        """Delete a reserved message."""
        request = {"reservation_id": message["reservation_id"]}
        self._done("DELETE", f"/queues/{queue}/messages/{message['id']}", request)

    def fail(self, queue: str, times: int) -> None:
        """Reserve the next message and let the reservation time out, so often."""
        for _ in range(times):
            (_,) = self.reserve(queue, timeout=60)
            self.advance(60)
