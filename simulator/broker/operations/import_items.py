"""What the importers of all sections share: the items of a definitions document, and where they go."""

from __future__ import annotations

from typing import Any, NamedTuple

from dlx import operator_errors
from dlx.erlang_printing import Atom
from simulator.broker.state import NodeState, VirtualHost

Item = dict[str, Any]
UNDEFINED = Atom("undefined")
"""What RabbitMQ sees where an item lacks a field."""


class At(NamedTuple):
    """Where an item goes and comes from: its virtual host, who imports it, and the version that exported it."""

    vhost: str | None
    user: str | None
    version: str | None


def vhost_at(node: NodeState, at: At) -> VirtualHost:
    """Return the virtual host of an item. Raises ``OperatorError`` if there is none."""
    if not isinstance(at.vhost, str):
        raise operator_errors.vhost_not_specified()
    vhost = node.vhosts.get(at.vhost)
    if vhost is None:
        raise operator_errors.no_vhost_to_import_into(at.vhost)
    return vhost


def text(item: Item, name: str, default: str | None = None) -> str:
    """Return a field that is a string. Raises ``UnforeseenError``."""
    value = item.get(name, default)
    if not isinstance(value, str):
        raise operator_errors.wrong_type()
    return value
