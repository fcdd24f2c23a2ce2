"""Where publishers would publish to: for every binding a key that it matches, and for queues without one their name.

A queue that is bound is reached through its bindings, as its publishers reach it;
the default exchange reaches those that are not. Exchanges that are internal are for
dead letters and other exchanges alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from dlx.topology import Binding, Exchange, Topology
from simulator.testing.steps import Publish
from simulator.testing.trial import Trial

WORDS_MAX = 6
KEYS_PER_BINDING_MAX = 40
_OTHER_WORD = "other"


def entries(trial: Trial) -> list[Publish]:
    """The publishes to try in this topology, each once; those that no queue takes are left out."""
    found: dict[str, Publish] = {}
    for name, vhost in trial.broker.vhosts.items():
        for step in _of(vhost.topology, name):
            found.setdefault(repr(step), step)
    return list(found.values())


def _of(topology: Topology, vhost: str) -> Iterator[Publish]:
    words = _words(topology)
    bound = {
        binding.destination
        for bindings in topology.bindings.values()
        for binding in bindings
        if binding.source and binding.destination_type == "queue"
    }
    for name in topology.queues:
        if name not in bound:
            yield Publish("", name, vhost=vhost)
    for source, bindings in topology.bindings.items():
        exchange = topology.exchanges.get(source)
        if source and exchange is not None and not exchange.internal:
            for binding in bindings:
                yield from _through(exchange, binding, topology, words, vhost)


def _through(
    exchange: Exchange, binding: Binding, topology: Topology, words: list[str], vhost: str
) -> Iterator[Publish]:
    """Publishes that this binding takes."""
    if exchange.type == "topic":
        keys: Iterable[str] = _topic_keys(binding.routing_key, words)
    elif exchange.type == "fanout":
        keys = dict.fromkeys((binding.routing_key, *_plain_keys(topology), _OTHER_WORD))
    elif exchange.type == "headers":
        for headers in _matching(binding.arguments):
            yield Publish(exchange.name, binding.routing_key, headers=headers, vhost=vhost)
        return
    else:
        keys = (binding.routing_key,)
    for key in islice(keys, KEYS_PER_BINDING_MAX):
        yield Publish(exchange.name, key, vhost=vhost)


def _plain_keys(topology: Topology) -> Iterator[str]:
    """The keys of all bindings that stand for themselves."""
    for bindings in topology.bindings.values():
        for binding in bindings:
            if binding.source and not {"*", "#"} & set(binding.routing_key.split(".")):
                yield binding.routing_key


def _words(topology: Topology) -> list[str]:
    """Words of the topology's routing keys, to put in the place of wildcards; one that it has not comes first."""
    words = dict.fromkeys([_OTHER_WORD])
    for bindings in topology.bindings.values():
        for binding in bindings:
            words |= dict.fromkeys(word for word in binding.routing_key.split(".") if word not in ("", "*", "#"))
    return list(words)


def _topic_keys(pattern: str, words: list[str]) -> Iterator[str]:
    """Keys that the pattern matches: each wildcard is each word in turn, and ``#`` also no word and two."""
    parts = pattern.split(".")
    wild = [index for index, part in enumerate(parts) if part in ("*", "#")]
    if not wild:
        yield pattern
        return
    for word in words[: 1 + WORDS_MAX * 5]:
        yield _filled(parts, {index: [word] for index in wild})
    hashes = [index for index in wild if parts[index] == "#"]
    if hashes:
        rest = {index: [words[0]] for index in wild}
        yield _filled(parts, rest | {index: [] for index in hashes})
        yield _filled(parts, rest | {index: [words[0], words[-1]] for index in hashes})


def _filled(parts: list[str], at: Mapping[int, list[str]]) -> str:
    words: list[str] = []
    for index, part in enumerate(parts):
        words += at.get(index, [part])
    return ".".join(words)


def _matching(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Headers that the binding of a headers exchange takes: all of its own, and where any will do, each alone."""
    own = {key: value for key, value in arguments.items() if not key.startswith("x-")}
    kind = arguments.get("x-match", "all")
    if kind.endswith("with-x"):
        own = {key: value for key, value in arguments.items() if key != "x-match"}
    yield dict(own)
    if kind.startswith("any"):
        for key, value in own.items():
            yield {key: value}
