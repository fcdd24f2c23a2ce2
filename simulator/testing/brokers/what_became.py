"""Tells what became of the messages of a failed test: losses first, then the queues, then the lives of some."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dlx.consumer import death_history
from dlx.delivery_headers import stored_headers
from simulator.broker import Broker, QueueState
from simulator.events import DEATHS, silent_losses
from simulator.message_history import MessageHistory, RecordingBroker
from simulator.testing.brokers.history_lines import life, named, sentence, some
from simulator.testing.brokers.inspection import PATHS_SHOWN, paths_told
from simulator.time_spans import span

LIVES_SHOWN = 5
QUEUES_SHOWN = 20


def what_became(broker: RecordingBroker, vhost: str | None, told: str = "") -> list[str]:
    """Return the lines; the life of a message that ``told`` has already is left out."""
    histories = list(broker.histories.find(vhost=vhost, newest_first=True))
    return [*_lost(histories), *waiting(broker, vhost), *_lives(broker, histories, told)]


def waiting(broker: Broker, vhost: str | None) -> list[str]:
    """Tell what waits in each queue, and when something happens there by itself."""
    queues = sorted(queues_of(broker, vhost), key=lambda queue: (queue.vhost.name, queue.name))
    more = len(queues) - QUEUES_SHOWN
    lines = [f"  {queue.name}: {_contents(queue, broker.now_us)}" for queue in queues[:QUEUES_SHOWN]]
    return [*(["In the queues:"] if queues else []), *lines, *([f"  and {more:,} more queues"] if more > 0 else [])]


def queues_of(broker: Broker, vhost: str | None) -> Iterator[QueueState]:
    """Yield the queues of a virtual host, or of all."""
    for host in broker.vhosts.values():
        if vhost in (None, host.name):
            yield from host.queues.values()


def _lost(histories: list[MessageHistory]) -> list[str]:
    lost = [(history, event) for history in reversed(histories) for event in silent_losses(history.events)]
    if not lost:
        return ["Lost: nothing"] if histories else ["No message was published."]
    return ["Lost:", *some([f"  {named(history)}: {sentence(event)}" for history, event in lost], "  and {} more")]


def _contents(queue: QueueState, now_us: int) -> str:
    """Tell what is in one queue."""
    histories = (death_history(stored_headers(copy.message)) for copy in islice(queue.store.waiting(), PATHS_SHOWN))
    parts = [paths_told(histories, queue.store.total)]
    parts += [f"{queue.unacked:,} not acknowledged"] * bool(queue.unacked)
    held = len(queue.in_hand) + len(queue.discards)
    parts += [f"{held:,} dead and held"] * bool(held)
    if queue.due_us is not None and queue.store.total:
        parts.append(f"something is due in {span(max(0, queue.due_us - now_us))}")
    return "; ".join(parts)


def _lives(broker: RecordingBroker, histories: list[MessageHistory], told: str) -> list[str]:
    """Tell the lives of those that were lost, then of those that died, then of the others; each the last first."""
    untold = [history for history in histories if f"{named(history)}:" not in told]
    untold.sort(key=_interest)
    lines = [line for history in untold[:LIVES_SHOWN] for line in life(broker, history)]
    more = len(untold) - LIVES_SHOWN
    return lines + [f"and {more:,} more messages"] * (more > 0)


def _interest(history: MessageHistory) -> int:
    if silent_losses(history.events):
        return 0
    return 1 if any(event.event in DEATHS for event in history.events) else 2
