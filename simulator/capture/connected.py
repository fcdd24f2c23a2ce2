"""A connection to a running broker, whose end has one error whatever ended it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika import BlockingConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException, AMQPConnectorStackTimeout
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionBlockedTimeout,
    ConnectionClosedByBroker,
    ConnectionOpenAborted,
    IncompatibleProtocolError,
)

from simulator.capture.capture_errors import CaptureUnavailable


@contextmanager
def connected(url: str, vhost: str | None = None) -> Iterator[tuple[BlockingConnection, str]]:
    """Connect to a virtual host (default: the one in the URL), and yield the connection and the server's name.

    Raises:
        CaptureUnavailable: no connection, it was lost, or the broker refused something inside the block.
    """
    parameters = pika.URLParameters(url)
    if vhost is not None:
        parameters.virtual_host = vhost
    name = f"{parameters.host}:{parameters.port}/{parameters.virtual_host.removeprefix('/')}"
    try:
        with BlockingConnection(parameters) as connection:
            yield connection, name
    except (AMQPError, AMQPConnectorException, OSError) as error:
        raise CaptureUnavailable(name, why_lost(error)) from error


def why_lost(error: BaseException) -> str:
    """Say why a connection could not be made, or was lost, or what the broker refused."""
    cause = _cause(error)
    if isinstance(cause, ConnectionClosedByBroker) and cause.reply_code == _CONNECTION_FORCED:
        return f"it was lost, the broker closed it: {cause.reply_text} ({cause.reply_code})"
    if isinstance(cause, ChannelClosedByBroker | ConnectionClosedByBroker):
        return f"refused: {cause.reply_text} ({cause.reply_code})"
    if isinstance(cause, ConnectionBlockedTimeout):
        return "the broker takes no publishes: it is short of memory or disk, and has not said that this is over"
    if isinstance(cause, ConnectionRefusedError):
        return f"nothing listens there; {_USUAL}"
    if isinstance(cause, socket.gaierror):
        return f"the host is not found: {cause.strerror}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS: {cause.reason or cause}; the port without it is mostly 5672, with amqp:// in the URL"
    if isinstance(cause, AMQPConnectorStackTimeout | ConnectionOpenAborted | IncompatibleProtocolError):
        return f"what listens there does not answer as an AMQP 0-9-1 server does; {_USUAL}"
    return f"no connection to the broker, or it was lost: {str(cause) or type(cause).__name__}"


_CONNECTION_FORCED = 320  # AMQP 0-9-1: an operator did it
_USUAL = "RabbitMQ's AMQP port is mostly 5672, or 5671 for amqps"


def _cause(error: BaseException) -> BaseException:
    """Return what lies behind an error of pika, which wraps one into the other."""
    wrapped = getattr(error, "exceptions", None) or (getattr(error, "exception", None), *error.args)
    inner = [each for each in wrapped if isinstance(each, BaseException)]
    return _cause(inner[-1]) if inner else error
