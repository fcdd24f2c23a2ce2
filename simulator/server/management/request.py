"""One request to the management API, as its resources see it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.erlang_printing import Atom, printed
from simulator.broker.state import User, VirtualHost
from simulator.server.management.http_errors import bad_request, not_found

if TYPE_CHECKING:
    from simulator.broker.broker import Broker
    from simulator.broker.commands import Command
    from simulator.server.management.app import Management
    from simulator.server.management.management_releases import Api
    from simulator.server.node import Node

_DOUBLY_ENCODED = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
# Names in a path that mean the default exchange when they are amq.default.
_EXCHANGES = ("exchange", "source", "destination")


class Call:
    """One request.

    Attributes:
        management: the API that was asked, with what it remembers.
        method: ``GET``, ``PUT``, ``POST`` or ``DELETE``.
        path: the path as it was sent, still quoted.
        ids: the names in the path by what they name, such as ``vhost`` and ``queue``.
        query: the query's parameters, the last of each name.
        headers: by their names in lower case.
        body: the request's body.
        peer_host: the address it came from.
        user: who asks; set once that is known.
    """

    user: User

    def __init__(
        self,
        management: Management,
        method: str,
        path: str,
        ids: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        peer_host: str = "127.0.0.1",
    ) -> None:
        self.management = management
        self.method = method
        self.path = path
        self.ids = ids
        self.query = query
        self.headers = headers
        self.body = body
        self.peer_host = peer_host

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

    def do(self, command: Command) -> None:
        """Run an operator's command; ``OperatorError`` is answered by the application."""
        self.node.handle(command)

    def id(self, key: str) -> str:
        """A name in the path; ``amq.default`` is the default exchange."""
        name = self.ids[key]
        return "" if name == "amq.default" and key in _EXCHANGES else name

    @cached_property
    def vhost_name(self) -> str | None:
        """The virtual host that is asked about: in the path, else in the header x-vhost; ``None``: all."""
        return self.ids.get("vhost") or self.headers.get("x-vhost") or None

    @property
    def vhost(self) -> VirtualHost | None:
        """That virtual host; ``None`` when it does not exist, or all are asked about."""
        return self.broker.vhosts.get(self.vhost_name) if self.vhost_name is not None else None

    def needed_vhost(self) -> VirtualHost:
        """That virtual host. Raises ``ApiError`` 404 vhost_not_found."""
        if self.vhost is None:
            raise not_found("vhost_not_found")
        return self.vhost

    def flag(self, name: str) -> bool:
        """Whether a query parameter is ``true``."""
        return self.query.get(name) == "true"

    def json(self, *required: str) -> dict[str, Any]:
        """The body as a JSON object.

        Raises ``ApiError`` 400 when it is none, or lacks one of the required keys.
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
            document = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request("not_json") from error
        if isinstance(document, str):
            raise bad_request(_DOUBLY_ENCODED)
        if not isinstance(document, dict):
            raise bad_request("not_json")
        return document
