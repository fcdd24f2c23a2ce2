"""The errors of AMQP 1.0 that a server answers with: conditions and descriptions.

Source: rabbit_amqp_util.erl, rabbit_amqp_session.erl link_error.
"""

from __future__ import annotations

from typing import Any

from dlx.amqp_errors import locked_queue, resource, unknown_mechanism
from dlx.erlang_printing import printed
from dlx.releases import Release


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
    """An error that refuses or detaches the link. ``detaches``: it does so in releases where others end the session."""

    def __init__(self, condition: str, description: str, *, detaches: bool = False) -> None:
        super().__init__(condition, description)
        self.detaches = detaches
        self.info: dict[Any, Any] | None = None


def unparsed(why: str) -> LinkFault:
    """A message that is none."""
    return LinkFault("amqp:decode-error", f"failed to parse message: {why}")


def bad_x_cc(value: str) -> LinkFault:
    """An annotation ``x-cc`` that is not a list of texts; ``value`` as Erlang prints it."""
    return LinkFault("amqp:invalid-field", f"bad value for 'x-cc' message-annotation: {value}")


_CONDITIONS = {
    403: "amqp:unauthorized-access",
    404: "amqp:not-found",
    405: "amqp:resource-locked",
    406: "amqp:precondition-failed",
    530: "amqp:not-allowed",
    320: "amqp:connection:forced",
}


def condition_of(code: int) -> str:
    """Return the condition that stands for a reply code of AMQP 0-9-1."""
    return _CONDITIONS.get(code, "amqp:internal-error")


def no_mechanism(name: str) -> ConnectionFault:
    """Return the fault of a SASL mechanism that does not exist."""
    return ConnectionFault("amqp:not-found", unknown_mechanism(name).explanation)


def framing(description: str) -> ConnectionFault:
    """Return the fault of a malformed frame."""
    return ConnectionFault("amqp:connection:framing-error", description)


def reader(reason: str) -> ConnectionFault:
    """Return the fault of a frame over which the server's reader fails, whose text goes on with a stack."""
    return ConnectionFault("amqp:internal-error", f"Reader error: {reason}")


def not_implemented(description: str) -> LinkFault:
    """Return the fault of what RabbitMQ does not do."""
    return LinkFault("amqp:not-implemented", description)


def attach_refused(reason: Any, release: Release) -> LinkFault:
    """Return the fault of an address; ``reason`` is an Erlang term."""
    word = "refused" if release.amqp10_faults_of_links == "detach the link" else "rejected"
    text = f"Attach {word}: "
    return LinkFault("amqp:invalid-field", text + printed(reason, len(text)))


def not_found(kind: str, name: str, vhost: str) -> LinkFault:
    """Return the fault of a queue or an exchange that does not exist."""
    return LinkFault("amqp:not-found", f"no {resource(kind, name, vhost)}")


def internal_exchange(name: str, vhost: str) -> LinkFault:
    """Return the fault of a publish to an internal exchange."""
    of = resource("exchange", name, vhost)
    return LinkFault("amqp:unauthorized-access", f"forbidden to publish to internal {of}")


def locked(queue: str, vhost: str) -> LinkFault:
    """Return the fault of an exclusive queue of another connection."""
    return LinkFault("amqp:resource-locked", locked_queue(queue, vhost).explanation.partition(". ")[0])


def message_too_large(size: int, most: int) -> LinkFault:
    """Return the fault of a message that is larger than the link takes, in bytes."""
    text = f"message size ({size} bytes) > maximum message size ({most} bytes)"
    return LinkFault("amqp:link:message-size-exceeded", text, detaches=True)
