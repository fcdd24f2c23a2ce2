"""What a topology of RabbitMQ asks of its queues, and what the nearest one of another system can do of that.

Each system has a module ``nearest`` in its folder, which builds its own files from ``WorkQueue``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

Effect = Literal["lost", "cannot be had", "changes", "kept"]
EFFECTS: tuple[Effect, ...] = ("lost", "cannot be had", "changes", "kept")
"""What a move does to what RabbitMQ does, the worst first."""


LimitedBy = Literal["delivery-limit", "ladder", "loop", "consumer", "nothing"]
"""What ends the attempts of a message.

A setting of the queue; the last queue of a ladder; nothing in a loop, where the message comes back; a consumer that
rejects the message into a dead-letter queue; nothing, where it has no such queue.
"""


class WorkQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that consumers read, and what its topology does with messages that fail there.

    Attributes:
        vhost, name: the queue.
        type: classic or quorum.
        dead_letter_queue: where a message is in the end that its consumers reject every time; ``None``: nowhere.
        attempts_max: how often a message is delivered before it is dead; ``None``: no limit.
        limited_by: what sets that.
        delays_ms: how long a rejected message waits before its second delivery, its third, and so on; the last one
            holds for the others. Empty: it does not wait.
        time_to_live_ms: of the queue.
        expired_to: the queue that an expired message is in; ``None``: nowhere.
        max_length, overflow: how many messages it holds, and what becomes of one more.
        single_active: whether one consumer gets all messages.
        consumer_timeout_ms: how long a consumer may keep a message; ``None``: for ever.
    """

    vhost: str
    name: str
    type: str = "classic"
    dead_letter_queue: str | None = None
    attempts_max: int | None = 1
    limited_by: LimitedBy = "nothing"
    delays_ms: tuple[int, ...] = ()
    time_to_live_ms: int | None = None
    expired_to: str | None = None
    max_length: int | None = None
    overflow: str = "drop-head"
    single_active: bool = False
    consumer_timeout_ms: int | None = None

    @property
    def at(self) -> tuple[str, str]:
        """The virtual host and the name."""
        return self.vhost, self.name

    @property
    def dead_at(self) -> tuple[str, str] | None:
        """The virtual host and the name of the dead-letter queue."""
        return None if self.dead_letter_queue is None else (self.vhost, self.dead_letter_queue)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What is built for another system.

    Attributes:
        queues: the queues with consumers.
        others: the other queues that it has as well, where dead letters and expired messages are.
        copied: the queues that a message published to a fanout exchange comes to, by the exchange.
        names: what each queue and exchange is called there, by virtual host and name.
    """

    queues: Sequence[WorkQueue]
    others: Sequence[tuple[str, str]]
    copied: Mapping[tuple[str, str], Sequence[tuple[str, str]]]
    names: Mapping[tuple[str, str], str]

    def named(self, at: tuple[str, str] | None) -> str | None:
        """Return what a queue is called in the other system."""
        return None if at is None else self.names[at]


class Answer(msgspec.Struct, frozen=True):
    """What a system makes of something that RabbitMQ does: the effect, what happens there, and why."""

    effect: Effect
    text: str
    why: str = ""


# What several systems answer alike.


CREATED_BY_USE = Answer(
    "changes",
    "nothing is unroutable: a queue that is not there is created by the first message to it",
    "a misprint in a name makes a new queue that nobody reads",
)
NO_EXCHANGES = Answer("changes", "publishers name the queue: there are no exchanges, bindings and routing keys")
STAYS = Answer("cannot be had", "a queue stays until it is deleted")
NO_OFFSETS = Answer("cannot be had", "no queue keeps messages for a reader from any offset")
NO_PRIORITY = Answer("cannot be had", "messages have no priority")
NO_SIZE = Answer("cannot be had", "a queue has no limit on its size")


class NearestSystem(Protocol):
    """The module ``nearest`` of a system.

    Attributes:
        NAME_MAX: how long a name may be there; ``None`` for any length.
        ANSWERS: what it makes of a part of a topology that is not played, by the part.
        WHY: the rule behind what it does in a history, by the history.
        PLAYS: the histories that its simulator plays.
        SETS_TIME_TO_LIVE: who gives messages the time to live of their queue: ``queue`` or ``publisher``.
        ASSUMED: what is assumed of its clients, in sentences.
    """

    NAME_MAX: int | None
    ANSWERS: Mapping[str, Answer]
    WHY: Mapping[str, str]
    PLAYS: Sequence[str]
    SETS_TIME_TO_LIVE: Literal["queue", "publisher"]
    ASSUMED: Sequence[str]

    def allowed(self, name: str) -> str:
        """Return a name for a queue that the system takes, the name itself if it can be."""

    def files(self, moved: Moved) -> dict[str, str]:
        """Return the files that configure the system, by name."""

    def own(self, queue: WorkQueue, moved: Moved) -> Any:
        """Return what the system's adapter takes as ``own`` to play one queue; ``None`` where it takes nothing."""


def names_for(
    wanted: Iterable[tuple[str, str]], allowed: Callable[[str], str], length_max: int | None = None
) -> dict[tuple[str, str], str]:
    """Return a name of its own in another system for each queue: with its virtual host, if there are several."""
    objects = list(dict.fromkeys(wanted))
    several = len({vhost for vhost, _ in objects}) > 1
    found: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for vhost, name in objects:
        place = vhost.strip("/")
        whole = allowed(f"{place}.{name}" if several and place else name)
        chosen, number = whole[:length_max], 2
        while chosen in taken:
            end = f"{number}"
            chosen = whole[: None if length_max is None else length_max - len(end)] + end
            number += 1
        taken.add(chosen)
        found[vhost, name] = chosen
    return found
