"""The interface of Zaqar's storage drivers, and what all of them share: queues, ids, endings, errors, the journal.

Messages, claims and their hold on messages end by themselves, each at its time. The
service makes answers of the errors.

``now_us`` is microseconds since 1970. Zaqar keeps whole seconds, so nearly everything
happens at the start of one.
"""

from __future__ import annotations

import contextlib
import json
import random
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from simulator.deadlines import Deadlines
from simulator.events import Event, Happened
from simulator.systems.zaqar.claims import Message, Terms, posted
from simulator.systems.zaqar.limits import DEFAULT_ITEMS
from simulator.systems.zaqar.profiles import Profile


class NotFoundError(LookupError):
    """A queue, message or claim that is not there; the text is that of Zaqar's answer."""


class ClaimMissing(NotFoundError):
    """A claim that is not there, or has ended."""


class Claimed(PermissionError):
    """The message is claimed, and not by the claim that was named."""


class NotClaimed(PermissionError):
    """A claim was named for a message that no claim holds."""


class Failed(RuntimeError):
    """The driver itself breaks here; clients see 503. The text says why, for people."""


def no_queue(project: str, queue: str) -> NotFoundError:
    """Return the error for a queue that was never created."""
    return NotFoundError(f"Queue {queue} does not exist for project {project}")


def no_message(project: str, queue: str, message_id: str) -> NotFoundError:
    """Return the error for a message that does not exist."""
    return NotFoundError(f"Message {message_id} does not exist in queue {queue} for project {project}")


def no_claim(project: str, queue: str, claim_id: str) -> ClaimMissing:
    """Return the error for a claim that does not exist."""
    return ClaimMissing(f"Claim {claim_id} does not exist in queue {queue} for project {project}")


class Ids:
    """A source of ids.

    Args:
        seed: equal seeds give equal ids.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._asked: dict[str, deque[str | None]] = {"message": deque(), "claim": deque()}

    @contextlib.contextmanager
    def asked(self, kind: str, ids: Iterable[str | None]) -> Iterator[None]:
        """Use these as the next ids of that kind (``message``, ``claim``) while the context lasts; ``None`` is any."""
        self._asked[kind].extend(ids)
        try:
            yield
        finally:
            self._asked[kind].clear()

    def message(self) -> str:
        """Return the id of a new message."""
        return self._next("message")

    def claim(self) -> str:
        """Return the id of a new claim."""
        return self._next("claim")

    def _next(self, kind: str) -> str:
        asked = self._asked[kind].popleft() if self._asked[kind] else None
        return asked or str(uuid.UUID(int=self._random.getrandbits(128), version=4))


class Ends(StrEnum):
    """The things that end by themselves: a message, a claim's hold on one, or a claim."""

    MESSAGE = "message"
    HOLD = "hold"
    CLAIM = "claim"


class Ending(msgspec.Struct, frozen=True):
    """The end of something: the message or claim with that id."""

    at_us: int
    ends: Ends
    id: str
    claim: str | None = None


class Endings:
    """Endings in the order of time; those of one moment in the order in which they were added.

    Attributes:
        passed_us: the time until which endings have been taken out.
    """

    def __init__(self) -> None:
        self.passed_us = 0
        self._deadlines = Deadlines[Ending]()
        self._waiting: set[Ending] = set()

    def add(self, ending: Ending) -> None:
        """Remember an ending, once. An overtaken one stays here: whoever gets it checks whether it still holds."""
        if ending in self._waiting:
            return
        self._waiting.add(ending)
        self._deadlines.set(ending.at_us, ending)

    def due(self, now_us: int) -> Iterator[Ending]:
        """Take out and yield what has become due."""
        self.passed_us = max(self.passed_us, now_us)
        while (deadline := self._deadlines.pop(now_us)) is not None:
            ending = deadline[2]
            self._waiting.discard(ending)
            yield ending


SECOND_US = 1_000_000

Shown = dict[str, Any]
"""A message as a driver hands it to the API: id, age, ttl, body, claim_id, claim_count."""


class Draft(msgspec.Struct, frozen=True):
    """A message that is to be posted: any JSON value, and seconds."""

    body: Any
    ttl_s: int
    delay_s: int = 0


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages of a queue a client wants to see.

    Attributes:
        client: the Client-ID of who asks; its own messages are left out unless ``echo``.
        marker: the id after which to begin.
        limit: how many at most.
    """

    client: str
    marker: str | None = None
    limit: int = DEFAULT_ITEMS
    echo: bool = False
    include_claimed: bool = False
    include_delayed: bool = False


class StoredMessage(msgspec.Struct, kw_only=True):
    """A message as a driver keeps it: of which project, and in which queue (or the last one it was put into)."""

    message: Message
    project: str
    queue: str | None


class Store(ABC):
    """The queues of all projects, as one driver keeps them.

    Attributes:
        profile: what this driver does differently.
        journal: what happened so far; whoever reads it may empty it. A claim is a delivery, a deletion an
            acknowledgement, and a claim that is released or runs out a requeue. ``vhost`` is the project, and
            ``more`` has the claim behind the event.
    """

    def __init__(self, profile: Profile, ids: Ids) -> None:
        self.profile = profile
        self.journal: list[Happened] = []
        self._ids = ids
        self._queues: dict[tuple[str, str], dict[str, Any]] = {}
        self._endings = Endings()

    # Queues

    def queue_exists(self, project: str, queue: str) -> bool:
        """Return whether the queue was created and not deleted."""
        return (project, queue) in self._queues

    def metadata(self, project: str, queue: str) -> dict[str, Any]:
        """Return the metadata that was set for the queue. Raises ``NotFoundError``."""
        if (project, queue) not in self._queues:
            raise no_queue(project, queue)
        return self._queues[project, queue]

    def create_queue(self, project: str, queue: str, metadata: Mapping[str, Any]) -> bool:
        """Create the queue, or return ``False`` and change nothing if it exists. Raises ``Failed``."""
        if self.queue_exists(project, queue):
            return False
        check_storable(metadata)
        self._queues[project, queue] = dict(metadata)
        return True

    def set_metadata(self, project: str, queue: str, metadata: Mapping[str, Any]) -> None:
        """Replace all metadata of the queue. Raises ``NotFoundError`` and ``Failed``."""
        self.metadata(project, queue)
        check_storable(metadata)
        self._queues[project, queue] = dict(metadata)

    def delete_queue(self, project: str, queue: str, now_us: int) -> None:
        """Delete the queue with its messages; do nothing if it does not exist."""
        self._queues.pop((project, queue), None)
        self._delete_messages(project, queue, now_us)

    def queues(self, project: str, marker: str | None, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """Return the names and metadata of the project's queues after the marker, by name."""
        found = sorted(name for owner, name in self._queues if owner == project)
        return [(name, self._queues[project, name]) for name in found if marker is None or name > marker][:limit]

    def pass_time(self, now_us: int) -> None:
        """Let everything happen that is due by ``now_us``: messages expire, and claims run out."""
        ends = {Ends.MESSAGE: self._message_ends, Ends.HOLD: self._hold_ends, Ends.CLAIM: self._claim_ends}
        for ending in self._endings.due(now_us):
            ends[ending.ends](ending)

    def post(self, project: str, queue: str, drafts: Sequence[Draft], client: str, now_us: int) -> list[str]:
        """Put messages into a queue, all or none, and return their ids. Raises ``Failed``."""
        check_storable([draft.body for draft in drafts])
        ids = []
        for draft in drafts:
            message = posted(
                self._ids.message(),
                draft.body,
                ttl_s=draft.ttl_s,
                delay_s=draft.delay_s,
                client=client,
                now_s=now_us // SECOND_US,
            )
            self._take_in(project, queue, message, now_us)
            self._tell(Event.PUBLISHED, now_us, project, message.id, queue)
            ids.append(message.id)
        return ids

    # What each driver does in its own way

    @abstractmethod
    def _take_in(self, project: str, queue: str, message: Message, now_us: int) -> None:
        """Keep a new message in a queue."""

    @abstractmethod
    def page(self, project: str, queue: str, page: PageQuery, now_us: int) -> tuple[list[Shown], str]:
        """Return messages of an existing queue, the oldest first, and the next marker. Raises ``Failed``."""

    @abstractmethod
    def get(self, project: str, queue: str, message_id: str, now_us: int) -> Shown:
        """Return one message. Raises ``NotFoundError``."""

    def get_many(self, project: str, queue: str, message_ids: Sequence[str], now_us: int) -> list[Shown]:
        """Return the messages that exist, and leave out the others."""
        found = []
        for id in message_ids:
            with contextlib.suppress(NotFoundError):
                found.append(self.get(project, queue, id, now_us))
        return found

    @abstractmethod
    def delete(self, project: str, queue: str, message_id: str, claim_id: str | None, now_us: int) -> None:
        """Delete one message; do nothing if it does not exist.

        Raises ``Claimed`` without the claim that holds it, ``NotClaimed`` and ``ClaimMissing`` for a wrong one.
        """

    @abstractmethod
    def delete_many(self, project: str, queue: str, message_ids: Sequence[str], now_us: int) -> None:
        """Delete messages, claimed or not."""

    @abstractmethod
    def pop(self, project: str, queue: str, limit: int, now_us: int) -> list[Shown]:
        """Take messages out. Raises ``Failed``."""

    @abstractmethod
    def stats(self, project: str, queue: str, now_us: int) -> dict[str, Any]:
        """Return the number of messages, the oldest and the newest. Raises ``NotFoundError`` and ``Failed``."""

    @abstractmethod
    def claim(self, project: str, queue: str, terms: Terms, limit: int, now_us: int) -> tuple[str | None, list[Shown]]:
        """Claim messages; return the claim's id and the messages, without those that it moves away.

        Raises ``Uncountable``; messages may still be claimed then.
        """

    @abstractmethod
    def claim_info(self, project: str, queue: str, claim_id: str, now_us: int) -> dict[str, Any]:
        """Return the claim's ``age`` and ``ttl``, and its ``messages``. Raises ``NotFoundError`` and ``Failed``."""

    @abstractmethod
    def renew(self, project: str, queue: str, claim_id: str, terms: Terms, now_us: int) -> None:
        """Let a claim last for ``terms`` from now. Raises ``NotFoundError`` and ``Failed``."""

    @abstractmethod
    def release(self, project: str, queue: str, claim_id: str, now_us: int) -> None:
        """Give the messages of a claim back; do nothing if it does not exist. Raises ``Failed``."""

    @abstractmethod
    def contents(self, now_us: int) -> dict[str, list[dict[str, Any]]]:
        """Return all messages by ``PROJECT/QUEUE``, with what no answer shows: counts, claims, when they end."""

    @abstractmethod
    def look(self, project: str, message_id: str, now_us: int) -> dict[str, Any]:
        """Return one message as the driver keeps it, in seconds from now, and the queues that list it."""

    def end_claims(self, now_us: int) -> None:
        """Turn back the end of every running claim to a second ago, as by hand in the database."""
        now_s = now_us // SECOND_US
        for stored in self._kept().values():
            if stored.message.held(now_s):
                self._freed(stored, now_us, "the claim was ended by hand")
                stored.message = msgspec.structs.replace(stored.message, claim_expires_s=now_s - 1)

    @abstractmethod
    def _kept(self) -> Mapping[str, StoredMessage]:
        """Return all messages by id."""

    @abstractmethod
    def _delete_messages(self, project: str, queue: str, now_us: int) -> None:
        """Drop what is in a queue."""

    @abstractmethod
    def _message_ends(self, ending: Ending) -> None:
        """Drop a message that has expired, unless the ending is overtaken."""

    @abstractmethod
    def _claim_ends(self, ending: Ending) -> None:
        """Drop a claim that ran out, unless the ending is overtaken."""

    # What they share

    def _hold_ends(self, ending: Ending) -> None:
        """Report that a claim no longer holds a message, unless another ending comes first."""
        stored = self._kept().get(ending.id)
        if stored is not None and _still_holds(stored.message, ending):
            self._freed(stored, ending.at_us, "the claim ran out")

    def _freed(self, stored: StoredMessage, now_us: int, why: str, claim_id: str | None = None) -> None:
        """Report that a claim (by default the one that the message names) no longer holds the message."""
        if stored.message.held((now_us - 1) // SECOND_US) and stored.queue is not None:
            claim = claim_id or stored.message.claim_id
            self._tell(Event.REQUEUED, now_us, stored.project, stored.message.id, stored.queue, claim, why)

    def _extended(self, stored: StoredMessage, now_us: int) -> None:
        """Report that a claim holds the message for longer, or holds it again if its hold was ended by hand."""
        if stored.queue is not None:
            message = stored.message
            self._tell(Event.EXTENDED, now_us, stored.project, message.id, stored.queue, message.claim_id)

    def _tell(
        self,
        event: Event,
        now_us: int,
        project: str,
        message_id: str,
        queue: str | None,
        claim: str | None = None,
        detail: str = "",
    ) -> None:
        self.journal.append(
            Happened(
                event=event,
                time_us=now_us,
                vhost=project,
                message=message_id,
                queue=queue,
                detail=detail,
                more={"claim": claim},
            )
        )


def _still_holds(message: Message, ending: Ending) -> bool:
    """Return whether the claim of the ending still holds the message until then."""
    return message.claim_id == ending.claim and message.claim_expires_s * SECOND_US == ending.at_us


def check_storable(value: Any) -> None:
    """Raise ``Failed`` for a value that no driver writes: one with half a pair of surrogates has no UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Failed(f"{error.object[error.start]!r} is not a character") from error


def shown(message: Message, now_s: int) -> Shown:
    """Return the message as a driver hands it to the API."""
    return {
        "id": message.id,
        "age": now_s - message.created_s,
        "ttl": message.ttl_s,
        "body": message.body,
        "claim_id": message.claim_id,
        "claim_count": message.count,
    }


def describe(message: Message, now_s: int) -> dict[str, Any]:
    """Return what a driver keeps of a message that is there, in seconds from now."""
    return {
        "exists": True,
        "ttl": message.ttl_s,
        "expires_in_s": message.expires_s - now_s,
        "age_s": now_s - message.created_s,
        "claim": message.claim_id,
        "claim_ends_in_s": message.claim_expires_s - now_s,
        "claim_count": message.claim_count,
    }


def created(created_s: int) -> str:
    """Format a moment as Zaqar prints it."""
    return datetime.fromtimestamp(created_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
