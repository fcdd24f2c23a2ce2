"""A client and a broker in one thread, without sockets and without waiting: what happens is the same in every run.

The client is pika's connection, all of it but its socket. Its loop has a clock of its own, which jumps
to the next thing that is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from pika.connection import Connection

from tests.server.peer import Peer


class Loop:
    """What a client's connection needs of an event loop."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[[], Any]]] = []
        self._numbers = count()
        self._runs = False

    def call_later(self, delay_s: float, act: Callable[[], Any]) -> int:
        number = next(self._numbers)
        heapq.heappush(self._due, (self.now_s + delay_s, number, act))
        return number

    def remove_timeout(self, number: object) -> None:
        self._due = [each for each in self._due if each[1] != number]
        heapq.heapify(self._due)

    def start(self) -> None:
        self._runs = True
        while self._runs:
            assert self._due, "nothing is due any more, and the client still waits"
            self.now_s, _, act = heapq.heappop(self._due)
            act()

    def stop(self) -> None:
        self._runs = False

    def close(self) -> None:
        pass


class Wire(Connection):
    """The client's connection to a peer of it in the broker.

    Args:
        peer: the broker's end.
        writes: gets the bytes that the client writes, and returns those that come through.
        lag_s: how long answers take.
        arguments: of pika's connection.
    """

    def __init__(
        self, peer: Peer, writes: Callable[[bytes], bytes], lag_s: float, *arguments: Any, **named: Any
    ) -> None:
        self.ioloop = Loop()
        self._peer, self._writes, self._lag_s = peer, writes, lag_s
        super().__init__(*arguments, **named)

    def lost(self) -> None:
        """Have the broker find that the client is gone."""
        node = self._peer.node
        node.connections.pop(self._peer.id, None)
        command = self._peer.connection.leave()
        if command is not None:
            node.execute(command)
        node.settle()

    def _adapter_emit_data(self, data: bytes) -> None:
        try:
            through = self._writes(data)
        except BaseException as death:
            self._reach(getattr(death, "through", b""))
            raise
        self._reach(through)

    def _reach(self, data: bytes) -> None:
        node = self._peer.node
        for command in self._peer.connection.receive(data):
            node.execute(command)
        node.has_output(self._peer)  # type: ignore[arg-type]
        node.settle()
        self.ioloop.call_later(self._lag_s, self._hear)

    def _hear(self) -> None:
        self._peer.flush()
        data, self._peer._out = self._peer._out, b""
        if data:
            self._on_data_available(data)
        elif self._peer.connection.ending:
            self._adapter_disconnect_stream()

    def _adapter_call_later(self, delay: float, callback: Callable[[], Any]) -> int:
        return self.ioloop.call_later(delay, callback)

    def _adapter_remove_timeout(self, timeout_id: object) -> None:
        self.ioloop.remove_timeout(timeout_id)

    def _adapter_add_callback_threadsafe(self, callback: Callable[..., Any]) -> None:
        self.ioloop.call_later(0, callback)

    def _adapter_connect_stream(self) -> None:
        self.ioloop.call_later(0, self._on_stream_connected)

    def _adapter_disconnect_stream(self) -> None:
        self.lost()
        self.ioloop.call_later(0, lambda: self._on_stream_terminated(None))
