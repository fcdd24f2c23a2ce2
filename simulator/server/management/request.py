"""One request to the management API: what was sent, who asks, and what is managed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import msgspec

from dlx.erlang_printing import Atom, printed
from simulator.broker import Broker, Copy, QueueState, User, VirtualHost
from simulator.broker.commands import Command
from simulator.json_reading import NestedTooDeeplyError, read_json_as
from simulator.message_history import RecordingBroker
from simulator.server.management.http_errors import HandlerCrash, TooDeepError, bad_request, not_found
from simulator.server.management.internal_channel import InternalChannel
from simulator.server.management.management_releases import Api, api_of
from simulator.server.management.running_traces import Traces
from simulator.server.node import Node

_DOUBLY_ENCODED = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
# Names in a path that mean the default exchange when they are amq.default.
_EXCHANGES = ("exchange", "source", "destination")


@dataclass(eq=False)
class Request:
    """One request.

    Attributes:
        management: the state of the API that is asked.
        method: ``GET``, ``PUT``, ``POST`` or ``DELETE``.
        segments: the segments of the path (``resources.segments_of``).
        names: the names in the path by what they name, such as ``vhost`` and ``queue``.
        query: the query's parameters, the last of each name.
        headers: by their names in lower case.
        body: the request's body.
        peer_host: the client's address.
        user: the authenticated user; not set before authentication.
        found: what ``Resource.exists`` has returned.
    """

    management: ManagementState
    method: str
    segments: Sequence[str]
    names: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer_host: str = "127.0.0.1"
    user: User = field(init=False)
    found: Any = field(init=False)

    @property
    def node(self) -> Node:
        """The node that is managed."""
        return self.management.node

    @property
    def broker(self) -> Broker:
        """The node's broker."""
        return self.management.node.broker

    @property
    def api(self) -> Api:
        """How the release's API behaves."""
        return self.management.api

    def run(self, command: Command) -> None:
        """Run an operator's command. Raises ``OperatorError``, which the application answers."""
        self.node.handle(command)

    async def carry_out(self, command: Command) -> None:
        """Run a command that may take long, and let other clients have their turn. Raises as ``run`` does."""
        await self.node.carry_out(command)

    def name(self, key: str) -> str:
        """Return a name in the path; ``amq.default`` is the default exchange, whose name is empty."""
        name = self.names[key]
        return "" if name == "amq.default" and key in _EXCHANGES else name

    @cached_property
    def vhost_name(self) -> str | None:
        """The name of the virtual host asked about: in the path, else in the header x-vhost; ``None``: all."""
        return self.names["vhost"] if "vhost" in self.names else self.headers.get("x-vhost") or None

    @property
    def vhost(self) -> VirtualHost | None:
        """The virtual host asked about; ``None`` when it does not exist, or all are asked about."""
        return self.broker.vhosts.get(self.vhost_name) if self.vhost_name is not None else None

    @cached_property
    def unacknowledged(self) -> Mapping[QueueState, list[Copy]]:
        """The deliveries that wait for their acknowledgement or a commit of it, by their queue."""
        found: dict[QueueState, list[Copy]] = {}
        for channel in self.broker.channels.values():
            for unacked in (*channel.unacked.values(), *(unacked for _, unacked in channel.uncommitted())):
                if not unacked.timed_out:
                    found.setdefault(unacked.queue, []).append(unacked.copy)
        return found

    def needed_vhost(self) -> VirtualHost:
        """Return the virtual host asked about. Raises ``ApiError`` 404 vhost_not_found."""
        if self.vhost is None:
            raise not_found("vhost_not_found")
        return self.vhost

    def check_node(self, document: Mapping[str, Any]) -> None:
        """Refuse to declare on a node other than this one. Raises ``ApiError`` 400."""
        name = document.get("node", self.broker.node)
        if not isinstance(name, str):
            raise HandlerCrash
        if name == self.broker.node:
            return
        if self.api.unknown_node_in_body == "not a member":
            raise bad_request(f"Node {name} is not a cluster member")
        named = name if "@" in name else f"{name}@{self.broker.node.partition('@')[2]}"
        if named != self.broker.node:
            raise bad_request(f"Node {printed(Atom(named))} could not be contacted")

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is ``true``."""
        return self.query.get(name) == "true"

    def json(self, *required: str) -> dict[str, Any]:
        """Return the body, a JSON object.

        Raises ``ApiError`` 400 when the body is not an object, or lacks one of the required keys.
        """
        document = self._document()
        missing = [(Atom("key_missing"), Atom(key)) for key in required if key not in document]
        if missing:
            raise bad_request(printed(missing))
        return document

    def _document(self) -> dict[str, Any]:
        if not self.body or self.body.decode("latin-1") in self.api.empty_bodies:
            return {}
        try:
            document = read_json_as(self.body, self.api.broker)
        except NestedTooDeeplyError as error:
            raise TooDeepError from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request("not_json") from error
        if isinstance(document, str):
            raise bad_request(_DOUBLY_ENCODED)
        if not isinstance(document, dict):
            raise bad_request("not_json")
        return document


# The state that the management API of a node keeps between requests.


class ManagementState:
    """The state of the management API of one node.

    Attributes:
        node: the node that is managed.
        api: how the API of the node's release behaves.
        traces: the running traces, and the logs of all.
        vhosts_put_again: names of the virtual hosts that a PUT has changed, where that sets the default queue type.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.api: Api = api_of(node.broker.release)
        self.traces = Traces(node, self.new_channel)
        self.vhosts_put_again: set[str] = set()
        self._channel_numbers = count(1)

    def new_channel(self) -> InternalChannel:
        """Return a channel of the API's own, which is not open yet."""
        return InternalChannel(self.node, next(self._channel_numbers))

    @property
    def recorder(self) -> RecordingBroker | None:
        """The broker, if it records what happens to messages."""
        broker = self.node.broker
        return broker if isinstance(broker, RecordingBroker) else None
