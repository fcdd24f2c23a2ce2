"""Which messages of a queue would die of its delivery limit if a redrive gave them back, and what to do about that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlx.consumer import DeathHistory
from dlx.delivery_counts import Return
from dlx.settings import DELIVERY_LIMIT
from simulator.redrive.bring_back import Pace
from simulator.redrive.how_to_peek import Peek, how_to_peek, how_to_raise
from simulator.redrive.peek import peek
from simulator.redrive.server import QueueOnServer, Server
from simulator.redrive.waiting import Waiting, waiting


class WouldDieError(Exception):
    """Messages would exceed the delivery limit of their queue by being given back; says what to do.

    Attributes:
        ids: of the messages, where they were looked at.
    """

    def __init__(self, text: str, ids: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.ids = tuple(ids)


def check_delivery_limit(
    server: Server, on_server: QueueOnServer, pace: Pace, *, on_row: Callable[[int, int], None] = lambda rows, of: None
) -> None:
    """Look whether messages would die of the delivery limit if a redrive gave them back.

    Those that stay are given back, and if the redrive is killed, all that it holds just then. So where
    there is a limit, this looks at the messages first, which may count as one return more.

    Raises:
        WouldDieError: some would.
        CaptureUnavailable: the server does not answer, or refuses.
    """
    how = how_to_peek(on_server.settings, "consume")
    if not how.may_kill or server.amqp_url is None:
        return
    later = _returns(how, pace)
    if how.kills(DeathHistory(), *later):  # also a message that has never come back: looking would only harm
        raise WouldDieError(_told(server, on_server, "all messages"))
    found = peek(server.amqp_url, server.vhost, how, limit=pace.limit, on_row=on_row)
    messages = [waiting(row) for row in found.rows]
    dying = [message.id for message in messages if how.kills(message.deaths, *later)]
    if dying:
        which = "1 message" if len(dying) == 1 else f"{len(dying):,} messages"
        killed = " (the look has killed one, and ended there)" if found.killed else ""
        raise WouldDieError(_told(server, on_server, which + killed), dying)


def would_die(on_server: QueueOnServer, message: Waiting, pace: Pace) -> bool:
    """Return whether a message, as a dry run has seen it, would die if a redrive gave it back."""
    how = how_to_peek(on_server.settings, "consume")
    return how.may_kill and how.kills(message.deaths, how.gives_back, *_returns(how, pace))


def _told(server: Server, on_server: QueueOnServer, which: str) -> str:
    settings = on_server.settings
    limit = settings.values[DELIVERY_LIMIT]
    return (
        f"nothing was moved: {which} of '{settings.queue.name}' would exceed its delivery limit {limit.value}"
        f" ({limit.origin}) by being given back, as messages are that stay, and those on their way when a redrive is"
        f" killed; {how_to_raise(settings, server.vhost, on_server.policy)}. --allow exceeds-limit goes on all the same"
    )


def _returns(how: Peek, pace: Pace) -> tuple[Return, ...]:
    """Return how a redrive may give a message back: after its canaries, and at its end, which may be a kill."""
    return (*(how.gives_back for _ in range(pace.canary is not None)), "lost channel")
