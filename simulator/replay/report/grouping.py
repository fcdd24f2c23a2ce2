"""Decides which queues belong in one picture, and which nodes and arrows it has.

Queues that dead letters connect are together, and so are queues with the same
first words in their names, as long as that stays readable. A queue into which many
others dead-letter connects nothing: it stands at the edge of each of their
pictures, and has one of its own. An exchange is one node for each set of queues
that it connects there. The default exchange, which only names its target, gets no node.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from simulator.replay.report.data import DeadLetterFlow, Published, ReportData

MERGED_QUEUES_MAX = 12
"""Queues up to which sets that share their first words become one picture."""
PACKED_MAX, SMALL = 8, 3
"""Sets of up to ``SMALL`` queues are put together, by name, to pictures of up to ``PACKED_MAX``."""
SOURCES_MAX = 8
"""Queues that dead-letter into one queue, up to which that connects them."""
ARROWS_MAX = 60
"""Arrows of one picture; the ones with the most messages are kept."""
_WORDS = re.compile(r"[^._:/\-]+")

Kind = Literal["queue", "exchange", "entry", "others", "nowhere"]
PUBLISHED = "published"
MIXED = "mixed"


class QueueTotals(msgspec.Struct):
    """The totals of one queue. ``unseen``: how many copies, at least, came in and were not seen again."""

    published: int = 0
    delivered: int = 0
    unlike: int = 0
    dead_letters_in: int = 0
    dead_letters_out: int = 0
    unseen: int = 0


class QueueGroup(msgspec.Struct, frozen=True):
    """The queues of one picture and what flowed into, between and out of them.

    ``beyond`` are queues of other groups that ``dead_letters`` go to, ``arriving``
    the dead letters from other groups; ``losing`` are queues that lose messages.
    """

    vhost: str
    name: str
    queues: Mapping[str, QueueTotals]
    beyond: Mapping[str, QueueTotals]
    publishes: tuple[Published, ...]
    dead_letters: tuple[DeadLetterFlow, ...]
    arriving: tuple[DeadLetterFlow, ...]
    losing: frozenset[str] = frozenset()

    @property
    def dead_letter_count(self) -> int:
        """Return how often messages died in the group's queues."""
        return sum(kind.deaths for kind in self.dead_letters)

    @property
    def unlike_count(self) -> int:
        """Return the number of deliveries that differ or are unexplained."""
        return sum(queue.unlike for queue in self.queues.values())

    @property
    def unseen_count(self) -> int:
        """Return how many copies, at least, came into a queue and were not seen again."""
        return sum(queue.unseen for queue in self.queues.values())


class FlowNode(NamedTuple):
    """A queue or exchange; ``entry``: publishes to the default exchange; ``others``: queues elsewhere."""

    kind: Kind
    name: str
    number: int = 0


class Arrow(NamedTuple):
    """A flow between two nodes: how many messages for which reasons of death, or ``PUBLISHED``."""

    source: FlowNode
    target: FlowNode
    reasons: tuple[tuple[str, int], ...]

    @property
    def reason(self) -> str:
        """Return the reason, ``MIXED`` where there are several."""
        return self.reasons[0][0] if len(self.reasons) == 1 else MIXED

    @property
    def messages(self) -> int:
        """Return all messages, for whatever reason."""
        return sum(messages for _, messages in self.reasons)


def totals_by_queue(data: ReportData) -> dict[tuple[str, str], QueueTotals]:
    """Return the totals of each (vhost, queue) that the log names."""
    totals: defaultdict[tuple[str, str], QueueTotals] = defaultdict(QueueTotals)
    for published in data.publishes or ():
        if published.queue is not None:
            totals[published.vhost, published.queue].published += published.count
    for kind in data.dead_letters:
        totals[kind.vhost, kind.queue].dead_letters_out += kind.deaths
        totals[kind.vhost, kind.to_queue].dead_letters_in += kind.count
    for delivered in data.deliveries:
        totals[delivered.vhost, delivered.queue].delivered += delivered.count
        totals[delivered.vhost, delivered.queue].unlike += delivered.unlike
    if data.publishes is not None and not data.cut & {"publishes", "dead_letters", "deliveries"}:
        for queue in totals.values():
            came = queue.published + queue.dead_letters_in
            # A delivery without explanation may be of any copy.
            seen = queue.delivered + queue.dead_letters_out + data.summary.unexplained
            queue.unseen = max(0, came - seen)
    return dict(totals)


def losing_queues(data: ReportData, vhost: str) -> frozenset[str]:
    """Return the queues of a virtual host where messages were lost, or may be, or whose settings lose them."""
    by_settings = {loss.queue for loss in data.losses if loss.vhost in ("", vhost)}
    return frozenset(by_settings | {loss.queue for loss in data.lost if loss.vhost == vhost})


def groups(data: ReportData) -> tuple[QueueGroup, ...]:
    """Return the pictures that show everything, those with the most dead letters first."""
    totals = totals_by_queue(data)
    found: list[QueueGroup] = []
    for vhost in sorted({vhost for vhost, _ in totals}):
        queues = {name: each for (host, name), each in sorted(totals.items()) if host == vhost}
        kinds = [kind for kind in data.dead_letters if kind.vhost == vhost]
        publishes = [each for each in data.publishes or () if each.vhost == vhost]
        losing = losing_queues(data, vhost)
        for name, members in _name_sets(_merged(_connected(queues, kinds))):
            group = _group(vhost, name, members, queues, publishes, kinds)
            found.append(msgspec.structs.replace(group, losing=losing))
    return tuple(sorted(found, key=lambda group: (-group.dead_letter_count, group.vhost, group.name)))


def _group(
    vhost: str,
    name: str,
    members: Iterable[str],
    totals: Mapping[str, QueueTotals],
    publishes: Sequence[Published],
    kinds: Sequence[DeadLetterFlow],
) -> QueueGroup:
    queues = {queue: totals[queue] for queue in members}
    own = [each for each in publishes if each.queue in queues]
    shared = {each.exchange for each in publishes if each.queue is not None and each.queue not in queues}
    exchanges = {each.exchange for each in own} - shared - {""}
    lost = [each for each in publishes if each.queue is None and each.exchange in exchanges]
    leaving = tuple(kind for kind in kinds if kind.queue in queues)
    return QueueGroup(
        vhost,
        name,
        queues,
        {kind.to_queue: totals[kind.to_queue] for kind in leaving if kind.to_queue not in queues},
        (*own, *lost),
        leaving,
        tuple(kind for kind in kinds if kind.to_queue in queues and kind.queue not in queues),
    )


def _connected(queues: Iterable[str], kinds: Sequence[DeadLetterFlow]) -> list[tuple[str, ...]]:
    """Return the sets of queues that dead letters connect."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        sources[kind.to_queue].add(kind.queue)
    leader = {queue: queue for queue in queues}

    def find(queue: str) -> str:
        while leader[queue] != queue:
            leader[queue] = leader[leader[queue]]
            queue = leader[queue]
        return queue

    for kind in kinds:
        if len(sources[kind.to_queue]) <= SOURCES_MAX:
            leader[find(kind.queue)] = find(kind.to_queue)
    sets: defaultdict[str, list[str]] = defaultdict(list)
    for queue in leader:
        sets[find(queue)].append(queue)
    return [tuple(members) for members in sets.values()]


def _merged(sets: list[tuple[str, ...]], depth: int = 1) -> list[tuple[str, ...]]:
    """Return the sets, those that share their first words joined where the result is small enough."""
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
            found += _packed(_merged(alike, depth + 1))
    return found


def _packed(sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the sets, small ones put together in the order of their names."""
    found = [members for members in sets if len(members) > SMALL]
    some: tuple[str, ...] = ()
    for members in sorted(members for members in sets if len(members) <= SMALL):
        if some and len(some) + len(members) > PACKED_MAX:
            found.append(some)
            some = ()
        some += members
    return [*found, some] if some else found


def _name_sets(sets: list[tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the sets with their names; queues that nothing connects are put together."""
    single = [members for members in sets if len(members) == 1]
    together = [members for members in sets if len(members) > 1] + _packed(single)
    shared = Counter(map(_shared, together))
    named = []
    for members in together:
        name = _shared(members)
        named.append((name if name and shared[name] == 1 else _range(members), members))
    return named


def _range(members: tuple[str, ...]) -> str:
    """Return the first and the last name, with their common beginning only once."""
    if len(members) == 1:
        return members[0]
    shared = _shared(members)
    first, last = (name[len(shared) :].lstrip("._:/-") or name for name in (members[0], members[-1]))
    return f"{shared} {first} … {last}".lstrip()


def _shared(members: tuple[str, ...]) -> str:
    """Return the beginning that the names share, in whole words."""
    words = common_words(members)
    if not words:
        return ""
    last = list(_WORDS.finditer(members[0]))[len(words) - 1]
    return members[0][: last.end()]


def common_words(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first words that all names share; words end at ``.``, ``_``, ``:``, ``/`` and ``-``."""
    split = [tuple(_WORDS.findall(name)) for name in names]
    shared: list[str] = []
    for words in zip(*split, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return tuple(shared)


def arrows(group: QueueGroup) -> list[Arrow]:
    """Return what flowed in the group, from publish to the last dead letter."""
    return [*_publish_arrows(group), *_arriving_arrows(group), *_dead_letter_arrows(group)]


def _publish_arrows(group: QueueGroup) -> list[Arrow]:
    found = []
    for published in sorted(group.publishes, key=lambda each: (each.exchange, each.queue or "")):
        queue = published.queue
        named = published.exchange != ""
        source = FlowNode("exchange", published.exchange) if named else FlowNode("entry", queue or "")
        target = FlowNode("nowhere", published.exchange) if queue is None else FlowNode("queue", queue)
        found.append(Arrow(source, target, ((PUBLISHED, published.count),)))
    return found


def _arriving_arrows(group: QueueGroup) -> list[Arrow]:
    by_queue: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for kind in sorted(group.arriving, key=lambda kind: (kind.to_queue, kind.reason)):
        by_queue[kind.to_queue][kind.reason] += kind.count
    found = []
    for queue, by in by_queue.items():
        found.append(Arrow(FlowNode("others", queue), FlowNode("queue", queue), tuple(by.items())))
    return found


def _dead_letter_arrows(group: QueueGroup) -> list[Arrow]:
    by_exchange: defaultdict[str, list[DeadLetterFlow]] = defaultdict(list)
    for kind in sorted(group.dead_letters, key=lambda k: (k.exchange, k.queue, k.reason, k.to_queue)):
        by_exchange[kind.exchange].append(kind)
    found = [
        Arrow(FlowNode("queue", kind.queue), FlowNode("queue", kind.to_queue), ((kind.reason, kind.count),))
        for kind in by_exchange.pop("", ())
    ]
    for exchange, kinds in by_exchange.items():
        for number, together in enumerate(_bipartite(kinds), start=1):
            found += _through(FlowNode("exchange", exchange, number), together)
    return found


def _through(exchange: FlowNode, kinds: list[DeadLetterFlow]) -> list[Arrow]:
    """Return the arrows into an exchange, one for each queue and reason, and out of it, one for each target."""
    into: Counter[tuple[str, str]] = Counter()
    out: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for kind in kinds:
        into[kind.queue, kind.reason] += kind.deaths
        out[kind.to_queue][kind.reason] += kind.count
    found = [Arrow(FlowNode("queue", queue), exchange, ((reason, n),)) for (queue, reason), n in into.items()]
    found += [Arrow(exchange, FlowNode("queue", queue), tuple(by.items())) for queue, by in out.items()]
    return found


def _bipartite(kinds: list[DeadLetterFlow]) -> list[list[DeadLetterFlow]]:
    """Split the dead letters through one exchange into parts that share neither source nor target."""
    found: list[tuple[set[tuple[str, str]], list[DeadLetterFlow]]] = []
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
    """Return the arrows with the largest counts, in their order; dead letters go before publishes."""

    def rank(index: int) -> tuple[bool, int, int]:
        return found[index].reason == PUBLISHED, -found[index].messages, index

    return [found[index] for index in sorted(sorted(range(len(found)), key=rank)[:most])]
