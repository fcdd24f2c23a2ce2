"""What truly happened on a simulator, against which the sentences about a residual are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dlx.deaths import MAXLEN
from simulator.events import DEATH_OUTCOMES, DEATHS, Event, Happened
from simulator.message_history import RecordingBroker
from simulator.server.in_process import Server
from simulator.server.node import Node
from tests.counters.playing import Played

Deaths = Counter[tuple[str, str, str]]
"""By virtual host, queue and reason."""


def deaths(server: Server) -> Deaths:
    """All deaths of messages, as the broker tells them."""

    def counted(node: Node) -> Deaths:
        assert isinstance(node.broker, RecordingBroker)
        histories = [history.events for history in node.broker.histories.find()]
        return Counter(where for events in histories for where in _deaths(events))

    return server.run(counted)


def _deaths(events: list[Happened]) -> Iterator[tuple[str, str, str]]:
    for event, after in zip(events, (*events[1:], None), strict=True):
        if event.event in DEATHS:
            yield event.vhost, str(event.queue), str(event.reason)
        elif event.event == Event.NACKED and _dead_lettered_instead(event, after):
            yield event.vhost, str(event.queue), MAXLEN


def _dead_lettered_instead(refused: Happened, after: Happened | None) -> bool:
    """Return whether a refused copy died: a full queue with reject-publish-dlx dead-letters it. Others drop it."""
    if after is None or after.event not in DEATH_OUTCOMES or after.queue != refused.queue:
        return False
    return after.detail != refused.detail


def untruths(played: Played, happened: Deaths) -> Iterator[str]:
    """Yield the deaths without a trace that the books do not allow for, by queue."""
    books = played.balance
    named = {
        (each.vhost, each.queue, entry.reason): each.most
        for entry in books.entries
        for each in entry.suspects
    }  # fmt: skip
    for place, count in happened.items():
        unseen = count - played.reconstructed.get(place, 0)
        if unseen > named.get(place, 0):
            yield f"{place}: {unseen} died without a trace, and the books allow {named.get(place, 0)}"
    for place, count in played.reconstructed.items():
        if count > happened[place]:
            yield f"{place}: {count} deaths were reconstructed, and {happened[place]} happened"
