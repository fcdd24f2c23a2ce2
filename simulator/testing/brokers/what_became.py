"""Describes what happened to the messages of a failed test: losses first, then the queues, then the lives of some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dlx.consumer import death_history
from dlx.death_headers import stored_headers
from simulator.broker import Broker, QueueState
from simulator.events import DEATHS, silent_losses
from simulator.message_history import MessageHistory, RecordingBroker, sentence
from simulator.testing.brokers.inspection import PATHS_SHOWN, paths_told
from simulator.time_spans import span

LIVES_SHOWN = 5
QUEUES_SHOWN = 20


def what_became(broker: RecordingBroker, vhost: str | None, told: str = "") -> list[str]:
    """Return the lines; lives of messages that ``told`` has already are left out."""
    histories = list(broker.histories.find(vhost=vhost, newest_first=True))
    return [*_lost(histories), *waiting(broker, vhost), *_lives(broker, histories, told)]


def waiting(broker: Broker, vhost: str | None) -> list[str]:
    """Say what waits in each queue, and when something happens there by itself."""
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
    causes: dict[tuple[str, int], list[MessageHistory]] = {}
    for history in reversed(histories):
        for cause in Counter(how_lost(history)).items():
            causes.setdefault(cause, []).append(history)
    if not causes:
        return ["Lost: nothing"] if histories else ["No message was published."]
    lines = [
        f"  {called(group)}: {told}{f' ({times:,} times)' * (times > 1)}" for (told, times), group in causes.items()
    ]
    return ["Lost:", *some(lines, "  and {} more")]


def _contents(queue: QueueState, now_us: int) -> str:
    """Say what is in one queue."""
    histories = (death_history(stored_headers(copy.message)) for copy in islice(queue.store.waiting(), PATHS_SHOWN))
    parts = [paths_told(histories, queue.store.total)]
    parts += [f"{queue.unacked:,} not acknowledged"] * bool(queue.unacked)
    held = len(queue.in_hand) + len(queue.discards)
    parts += [f"{held:,} dead and held"] * bool(held)
    if queue.due_us is not None and queue.store.total:
        parts.append(f"something is due in {span(max(0, queue.due_us - now_us))}")
    return "; ".join(parts)


def _lives(broker: RecordingBroker, histories: list[MessageHistory], told: str) -> list[str]:
    """Show the lives of lost messages, then of those that died, then of the others; each newest first."""
    untold = [group for group in alike(histories) if not any(_is_told(history, told) for history in group)]
    untold.sort(key=lambda group: _interest(group[0]))
    lines = [line for group in untold[:LIVES_SHOWN] for line in life(broker, group)]
    return [*lines, *more_messages(untold[LIVES_SHOWN:])]


def _is_told(history: MessageHistory, told: str) -> bool:
    """Return whether the text has the life of this message, below what ``called`` returns."""
    name = named(history)
    return f"{name}:" in told or f"{name} and " in told


def _interest(history: MessageHistory) -> int:
    if silent_losses(history.events):
        return 0
    return 1 if any(event.event in DEATHS for event in history.events) else 2


# Writes the histories of messages in lines, as failures of tests show them.


_LINES_SHOWN = 10
_OTHERS_NAMED = 5
_SENTENCES_SHOWN = 40


def title(shown: int, of: int) -> str:
    """Return the line above the histories of some messages."""
    if shown == of:
        return "What became of the message:" if of == 1 else f"What became of the {of} messages:"
    return f"What became of {shown} of the {of} messages:"


def named(history: MessageHistory) -> str:
    """Return how a message is called: by its number, and its ``message_id`` if it has one."""
    name = f"message {history.uid}"
    return name if history.message_id is None else f"{name} (id {history.message_id!r})"


def called(group: Sequence[MessageHistory]) -> str:
    """Return how messages are called together: the first of them, how many more they are, and some of these."""
    if len(group) == 1:
        return named(group[0])
    others = [named(each) for each in group[1 : 1 + _OTHERS_NAMED]] + ["…"] * (len(group) > 1 + _OTHERS_NAMED)
    return f"{named(group[0])} and {len(group) - 1:,} more ({', '.join(others)})"


def how_lost(history: MessageHistory) -> list[str]:
    """Return a sentence for each copy that was lost without its sender hearing of it."""
    return [sentence(event, history.has_copies) for event in silent_losses(history.events)]


def alike(histories: Iterable[MessageHistory]) -> list[list[MessageHistory]]:
    """Return the histories in groups of those to which the same happened, as long after their publish."""
    groups: dict[object, list[MessageHistory]] = {}
    for each in histories:
        events = (
            (
                *(event.event, event.queue, event.exchange, event.routing_keys, event.reason, event.detail),
                event.time_us - each.events[0].time_us,
            )
            for event in each.events
        )
        groups.setdefault((each.vhost, each.omitted, *events), []).append(each)
    return list(groups.values())


def more_messages(groups: Iterable[Sequence[MessageHistory]]) -> list[str]:
    """Say how many messages are in groups that are not shown."""
    more = sum(map(len, groups))
    return [f"and {more:,} more message{'s' * (more > 1)}"] * (more > 0)


def life(broker: RecordingBroker, group: Sequence[MessageHistory]) -> list[str]:
    """Return what messages that are alike are called, and the history of the first."""
    return [f"{called(group)}:", *history_lines(broker, group[0])]


def history_lines(broker: RecordingBroker, history: MessageHistory) -> list[str]:
    """Return a history in sentences; of a long one, how it began and ended."""
    lines = broker.explain(history.uid)
    if len(lines) > _SENTENCES_SHOWN:
        half = _SENTENCES_SHOWN // 2
        lines = [*lines[:half], f"... ({len(lines) - 2 * half:,} more sentences)", *lines[-half:]]
    return [f"  {line}" for line in lines]


def some(lines: list[str], more: str) -> list[str]:
    """Return some lines, and how many more there are."""
    left = len(lines) - _LINES_SHOWN
    return lines if left <= 0 else [*lines[:_LINES_SHOWN], more.format(f"{left:,}")]


def after(us: int) -> str:
    """Say how much later something happened."""
    return "at once" if not us else f"{us / 1_000_000:g} s later"
