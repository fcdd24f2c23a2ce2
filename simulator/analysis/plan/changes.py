"""What two topologies have otherwise, object by object, and which settings of queues policies change by it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from dlx.settings import Origin, Setting, Settings
from dlx.topology import STOCK_EXCHANGES, Binding, Exchange, Policy, Queue, Topology
from simulator.analysis.findings import ObjectName
from simulator.analysis.losses import omits_internal_exchanges
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions, DefinitionsError
from simulator.definitions.overlay import NAMED_BY, object_key
from simulator.json_values import plain

What = Literal["added", "removed", "changed"]
Part = Queue | Exchange | Binding | Policy
Key = tuple[str, str, Hashable]
"""An object: its kind, its virtual host, and its name; a binding has no name: all of it is one."""
VHOST: Final = "virtual host"
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
BINDING: Final = "binding"
POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator policy"
_STOCK = frozenset(exchange.name for exchange in STOCK_EXCHANGES)
_PLANNED = ("queues", "exchanges", "bindings", "policies", "vhosts")
_MISSING = object()
_BY_POLICY = (POLICY, OPERATOR_POLICY)


class Field(msgspec.Struct, frozen=True):
    """A field, argument or key of an object that changes; ``before`` and ``after`` are as JSON, "none" if not there."""

    name: str
    before: str
    after: str


class Change(msgspec.Struct, frozen=True):
    """An object that is added, removed or changed.

    Attributes:
        what, about: what happens to which object.
        fields: what of it changes.
        before, after: the object; ``None`` where there is none, and of a virtual host.
    """

    what: What
    about: ObjectName
    fields: tuple[Field, ...] = ()
    before: Part | None = None
    after: Part | None = None


class PolicyEffect(msgspec.Struct, frozen=True):
    """A setting of a queue that changes, set by a policy before or after; an origin is such as ``policy ttl``."""

    queue: ObjectName
    key: str
    before: str
    before_by: str
    after: str
    after_by: str


def paired(current: Definitions, new: Definitions) -> tuple[Definitions, Definitions]:
    """Return both, where one does not name its virtual host with that of the other.

    Raises ``DefinitionsError`` where the other has several, or ``new`` has nothing at all.
    """
    if not any(new.document.get(section) for section in NAMED_BY):
        raise DefinitionsError(new.source, "", "nothing in it: a plan would remove all there is")
    if current.vhost_named and not new.vhost_named:
        return current, _named_as(new, current)
    if new.vhost_named and not current.vhost_named:
        return _named_as(current, new), new
    return current, new


def _named_as(unnamed: Definitions, other: Definitions) -> Definitions:
    if len(other.vhosts) != 1:
        problem = f'missing; expected the virtual host of {other.source} that this is of, such as "{other.vhosts[0]}"'
        raise DefinitionsError(unnamed.source, "original_vhost_name", problem)
    document = {**unnamed.document, "original_vhost_name": other.vhosts[0]}
    return Definitions(document, unnamed.source)


def objects_of(snapshot: Snapshot, unseen: Iterable[Key] = ()) -> dict[Key, Part]:
    """Return the objects that definitions have, without stand-ins and what is bound to them.

    An exchange of a plugin's type has that type here. ``unseen``: exchanges that are there, though the export has them
    not: the plan names what is bound to them.
    """
    stood_in = {*snapshot.left_out, *snapshot.stand_ins} - {ObjectName(*map(str, key)) for key in unseen}
    types = {about: declared for about, (declared, _) in snapshot.of_plugins.items()}
    found: dict[Key, Part] = {}
    for vhost, topology in snapshot.topologies.items():
        if vhost not in snapshot.definitions.vhosts:
            continue
        for exchange in topology.exchanges.values():
            if exchange.name not in _STOCK:
                kind = types.get(ObjectName(EXCHANGE, vhost, exchange.name), exchange.type)
                found[EXCHANGE, vhost, exchange.name] = msgspec.structs.replace(exchange, type=kind)
        for queue in topology.queues.values():
            found[QUEUE, vhost, queue.name] = queue
        for bound in topology.bindings.values():
            found |= {(BINDING, vhost, each): each for each in bound if each.source}
        for kind, policies in ((POLICY, topology.policies), (OPERATOR_POLICY, topology.operator_policies)):
            found |= {(kind, vhost, each.name): each for each in policies}
    return {key: part for key, part in found.items() if not any(end in stood_in for end in _ends(key, part))}


def _ends(key: Key, part: Part) -> Iterator[ObjectName]:
    if isinstance(part, Binding):
        yield ObjectName(EXCHANGE, key[1], part.source)
        yield ObjectName(part.destination_type, key[1], part.destination)
    else:
        yield ObjectName(key[0], key[1], part.name)


def sides(before: Snapshot, after: Snapshot) -> tuple[dict[Key, Part], dict[Key, Part]]:
    """Return the objects of both. Internal exchanges that the export of ``after`` may leave out are on both sides."""
    had, has = objects_of(before), objects_of(after)
    omits = after.definitions.rabbitmq_version is not None and omits_internal_exchanges(after)
    unseen = {
        key: part for key, part in had.items()
        if isinstance(part, Exchange) and part.internal and key not in has and key[1] in after.definitions.vhosts
        and (omits or ObjectName(EXCHANGE, key[1], part.name) in after.stand_ins)
    }  # fmt: skip
    return had, {**objects_of(after, unseen), **unseen}


def topology_of(objects: Mapping[Key, Part], vhost: str) -> Topology:
    """Return the objects of one virtual host as a topology."""
    kinds: dict[str, list[Any]] = {kind: [] for kind in (EXCHANGE, QUEUE, BINDING, POLICY, OPERATOR_POLICY)}
    for key, part in objects.items():
        if key[1] == vhost:
            kinds[key[0]].append(part)
    return Topology.of(
        exchanges=kinds[EXCHANGE],
        queues=kinds[QUEUE],
        bindings=kinds[BINDING],
        policies=kinds[POLICY],
        operator_policies=kinds[OPERATOR_POLICY],
    )


def changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Return what changes in the virtual hosts that ``after`` names: what it has not is removed there."""
    had, has = sides(before, after)
    vhosts = set(after.definitions.vhosts)
    found = [
        Change("added", ObjectName(VHOST, name, name))
        for name in after.definitions.vhosts
        if name not in before.broker.vhosts
    ]
    for key in {**had, **has}:
        old, new = had.get(key), has.get(key)
        if key[1] not in vhosts:
            continue
        fields = () if old is None or new is None else tuple(_fields(old, new))
        if old is None or new is None or fields:
            what: What = "added" if old is None else "removed" if new is None else "changed"
            found.append(Change(what, name_of(key), fields, old, new))
    return found


def name_of(key: Key) -> ObjectName:
    """Return the name of an object; that of a binding tells its ends and its key."""
    kind, vhost, name = key
    if isinstance(name, Binding):
        by = f" by '{name.routing_key}'" if name.routing_key else ""
        arguments = f" with {_json(name.arguments)}" if name.arguments else ""
        return ObjectName(kind, vhost, f"{name.source} → {name.destination}{by}{arguments}")
    return ObjectName(kind, vhost, str(name))


def _fields(old: Part, new: Part) -> Iterator[Field]:
    """Yield what of an object changes; a binding that is there is the same."""
    had, has = _told(old), _told(new)
    for name in {**had, **has}:
        if had.get(name, _MISSING) != has.get(name, _MISSING):
            yield Field(name, _shown(had, name), _shown(has, name))


def _told(part: Part) -> dict[str, Any]:
    """Return the fields of an object in one table, with its arguments or the keys of its definition."""
    if isinstance(part, Queue):
        properties = {"durable": part.durable, "auto_delete": part.auto_delete}
        return {**properties, "x-queue-type": part.type, **part.arguments}
    if isinstance(part, Exchange):
        flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
        return {"type": part.type, **flags, **part.arguments}
    if isinstance(part, Policy):
        return {"pattern": part.pattern, "apply-to": part.apply_to, "priority": part.priority, **part.definition}
    return {}


def _shown(table: Mapping[str, Any], name: str) -> str:
    return _json(table[name]) if name in table else "none"


def _json(value: Any) -> str:
    return msgspec.json.encode(plain(value)).decode()


# What policies change


def policy_effects(before: Snapshot, after: Snapshot) -> list[PolicyEffect]:
    """Return the settings that change of queues which both have, where a policy sets them before or after."""
    had, has = dict(_settings(before)), dict(_settings(after))
    return [effect for queue in had.keys() & has.keys() for effect in _effects(queue, had[queue], has[queue])]


def _settings(snapshot: Snapshot) -> Iterator[tuple[ObjectName, Settings]]:
    for vhost, settings in snapshot.queues():
        if vhost in snapshot.definitions.vhosts:
            yield ObjectName(QUEUE, vhost, settings.queue.name), settings


def _effects(queue: ObjectName, old: Settings, new: Settings) -> Iterator[PolicyEffect]:
    for key in {**old.values, **new.values}:
        had, has = old.values.get(key), new.values.get(key)
        told = _value(had), _origin(had), _value(has), _origin(has)
        by_policy = any(each is not None and each.origin.kind in _BY_POLICY for each in (had, has))
        if by_policy and (told[0], told[1]) != (told[2], told[3]):
            yield PolicyEffect(queue, key, *told)


def _value(setting: Setting | None) -> str:
    return "none" if setting is None else _json(setting.value)


def _origin(setting: Setting | None) -> str:
    origin: Origin | None = None if setting is None else setting.origin
    return "" if origin is None else str(origin)


# What is not planned


def not_planned(before: Definitions, after: Definitions) -> list[str]:
    """Return, in phrases, the sections of definitions that differ and that no plan is about."""
    found = []
    for section, names in NAMED_BY.items():
        if section in _PLANNED or section not in after.document:
            continue
        had, has = ({object_key(each, names): each for each in _others(side, section)} for side in (before, after))
        count = sum(1 for key in {**had, **has} if had.get(key) != has.get(key))
        if count:
            found.append(f"{count} of the {section.replace('_', ' ')} that differ: the steps leave them as they are")
    return found


def _others(definitions: Definitions, section: str) -> list[Mapping[str, Any]]:
    items = definitions.document.get(section) or ()
    return [each for each in items if each.get("component") != "operator_policy"]
