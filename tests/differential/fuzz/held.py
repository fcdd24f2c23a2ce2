"""Strategies for at-least-once dead-lettering: what holds dead letters in their queues, and what lets them go.

One queue at a time is filled, or has messages rejected, and what follows from it comes to its end before the next
step. In the end the script asks how many dead letters each queue holds (``messages_dlx``), and empties all queues.
What a server leaves to chance is not drawn: a queue whose messages expire has none rejected, so that no step has to
come before a deadline. As in other scripts, there are rejections or deaths by themselves until 3.12, not both.
Nor does a client reject more than 32 messages at once that it has got one by one: a quorum queue hears of those beyond
in another order.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dlx.releases import Release
from tests.differential import operations as ops
from tests.differential.fuzz.management import EFFECT
from tests.differential.fuzz.messages import sometimes

QUEUES = ["q1", "q2", "q3", "q4", "q5"]
EXCHANGES = {"xd": "direct", "xt": "topic", "xf": "fanout"}
MISSING = "missing"
KEYS = ["k", "k.k", "gone"]
PATTERNS = ["k", "k.#", "*.k", "#", "q1", "q2"]
AMOUNTS = [1, 1, 2, 3, 5, 8, 31, 32, 33, 40]  # the worker has 32 in hand
GOT_MOST = 32
EXPIRED = ops.Wait(800)  # whatever expires has, and the dead letters of that, too
STATISTICS = ops.Wait(11_000)  # a queue tells every five seconds, and the API looks every five seconds
RETRIED = ops.Wait(370_000)  # a worker tries again every three minutes what it sent three minutes ago or more
HELD = ("messages_dlx", "message_bytes_dlx")
PUBLISHER = "p"

Steps = list[ops.Operation]


def holds(queue: ops.DeclareQueue) -> bool:
    """Whether a queue dead-letters at least once."""
    return "x-dead-letter-strategy" in queue.arguments


def _expires(queue: ops.DeclareQueue) -> bool:
    return "x-message-ttl" in queue.arguments


@st.composite
def dead_lettering(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    """Where dead letters go, as arguments."""
    found = {"x-dead-letter-exchange": draw(st.sampled_from(["", "", "", *EXCHANGES, *EXCHANGES, MISSING]))}
    key = draw(sometimes(st.sampled_from([*names * 2, *KEYS]), 75))
    return found if key is None else found | {"x-dead-letter-routing-key": key}


@st.composite
def queues(draw: st.DrawFn, name: str, names: list[str], kind: str, deadly: bool) -> ops.DeclareQueue:
    """A queue of that kind; only if ``deadly`` one whose messages die by themselves."""
    found: dict[str, Any] = {"x-queue-type": "classic" if kind in ("classic", "full", "drops") else "quorum"}
    if kind == "holds":
        found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        found |= draw(dead_lettering(names)) | draw(sometimes(st.just({"x-max-length": 35}), 10, {}))
    else:
        found |= draw(sometimes(dead_lettering(names), 40, {}))
    if kind in ("full", "full quorum"):
        found |= {"x-max-length": draw(st.sampled_from([0, 1, 2, 3])), "x-overflow": "reject-publish"}
    if kind == "drops" and deadly:
        found["x-max-length"] = draw(st.sampled_from([1, 2]))
    if deadly and draw(st.integers(1, 10)) <= (5 if kind == "holds" else 2):
        found["x-message-ttl"] = draw(st.sampled_from([100, 250]))
    return ops.DeclareQueue(name, arguments=found)


@st.composite
def bindings(draw: st.DrawFn, names: list[str], source: str = "") -> ops.Bind:
    """A binding of a queue."""
    source = source or draw(st.sampled_from([*EXCHANGES]))
    keys = PATTERNS if EXCHANGES.get(source) == "topic" else [*names, *KEYS[:2]]
    return ops.Bind(source, draw(st.sampled_from(names)), draw(st.sampled_from(keys)))


class Drawing:
    """What the strategies of one script share."""

    def __init__(self, declared: list[ops.DeclareQueue], rejections: bool) -> None:
        self.declared, self.names = declared, [queue.queue for queue in declared]
        self.holding = [queue.queue for queue in declared if holds(queue)]
        self.rejecting = [queue.queue for queue in declared if not _expires(queue)] if rejections else []
        self.touched = self.published = self.consumers = 0

    def touch(self, queue: str) -> Steps:
        """A change of its policy makes a queue's worker try again."""
        self.touched += 1
        return [ops.SetPolicy("touch", f"^{queue}$", {"delivery-limit": 1000 + self.touched}), ops.Wait(400), EXPIRED]


@st.composite
def fills(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """Messages come to a queue by one routing key or two, one by one where it may refuse them."""
    queue = draw(st.sampled_from(drawing.declared + [each for each in drawing.declared if holds(each)] * 2))
    refuses = "x-max-length" in queue.arguments
    numbers = draw(st.lists(st.sampled_from(AMOUNTS[:5] if refuses else AMOUNTS), min_size=1, max_size=2))
    publishes: list[ops.OnChannel] = []
    for number in numbers:
        key = draw(st.sampled_from([*drawing.names, *KEYS]))
        for _ in range(number):
            drawing.published += 1
            publishes.append(ops.Publish(key, _into(queue.queue), f"{drawing.published}", channel=PUBLISHER))
    found: Steps = [*publishes] if refuses else [ops.Burst(tuple(publishes))]
    rejects = queue.queue in drawing.rejecting and draw(st.booleans())
    amount = draw(st.sampled_from([sum(numbers), sum(numbers), 1]))
    return [*found, EXPIRED, *(draw(rejected(queue.queue, amount, drawing)) if rejects else [])]


def _into(queue: str) -> str:
    """The exchange that leads to that queue alone, whatever the key."""
    return f"to {queue}"


@st.composite
def rejected(draw: st.DrawFn, queue: str, number: int, drawing: Drawing) -> Steps:
    """So many messages are rejected together, by a consumer or by one who gets them one by one."""
    drawing.consumers += 1
    where: dict[str, Any] = {"channel": f"a/{drawing.consumers}"}
    answer = ops.Nack(tag=0, multiple=True, requeue=False, **where)
    if number <= GOT_MOST and draw(st.booleans()):
        return [ops.Burst((*[ops.Get(queue, **where)] * number, answer)), EXPIRED]
    tag = f"k{drawing.consumers}"
    consumer = [ops.Qos(number, **where), ops.Consume(queue, tag, **where), ops.Cancel(tag, **where)]
    return [*consumer, answer, EXPIRED, ops.CloseChannel(**where), EFFECT]


@st.composite
def rejections(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A consumer rejects what a queue has."""
    queue = draw(st.sampled_from(drawing.rejecting + [name for name in drawing.holding if name in drawing.rejecting]))
    return draw(rejected(queue, draw(st.sampled_from(AMOUNTS)), drawing))


@st.composite
def mended(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A binding is added, or the exchange that was missing, and a worker tries again."""
    found: Steps = []
    if draw(st.booleans()):
        found = [ops.DeclareExchange(MISSING, "fanout"), draw(bindings(drawing.names, MISSING))]
    else:
        found = [draw(bindings(drawing.names))]
    return [*found, *drawing.touch(draw(st.sampled_from(drawing.holding)))]


@st.composite
def emptied(draw: st.DrawFn, drawing: Drawing) -> Steps:
    """A queue is emptied, by a consumer or by an operator."""
    queue = draw(st.sampled_from(drawing.names))
    look = draw(st.sampled_from([ops.Drain(queue), ops.Drain(queue), ops.PurgeQueue(queue, channel="z")]))
    return [look, EFFECT, EXPIRED, *(drawing.touch(queue) if queue in drawing.holding and draw(st.booleans()) else [])]


def counts(drawing: Drawing) -> st.SearchStrategy[Steps]:
    """How many messages are ready in each queue."""
    return st.just([ops.Count(name) for name in drawing.names])


@st.composite
def scripts(draw: st.DrawFn, release: Release, patient: bool = False) -> tuple[ops.Operation, ...]:
    """A script for servers of a release; a ``patient`` one waits until the workers try again by themselves."""
    both_safe = release.death_history == "annotations"
    rejecting = both_safe or draw(st.booleans())
    deadly = both_safe or not rejecting
    names = QUEUES[: draw(st.integers(2, 5))]
    kinds = st.sampled_from(["holds", "holds", "at most once", "classic", "full", "full quorum", "drops"])
    declared = [draw(queues(name, names, "holds" if name == names[0] else draw(kinds), deadly)) for name in names]
    drawing = Drawing(declared, rejecting)
    exchanges = [ops.DeclareExchange(name, kind) for name, kind in EXCHANGES.items()]
    exchanges += [ops.DeclareExchange(_into(name)) for name in names]
    bound = [*(ops.Bind(_into(name), name) for name in names), *draw(st.lists(bindings(names), min_size=1, max_size=6))]
    found: Steps = [ops.SelectConfirms(channel=PUBLISHER), *exchanges, *declared, *bound]
    kinds_of_step = [fills] * 5 + [rejections] * (3 if drawing.rejecting else 0) + [mended] * 2 + [emptied, counts]
    found += draw(fills(drawing))
    for _ in range(draw(st.integers(2, 7))):
        found += draw(draw(st.sampled_from(kinds_of_step))(drawing))
        if patient and found.count(RETRIED) < 2 and draw(st.integers(0, 2)) == 0:
            found.append(RETRIED)
    shown = [ops.ShowQueue(name, HELD) for name in drawing.holding]
    return (*found, STATISTICS, *shown, *map(ops.Count, names))
