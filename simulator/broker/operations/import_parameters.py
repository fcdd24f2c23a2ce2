"""Imports policies, runtime parameters and global parameters.

Source: rabbit_definitions.erl add_policy, add_parameter, add_global_parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dlx import operator_errors
from dlx.operator_errors import OperatorError
from simulator.broker.commands import SetGlobalParameter
from simulator.broker.operations import administration, parameters
from simulator.broker.operations.import_items import UNDEFINED, At, Item, text, vhost_at
from simulator.broker.state import NodeState, VirtualHost


def add_policy(node: NodeState, at: At, item: Item) -> None:
    """Add a policy, or change one; the queues learn of it later."""
    vhost = vhost_at(node, at)
    if "name" not in item:
        raise operator_errors.unnamed_policy(vhost.name)
    name = text(item, "name")
    definition = item.get("definition", UNDEFINED)
    if not isinstance(definition, dict | list) and definition is not UNDEFINED:
        raise operator_errors.wrong_type()
    value = {
        "pattern": item.get("pattern", UNDEFINED),
        "definition": definition,
        "priority": item.get("priority", 0),
        "apply-to": item.get("apply-to", "all"),
    }
    with _refused_at(node, vhost, key=name):
        vhost.policies[name] = parameters.checked_policy(node, name, value, operator=False)


def add_parameter(node: NodeState, at: At, item: Item) -> None:
    """Add a runtime parameter; those of plugins are refused, as by a server without the plugins."""
    vhost, component, name = vhost_at(node, at), text(item, "component", UNDEFINED), text(item, "name", UNDEFINED)
    with _refused_at(node, vhost, component=component, key=name):
        parameters.keep(node, vhost, component, name, item.get("value", UNDEFINED))


def add_global_parameter(node: NodeState, _at: At, item: Item) -> None:
    """Set a parameter of the whole cluster."""
    name, value = text(item, "name", UNDEFINED), item.get("value", UNDEFINED)
    administration.set_global_parameter(
        node, SetGlobalParameter(str(name), str(value) if value is UNDEFINED else value)
    )


@contextmanager
def _refused_at(node: NodeState, vhost: VirtualHost, **names: str) -> Iterator[None]:
    """Add to a refusal which policy or parameter it is about."""
    try:
        yield
    except operator_errors.UnforeseenError:
        raise
    except OperatorError as error:
        raise operator_errors.imported_parameter(error, _place(node, vhost, names), node.release) from error


def _place(node: NodeState, vhost: VirtualHost, names: Mapping[str, str]) -> str:
    """Return the place of a refused policy or parameter, in the form in which its refusal ends."""
    if node.release.definitions_refusal_texts == "printed":
        return f" ({'/'.join((vhost.name, *names.values()))})"
    between = " / " if "component" in names else " "
    named = {"vhost": vhost.name, **names}
    return " (" + between.join(f'{kind}: "{name}"' for kind, name in named.items()) + ")"
