"""Brings the messages of a dead-letter queue back: the canaries first, and the rest if they do not come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from dlx.consumer import DeathHistory
from dlx.delivery_counts import Return
from dlx.settings import DELIVERY_LIMIT
from simulator.redrive.archive import Archive, ArchivePublisher, DiscardPlanner
from simulator.redrive.execute import Execution, RedriveArrivals, RedriveLimits, RedriveProgress, RedriveSource
from simulator.redrive.how_to_peek import PeekPlan, how_to_peek, how_to_raise, over_limit_from
from simulator.redrive.journal import RedriveJournal
from simulator.redrive.peek import peek
from simulator.redrive.plan import RedriveOptions, RedrivePlanner
from simulator.redrive.server import QueueOnServer, ServerAddress, held_now, ready_in, why_no_publish
from simulator.redrive.waiting import WaitingMessage, waiting

CANARY_S = 5.0
"""How long canaries have to come back."""
RETURNS_MIN = 10
"""A redrive stops when this many moved messages, and a tenth of all moved, have come back."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How much at a time.

    Attributes:
        limit: messages that are looked at, at most.
        rate: messages a second, at most.
        canary: how many are moved first.
    """

    limit: int | None = None
    rate: float | None = None
    canary: int | None = None


def bring_back(
    server: ServerAddress,
    on_server: QueueOnServer,
    wanted: RedriveOptions,
    journal: RedriveJournal,
    pace: Pace,
    *,
    asked: Callable[[int, int], bool] | None = None,
    on_row: Callable[[int, int], None] = lambda rows, of: None,
    stop: Callable[[], bool] = bool,
    archive: Archive | None = None,
) -> str:
    """Move the messages. The journal's ledger has the outcome; return why the run ended early, or nothing.

    Args:
        server, on_server: the queue.
        wanted: what is moved, where to, and with what.
        journal: what earlier runs have done, and where this one writes.
        pace: how much at a time.
        asked: gets how many canaries were moved and how many messages have come since, and tells whether to go on.
            Where it does, or without it, the run goes on until it meets a canary that has come back.
        on_row: gets how many messages were looked at, of how many.
        stop: tells whether to stop; what is on its way is finished.
        archive: where messages go that are discarded.

    Raises:
        CaptureUnavailable: the server does not answer, or refuses; the journal can go on.
    """
    assert server.amqp_url is not None
    queue = on_server.settings.queue.name
    planner = planner_on(server, on_server, wanted, pace)
    source = RedriveSource(server.amqp_url, server.vhost, queue, how_to_peek(on_server.settings, "consume"))
    came = 0
    moved: set[str] = set()

    def may(done: RedriveProgress) -> str:
        on_row(done.looked_at, done.of)
        return "interrupted" if stop() else _why_to_stop(done, came)

    def suspicious(unread: int, done: RedriveProgress) -> bool:
        return unread > 0 and unread >= _tolerated(done, came)

    def run(looks_max: int | None, moves_max: int | None = None) -> RedriveProgress:
        limits, arrivals = RedriveLimits(looks_max, moves_max, pace.rate), RedriveArrivals(came, moved, suspicious)
        publisher = None if archive is None else partial(ArchivePublisher, archive)
        return Execution(source, journal, planner.planned, limits, arrivals, may, publisher).run()

    if pace.canary is None:
        return run(pace.limit).stopped
    first = run(pace.limit, pace.canary)
    if first.stopped or first.looked_at >= first.of:
        return first.stopped
    time.sleep(CANARY_S)
    came = max(0, ready_in(server, queue) - (first.initially - first.moved))
    if asked is not None and not asked(first.moved, came):
        return f"{came:,} messages came into the queue after the canaries"
    # What stayed of the first ones is met again, in front of the rest.
    return run(None if pace.limit is None else pace.limit - first.moved).stopped


def planner_on(
    server: ServerAddress, on_server: QueueOnServer, wanted: RedriveOptions, pace: Pace
) -> RedrivePlanner | DiscardPlanner:
    """Return what plans message by message, by what the queues hold now. Raises ``CaptureUnavailable``."""
    if wanted.discards:
        return DiscardPlanner(wanted.only)
    return RedrivePlanner(
        on_server.flow,
        held_now(server, on_server),
        wanted,
        pace.rate,
        of_plugins=on_server.of_plugins,
        why_refused=partial(why_no_publish, server),
    )


def _why_to_stop(done: RedriveProgress, came: int) -> str:
    """Say that too many messages come back, or that this is unknown; empty if the run may go on."""
    if done.unread:
        came_in = "1 message came" if done.arrived == 1 else f"{done.arrived:,} messages came"
        was = "was" if done.arrived == 1 else "were"
        return (
            f"{came_in} into the queue behind {done.unread:,} others, and {was} not read: what was moved may have"
            " come back"
        )
    if not done.returned or done.returned < _tolerated(done, came):
        return ""
    one = done.returned == 1
    back = "1 message that was moved has" if one else f"{done.returned:,} messages that were moved have"
    known = f"; {done.without_id:,} of them have no message_id, and are known by their bodies"
    return f"{back} come back{known if done.without_id else ''}"


def _tolerated(done: RedriveProgress, came: int) -> int:
    """Return how many messages that come back end the run: after canaries a single one."""
    return 1 if came and not done.moved else max(RETURNS_MIN, done.moved // 10)


# Which messages of a queue would die of its delivery limit if a redrive gave them back, and what to do about that.


class WouldDieError(Exception):
    """Messages would exceed the delivery limit of their queue by being given back; says what to do.

    Attributes:
        ids: of the messages, where they were looked at.
    """

    def __init__(self, text: str, ids: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.ids = tuple(ids)


def check_delivery_limit(
    server: ServerAddress,
    on_server: QueueOnServer,
    pace: Pace,
    *,
    on_row: Callable[[int, int], None] = lambda rows, of: None,
) -> None:
    """Check whether messages would die of the delivery limit if a redrive gave them back.

    Those that stay are given back, and if the redrive is killed, all that it holds just then. So where
    there is a limit, this looks at the messages first, which may count as one return more.

    Raises:
        WouldDieError: some would.
        CaptureUnavailable: the server does not answer, or refuses.
    """
    brought = bool(over_limit_from(on_server.flow, on_server.settings.queue.name))
    how = how_to_peek(on_server.settings, "consume", brought=brought)
    if not how.may_kill or server.amqp_url is None:
        return
    later = _returns(how, pace)
    if how.kills(DeathHistory(), *later):  # also a message that has never come back: looking would only harm
        raise WouldDieError(_explain_limit(server, on_server, "all messages"))
    found = peek(server.amqp_url, server.vhost, how, limit=pace.limit, on_row=on_row)
    messages = [waiting(row) for row in found.rows]
    dying = [message.id for message in messages if how.kills(message.deaths, *later)]
    if dying:
        which = "1 message" if len(dying) == 1 else f"{len(dying):,} messages"
        killed = " (reading killed one, and stopped there)" if found.killed else ""
        raise WouldDieError(_explain_limit(server, on_server, which + killed), dying)


def would_die(on_server: QueueOnServer, message: WaitingMessage, pace: Pace) -> bool:
    """Return whether a message, as a dry run has seen it, would die if a redrive gave it back."""
    how = how_to_peek(on_server.settings, "consume")
    return how.may_kill and how.kills(message.deaths, how.gives_back, *_returns(how, pace))


def _explain_limit(server: ServerAddress, on_server: QueueOnServer, which: str) -> str:
    settings = on_server.settings
    limit = settings.values[DELIVERY_LIMIT]
    return (
        f"nothing was moved: {which} of '{settings.queue.name}' would exceed its delivery limit {limit.value}"
        f" ({limit.origin}) when given back, as are messages that stay, and those on their way when a redrive is"
        f" killed; {how_to_raise(settings, server.vhost, on_server.policy)}. --allow exceeds-limit goes on all the same"
    )


def _returns(how: PeekPlan, pace: Pace) -> tuple[Return, ...]:
    """Return how a redrive may give a message back: after its canaries, and at its end, which may be a kill."""
    return (*(how.gives_back for _ in range(pace.canary is not None)), "lost channel")
