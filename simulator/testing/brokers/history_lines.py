"""Tells the histories of messages in lines, as failures of tests show them."""

from __future__ import annotations

from simulator.events import Happened
from simulator.message_history import MessageHistory, RecordingBroker

_LINES_SHOWN = 10
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


def life(broker: RecordingBroker, history: MessageHistory | None) -> list[str]:
    """Tell a message's name and history."""
    return [] if history is None else [f"{named(history)}:", *history_lines(broker, history)]


def history_lines(broker: RecordingBroker, history: MessageHistory) -> list[str]:
    """Tell a history in sentences; of a long one, how it began and ended."""
    lines = broker.explain(history.uid)
    if len(lines) > _SENTENCES_SHOWN:
        half = _SENTENCES_SHOWN // 2
        lines = [*lines[:half], f"... ({len(lines) - 2 * half:,} more sentences)", *lines[-half:]]
    return [f"  {line}" for line in lines]


def some(lines: list[str], more: str) -> list[str]:
    """Return some lines, and how many more there are."""
    left = len(lines) - _LINES_SHOWN
    return lines if left <= 0 else [*lines[:_LINES_SHOWN], more.format(f"{left:,}")]


def sentence(event: Happened) -> str:
    """Tell one event in a sentence."""
    return MessageHistory(uid=event.uid, vhost=event.vhost, events=[event]).last()


def after(us: int) -> str:
    """Tell how much later something happened."""
    return "at once" if not us else f"{us / 1_000_000:g} s later"
