"""Tells which messages have the same ways before them but for names, as in ladders that many teams have of their own.

A way is all that the rules say of a message on one side, or on both: which queues it enters in which order, what holds
there, and under which address its dead letters go on. Names are numbered as they come; where two ways are equal but for
these, what happens on one happens on the other, under the other names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import X_DEATH
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from simulator.json_values import canonical_json
from simulator.questions.reachability import address, sent_on_from
from simulator.replay.whatif.coupling import Reaches, message_of
from simulator.replay.whatif.fates import Ends, Fate
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Publication, Shown, Story

KNOWN_MAX = 10_000
"""Ways that are remembered."""
_NAMES = frozenset({DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY})
_NAMING = frozenset({f"x-{name}" for name in _NAMES})


class Way(NamedTuple):
    """What is before a message.

    Attributes:
        shape: a number, equal for ways that are the same but for names.
        names: the names, in the order of their numbers.
    """

    shape: int
    names: tuple[str, ...]


class OnWay(NamedTuple):
    """Where a message is: its way, and what it was published with."""

    way: Way
    routing_key: str


class Ways:
    """Tells the ways of messages.

    Args:
        sides: the virtual hosts of each side that decides.
        reaches: tells which routing keys are alike.
        known_of: what else a play may ask of a queue.
    """

    def __init__(
        self, sides: Sequence[Mapping[str, MessageFlow]], reaches: Reaches, known_of: Callable[[Queue], Hashable]
    ) -> None:
        self._sides, self._reaches, self._known_of = sides, reaches, known_of
        self._known: dict[Hashable, Way | None] = {}
        self._shapes: dict[Hashable, int] = {}
        self._known_exchanges: dict[str, frozenset[str]] = {}

    def of(self, story: Story) -> Way | None:
        """Return the way of a message; nothing where more than the ways of its copies decides."""
        return self.of_publish(story.vhost, story.publications[0]) if len(story.publications) == 1 else None

    def of_publish(self, vhost: str, publication: Publication) -> Way | None:
        """Return the way of a message that is published once."""
        if (
            not all(vhost in flows for flows in self._sides)
            or not self._reaches.of_publish(vhost, publication).is_clear
        ):
            return None
        if publication.routing_key in self._exchanges(vhost):
            return None  # names are told apart by their text, not by what they name
        headers = publication.properties.get("headers")
        if headers and (X_DEATH in headers or self._reaches.read_headers(vhost, publication.properties)):
            return None
        alike = self._reaches.alike(vhost, publication.routing_key)
        key = vhost, publication.exchange, alike
        if key not in self._known:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()  # the numbers of shapes stay, of which there are no more
            own_key = None if alike is publication.routing_key else publication.routing_key
            self._known[key] = self._way(vhost, publication, own_key)
        return self._known[key]

    def _exchanges(self, vhost: str) -> frozenset[str]:
        """Return the names of exchanges, and of those that queues would dead-letter to."""
        known = self._known_exchanges.get(vhost)
        if known is None:
            flows = [side[vhost] for side in self._sides]
            named = {flow.settings(name).dead_letter_exchange for flow in flows for name in flow.topology.queues}
            known = frozenset(filter(None, named.union(*(flow.topology.exchanges for flow in flows))))
            self._known_exchanges[vhost] = known
        return known

    def _way(self, vhost: str, publication: Publication, own_key: str | None) -> Way | None:
        """Return the way of a message that no side refuses; ``own_key`` is its routing key if others can replace it."""
        numbers, on_sides = _Numbers(own_key), []
        for flows in self._sides:
            flow = flows[vhost]
            message = message_of(flow, publication)
            if message is None:
                return None
            on_sides.append(self._on_side(flow, vhost, message, numbers))
        shape = vhost, *on_sides
        return Way(self._shapes.setdefault(shape, len(self._shapes)), numbers.names)

    def _on_side(self, flow: MessageFlow, vhost: str, message: Message, numbers: _Numbers) -> Hashable:
        """Return what is before a message on one side, with the names numbered."""
        sent = list(sent_on_from(flow, [message]))
        places = {address(each.message): place for place, each in enumerate(sent)}
        steps = []
        for each in sent:
            exchange = flow.topology.exchanges.get(each.message.exchange)
            onward = [flow.sent_on(name, each.message) for name in each.queues]
            steps.append(
                (
                    numbers.of(each.message.exchange),
                    exchange is None or exchange.internal,
                    numbers.of_all(each.message.routing_keys),
                    numbers.of_all(each.queues),
                    tuple([None if other is None else places[address(other.message)] for other in onward]),
                )
            )
        there = dict.fromkeys(name for each in sent for name in each.queues)
        queues = tuple([(numbers.of(name), self._holds(flow, vhost, name, numbers)) for name in there])
        in_order = tuple(map(numbers.of, sorted(there)))  # what happens at once may be told in the order of names
        return tuple(steps), queues, in_order

    def _holds(self, flow: MessageFlow, vhost: str, name: str, numbers: _Numbers) -> Hashable:
        """Return what holds in a queue."""
        settings, queue = flow.settings(name), flow.topology.queues[name]
        named = (settings.dead_letter_exchange, settings.dead_letter_routing_key)
        values = {key: setting.value for key, setting in settings.values.items() if key not in _NAMES}
        arguments = {key: value for key, value in queue.arguments.items() if key not in _NAMING}
        rest = queue.type, queue.durable, queue.auto_delete, queue.exclusive, repr(sorted(arguments.items()))
        return (
            tuple([None if each is None else numbers.of(each) for each in named]),
            repr(sorted(values.items())),
            rest,
            self._known_of((vhost, name)),
        )


class _Numbers:
    """Numbers names as they come. The default exchange and the message's own key have numbers of their own."""

    def __init__(self, own_key: str | None) -> None:
        self._numbers: dict[str, int] = {}
        self._own_key = own_key

    @property
    def names(self) -> tuple[str, ...]:
        """The names by number."""
        return tuple(self._numbers)

    def of(self, name: str) -> int:
        if not name:
            return -1
        return -2 if name == self._own_key else self._numbers.setdefault(name, len(self._numbers))

    def of_all(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.of, names))


class OtherNames:
    """Gives what happened on one way to a message on another one, which has other names."""

    def __init__(self, one: Way, other: Way) -> None:
        self._names = dict(zip(one.names, other.names, strict=True))

    def of(self, name: str) -> str:
        """Return the other name; a name that the way does not have stays: the message's own key."""
        return self._names.get(name, name)

    def story(self, story: Story) -> Story:
        """Return what the log would show of a message there: names in properties stay, which nothing looks at."""
        replace = msgspec.structs.replace
        publications = [
            replace(
                each,
                exchange=self.of(each.exchange),
                routing_key=self.of(each.routing_key),
                refused_by=tuple(map(self.of, each.refused_by)),
            )
            for each in story.publications
        ]
        deliveries = [replace(each, shown=self._shown(each.shown)) for each in story.deliveries]
        return Story(story.vhost, story.message, publications, deliveries)

    def fate(self, fate: Fate) -> Fate:
        """Return what becomes of the message, where that rests on nothing that is said in words."""
        return msgspec.structs.replace(
            fate,
            ends=self._ends(fate.ends),
            deliveries=tuple(map(self._shown, fate.deliveries)),
            deaths=tuple([(self.of(queue), reason) for queue, reason in fate.deaths]),
        )

    def _ends(self, ends: Ends) -> Ends:
        return Ends(
            self._counts(ends.acknowledged),
            self._counts(ends.waiting),
            tuple(sorted((self.of(queue), reason, copies) for queue, reason, copies in ends.lost)),
            self._counts(ends.refused),
            ends.unroutable,
            ends.endless,
        )

    def _counts(self, counts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((self.of(queue), copies) for queue, copies in counts))

    def _shown(self, shown: Shown) -> Shown:
        keys = tuple(map(self.of, shown.routing_keys))
        x_death = canonical_json(list(map(self._death, msgspec.json.decode(shown.x_death)))) if shown.x_death else ""
        return Shown(self.of(shown.queue), self.of(shown.exchange), keys, x_death)

    def _death(self, death: dict[str, Any]) -> dict[str, Any]:
        named = {"queue": self.of(death["queue"]), "exchange": self.of(death["exchange"])}
        return {**death, **named, "routing-keys": list(map(self.of, death["routing-keys"]))}
