"""Requests declare, publish and get through a channel of the API's own, so the broker checks what they do.

The broker's refusals are therefore AMQP's. Declarations show them without the name of the
reply code; publishing and getting show the whole text.

Source: rabbit_mgmt_util.erl direct_request, with_channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from simulator.broker.commands import ChannelId, Command
from simulator.server.management.http_errors import (
    ApiError,
    HandlerCrash,
    bad_request,
    crashed,
    not_authorised,
    not_found,
    told,
)
from simulator.server.management.internal_channel import InternalChannel, RefusedByBroker
from simulator.server.management.request import Request


def getting_channel(request: Request) -> AbstractContextManager[InternalChannel]:
    """Open a channel in the request's virtual host; refusals show the name of their code."""
    return _opened(request, _shown_whole)


def publishing_channel(request: Request) -> AbstractContextManager[InternalChannel]:
    """Open a channel in the request's virtual host; every refusal is a bad request that shows its code."""
    return _opened(request, _shown_with_code)


def declare(request: Request, command: Callable[[ChannelId], Command]) -> None:
    """Run one declaration or deletion in the request's virtual host. RabbitMQ needs no connection for it."""
    request.needed_vhost()
    with _opened(request, _shown_short, limited=False) as channel:
        try:
            channel.run(command(channel.id))
        except RefusedByBroker as refusal:
            if refusal.is_crash:
                raise crashed(request.broker.node, "an internal error") from refusal
            raise


@contextmanager
def _opened(
    request: Request, shown: Callable[[RefusedByBroker], ApiError], *, limited: bool = True
) -> Iterator[InternalChannel]:
    channel = request.management.new_channel()
    try:
        try:
            channel.open(request.vhost_name or "/", request.user.name, limited=limited)
        except RefusedByBroker as refusal:
            raise not_authorised("Access refused.") from refusal
        yield channel
    except RefusedByBroker as refusal:
        raise (HandlerCrash() if refusal.is_crash else told(shown(refusal), request.api)) from refusal
    finally:
        channel.close()


def _shown_short(refusal: RefusedByBroker) -> ApiError:
    if refusal.code == 404:
        return not_found(refusal.explanation)
    if refusal.code in (403, 530):
        return not_authorised("Access refused.")
    return bad_request(refusal.explanation)


def _shown_whole(refusal: RefusedByBroker) -> ApiError:
    if refusal.code == 404 and not refusal.hard:
        return not_found(refusal.text)
    if refusal.code == 403 and not refusal.hard:
        return not_authorised(refusal.text)
    return _shown_with_code(refusal)


def _shown_with_code(refusal: RefusedByBroker) -> ApiError:
    return bad_request(f"{refusal.code} {refusal.explanation if refusal.hard else refusal.text}")
