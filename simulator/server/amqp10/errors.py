"""The errors of AMQP 1.0 that a server answers with: conditions and descriptions.

Source: rabbit_amqp_util.erl, rabbit_amqp_session.erl link_error.
"""

from __future__ import annotations

from dlx.amqp_errors import Refusal


class Fault(Exception):
    """An error to answer: its condition, such as ``amqp:not-found``, and its description."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


class ConnectionFault(Fault):
    """An error that closes the connection."""


class SessionFault(Fault):
    """An error that ends the session."""


class LinkFault(Fault):
    """An error that detaches the link, or refuses it."""


def unparsed(why: str) -> LinkFault:
    """A message that is none."""
    return LinkFault("amqp:decode-error", f"failed to parse message: {why}")


def bad_x_cc(value: str) -> LinkFault:
    """An annotation ``x-cc`` that is no list of texts; ``value`` as Erlang prints it."""
    return LinkFault("amqp:invalid-field", f"bad value for 'x-cc' message-annotation: {value}")


_CONDITIONS = {
    403: "amqp:unauthorized-access",
    404: "amqp:not-found",
    405: "amqp:resource-locked",
    406: "amqp:precondition-failed",
    530: "amqp:not-allowed",
    320: "amqp:connection:forced",
}


def condition_of(refusal: Refusal) -> tuple[str, str]:
    """Return the condition and the description that stand for a refusal of AMQP 0-9-1."""
    return _CONDITIONS.get(refusal.code, "amqp:internal-error"), refusal.explanation
