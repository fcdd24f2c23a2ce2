"""Lets the time of the simulator pass while clients consume: from deadline to deadline, with their answers between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable

from simulator.server.in_process import Server
from simulator.server.node import Node

__tracebackhide__ = True  # pytest shows the line of the test instead

ANSWER_S = 0.1
"""How long a consumer may take to answer a delivery; one that takes longer is not waited for."""
ANSWERS_MAX_S = 2
"""How long consumers may keep the time from passing, by requeueing again and again."""
_POLL_S = 0.0005


def hear_clients(server: Server) -> None:
    """Wait until the server has done what clients have asked for: acknowledgements and publishes have no answer."""

    def heard(node: Node) -> tuple[int, bool]:
        clients = list(node.connections.values())
        # A client that sends much is served in turns.
        busy = node.busy or any(client.busy for client in clients)
        return sum(client.received_bytes for client in clients), busy

    before, now = (-1, True), server.run(heard)
    while now != before or now[1]:  # the event loop looks at all its sockets between two calls
        before, now = now, server.run(heard)


def pass_time(server: Server, us: int, stop: Callable[[Node], bool] = lambda _: False) -> int:
    """Let microseconds pass and return the new time. Deliveries on the way are answered before the time moves on.

    It passes no further than to the first moment when ``stop`` is true and clients have nothing to answer.
    Raises ``ValueError`` beyond the year 9999, and ``TypeError`` on wall time.
    """
    until_us = server.run(lambda node: node.later_us(us))
    answers = _Answers(server)
    answers.wait()
    at_us, since_s = -1, 0.0
    while not server.run(stop) and server.run(lambda node: node.advance_to_output(until_us, stop)):
        now_us = server.clock.now_us()
        if now_us > at_us:
            at_us, since_s = now_us, time.monotonic()
        elif time.monotonic() > since_s + ANSWERS_MAX_S:  # consumers and a time to live of 0 can go on for ever
            return server.clock.advance(milliseconds=(until_us - now_us) / 1000)
        answers.wait()
    return server.clock.now_us()


class _Answers:
    """Waits for consumers to settle what was delivered to them.

    One that does not, such as a consumer in the thread that waits here, is waited for once,
    and again when something was heard from it.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._given_up: dict[Hashable, tuple[int, int]] = {}

    def wait(self) -> None:
        """Wait until nobody owes an answer, or those who do have said nothing for a while."""
        since_s = last_s = time.monotonic()
        before: dict[Hashable, tuple[int, int]] = {}
        while True:
            hear_clients(self._server)
            owing, now_s = self._server.run(self._owing), time.monotonic()
            if owing != before:
                before, last_s = owing, now_s
            if not owing:
                return
            if now_s > last_s + ANSWER_S or now_s > since_s + ANSWERS_MAX_S:
                self._given_up.update(owing)
                return
            time.sleep(_POLL_S)

    def _owing(self, node: Node) -> dict[Hashable, tuple[int, int]]:
        """Return the connections with deliveries to settle: how many bytes each has sent, and how many deliveries."""
        deliveries = Counter(
            channel.connection.id
            for channel in node.broker.channels.values()
            for unacked in channel.unacked.values()
            if unacked.consumer is not None and unacked.consumer.tag in channel.consumers and not unacked.timed_out
        )
        owing = {}
        for connection, count in deliveries.items():
            heard = node.connections[connection].received_bytes if connection in node.connections else -1
            heard_before, held = self._given_up.get(connection, (-1, 0))
            if heard != heard_before and count > held:
                owing[connection] = heard, count
        return owing
