"""The addresses of the pages, relative to that of the first."""

from __future__ import annotations

from urllib.parse import quote

from simulator.markup import Html, element
from simulator.message_history import MessageHistory

HOME = "./"


def queue_address(vhost: str, queue: str) -> str:
    """Return the address of a queue's page."""
    return f"?vhost={_quoted(vhost)}&queue={_quoted(queue)}"


def queue_link(vhost: str, queue: str) -> Html:
    """Return the queue's name as a link to its page."""
    return element("a", queue or '""', href=queue_address(vhost, queue))


def message_address(uid: int) -> str:
    """Return the address of a message's page."""
    return f"?message={uid}"


def message_link(uid: int, message_id: str | None) -> Html:
    """Return a message's id, or its number if it has none, as a link to its page."""
    return element("a", message_name(uid, message_id), href=message_address(uid))


def message_name(uid: int, message_id: str | None) -> str:
    """Return what a message is called: its ``message_id`` property, or the number that the broker gave it."""
    return message_id or f"no. {uid}"


def history_link(history: MessageHistory) -> Html:
    """Return the link to the message of a history."""
    return message_link(history.uid, history.message_id)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
