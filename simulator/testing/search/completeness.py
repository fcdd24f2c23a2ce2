"""Tells what a search of one kind of message at a time may have missed, by a bound that the rules give.

Messages meet each other in full queues only. The walk (``simulator.questions.walk``) lets every message die for every
reason that its queue's settings allow, and lets every queue that can refuse be full. So a loss that is not among those
of the walk is in no history of any messages. What the walk allows and no history showed stays a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.questions.losses import Loss
from simulator.questions.walk import Place, Walk
from simulator.scenario.properties.promises import Lossless, Settles
from simulator.testing.search.causes import is_cause
from simulator.testing.search.counterexample import Finder


def doubts(search: Finder) -> Iterator[str]:
    """Yield why a history of several kinds of messages may break the property, in sentences that follow 'Not tried'."""
    for walk in search.walks.values():
        if not walk.complete:
            yield f"more than {len(walk.places):,} situations of messages in virtual host '{walk.vhost}'"
    if isinstance(search.property, Lossless):
        yield from dict.fromkeys(_as_doubt(loss) for loss in search.possible_losses if _is_open(search, loss))
    elif isinstance(search.property, Settles):
        for walk in search.walks.values():
            for queue in _limited_in_circles(walk):
                yield f"kinds of messages together that meet in '{queue}', which has a length limit and is in a circle"
    else:
        yield "kinds of messages together, and other times to live than those above"


def _is_open(search: Finder, loss: Loss) -> bool:
    """Tell whether the property counts the loss, and no finding shows it."""
    promised = loss.by_consumers and not (search.discards and (loss.vhost, loss.queue) not in search.parking)
    return loss.whole and not promised and not any(is_cause(cause, loss) for cause in search.known)


def _as_doubt(loss: Loss) -> str:
    how = f"{loss.reason}, {loss.fate}" if loss.reason else loss.fate
    return f"kinds of messages together that may lose one in '{loss.queue}' ({how}), as the rules allow"


def _limited_in_circles(walk: Walk) -> list[str]:
    """Return the queues with a length limit to which messages can come back."""
    limited = [place for place in walk.places if walk.flow.settings(place.queue).has_length_limit]
    return sorted({place.queue for place in limited if _comes_back(place)})


def _comes_back(place: Place) -> bool:
    """Tell whether a message that dies there can come to the same queue again."""
    seen: set[int] = set()
    pending = [there for _, there in place.onward]
    while pending:
        there = pending.pop()
        if there.queue == place.queue:
            return True
        if id(there) not in seen:
            seen.add(id(there))
            pending += [each for _, each in there.onward]
    return False
