"""How the broker says no: with RabbitMQ's reply codes and texts."""

from __future__ import annotations

from typing import Any

from dlx.erlang_printing import printed


class OperatorError(Exception):
    """An operator's command that RabbitMQ refuses.

    ``text`` is its reason, ``status`` the HTTP status; ``term`` the reason as an Erlang
    term (``dlx.erlang_printing``) where it is more than a text.
    """

    def __init__(self, text: str, status: int = 400, term: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.term = term


def refused(term: Any) -> OperatorError:
    """Return a refusal for which RabbitMQ has no words, only a term."""
    return OperatorError(str(printed(term)), term=term)
