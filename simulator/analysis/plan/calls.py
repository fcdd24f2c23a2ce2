"""The calls of the management API that do the acts of a plan."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

import msgspec

from dlx.erlang_hash import properties_key
from dlx.topology import Binding
from simulator.analysis.plan.steps import (
    AddVhost,
    AnyAct,
    ClearPolicy,
    Count,
    Delete,
    Drain,
    Import,
    Move,
    SetPolicy,
    Unbind,
)
from simulator.json_values import plain


class Call(msgspec.Struct, frozen=True):
    """A call of the management API: ``path`` is below ``/api/``, ``body`` is sent as JSON."""

    method: Literal["GET", "PUT", "POST", "DELETE"]
    path: str
    body: dict[str, Any] | None = None


def call_of(act: AnyAct) -> Call | None:
    """Return the call that does an act; ``None`` for a move of messages, for which there is none."""
    vhost = _quoted(act.vhost)
    if isinstance(act, AddVhost):
        return Call("PUT", f"vhosts/{vhost}")
    if isinstance(act, Import):
        return Call("POST", f"definitions/{vhost}", act.document)
    if isinstance(act, SetPolicy):
        policy = act.policy
        body = {"pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority}
        definition = {"definition": plain(policy.definition)}
        return Call("PUT", f"{_policies(act.operator)}/{vhost}/{_quoted(policy.name)}", {**body, **definition})
    if isinstance(act, ClearPolicy):
        return Call("DELETE", f"{_policies(act.operator)}/{vhost}/{_quoted(act.name)}")
    if isinstance(act, Unbind):
        return Call("DELETE", f"bindings/{vhost}/{_binding(act.binding)}")
    if isinstance(act, Delete):
        query = "?if-empty=true" if act.if_empty else ""
        return Call("DELETE", f"{act.kind}s/{vhost}/{_quoted(act.name)}{query}")
    if isinstance(act, Drain | Count):
        return Call("GET", f"queues/{vhost}/{_quoted(act.queue)}?columns=messages")
    assert isinstance(act, Move)
    return None


def _policies(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


def _binding(binding: Binding) -> str:
    """Return the path of a binding; its key in the API is quoted by itself, and as a part of a path once more."""
    source, destination = _quoted(binding.source), _quoted(binding.destination)
    kind = "q" if binding.destination_type == "queue" else "e"
    return f"e/{source}/{kind}/{destination}/{_quoted(properties_key(binding))}"


def _quoted(name: str) -> str:
    return quote(name, safe="")
