"""A connection to a running broker, whose end has one error whatever ended it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika import BlockingConnection
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker

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
    except ChannelClosedByBroker as error:
        raise CaptureUnavailable(name, f"refused: {error.reply_text} ({error.reply_code})") from error
    except (AMQPConnectionError, AMQPError, OSError) as error:
        what = str(error) or type(error).__name__
        raise CaptureUnavailable(name, f"no connection to the broker, or it was lost: {what}") from error
