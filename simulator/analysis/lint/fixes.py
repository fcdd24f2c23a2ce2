"""Fixes that can be carried out as they stand: a policy to set or a binding to add, and how to do that on a server.

A fix is only made where it is plain what to do: there is one exchange or queue for dead letters, and it keeps them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from dlx.binding_index import hashes
from dlx.delays import routing_type
from dlx.message import Message
from dlx.policies import unsupported_keys
from dlx.server_plugins import CHOOSING, RECENT_HISTORY
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, Settings
from dlx.topology import STREAM, Policy
from simulator.analysis.findings import Change, Finding, Fix
from simulator.analysis.lint.rule import QueueAt, Subject, by_its_policy, keep_out_of_policy, shown
from simulator.analysis.lint.rule import change as change_setting
from simulator.analysis.names import is_made_up, is_named_for_dead_letters, is_pattern, stem
from simulator.definitions import Definitions
from simulator.sources.operator_objects import operator_object, policy_spec

_SPECIAL = str.maketrans({each: f"\\{each}" for each in r"\^$.|?*+()[]{}"})
_ANY_KEY = "any"
_ALL_KEYS = "all keys that publishers use"
_BOUND_MAX = 3
"""So many keys are bound one by one, rather than replaced by one that is bound."""


class Address(NamedTuple):
    """Where dead letters can go: an exchange, and the routing key that they need there, if they need one."""

    exchange: str
    key: str | None


def obvious_address(subject: Subject, queue: QueueAt) -> Address | None:
    """Return where the dead letters of a queue without a dead-letter exchange are meant to go, if it is plain.

    That is the one exchange that is called after dead letters or that other queues use, or a queue that is called
    after this one and dead letters. What dead letters come to there keeps them.
    """
    found = dict(_addresses(subject, queue))
    own = [each for each, name in found.items() if is_named_for_dead_letters(name) and stem(name) == stem(queue[1])]
    choice = own or list(found)
    return choice[0] if len(choice) == 1 else None


def _addresses(subject: Subject, queue: QueueAt) -> Iterator[tuple[Address, str]]:
    """Yield addresses, each with the name that tells what it is for."""
    vhost, name = queue
    flow = subject.snapshot.flows[vhost]
    fixed = flow.settings(name).dead_letter_routing_key
    for exchange in subject.exchanges_for_dead_letters[vhost]:
        keys = subject.passing_keys(vhost, exchange) if fixed is None else [fixed]
        if name not in keys and len(keys) != 1:
            continue
        key = name if name in keys else next(iter(keys))
        if _keeps(subject, queue, exchange, _ANY_KEY if key is None else key):
            yield Address(exchange, key if fixed is None else None), exchange
    for other in subject.for_those_of.get((vhost, stem(name)), ()) if fixed is None else [fixed]:
        if _keeps(subject, queue, "", other):
            yield Address("", other if fixed is None else None), other


def _keeps(subject: Subject, queue: QueueAt, exchange: str, key: str) -> bool:
    """Tell whether queues take what comes to the exchange with that key, and keep it."""
    flow = subject.snapshot.flows[queue[0]]
    taking = flow.entries(Message(exchange=exchange, routing_keys=(key,)))
    return bool(taking) and all(name != queue[1] and is_keeping(flow.settings(name)) for name in taking)


def is_keeping(settings: Settings) -> bool:
    """Tell whether a queue keeps what comes into it until somebody takes it."""
    queue = settings.queue
    limits = (settings.message_ttl_ms, settings.expires_ms, settings.max_length, settings.max_length_bytes)
    lasting = not queue.auto_delete and not queue.exclusive and not is_made_up(queue.name)
    return lasting and queue.type != STREAM and not settings.dead_letters and all(limit is None for limit in limits)


def set_by_policy(subject: Subject, queue: QueueAt, wanted: Mapping[str, Any]) -> Fix:
    """Return the fix that sets keys for one queue by policy."""
    policy = _policy_with(subject, queue, wanted)
    change = () if policy is None else (Change("policies", policy),)
    return Fix(True, f"{by_its_policy(subject, queue)}: set {_listed(wanted)}", change)


def set_keys(subject: Subject, queue: QueueAt, wanted: Mapping[str, Any]) -> Fix:
    """Return the fix that sets keys for one queue: by policy, unless an argument is in the way."""
    values = subject.snapshot.flows[queue[0]].settings(queue[1]).values
    in_the_way = [key for key in wanted if key in values and values[key].origin.kind == "argument"]
    if not in_the_way:
        return set_by_policy(subject, queue, wanted)
    return change_setting(subject, queue, in_the_way[0], f"set {_listed(wanted)}")


def send_elsewhere(subject: Subject, queue: QueueAt) -> Fix:
    """Return the fix for dead letters that come back: by policy where no argument sets their routing key."""
    if kept_out := keep_out_of_policy(subject, queue, DEAD_LETTER_EXCHANGE):
        return kept_out
    vhost, name = queue
    flow = subject.snapshot.flows[vhost]
    settings = flow.settings(name)
    dlx, by_key = settings.dead_letter_exchange or "", DEAD_LETTER_ROUTING_KEY not in settings.values
    if by_key and not dlx:
        return _by_default_exchange(subject, queue, None)
    if by_key and dlx in flow.topology.exchanges and flow.routes_by_key(dlx):
        others = [key for key in subject.passing_keys(vhost, dlx) if key and _keeps(subject, queue, dlx, key)]
        if len(others) == 1:
            return set_by_policy(subject, queue, {DEAD_LETTER_ROUTING_KEY: others[0]})
    key = DEAD_LETTER_EXCHANGE if by_key else DEAD_LETTER_ROUTING_KEY
    return change_setting(subject, queue, key, f"send dead letters of '{name}' to another queue")


def _listed(wanted: Mapping[str, Any]) -> str:
    return " and ".join(f"{key} to {shown(value)}" for key, value in wanted.items())


def dead_letter_to(subject: Subject, queue: QueueAt, address: Address) -> Fix:
    """Return the fix that lets dead letters of a queue go to an address, by policy."""
    key = {} if address.key is None else {DEAD_LETTER_ROUTING_KEY: address.key}
    return set_by_policy(subject, queue, {DEAD_LETTER_EXCHANGE: address.exchange, **key})


def _policy_with(subject: Subject, queue: QueueAt, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the policy to set; ``None`` where it is not plain which.

    A policy that applies to nothing else gets the keys. Otherwise the queue gets one of its own, with the keys of
    the one that applies now, and before it.
    """
    vhost, name = queue
    settings = subject.snapshot.flows[vhost].settings(name)
    choice, known = settings.policy, subject.snapshot.topologies[vhost].policies
    if is_made_up(name) or unsupported_keys(settings.queue, settings.release) & wanted.keys():
        return None
    applied = choice.policy
    if applied is not None and not _is_as_written(subject, vhost, applied):
        return None
    if applied is not None and not choice.tied and subject.applies_to(vhost, applied) == 1:
        return _item(vhost, msgspec.structs.replace(applied, definition={**applied.definition, **wanted}))
    taken = {each.name for each in known}
    own = next(each for each in (f"dlx-{name}{'-' * more}" for more in range(len(taken) + 1)) if each not in taken)
    priority = 0 if applied is None else int(applied.priority) + 1
    pattern = f"^{name.translate(_SPECIAL)}$"
    definition = {**({} if applied is None else applied.definition), **wanted}
    return _item(vhost, Policy(name=own, pattern=pattern, definition=definition, apply_to="queues", priority=priority))


def _is_as_written(subject: Subject, vhost: str, policy: Policy) -> bool:
    """Tell whether all of a policy is known here: a plugin's keys, and those that a release refuses, are not."""
    written = [item for item, at in subject.snapshot.items("policies") if (at, item["name"]) == (vhost, policy.name)]
    return bool(written) and dict(written[-1]["definition"]) == dict(policy.definition)


def _item(vhost: str, policy: Policy) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def bind(vhost: str, exchange: str, queue: str, key: str) -> Change:
    """Return the change that binds a queue to an exchange."""
    item = {"source": exchange, "vhost": vhost, "destination": queue, "destination_type": "queue"}
    return Change("bindings", {**item, "routing_key": key, "arguments": {}})


# Fixes for dead letters that no queue takes


def route_dead_letters(subject: Subject, queue: QueueAt, keys: list[str]) -> Fix:
    """Return the fix for dead letters that come to an exchange with these keys, and no further.

    Where nothing replaces their keys, they may have others as well: the fix takes all.
    """
    vhost, name = queue
    flow = subject.snapshot.flows[vhost]
    settings = flow.settings(name)
    dlx, replaced = settings.dead_letter_exchange or "", settings.dead_letter_routing_key
    exchange = flow.topology.exchanges.get(dlx)
    if not dlx:
        return _by_default_exchange(subject, queue, replaced)
    kind = None if exchange is None else routing_type(exchange)
    taking = _only_keeping(subject, queue, dlx)
    unbound = is_unbound(subject, vhost, dlx)
    if unbound and taking is None:
        return _declare_and_bind(dlx, kind, replaced)
    if kind in CHOOSING:
        return Fix(True, f"let each destination of exchange '{dlx}' lead to a queue, and bind one if it has none")
    if kind in (None, "headers"):
        headers = ", which compares headers, for the headers of these messages"
        return Fix(True, f"bind a queue to exchange '{dlx}'{headers}")
    target = "a queue" if taking is None else f"queue '{taking}'"

    def bound(*keys: str, also: str = "") -> Fix:
        more = f" and {len(keys) - _BOUND_MAX:,} more" * (len(keys) > _BOUND_MAX)
        named = " and ".join(map(shown, keys[:_BOUND_MAX])) + more
        changes = () if taking is None else tuple(bind(vhost, dlx, taking, key) for key in keys)
        return Fix(True, f"bind {target} to exchange '{dlx}' for routing key {named}{also}", changes)

    again = _as_topic(dlx, name) if literal_wildcards(subject, queue) else ""
    if replaced is not None:
        return bound(replaced, also=f"; or {again}" if again else "")
    for_dead_letters = taking is not None and any(map(is_named_for_dead_letters, (dlx, taking)))
    if kind == "topic" and for_dead_letters:  # elsewhere that would take much more
        return bound("#")
    if kind in ("fanout", RECENT_HISTORY):
        return bound("")
    literal = _literal_keys(subject, vhost)
    all_literal = all(key in literal for key in keys)
    if all_literal and len(keys) <= _BOUND_MAX:
        return bound(*keys, also=f"; or {again}" if again else "")
    if again:
        return Fix(True, again)
    known = subject.passing_keys(vhost, dlx)
    key = next(iter(known)) if len(known) == 1 else None
    if key is not None and _keeps(subject, queue, dlx, key):
        return set_by_policy(subject, queue, {DEAD_LETTER_ROUTING_KEY: key})
    if all_literal:
        return bound(*keys)
    if unbound:
        return Fix(True, f"bind {target} to exchange '{dlx}' for {_ALL_KEYS}")
    every = f"one that is bound, for {_ALL_KEYS}"
    return Fix(True, f"{by_its_policy(subject, queue)}: set dead-letter-routing-key to {every}")


def is_unbound(subject: Subject, vhost: str, exchange: str) -> bool:
    """Tell whether nothing at all is bound to an exchange, and it hands messages on to no other."""
    flow = subject.snapshot.flows[vhost]
    return flow.passed({exchange}) == {exchange} and bool(exchange) and not flow.topology.bindings.get(exchange)


def _declare_and_bind(exchange: str, kind: str | None, replaced: str | None) -> Fix:
    """Return the fix for a dead-letter exchange to which nothing is bound, where no queue is meant for dead letters."""
    keys = {"direct": f" for {_ALL_KEYS}", "topic": " for routing key '#'"}.get(kind or "", "")
    if replaced is not None and keys:
        keys = f" for routing key '{replaced}'"
    return Fix(True, f"declare a queue and bind it to exchange '{exchange}'{keys}")


def _by_default_exchange(subject: Subject, queue: QueueAt, replaced: str | None) -> Fix:
    """Return the fix where dead letters go to the default exchange, which routes to the queue of the key's name."""
    if replaced is not None:
        routes = "the default exchange routes to the queue of that name"
        return Fix(True, f"declare queue '{replaced}', or correct dead-letter-routing-key: {routes}")
    called_after = subject.for_those_of.get((queue[0], stem(queue[1])), ())
    own = [other for other in called_after if _keeps(subject, queue, "", other)]
    if len(own) == 1:
        return set_by_policy(subject, queue, {DEAD_LETTER_ROUTING_KEY: own[0]})
    routes = "the default exchange routes to the queue that the key names"
    return Fix(True, f"{by_its_policy(subject, queue)}: set dead-letter-routing-key to the name of a queue; {routes}")


def _as_topic(exchange: str, queue: str) -> str:
    how = f"delete exchange '{exchange}' and declare it, with its bindings, as a topic or fanout exchange"
    return f"{how} while nothing dies in '{queue}'"


def literal_wildcards(subject: Subject, queue: QueueAt) -> list[str]:
    """Return the wildcards that bind something to the direct dead-letter exchange of a queue: keys like any other."""
    topology = subject.snapshot.topologies[queue[0]]
    dlx = subject.snapshot.flows[queue[0]].settings(queue[1]).dead_letter_exchange or ""
    exchange = topology.exchanges.get(dlx)
    if exchange is None or not dlx or exchange.type != "direct":
        return []
    return list(
        dict.fromkeys(each.routing_key for each in topology.bindings.get(dlx, ()) if is_pattern(each.routing_key))
    )


def _only_keeping(subject: Subject, queue: QueueAt, exchange: str) -> str | None:
    """Return the one queue that is bound to an exchange and keeps what it takes.

    Where none is bound, it is the one that is called after dead letters.
    """
    flow = subject.snapshot.flows[queue[0]]

    def keeps(name: str) -> bool:
        return name != queue[1] and name in flow.topology.queues and is_keeping(flow.settings(name))

    bound = {each.destination for each in flow.topology.bindings.get(exchange, ()) if each.destination_type == "queue"}
    if bound:
        (found, *more) = sorted(bound)
        return found if not more and keeps(found) else None
    own = list(filter(keeps, subject.for_those_of.get((queue[0], stem(queue[1])), ())))
    choice = own or list(filter(keeps, subject.for_dead_letters.get(queue[0], ())))
    return choice[0] if len(choice) == 1 else None


def _literal_keys(subject: Subject, vhost: str) -> set[str]:
    """Return the keys that the definitions themselves have; others stand for whatever a wildcard takes."""
    return {key for key in _keys_of(subject, vhost) if not is_pattern(key)}


def named_keys(subject: Subject, vhost: str, keys: Iterable[str]) -> list[str]:
    """Return those of the keys of which the definitions have a word; others stand for what no binding names."""
    words = {word for key in _keys_of(subject, vhost) for word in key.split(".")}
    return [key for key in keys if not words.isdisjoint(key.split("."))]


def _keys_of(subject: Subject, vhost: str) -> Iterator[str]:
    """Yield the keys of bindings and the names of queues; an exchange that chooses by a hash has other keys."""
    topology = subject.snapshot.topologies[vhost]
    yield from topology.queues
    for name, bindings in topology.bindings.items():
        if name not in topology.exchanges or not hashes(topology.exchanges[name]):
            yield from (each.routing_key for each in bindings)


# Carries fixes out


def combined(findings: Iterable[Finding]) -> list[Change]:
    """Return the changes of the fixes, each once; those of one policy as one."""
    found: dict[Any, Change] = {}
    for change in (each for finding in findings if finding.fix.safe for each in finding.fix.changes):
        item = change.item
        named = item["name"] if change.section == "policies" else msgspec.json.encode(item)
        key = change.section, item["vhost"], named
        if key in found and change.section == "policies":
            both = {**item["definition"], **found[key].item["definition"]}
            change = Change(change.section, {**item, "definition": both})
        found[key] = change
    return list(found.values())


def applied(definitions: Definitions, changes: Iterable[Change]) -> Definitions:
    """Return definitions with the changes in them: policies in place of those of their names, bindings beside."""
    document = dict(definitions.document)
    for change in changes:
        item = dict(change.item)
        if definitions.single_vhost:
            del item["vhost"]
        kept = [
            each
            for each in document.get(change.section, ())
            if change.section != "policies"
            or each["name"] != item["name"]
            or each.get("vhost") != item.get("vhost", each.get("vhost"))  # an export of one may name its own
        ]
        document[change.section] = [*kept, item]
    only = definitions.vhosts[0] if definitions.single_vhost and definitions.vhost_named else None
    return Definitions(document, definitions.source, only)


def policy_commands(findings: Iterable[Finding]) -> str:
    """Return what sets the policies of the fixes on a server that runs, as text: in three ways, of which one will do.

    They are for ``rabbitmqctl``, for ``curl`` (which asks for the password), and for the operators of Kubernetes.
    """
    policies = [each.item for each in combined(findings) if each.section == "policies"]
    if not policies:
        return "# no finding has a fix that is a policy, plain as it stands\n"
    parts = [
        ("# with rabbitmqctl", map(_rabbitmqctl, policies)),
        ("# or over HTTP; put your server and your user here", map(_curl, policies)),
        ("# or with the messaging topology operator; put the name of your cluster here", [_yaml(policies)]),
    ]
    return "\n\n".join("\n".join([title, *lines]) for title, lines in parts) + "\n"


def _rabbitmqctl(policy: Mapping[str, Any]) -> str:
    options = ["-p", policy["vhost"], "--priority", str(policy["priority"]), "--apply-to", policy["apply-to"]]
    definition = msgspec.json.encode(policy["definition"]).decode()
    return shlex.join(["rabbitmqctl", "set_policy", *options, policy["name"], policy["pattern"], definition])


def _curl(policy: Mapping[str, Any]) -> str:
    path = "/".join(quote(policy[part], safe="") for part in ("vhost", "name"))
    body = {key: policy[key] for key in ("pattern", "apply-to", "definition", "priority")}
    data = ["-H", "content-type: application/json", "-d", msgspec.json.encode(body).decode()]
    return shlex.join(["curl", "-fsS", "-u", "USER", "-X", "PUT", *data, f"http://localhost:15672/api/policies/{path}"])


def _yaml(policies: Iterable[Mapping[str, Any]]) -> str:
    """Return the policies as objects of Kubernetes."""
    specs = [policy_spec(policy, policy["name"], policy["vhost"]) for policy in policies]
    objects = [operator_object("Policy", f"dlx-policy-{number}", spec) for number, spec in enumerate(specs, 1)]
    return "---\n".join(objects).removesuffix("\n")
