"""Which queues belong in one picture, and the nodes and arrows of it.

Queues that dead letters connect are together, and so are queues with the same
first words in their names, as long as that stays readable. An exchange is one
node for each set of queues that it connects there; the default exchange, which
only names its target, is none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from simulator.replay.report.data import DeadLetters, Published, ReportData

MERGED_QUEUES_MAX = 16
"""Queues up to which sets that share their first words become one picture."""
ARROWS_MAX = 60
"""Arrows of one picture; the ones with the most messages are kept."""
_WORDS = re.compile(r"[^._:/\-]+")

Kind = Literal["queue", "exchange", "entry", "nowhere"]
PUBLISHED = "published"
MIXED = "mixed"


class QueueTotals(msgspec.Struct):
    """What is known of one queue. ``unseen``: copies, at least, that came in and never showed again."""

    published: int = 0
    delivered: int = 0
    unlike: int = 0
    dead_letters_in: int = 0
    dead_letters_out: int = 0
    unseen: int = 0


class Group(msgspec.Struct, frozen=True):
    """The queues of one picture and what flowed between them."""

    vhost: str
    name: str
    queues: Mapping[str, QueueTotals]
    publishes: tuple[Published, ...]
    dead_letters: tuple[DeadLetters, ...]

    @property
    def dead_letter_count(self) -> int:
        return sum(kind.count for kind in self.dead_letters)

    @property
    def delivery_count(self) -> int:
        return sum(queue.delivered for queue in self.queues.values())

    @property
    def unlike_count(self) -> int:
        return sum(queue.unlike for queue in self.queues.values())

    @property
    def unseen_count(self) -> int:
        return sum(queue.unseen for queue in self.queues.values())


class Node(NamedTuple):
    """A queue, an exchange, publishes to the default exchange, or where what no queue takes goes."""

    kind: Kind
    name: str
    number: int = 0


class Arrow(NamedTuple):
    """A flow between two nodes; ``reason`` is that of the deaths, or ``PUBLISHED`` or ``MIXED``."""

    source: Node
    target: Node
    reason: str
    count: int


def totals_by_queue(data: ReportData) -> dict[tuple[str, str], QueueTotals]:
    """The totals of each (vhost, queue) that the log names."""
    totals: defaultdict[tuple[str, str], QueueTotals] = defaultdict(QueueTotals)
    for published in data.publishes or ():
        if published.queue is not None:
            totals[published.vhost, published.queue].published += published.count
    for kind in data.dead_letters:
        totals[kind.vhost, kind.queue].dead_letters_out += kind.count
        totals[kind.vhost, kind.to_queue].dead_letters_in += kind.count
    for delivered in data.deliveries:
        totals[delivered.vhost, delivered.queue].delivered += delivered.count
        totals[delivered.vhost, delivered.queue].unlike += delivered.unlike
    if data.publishes is not None and not data.cut & {"publishes", "dead_letters", "deliveries"}:
        for queue in totals.values():
            came = queue.published + queue.dead_letters_in
            queue.unseen = max(0, came - queue.delivered - queue.dead_letters_out)
    return dict(totals)


def groups(data: ReportData) -> tuple[Group, ...]:
    """The pictures that show everything, those with the most dead letters first."""
    totals = totals_by_queue(data)
    found: list[Group] = []
    for vhost in sorted({vhost for vhost, _ in totals}):
        queues = {name: each for (host, name), each in sorted(totals.items()) if host == vhost}
        kinds = [kind for kind in data.dead_letters if kind.vhost == vhost]
        publishes = [each for each in data.publishes or () if each.vhost == vhost]
        for name, members in _named(_merged(_connected(queues, kinds))):
            found.append(_group(vhost, name, {q: queues[q] for q in members}, publishes, kinds))
    return tuple(sorted(found, key=lambda group: (-group.dead_letter_count, group.vhost, group.name)))


def _group(
    vhost: str,
    name: str,
    queues: dict[str, QueueTotals],
    publishes: Sequence[Published],
    kinds: Sequence[DeadLetters],
) -> Group:
    own = [each for each in publishes if each.queue in queues]
    exchanges = {each.exchange for each in own}
    lost = [each for each in publishes if each.queue is None and each.exchange in exchanges - {""}]
    within = tuple(kind for kind in kinds if kind.queue in queues)
    return Group(vhost, name, queues, (*own, *lost), within)


def _connected(queues: Iterable[str], kinds: Iterable[DeadLetters]) -> list[tuple[str, ...]]:
    """The sets of queues that dead letters connect."""
    leader = {queue: queue for queue in queues}

    def find(queue: str) -> str:
        while leader[queue] != queue:
            leader[queue] = leader[leader[queue]]
            queue = leader[queue]
        return queue

    for kind in kinds:
        leader[find(kind.queue)] = find(kind.to_queue)
    sets: defaultdict[str, list[str]] = defaultdict(list)
    for queue in leader:
        sets[find(queue)].append(queue)
    return [tuple(members) for members in sets.values()]


def _merged(sets: list[tuple[str, ...]], depth: int = 1) -> list[tuple[str, ...]]:
    """The sets, those that share their first words joined where the result is small enough."""
    by_words: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    found: list[tuple[str, ...]] = []
    for members in sets:
        words = common_words(members)
        if len(words) < depth:
            found.append(members)
        else:
            by_words[words[:depth]].append(members)
    for alike in by_words.values():
        if sum(map(len, alike)) <= MERGED_QUEUES_MAX:
            found.append(tuple(sorted(queue for members in alike for queue in members)))
        else:
            found += _merged(alike, depth + 1)
    return found


def _named(sets: Iterable[tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The sets with their names; single queues are one set."""
    single = tuple(sorted(members[0] for members in sets if len(members) == 1))
    named = [(_name(members), members) for members in sets if len(members) > 1]
    if len(single) == 1:
        named.append((single[0], single))
    elif single:
        named.append(("other queues", single))
    return named


def _name(members: tuple[str, ...]) -> str:
    words = common_words(members)
    if not words:
        return f"{members[0]} and {len(members) - 1} more"
    last = list(_WORDS.finditer(members[0]))[len(words) - 1]
    return members[0][: last.end()]


def common_words(names: Sequence[str]) -> tuple[str, ...]:
    """The first words that all names share; words end at ``.``, ``_``, ``:``, ``/`` and ``-``."""
    split = [tuple(_WORDS.findall(name)) for name in names]
    shared: list[str] = []
    for words in zip(*split, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return tuple(shared)


def arrows(group: Group) -> list[Arrow]:
    """What flowed in the group, from publish to the last dead letter."""
    return [*_publish_arrows(group), *_dead_letter_arrows(group)]


def _publish_arrows(group: Group) -> list[Arrow]:
    found = []
    for published in sorted(group.publishes, key=lambda each: (each.exchange, each.queue or "")):
        queue = published.queue
        source = Node("entry", queue or "") if published.exchange == "" else Node("exchange", published.exchange)
        target = Node("nowhere", published.exchange) if queue is None else Node("queue", queue)
        found.append(Arrow(source, target, PUBLISHED, published.count))
    return found


def _dead_letter_arrows(group: Group) -> list[Arrow]:
    by_exchange: defaultdict[str, list[DeadLetters]] = defaultdict(list)
    for kind in sorted(group.dead_letters, key=lambda k: (k.exchange, k.queue, k.reason, k.to_queue)):
        by_exchange[kind.exchange].append(kind)
    found = [
        Arrow(Node("queue", kind.queue), Node("queue", kind.to_queue), kind.reason, kind.count)
        for kind in by_exchange.pop("", ())
    ]
    for exchange, kinds in by_exchange.items():
        for number, together in enumerate(_bipartite(kinds), start=1):
            found += _through(Node("exchange", exchange, number), together)
    return found


def _through(exchange: Node, kinds: list[DeadLetters]) -> list[Arrow]:
    """The arrows into an exchange, one for each queue and reason, and out of it, one for each target."""
    into: Counter[tuple[str, str]] = Counter()
    out: Counter[str] = Counter()
    reasons: defaultdict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        into[kind.queue, kind.reason] += kind.count
        out[kind.to_queue] += kind.count
        reasons[kind.to_queue].add(kind.reason)
    found = [Arrow(Node("queue", queue), exchange, reason, n) for (queue, reason), n in into.items()]
    for queue, n in out.items():
        reason = next(iter(reasons[queue])) if len(reasons[queue]) == 1 else MIXED
        found.append(Arrow(exchange, Node("queue", queue), reason, n))
    return found


def _bipartite(kinds: list[DeadLetters]) -> list[list[DeadLetters]]:
    """Dead letters through one exchange, apart where they share neither source nor target."""
    found: list[tuple[set[tuple[str, str]], list[DeadLetters]]] = []
    for kind in kinds:
        ends = {("from", kind.queue), ("to", kind.to_queue)}
        together = [kind]
        apart = []
        for other_ends, others in found:
            if ends & other_ends:
                ends |= other_ends
                together = [*others, *together]
            else:
                apart.append((other_ends, others))
        found = [*apart, (ends, together)]
    return [together for _, together in found]


def most_used(found: Sequence[Arrow], most: int = ARROWS_MAX) -> list[Arrow]:
    """The arrows with the largest counts, in their order."""
    kept = sorted(range(len(found)), key=lambda index: (-found[index].count, index))[:most]
    return [found[index] for index in sorted(kept)]
