"""Tells which small parts of a topology are equal up to names, so that what is found out of one holds for the others.

Names are compared by their words, the parts between dots: so topic exchanges tell them apart. Parts are equal where
the words of one can be put in place of those of the other, one for one, and all else is the same: arguments, the
policies that apply, bindings, and the order of all of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dlx.message_flow import Hop
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from simulator.analysis.slices import Slices
from simulator.scenario import steps
from simulator.scenario.steps import History, Publish

QUEUES_MAX = 50
"""Larger parts are not compared: that takes as long as to look at each of them."""
_NAMES = ("name", "source", "destination", "routing_key")
_PLACES = ("vhost", "pattern")
_SETTINGS = {DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, "alternate-exchange"}
_NAMING = {*_SETTINGS, "alternate_exchange", *(f"x-{key}" for key in _SETTINGS)}


class Shape(NamedTuple):
    """What equal parts have in common, and the words that stand for one another in them, in order."""

    common: Hashable
    words: tuple[str, ...]


class _Words:
    """Numbers words in the order in which they appear; those that mean something to a broker stand for themselves."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, name: str) -> str:
        if name.startswith("amq."):
            return name
        return ".".join(
            word if word in ("#", "*", "") else str(self.numbers.setdefault(word, len(self.numbers)))
            for word in name.split(".")
        )


def shape(
    slices: Slices, part: Mapping[str, Any], publish: Publish, path: Sequence[Hop], names: Sequence[str], question: str
) -> Shape | None:
    """Return the shape of a part and of a message's way through it; ``None`` for a part that is too large to compare.

    Args:
        slices: those that have cut the part.
        part: the definitions of the part.
        publish, path: how the message is published, and the deaths behind it.
        names: the queues that are asked about.
        question: what tells the question from others about the same queues.
    """
    if len(part.get("queues", ())) > QUEUES_MAX or slices.is_whole(part):
        return None
    words = _Words()
    way = [publish.exchange, publish.routing_key, *(name for hop in path for name in (hop.queue, hop.to_queue)), *names]
    common = [question, publish.headers, [hop.reason for hop in path], *map(words.of, way)]
    common += _described(slices, part, publish.vhost, words)
    return Shape(repr(common), tuple(words.numbers))


def _described(slices: Slices, part: Mapping[str, Any], vhost: str, words: _Words) -> Iterator[Any]:
    """Yield what the part has, names by their numbers."""
    for section in ("queues", "exchanges"):
        for item in part.get(section, ()):
            applying = slices.applying(item["name"], vhost)
            by_name = sorted(range(len(applying)), key=lambda place: str(applying[place].get("name")))
            yield section, _item(item, words), [_item(each, words) for each in applying], by_name
    yield slices.without_pattern(vhost)
    for item in part.get("bindings", ()):
        yield "binding", _item({**item, "arguments": None}, words), item.get("arguments")
    yield [(key, value) for each in part.get("vhosts", ()) if each.get("name") == vhost for key, value in each.items()
           if key != "name"]  # fmt: skip


def _item(item: Mapping[str, Any], words: _Words) -> list[tuple[str, Any]]:
    """Return the fields of an object, names by their numbers."""
    found: list[tuple[str, Any]] = []
    for key, value in sorted(item.items()):
        if key in _NAMES and isinstance(value, str):
            found.append((key, words.of(value)))
        elif isinstance(value, Mapping):
            found.append((key, _item(value, words) if key == "value" else _table(value, words)))
        elif key not in _PLACES:
            found.append((key, value))
    return found


def _table(table: Mapping[str, Any], words: _Words) -> list[tuple[str, Any]]:
    """Return arguments, or the definition of a policy, names by their numbers."""
    named = ((key, words.of(value) if key in _NAMING and isinstance(value, str) else value)
             for key, value in table.items())  # fmt: skip
    return sorted(named, key=lambda item: item[0])


def renamed(history: History, words: Mapping[str, str], vhost: str) -> History:
    """Return the history with other words in the names, in another virtual host."""
    return tuple(_renamed(step, words, vhost) for step in history)


def _renamed(step: steps.AnyStep, words: Mapping[str, str], vhost: str) -> steps.AnyStep:
    if isinstance(step, steps.Repeat):
        return steps.changed(step, steps=renamed(step.steps, words, vhost))
    fields = {
        field: ".".join(words.get(word, word) for word in name.split("."))
        for field in ("queue", "exchange", "routing_key")
        if (name := getattr(step, field, "")) and not name.startswith("amq.")
    }
    return steps.changed(step, **fields, **({"vhost": vhost} if hasattr(step, "vhost") else {}))
