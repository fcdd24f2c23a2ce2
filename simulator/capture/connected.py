"""A connection to a running broker, whose end has one error whatever ended it."""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.data
from pika import BlockingConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException, AMQPConnectorStackTimeout
from pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosedByBroker,
    ConnectionBlockedTimeout,
    ConnectionClosedByBroker,
    ConnectionOpenAborted,
    IncompatibleProtocolError,
    ProbableAuthenticationError,
)

from simulator.capture.access import (
    complete,
    logs_in_by_certificate,
    tls_context,
    why_no_tls,
    why_tls_ended,
    without_certificates,
)
from simulator.capture.capture_errors import CaptureUnavailable


def amqp_parameters(url: str) -> pika.URLParameters:
    """Return the parameters of a connection: login and certificates as ``complete`` finds them.

    Raises ``AccessError``.
    """
    url = complete(url)
    parameters = pika.URLParameters(without_certificates(url))
    context = tls_context(url)
    if context is not None and "ssl_options=" not in url:  # which is pika's own way
        parameters.ssl_options = pika.SSLOptions(context, parameters.host)
    if logs_in_by_certificate(url):
        parameters.credentials = pika.credentials.ExternalCredentials()
    return parameters


@contextmanager
def connected(
    url: str, vhost: str | None = None, *, blocked_s: float | None = None
) -> Iterator[tuple[BlockingConnection, str]]:
    """Connect to a virtual host (default: the one in the URL), and yield the connection and the server's name.

    ``blocked_s``: how many seconds to wait for a broker that takes no publishes, and so reads nothing that follows one.

    Raises:
        CaptureUnavailable: no connection, it was lost, or the broker refused something inside the block.
    """
    parameters = amqp_parameters(url)
    if vhost is not None:
        parameters.virtual_host = vhost
    if blocked_s is not None:
        parameters.blocked_connection_timeout = blocked_s
    name = f"{parameters.host}:{parameters.port}/{parameters.virtual_host.removeprefix('/')}"
    try:
        with BlockingConnection(parameters) as connection:
            yield connection, name
    except (AMQPError, AMQPConnectorException, OSError) as error:
        raise CaptureUnavailable(name, why_lost(error, tls=parameters.ssl_options is not None)) from error


def why_lost(error: BaseException, *, tls: bool = False) -> str:
    """Say why a connection could not be made, or was lost, or what the broker refused; ``tls``: it is one with TLS."""
    hint = "; the server may want a client certificate: --tls-cert, DLX_TLS_CERT" if tls else ""
    cause = _cause(error)
    if isinstance(cause, ConnectionClosedByBroker) and cause.reply_code == _CONNECTION_FORCED:
        return f"it was lost, the broker closed it: {cause.reply_text} ({cause.reply_code})"
    if isinstance(cause, ChannelClosedByBroker | ConnectionClosedByBroker):
        return f"refused: {cause.reply_text} ({cause.reply_code})"
    if isinstance(cause, AuthenticationError):
        return f"the broker offers no login by {cause}: name a user in the URL, or enable rabbitmq_auth_mechanism_ssl"
    if isinstance(cause, ProbableAuthenticationError):
        return f"the broker refuses the login: {cause}"
    if isinstance(cause, ConnectionBlockedTimeout):
        return (
            "the broker takes no publishes: it ran short of memory or disk, and has not unblocked the connection since"
        )
    if isinstance(cause, ConnectionRefusedError):
        return f"nothing listens there; {_USUAL}"
    if isinstance(cause, socket.gaierror):
        return f"the host is not found: {cause.strerror}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS: {why_no_tls(cause)}{_PLAIN if cause.reason == 'WRONG_VERSION_NUMBER' else ''}"
    if found := _SSL_REASON.search(str(cause)):  # it came after the handshake, and pika has only its text
        return f"no TLS: {why_tls_ended(found[1])}"
    if isinstance(cause, AMQPConnectorStackTimeout | ConnectionOpenAborted | IncompatibleProtocolError):
        return f"what listens there does not answer as an AMQP 0-9-1 server does; {_USUAL}{hint}"
    return f"no connection to the broker, or it was lost: {str(cause) or type(cause).__name__}{hint}"


_CONNECTION_FORCED = 320  # AMQP 0-9-1: an operator did it
_SSL_REASON = re.compile(r"\[SSL: (\w+)\]")
_PLAIN = "; the port without TLS is usually 5672, with amqp:// in the URL"
_USUAL = "RabbitMQ's AMQP port is usually 5672, or 5671 for amqps"


def _cause(error: BaseException) -> BaseException:
    """Return what lies behind an error of pika, which wraps one into the other."""
    wrapped = getattr(error, "exceptions", None) or (getattr(error, "exception", None), *error.args)
    inner = [each for each in wrapped if isinstance(each, BaseException)]
    return _cause(inner[-1]) if inner else error


# Field values that pika decodes wrongly or not at all, kept exact while a capture runs.


_NUMBERS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d"), b"T": struct.Struct(">Q")}


_LAST_DATE_S = 253_402_300_799  # the end of the year 9999


@contextmanager
def exact_values(*, to_publish: bool = False) -> Iterator[None]:
    """Have pika decode floats as floats (it cuts them to integers), and timestamps as integer seconds.

    pika raises for timestamps beyond the year 9999, which would end the connection. With ``to_publish`` the others stay
    what pika makes of them, so that they are published as timestamps again. It can publish floats then, too.
    """
    original: Any = pika.data.decode_value
    original_encode: Any = pika.data.encode_value

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        """Return the field value at ``offset``, and the offset behind it, as pika's own function gives them."""
        kind = encoded[offset : offset + 1]
        number = _NUMBERS.get(kind)
        if to_publish and kind == b"T" and _NUMBERS[kind].unpack_from(encoded, offset + 1)[0] <= _LAST_DATE_S:
            number = None
        if number is None:
            decoded: tuple[Any, int] = original(encoded, offset)
            return decoded
        return number.unpack_from(encoded, offset + 1)[0], offset + 1 + number.size

    def encode_value(pieces: list[bytes], value: Any) -> int:
        """Append the encoded value, and return how many bytes it takes, as pika's own function does."""
        if not isinstance(value, float):
            size: int = original_encode(pieces, value)
            return size
        pieces.append(b"d" + _NUMBERS[b"d"].pack(value))
        return len(pieces[-1])

    pika.data.decode_value, pika.data.encode_value = decode_value, encode_value
    try:
        yield
    finally:
        pika.data.decode_value, pika.data.encode_value = original, original_encode
