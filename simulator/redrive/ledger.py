"""What has become of the messages of a redrive, added up from the lines of its journal.

A message is known again by its fingerprint. Messages of the same fingerprint are equal in all that
a consumer can see, and mostly it does not matter which of them is which. It matters after a kill:
of two that are equal, one was confirmed, and nobody knows whether its acknowledgement was heard. The
one that waits now may be either. Such a message is published again: rather doubled than lost. So is one
that an earlier process settled and that waits again, since the broker crashed and lost its acknowledgement.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Literal

import msgspec

Step = Literal["stays", "sent", "confirmed", "settled", "refused", "twin", "back"]
WITHOUT_ID = "?"
"""Begins the fingerprints of messages that have no ``message_id``: others may be equal to them."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A run began: when (microseconds since 1970), by whom, and how many messages were ready in the queue."""

    begun_us: int
    by: str
    ready: int


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One step of one message.

    Attributes:
        step: what has happened, or is about to.
        fingerprint, id: of the message.
        fate: what was predicted for it, where it is ``sent`` or ``stays``.
        note: where it was sent, or why it stays.
        at_us: when, in microseconds since 1970.
    """

    step: Step
    fingerprint: str
    id: str
    fate: str = ""
    note: str = ""
    at_us: int = 0


class Ledger:
    """Adds up the lines of all runs.

    Attributes:
        at_start: how many messages were in the queue when the first run began; ``None`` before.
        moved: the fates of the messages that the broker has where they go.
        settled: how many of them are known to have left the queue.
        possible_duplicates: ids of messages that may be there twice, as far as the runs that began know.
    """

    def __init__(self) -> None:
        self.at_start: int | None = None
        self.moved: Counter[str] = Counter()
        self.settled = 0
        self.possible_duplicates: list[str] = []
        self._sent: _Lines = {}  # without an answer
        self._unacknowledged: deque[Line] = deque()  # "sent" lines of what is confirmed and not settled, in that order
        self._to_acknowledge: Counter[str] = Counter()  # those of earlier runs that were not met so far
        self._gone: dict[str, str] = {}  # fingerprints and fates of what earlier processes settled
        self._stay: _Lines = {}
        self._stayed_before: _Lines = {}  # and were not looked at again by this run
        self._twins: set[str] = set()

    @property
    def stay(self) -> list[Line]:
        """The last line of each message that stays in the queue."""
        return [line for lines in (*self._stayed_before.values(), *self._stay.values()) for line in lines]

    @property
    def settled_before(self) -> int:
        """How many messages earlier processes settled that have not come back."""
        return len(self._gone)

    @property
    def fates(self) -> Counter[str]:
        """What was predicted for each message: where it was moved, or else when it was last looked at."""
        return self.moved + Counter(line.fate for line in self.stay)

    @property
    def refused(self) -> Counter[str]:
        """The messages that stay, by the reason: what was predicted for them, or who refused them."""
        return Counter(line.fate if line.step == "stays" else line.note for line in self.stay)

    @property
    def left(self) -> int:
        """How many of those at the start are still in the queue."""
        return max(0, (self.at_start or 0) - self.moved.total())

    def doubtful(self) -> list[str]:
        """Return the ids of messages of which the next run cannot know whether they were published."""
        lines = [line for each in self._sent.values() for line in each]
        lines += [line for line in self._unacknowledged if self.is_ambiguous(line.fingerprint)]
        return [line.id for line in lines]

    def is_ambiguous(self, mark: str) -> bool:
        """Return whether there may be several messages of that fingerprint."""
        return mark.startswith(WITHOUT_ID) or mark in self._twins

    def to_look_at(self, ready: int) -> int:
        """Return how many of the messages that are ready now may have been there at the start."""
        return ready if self.at_start is None else min(ready, max(0, self.at_start - self.settled))

    def take_confirmed(self, mark: str) -> bool:
        """Return whether an earlier run published it, so that it needs its acknowledgement alone, and count it off."""
        if not self._to_acknowledge[mark]:
            return False
        self._to_acknowledge[mark] -= 1
        return True

    def was_settled(self, mark: str) -> bool:
        """Return whether an earlier process settled it, and no other is equal: the broker lost its acknowledgement."""
        return mark in self._gone and not self.is_ambiguous(mark)

    def begin(self, begun: Begun) -> None:
        """Count the beginning of a run, for which what the one before it left open are possible duplicates."""
        self.possible_duplicates += self.doubtful()
        self._sent.clear()
        if self.at_start is None:
            self.at_start = begun.ready
        self._begin_with_unacknowledged(self.at_start - self.settled - begun.ready)
        for mark, lines in self._stay.items():
            self._stayed_before.setdefault(mark, []).extend(lines)
        self._stay.clear()

    def _begin_with_unacknowledged(self, gone: int) -> None:
        """Count off what was confirmed and not settled, of which so many have left the queue: the first ones."""
        known = Counter[str]()
        for number, line in enumerate(self._unacknowledged):
            if not self.is_ambiguous(line.fingerprint):
                known[line.fingerprint] += 1
            elif number < gone:
                self.settled += 1
            else:  # it is published again, and counts once
                self.moved[line.fate] -= 1
        self._unacknowledged = deque(line for line in self._unacknowledged if line.fingerprint in known)
        self._to_acknowledge = known

    def note(self, line: Line, *, earlier: bool = False) -> None:
        """Count one step, of this process or an ``earlier`` one.

        Raises:
            LookupError: the step that comes before it is missing.
        """
        mark = line.fingerprint
        if line.step in ("stays", "sent") and mark in self._stayed_before:
            _taken(self._stayed_before, mark)
        if line.step == "stays":
            self._stay.setdefault(mark, []).append(line)
        elif line.step == "sent":
            self._sent.setdefault(mark, []).append(line)
        elif line.step == "twin":
            self._twins.add(mark)
        elif line.step == "settled":
            fate = self._settled(mark).fate
            if earlier:
                self._gone[mark] = fate
        elif line.step == "back":
            self.settled -= 1
            self.moved[self._gone.pop(mark)] -= 1
            self.possible_duplicates.append(line.id)
        else:
            self._answered(line)

    def _settled(self, mark: str) -> Line:
        self.settled += 1
        for number, line in enumerate(self._unacknowledged):  # mostly the first
            if line.fingerprint == mark:
                del self._unacknowledged[number]
                return line
        raise LookupError(mark)

    def _answered(self, line: Line) -> None:
        sent = _taken(self._sent, line.fingerprint)
        if line.step == "refused":
            self._stay.setdefault(line.fingerprint, []).append(msgspec.structs.replace(line, fate=sent.fate))
        else:
            self.moved[sent.fate] += 1
            self._unacknowledged.append(sent)


_Lines = dict[str, list[Line]]


def _taken(table: _Lines, mark: str) -> Line:
    lines = table[mark]
    line = lines.pop(0)
    if not lines:
        del table[mark]
    return line
