"""Reads off a delivery that the clock or the lengths refute which other limit its queue may have had."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlx.settings import MAX_LENGTH, MAX_LENGTH_BYTES, MESSAGE_TTL
from simulator.replay.repair.changes import AT_LEAST, AT_MOST, OtherSetting

# The words are those of ``simulator.replay.check_texts``.
_FIELD = re.compile(r"(time|messages|bytes) in '(.*)'")
_TIME = re.compile(rf"({AT_MOST}|{AT_LEAST}) ([0-9,]+) ms")
_LENGTH = re.compile(rf"{AT_MOST} ([0-9,]+)")
_KEYS = {"messages": MAX_LENGTH, "bytes": MAX_LENGTH_BYTES}


def other_limits(field: str, expected: str, seen: str) -> Iterator[OtherSetting]:
    """Yield the other limit under which a difference would be none; nothing where the queue's own does not decide."""
    about = _FIELD.fullmatch(field)
    if about is None:
        return
    what, queue = about.groups()
    time, length = _TIME.fullmatch(seen), _LENGTH.fullmatch(seen)
    if what == "time" and time and f"({MESSAGE_TTL} " in expected:
        yield OtherSetting(queue, MESSAGE_TTL, _number(time[2]), exact=False, bound=time[1])
    elif what != "time" and length:  # a message only dies of the limit when there is one more
        yield OtherSetting(queue, _KEYS[what], max(0, _number(length[1]) - 1), exact=False, bound=AT_MOST)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
