"""Holds definitions against what servers take: this names what none imports, and what some ignore.

A server checks each queue and policy when it is declared or imported. So a server cannot have what every release
refuses: the file was altered, and questions are asked without it. What one release refuses and another takes may be
left from before an upgrade.
Source: live servers (imports over HTTP, and declarations).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from dlx.amqp_errors import Refusal
from dlx.declarations import ARGUMENTS, check_type, imported_queue
from dlx.erlang_printing import in_plain_text
from dlx.nearest_names import nearest
from dlx.operator_errors import imported
from dlx.policies import TYPE_SELECTORS
from dlx.policy_validation import DEFINABLE, PolicyRefusedError, check_policy
from dlx.releases import RELEASES, Release, known_release, release, stand_in_remark
from dlx.settings import DELIVERY_LIMIT, OVERFLOWS, STRATEGIES
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.definitions.reading import Definitions, DefinitionsError

_ARGUMENT = re.compile(r"'(x-[a-z-]+)'")
_TAKEN = {"max-length": 1}
_CHECKED = ("queues", "policies", "parameters")
_NEAR = 0.8
APPLY_TO_WORDS = ("all", "exchanges", "queues", *TYPE_SELECTORS.values())
"""The kinds of object that a policy can be for, in one release or another."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    "apply-to": APPLY_TO_WORDS,
    "queue-type": (CLASSIC, QUORUM, STREAM),
    "overflow": OVERFLOWS,
    "dead-letter-strategy": STRATEGIES,
}
"""The values of fields that are words."""
SETTING_WORDS = tuple(
    dict.fromkeys(
        [
            *(word for field, words in _WORDS.items() if field != "apply-to" for word in words),
            *("default", "lazy", "client-local", "balanced", "min-masters", "random", "all", "exactly", "nodes"),
            *("failed", "returned", "disabled", "always", "when-synced", "manual", "automatic"),
        ]
    )
)
"""All words that a setting of a queue can have."""


class _Wrong(NamedTuple):
    """A part that a release does not take: its place, the reason, and whether it may be for a plugin.

    ``impossible``: no release takes it.
    """

    where: str
    why: str
    for_plugin: bool = False
    impossible: bool = False


def check_declared(kind: str, vhost: str, item: Mapping[str, Any], release: Release) -> None:
    """Raise ``Refusal`` for a queue or an exchange that an import refuses or silently leaves out."""
    if kind == "exchange":
        check_type(item.get("type", "direct"), release)
        return
    imported_queue(
        item["name"],
        vhost=vhost,
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        arguments=item.get("arguments") or {},
        release=release,
        silent=False,
    )


def check_taken(definitions: Definitions, rules: Release) -> tuple[str, ...]:
    """Return what a server of that release refuses or ignores of an export, in sentences.

    Raises ``DefinitionsError`` for a part of another virtual host.
    """
    _check_vhosts(definitions)
    return tuple(_notes(definitions, rules))


def version_note(definitions: Definitions, rules: Release) -> str | None:
    """Return what to say where the rules are not exactly those of the server that wrote the definitions."""
    version = definitions.rabbitmq_version
    if version is None:
        return None
    if known_release(version) == rules.name:
        return stand_in_remark(version)
    none = "" if known_release(version) else f" (there are rules for {RELEASES[0]} to {RELEASES[-1]})"
    return f"RabbitMQ {version} exported the definitions; the rules are those of {rules.name}{none}"


def own_release(definitions: Definitions) -> str | None:
    """Return the name of the release whose server exported the definitions, if it is known and there are rules."""
    return known_release(definitions.rabbitmq_version or "")


def check_some_release_takes(
    definitions: Definitions, section: str, place: int, item: Mapping[str, Any], rules: Release
) -> None:
    """Raise ``DefinitionsError`` for a queue or policy at that place of a section that no release takes."""
    vhost = definitions.vhosts[0] if definitions.single_vhost else str(item.get("vhost"))
    wrong = _find_refusal(rules, section, f"{section}[{place}]", vhost, item)
    if wrong is not None and wrong.impossible:
        raise DefinitionsError(definitions.source, wrong.where, f"no RabbitMQ takes this: {wrong.why}")


def impossible_places(definitions: Definitions, rules: Release) -> frozenset[tuple[str, int]]:
    """Return the sections and places of queues and policies in which something is that no release takes."""
    refused = {
        (section, place): _find_refusal(rules, section, where, vhost, item)
        for section in _CHECKED
        for place, (where, vhost, item) in enumerate(_items(definitions, section))
    }
    return frozenset(at for at, wrong in refused.items() if wrong is not None and wrong.impossible)


def _notes(definitions: Definitions, rules: Release) -> Iterator[str]:
    for section in _CHECKED:
        for where, vhost, item in _items(definitions, section):
            wrong = _find_refusal(rules, section, where, vhost, item)
            of = f" of '{item['name']}'"
            if wrong is not None and wrong.impossible:
                yield f"{wrong.where}{of}: no RabbitMQ takes this, so it is left out here: {wrong.why}"
            elif wrong is not None:
                yield f"{wrong.where}{of}: RabbitMQ {rules.name} refuses this: {wrong.why}"
            if section == "queues":
                yield from _ignored(where, of, item, definitions.topology(vhost).queues[item["name"]].type)


def _find_refusal(rules: Release, section: str, where: str, vhost: str, item: Mapping[str, Any]) -> _Wrong | None:
    """Return what of an item the release refuses, if anything."""
    if section == "queues":
        wrong = partial(_wrong_queue, where, vhost, item)
    elif section == "policies":
        wrong = partial(_wrong_policy, where, item, False)
    elif section == "parameters" and item.get("component") == "operator_policy":
        wrong = partial(_wrong_policy, f"{where}.value", item["value"], True)
    else:
        return None
    found = wrong(rules)
    if found is None or found.for_plugin:
        return found
    return found._replace(impossible=all(wrong(release(name)) is not None for name in RELEASES))


def _wrong_queue(where: str, vhost: str, item: Mapping[str, Any], release: Release) -> _Wrong | None:
    try:
        check_declared("queue", vhost, item, release)
    except Refusal as refusal:
        why = imported(refusal).plain
        named = _ARGUMENT.search(why)
        if named is None or named[1] not in item.get("arguments", {}):
            return _Wrong(where, why)
        value = item["arguments"][named[1]]
        return _Wrong(f"{where}.arguments.{named[1]}", why + _nearest_word(named[1].removeprefix("x-"), value))
    return None


def _ignored(where: str, of: str, item: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield what servers take of a queue and do not look at."""
    arguments = item.get("arguments") or {}
    for name, meant in mistaken_arguments(arguments):
        yield f"{where}.arguments.{name}{of}: RabbitMQ takes this and ignores it; did you mean {meant!r}?"
    limit = arguments.get(f"x-{DELIVERY_LIMIT}")
    if kind == QUORUM and limit is not None and not isinstance(limit, int):
        takes = f"RabbitMQ takes {limit!r} and reads no limit from it: no integer"
        yield f"{where}.arguments.x-{DELIVERY_LIMIT}{of}: {takes}"
    shown = item.get("type")
    if shown is not None and shown.removeprefix("rabbit_").removesuffix("_queue") != kind:
        by = "its argument x-queue-type"
        if "x-queue-type" not in arguments:
            by = "the default: it has no argument x-queue-type, which exports of servers always have for other types"
        yield f"{where}.type{of}: RabbitMQ ignores {shown!r}; the queue is of type {kind}, by {by}"


def misspelt(names: Iterable[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that is not known and comes very near one that is, with that one."""
    for name in names:
        near = [] if name in known else nearest(name, known, _NEAR)
        if near:
            yield name, near[0]


_INVENTED: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"delay", "ttl", "expiration", "expiry"}), "x-message-ttl"),
    (frozenset({"retries", "retry", "attempts", "attempt", "deliveries", "redeliveries", "redelivery", "requeues"}),
     f"x-{DELIVERY_LIMIT}"),
    (frozenset({"dlx", "dlq", "dle", "dead", "deadletter"}), "x-dead-letter-exchange"),
    (frozenset({"size", "messages", "length"}), "x-max-length"),
)  # fmt: skip
"""Words in names of arguments that no server knows, each with the argument that does what they promise."""


def mistaken_arguments(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each argument of a queue that no server knows, with the one that is meant: misspelt, or made up."""
    for name in names:
        near = dict(misspelt([name], ARGUMENTS))
        words = set(name.replace("_", "-").split("-"))
        if name in near:
            yield name, near[name]
        elif name not in ARGUMENTS and name.startswith("x-"):
            yield from [(name, meant) for made_up, meant in _INVENTED if words & made_up][:1]


def unknown_keys(keys: Iterable[str]) -> str:
    """Say that a release does not know keys of a policy, with the name that may be meant where none knows one."""
    listed = list(keys)
    meant = [near for _, near in misspelt(listed, policy_keys())]
    asks = f"; did you mean {' and '.join(map(repr, meant))}?" if meant else ""
    return f"it does not know {', '.join(map(repr, listed))}{asks}"


def _wrong_policy(where: str, item: Mapping[str, Any], operator: bool, release: Release) -> _Wrong | None:
    pattern, definition = item.get("pattern"), item.get("definition")
    definition = dict(definition) if isinstance(definition, list) else definition
    apply_to = item.get("apply-to", "queues" if operator else "all")
    priority = item.get("priority", 0)
    why = _refusal(pattern, definition, apply_to, priority, operator, release)
    if why is None:
        return None
    if _refusal(pattern, _TAKEN, "all", 0, operator, release):
        return _Wrong(f"{where}.pattern", why)
    if _refusal(".*", _TAKEN, apply_to, 0, operator, release):
        return _Wrong(f"{where}.apply-to", why + _nearest_word("apply-to", apply_to))
    keys = release.operator_policy_keys if operator else release.policy_keys
    for key, value in definition.items() if isinstance(definition, Mapping) else ():
        if key not in keys:
            return _Wrong(f"{where}.definition.{key}", unknown_keys([key]), for_plugin=is_for_plugin(key))
        if _refusal(".*", {key: value}, "all", 0, operator, release) == why:
            return _Wrong(f"{where}.definition.{key}", why + _nearest_word(key, value))
    return _Wrong(f"{where}.definition", why)


def is_for_plugin(key: str) -> bool:
    """Tell whether a policy says something to a plugin by a key: no release has one that is like it."""
    known = policy_keys()
    return key not in known and not nearest(key, known, _NEAR)


@cache
def policy_keys() -> frozenset[str]:
    """Return the keys of policies in one release or another."""
    return frozenset(DEFINABLE).union(*(release(name).policy_keys for name in RELEASES))


def _refusal(
    pattern: Any, definition: Any, apply_to: Any, priority: Any, operator: bool, release: Release
) -> str | None:
    try:
        check_policy("", pattern, definition, apply_to, priority, operator=operator, release=release)
    except PolicyRefusedError as refused:
        return in_plain_text(str(refused))
    return None


def _nearest_word(field: str, value: Any) -> str:
    near = nearest(value, _WORDS.get(field, ())) if isinstance(value, str) else []
    return f"; did you mean {near[0]!r}?" if near and near[0] != value else ""


def _items(definitions: Definitions, section: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the items of a section with their places and virtual hosts."""
    only = definitions.vhosts[0] if definitions.single_vhost else None
    for index, item in enumerate(definitions.document.get(section, ())):
        yield f"{section}[{index}]", only if only is not None else str(item["vhost"]), item


def _check_vhosts(definitions: Definitions) -> None:
    """Raise ``DefinitionsError`` where the export of one virtual host has parts of another."""
    if not (definitions.single_vhost and definitions.vhost_named):
        return
    (own,) = definitions.vhosts
    for section in ("exchanges", "queues", "bindings", "policies", "parameters"):
        for where, _, item in _items(definitions, section):
            if item.get("vhost", own) != own:
                problem = f"expected {own!r}, the virtual host of this export, or nothing; got {item['vhost']!r}"
                raise DefinitionsError(definitions.source, f"{where}.vhost", problem)
