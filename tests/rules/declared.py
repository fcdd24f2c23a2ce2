"""One virtual host's exchanges, queues, bindings and policies, declared by the rules as a server would."""

from __future__ import annotations

from typing import Any

from dlx import bindings, declarations
from dlx.amqp_errors import Refusal, no_exchange, no_queue
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import Release
from dlx.topology import STOCK_EXCHANGES, Exchange, Queue
from tests.rules.vector_values import plain_table

ORDER = ("policies", "operator_policies", "exchanges", "queues", "bindings")


class Declared:
    """What has been declared so far. The definitions are those of a recorded vector."""

    def __init__(self, release: Release, vhost: str) -> None:
        self._release, self._vhost = release, vhost
        self.exchanges: dict[str, Exchange] = {exchange.name: exchange for exchange in STOCK_EXCHANGES}
        self.queues: dict[str, Queue] = {}

    def refused(self, what: str, definition: dict[str, Any]) -> dict[str, Any] | None:
        """Declare one thing; where the rules refuse it, the code and text that a client sees."""
        try:
            getattr(self, f"_{what}")(dict(definition))
        except Refusal as refusal:
            return {"code": refusal.code, "text": refusal.text}
        except PolicyRefusedError as refused:
            return {"code": refused.status, "text": f"Validation failed\n\n{refused}\n"}
        return None

    def _queues(self, definition: dict[str, Any]) -> None:
        name = definition.pop("name")
        del definition["type"]
        asked = {"exclusive": False, **definition, "vhost": self._vhost, "release": self._release}
        if name in self.queues:
            declarations.check_queue_equivalence(self.queues[name], **asked)
        else:
            self.queues[name] = declarations.declared_queue(name, **asked)

    def _exchanges(self, definition: dict[str, Any]) -> None:
        name = definition.pop("name")
        asked = {"auto_delete": False, **definition, "vhost": self._vhost, "release": self._release}
        if name in self.exchanges:
            declarations.check_type(definition["type"], self._release)
            declarations.check_not_default(name)
            declarations.check_exchange_equivalence(self.exchanges[name], **asked)
        else:
            self.exchanges[name] = declarations.declared_exchange(name, **asked)

    def _bindings(self, definition: dict[str, Any]) -> None:
        source, destination = definition["source"], definition["destination"]
        declarations.check_not_default(source)
        if source not in self.exchanges:
            raise no_exchange(source, self._vhost)
        kind, missing = (self.queues, no_queue)
        if definition["destination_type"] == "exchange":
            kind, missing = self.exchanges, no_exchange  # type: ignore[assignment]
        if destination not in kind:
            raise missing(destination, self._vhost)
        bindings.check_binding(
            self.exchanges[source],
            definition["routing_key"],
            plain_table(definition["arguments"]),
            destination=kind[destination],
            release=self._release,
        )

    def _policies(self, definition: dict[str, Any], operator: bool = False) -> None:
        check_policy(
            definition["name"],
            definition["pattern"],
            definition["definition"],
            definition["apply-to"],
            definition["priority"],
            operator=operator,
            release=self._release,
        )

    def _operator_policies(self, definition: dict[str, Any]) -> None:
        self._policies(definition, operator=True)
