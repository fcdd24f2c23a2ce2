"""What a path asks of the times of a message, as data: the same for all messages with the same sequence of rows.

The search finds a path once for each sequence of signatures, which have no times.
``PathTimes`` says from which row the path starts, and for each hop which TTL must have
passed, and which queue must have been full; ``simulator.replay.checks.times`` holds that
against the times of each message.
"""

from __future__ import annotations

from typing import NamedTuple

from dlx.deaths import EXPIRED, MAXLEN
from dlx.message_flow import MessageFlow
from dlx.settings import AT_LEAST_ONCE, expires_messages
from dlx.topology import CLASSIC, QUORUM
from simulator.replay.checks.lengths import LengthLimit, length_limit
from simulator.replay.search.graph import StatePath
from simulator.replay.search.sources import Source
from simulator.replay.search.visible_state import CaptureRow, deaths_shown

NO_TTL = -1
NO_TIME = -1
ANY_NUMBER = 2**30


class HopTimes(NamedTuple):
    """What one death asks of the times.

    Attributes:
        expired: whether the message died of its TTL.
        ttl_ms: the TTL of the queue, or ``NO_TTL``.
        own_ttl: whether the expiration of the message itself counts, too.
        time_index: the entry of the delivered ``x-death`` that has the time of this death, or ``NO_TIME``.
        held: whether the dead letter may have come into the next queue long after the death.
        limit: the length limit that the queue was over, if the message was dropped for that.
        overtakes: whether the queue may deliver what is past its TTL.
        delay_ms: how long an exchange delays the dead letter before it comes into the next queue.
    """

    expired: bool = False
    ttl_ms: int = NO_TTL
    own_ttl: bool = False
    time_index: int = NO_TIME
    held: bool = False
    limit: LengthLimit | None = None
    overtakes: bool = False
    delay_ms: int = 0


class PathTimes(NamedTuple):
    """What the explanation of one row asks of the times of its message, and what the row itself shows.

    Attributes:
        source: how many rows before this one the state was last seen from which the path starts; 0: none is known.
        earlier: how many rows before this one the same was seen the last time; 0: never.
        hops: the deaths on the path.
        last: the TTL in the queue that it was delivered from. A message is not delivered after it.
        judged: whether times can refute the path. Where it is not sure of itself, they only bound its deaths.
        refuted: whether they have refuted this path and all others; the verdict is to say so.
        held: whether a publish may come into its queues long after it was traced.
        not_new, not_again: whether it cannot be the first delivery of its copy, or none after that.
        kept: the entries of ``x-death`` that the row it starts from has as well: their places here, and there.
        delay_ms: how long an exchange delays the publish that the path starts from.
        copies: how many copies have come to the same delivery; ``ANY_NUMBER`` if they are not known.
        has_flag: whether the queue flags what it has delivered before; a stream does not.
        comes_flagged: whether a first delivery may have the flag, too, for what its dead letter brought along.
    """

    source: int = 0
    earlier: int = 0
    hops: tuple[HopTimes, ...] = ()
    last: HopTimes = HopTimes()
    judged: bool = True
    refuted: bool = False
    held: bool = False
    not_new: bool = False
    not_again: bool = False
    copies: int = ANY_NUMBER
    has_flag: bool = False
    comes_flagged: bool = False
    kept: tuple[tuple[int, int], ...] = ()
    delay_ms: int = 0


UNKNOWN = PathTimes(judged=False)
"""Nothing is known of where a delivery comes from."""


def hop_times(
    flow: MessageFlow, holding: frozenset[str], source: Source, path: StatePath, row: CaptureRow
) -> tuple[HopTimes, ...]:
    """Return what the deaths of a path from that source to a delivery ask of the times.

    ``holding`` are exchanges that may keep a message for a time that is not known.
    """
    died = dict(source.roots[0].counts) if source.roots else {}
    own = bool(source.roots) and source.roots[0].message.expiration is not None
    places = deaths_shown(row.visible.x_death).places
    found = []
    for hop, died_in, reached in zip(path.hops, path.died, (*path.died, path.state)[1:], strict=True):
        settings, kind = flow.settings(hop.queue), (hop.queue, hop.reason)
        expired = hop.reason == EXPIRED
        own_ttl = own and expires_messages(settings.queue.type, flow.release)
        ttl_ms = settings.message_ttl_ms
        held = settings.dead_letter_strategy == AT_LEAST_ONCE or hop.exchange in holding
        # x-death has the time of the first death of a kind.
        time_index = NO_TIME if kind in died else places.get(kind, NO_TIME)
        limit = length_limit(settings, row.vhost) if hop.reason == MAXLEN else None
        ttl_ms = NO_TTL if ttl_ms is None else ttl_ms
        delay_ms = flow.delay_ms(died_in, hop.reason, reached)
        found.append(HopTimes(expired, ttl_ms, own_ttl, time_index, held, limit, delay_ms=delay_ms))
        died[kind] = 1
        own = False  # a dead letter has no expiration
    return tuple(found)


def kept_deaths(source: Source, row: CaptureRow) -> tuple[tuple[int, int], ...]:
    """Return the places of the deaths that a delivery shows, and the delivery that its path starts from, too.

    Later deaths of a kind do not change its time.
    """
    if source.is_publish:
        return ()
    here, there = (deaths_shown(each.visible.x_death).places for each in (row, source.row))
    return tuple((place, there[kind]) for kind, place in here.items() if kind in there)


def last_times(flow: MessageFlow, found: StatePath) -> HopTimes:
    """Return the TTL of the state that a path ends in.

    A classic queue with priorities may deliver what is past it: a message that overtakes others does not set its timer.
    """
    settings = flow.settings(found.state.queue)
    queue = settings.queue
    if queue.type not in (CLASSIC, QUORUM):
        return HopTimes()
    overtakes = queue.type == CLASSIC and "x-max-priority" in queue.arguments
    own_ttl = found.state.message.expiration is not None and expires_messages(queue.type, flow.release)
    ttl_ms = settings.message_ttl_ms
    return HopTimes(ttl_ms=NO_TTL if ttl_ms is None else ttl_ms, own_ttl=own_ttl, overtakes=overtakes)
