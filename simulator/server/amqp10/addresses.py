"""Addresses of AMQP 1.0: which exchange and routing key, or which queue, a link or a message names.

Source: rabbit_amqp_session.erl ensure_source, ensure_target (version 2); rabbit_routing_parser.erl (version 1).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import msgspec
from proton import Array, Described, symbol

from dlx.erlang_printing import Atom
from dlx.releases import Release
from simulator.server.amqp10 import errors
from simulator.server.amqp10.errors import LinkFault
from simulator.server.amqp10.frames import Source, Target, symbols

TEMPORARY_QUEUE, VOLATILE_QUEUE = "temporary-queue", "rabbitmq:volatile-queue"
NODE_PROPERTIES = {
    symbol("lifetime-policy"): Described(symbol("amqp:delete-on-close:list"), []),
    symbol("supported-dist-modes"): symbols(("move",)),
}
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


class Place(msgspec.Struct, frozen=True):
    """Where a message goes, or comes from.

    ``routing_key`` is ``None`` where it is the subject of each message; ``queue`` is the queue of the address, which
    must exist, and ``declares`` a queue that version 1 declares.
    """

    exchange: str = ""
    routing_key: str | None = ""
    queue: str | None = None
    declares: str | None = None


class RoutingFault(Exception):
    """A message that has nowhere to go; ``anonymous``: over a link without a target."""

    def __init__(self, fault: LinkFault, *, anonymous: bool) -> None:
        super().__init__(fault.description)
        self.fault = fault
        self.anonymous = anonymous


def dynamic_kind(terminus: Source | Target, release: Release, *, settled: bool) -> str:
    """Return the capability by which the broker makes a node for a terminus. Raises ``LinkFault``."""
    wanted = terminus.capabilities.elements if isinstance(terminus.capabilities, Array) else []
    is_source = isinstance(terminus, Source)
    lasts = terminus.durable or terminus.timeout or terminus.expiry_policy != "link-detach"
    if (
        VOLATILE_QUEUE in wanted
        and VOLATILE_QUEUE in release.amqp10_dynamic_nodes
        and is_source
        and settled
        and not lasts
    ):
        return VOLATILE_QUEUE
    if TEMPORARY_QUEUE in wanted and TEMPORARY_QUEUE in release.amqp10_dynamic_nodes and terminus.address is None:
        return TEMPORARY_QUEUE
    kind = "source" if is_source else "target"
    raise errors.not_implemented(f"Dynamic {kind}{'' if release.amqp10_dynamic_nodes else 's'} not supported")


def target_of(target: Target, release: Release) -> Place | None:
    """Return where a target leads; ``None`` where each message says it. Raises ``LinkFault``."""
    address = target.address
    if address is None:
        return None
    if address.startswith(("/queues/", "/exchanges/")):
        place = _place(address)
        if place is None:
            raise errors.attach_refused((Atom("bad_address_string"), address.encode()), release)
        return place
    return _of_version_1(address, release)


def source_of(source: Source, release: Release) -> Place:
    """Return the queue of a source. Raises ``LinkFault``."""
    address = source.address
    if address is None:
        raise errors.attach_refused((Atom("bad_address"), Atom("undefined")), release)
    if not address.startswith("/queues/"):
        return _of_version_1(address, release)
    name = address.removeprefix("/queues/")
    if _BAD_ESCAPE.search(name):
        raise errors.attach_refused((Atom("bad_address"), (Atom("utf8"), address.encode())), release)
    return Place(queue=unquote(name))


def place_of_message(to: str | None) -> Place:
    """Return where a message goes by its ``to``. Raises ``RoutingFault``."""
    if to is None:
        text = "anonymous terminus requires 'to' address to be set"
        raise RoutingFault(LinkFault("amqp:precondition-failed", text), anonymous=True)
    place = _place(to)
    if place is None:
        fault = LinkFault("amqp:precondition-failed", f"bad 'to' address string: {to}")
        raise RoutingFault(fault, anonymous=True)
    return place


def _place(address: str) -> Place | None:
    """Return where an address of version 2 leads, if it is one."""
    if _BAD_ESCAPE.search(address):
        return None
    if address.startswith("/queues/") and address != "/queues/":
        name = unquote(address.removeprefix("/queues/"))
        return Place("", name, name)
    exchange, *keys = address.removeprefix("/exchanges/").split("/")
    if not address.startswith("/exchanges/") or exchange in ("", "amq.default") or len(keys) > 1:
        return None
    return Place(unquote(exchange), unquote(keys[0]) if keys else "")


def _of_version_1(address: str, release: Release) -> Place:
    """Return where an address of version 1 leads. Raises ``LinkFault``."""
    if 1 not in release.amqp10_addresses:
        term = Atom("amqp_address_v1_not_permitted"), (Atom("utf8"), address.encode())
        raise errors.attach_refused(term, release)
    kind, _, rest = address.removeprefix("/").partition("/")
    if not address.startswith("/"):
        return Place("", address, address, address)
    if kind == "queue":
        return Place("", unquote(rest), unquote(rest), unquote(rest)) if rest else Place("", None)
    if address.startswith("/amq/queue/"):
        name = unquote(address.removeprefix("/amq/queue/"))
        return Place("", name, name)
    if kind == "topic" and rest:
        return Place("amq.topic", unquote(rest))
    if kind == "exchange" and rest:
        exchange, _, key = rest.partition("/")
        return Place(unquote(exchange), unquote(key) if key else None)
    raise errors.attach_refused((Atom("unknown_destination"), address.encode()), release)
