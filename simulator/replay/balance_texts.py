"""Says what a balance means: a sentence for each residual, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.global_counters import COUNTED_AT_LEAST_ONCE, COUNTED_AT_MOST_ONCE, DISABLED
from dlx.topology import CLASSIC, QUORUM
from simulator.replay.balance import Balance, Entry, Suspect

SUSPECTS_SHOWN = 5
_DIED = {
    EXPIRED: ("expired", "expired"),
    REJECTED: ("was rejected", "were rejected"),
    MAXLEN: ("was one too many", "were too many"),
    DELIVERY_LIMIT: ("exceeded the delivery limit", "exceeded the delivery limit"),
}
_BECAME: dict[str, str] = {
    DISABLED: "without a dead-letter exchange to go to: no trace shows these, and they are gone",
    COUNTED_AT_MOST_ONCE: (
        "with a dead letter sent at most once that no later delivery shows: dropped on the way, or still in a queue"
    ),
    COUNTED_AT_LEAST_ONCE: (
        "with a dead letter sent at least once that no later delivery shows: their queue holds them, or they are"
        " still in another"
    ),
}


def sentences(entry: Entry, balance: Balance) -> Iterator[str]:
    """Yield what there is to say of an account that does not balance."""
    named = entry.residual - entry.unexplained
    if entry.residual < 0:
        yield f"{_messages(-entry.residual, entry)}, and the broker did not count them: unexplained: {-entry.residual}"
        return
    if named and entry.suspects:
        yield f"{_messages(named, entry)} {_BECAME.get(entry.strategy, '')}; {_suspects(entry.suspects, balance)}"
    elif named and entry.queue_type not in (CLASSIC, QUORUM):
        yield f"{_messages(named, entry)}: a replay knows nothing of such queues"
    elif named:
        yield f"{_messages(named, entry)}, and no trace shows them"
    if named and balance.cut:
        yield f"the log is cut: {'; '.join(balance.cut)}"
    if entry.unexplained:
        yield f"{_messages(entry.unexplained, entry)} {_BECAME.get(entry.strategy, '')}; {_unexplained(entry, balance)}"


def _messages(count: int, entry: Entry) -> str:
    died = _DIED.get(entry.reason, (entry.reason, entry.reason))[count != 1]
    return f"{count:,} {'message' if count == 1 else 'messages'} {died} in {entry.queue_type} queues"


def _suspects(suspects: tuple[Suspect, ...], balance: Balance) -> str:
    several = len({each.vhost for each in suspects}) > 1
    shown = [
        f"'{each.queue}'{f' in {each.vhost}' if several else ''} ({each.why}; at most {each.most:,})"
        for each in suspects[:SUSPECTS_SHOWN]
    ]
    more = len(suspects) - len(shown)
    return f"queues that can do it: {', '.join(shown)}{f' and {more} more' if more else ''}"


def _unexplained(entry: Entry, balance: Balance) -> str:
    beyond = "more than the messages of the log can have done" if entry.suspects else "no queue of the log can do it"
    perhaps = "they were in their queues before the log began, or in another virtual host"
    if balance.unexplained_deliveries:
        perhaps += f", or behind one of the {balance.unexplained_deliveries:,} unexplained deliveries"
    return f"{beyond} (perhaps {perhaps}): unexplained: {entry.unexplained:,}"


def remarks(balance: Balance) -> Iterator[str]:
    """Yield what the balance takes for granted, or cannot know."""
    yield from (f"{doubt}." for doubt in (balance.other_time, *balance.misfits) if doubt)
    nodes = ", ".join(balance.nodes)
    yield (
        f"The counters are of {'node' if len(balance.nodes) == 1 else 'nodes'} {nodes} and of all virtual hosts there;"
        f" the log is of {balance.vhost}. What other nodes of a cluster counted is not among them."
    )
    if balance.vhosts:
        yield f"The log shows nothing of virtual host {', '.join(balance.vhosts)}, which the nodes count as well."
    yield "What died between a reading and the first or last trace is counted, and the log does not show it."
    if balance.received != balance.published:
        yield (
            f"The nodes received {balance.received:,} messages, and the log has {balance.published:,} publishes: the"
            " others were refused, went to another virtual host, or came before or after the log."
        )
    if balance.held:
        yield f"{balance.held:,} at-least-once dead letters were not confirmed by the end: their queues hold them."
    if balance.ambiguous:
        yield f"{balance.ambiguous:,} deliveries are ambiguous: the deaths of their first explanation are counted."


def as_json(balance: Balance) -> dict[str, Any]:
    """Return the balance with its sentences, as JSON values."""
    document: dict[str, Any] = msgspec.to_builtins(balance)
    for entry, shown in zip(balance.entries, document["entries"], strict=True):
        shown["says"] = list(sentences(entry, balance)) if entry.residual else []
    return {**document, "lost": balance.lost, "unexplained": balance.unexplained, "unchecked": [*remarks(balance)]}
