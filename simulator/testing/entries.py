"""What publishers would publish: to every exchange, keys and headers that bring a message into a queue.

A queue that is bound is reached through its bindings, as its publishers reach it;
the default exchange reaches those that are not. Exchanges that are internal are for
dead letters and other exchanges alone. Routing keys are those of the topology's
bindings, and its patterns with words in the place of wildcards: a dead letter keeps
its key, so one that another exchange knows may go another way than one that none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from dlx.message import published
from dlx.releases import Release
from dlx.routing import route
from dlx.topology import Binding, Exchange, Topology
from simulator.testing.steps import Publish
from simulator.testing.trial import Trial

WORDS_MAX = 30
OWN_KEYS_MAX = 200
OTHER_KEYS_MAX = 60
CANDIDATES_MAX = 500
OTHER = "other"
"""A word that stands in no binding."""


def entries(trial: Trial) -> list[Publish]:
    """The publishes to try in this topology, each once; all of them reach a queue."""
    found: dict[str, Publish] = {}
    for name, vhost in trial.broker.vhosts.items():
        for step in _of(vhost.topology, name, trial.broker.release):
            found.setdefault(repr(step), step)
    return list(found.values())


def _of(topology: Topology, vhost: str, release: Release) -> Iterator[Publish]:
    bound = {
        binding.destination
        for bindings in topology.bindings.values()
        for binding in bindings
        if binding.source and binding.destination_type == "queue"
    }
    for name in topology.queues:
        if name not in bound:
            yield Publish("", name, vhost=vhost)
    keys, words = list(_keys(topology)), _words(topology)
    for exchange in topology.exchanges.values():
        if exchange.name and not exchange.internal:
            yield from _into(exchange, topology, vhost, release, keys, words)


def _into(
    exchange: Exchange, topology: Topology, vhost: str, release: Release, keys: list[str], words: list[str]
) -> Iterator[Publish]:
    """The publishes to one exchange that reach a queue."""
    bindings = [each for each in topology.bindings.get(exchange.name, ()) if each.source]
    few_words = words[: max(2, OWN_KEYS_MAX // max(1, len(bindings)))]
    own = dict.fromkeys(_own_keys(exchange, bindings, few_words))
    sure = own if exchange.type != "headers" and all(each.destination_type == "queue" for each in bindings) else {}
    tables = list(_tables(exchange, bindings))
    for headers in tables:
        for key in own:
            step = Publish(exchange.name, key, headers=headers, vhost=vhost)
            if key in sure or _reaches(step, topology, release):
                yield step
    others = [key for key in (OTHER, *islice(keys, CANDIDATES_MAX)) if key not in own]
    tried = (Publish(exchange.name, key, headers=tables[0], vhost=vhost) for key in dict.fromkeys(others))
    yield from islice((step for step in tried if _reaches(step, topology, release)), OTHER_KEYS_MAX)


def _reaches(step: Publish, topology: Topology, release: Release) -> bool:
    message = published(step.exchange, step.routing_key, headers=step.headers or None, release=release)
    return bool(route(message, topology, release))


def _own_keys(exchange: Exchange, bindings: Iterable[Binding], words: list[str]) -> Iterator[str]:
    """Keys that the exchange's own bindings take; for a topic, the wildcards are each word in turn."""
    for binding in bindings:
        if exchange.type == "topic":
            yield from _topic_keys(binding.routing_key, words)
        else:
            yield binding.routing_key


def _keys(topology: Topology) -> Iterator[str]:
    """All keys of the topology, those of patterns with a word that it has not."""
    for bindings in topology.bindings.values():
        for binding in bindings:
            if binding.source:
                yield from _topic_keys(binding.routing_key, [OTHER])


def _words(topology: Topology) -> list[str]:
    """Words of the topology's routing keys, to put in the place of wildcards; one that it has not comes first."""
    words = dict.fromkeys([OTHER])
    for bindings in topology.bindings.values():
        for binding in bindings:
            words |= dict.fromkeys(word for word in binding.routing_key.split(".") if word not in ("", "*", "#"))
    return list(words)[:WORDS_MAX]


def _topic_keys(pattern: str, words: list[str]) -> Iterator[str]:
    """Keys that the pattern matches: each wildcard is each word in turn, and ``#`` also no word and two."""
    parts = pattern.split(".")
    wild = [index for index, part in enumerate(parts) if part in ("*", "#")]
    if not wild:
        yield pattern
        return
    for word in words:
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


def _tables(exchange: Exchange, bindings: Iterable[Binding]) -> Iterator[dict[str, Any]]:
    """Headers to publish with: none, and for a headers exchange those that its bindings take."""
    yield {}  # the first
    if exchange.type == "headers":
        for binding in bindings:
            yield from _matching(binding.arguments)


def _matching(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Headers that the binding of a headers exchange takes: all of its own, and where any will do, each alone."""
    kind = str(arguments.get("x-match", "all"))
    with_x = kind.endswith("with-x")
    own = {key: value for key, value in arguments.items() if key != "x-match" and (with_x or not key.startswith("x-"))}
    yield dict(own)
    if kind.startswith("any"):
        for key, value in own.items():
            yield {key: value}
