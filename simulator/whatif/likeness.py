"""Tells which messages are alike in all that decides over their fate, but for times.

A message whose story is as that of another one, and whose moments are in the same order, fares the same when it is
played, if what the play plans has the same order, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dlx.deaths import X_DEATH
from dlx.routing import REPLY_TO
from simulator.capture.observe import BROKER_HEADERS
from simulator.whatif.both_sides import BODY_MAX, Playbacks
from simulator.whatif.coupling import Reaches
from simulator.whatif.stories import Publication, Story

ROWS_MAX = 60
"""Messages with more rows are played one by one."""
_NOT_READ = frozenset(
    ("app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "headers", "message_id",
     "timestamp", "type")
)  # fmt: skip
"""Properties that no broker looks at, and the headers, of which it looks at some."""


def likeness(story: Story, moments_us: Sequence[int], playbacks: Playbacks) -> Hashable | None:
    """Return what is equal for messages that differ in times alone; ``None`` for one that must be played by itself.

    Args:
        story: what the log shows of the message.
        moments_us: all its moments, and the end of the log.
        playbacks: plays it under both sides.
    """
    publications, deliveries = story.publications, story.deliveries
    if not publications or len(publications) + len(deliveries) > ROWS_MAX or not all(map(_can_share, publications)):
        return None
    if playbacks.may_be_held_too_long(story):
        return None
    places = [each.place for each in publications]
    places += [place for each in deliveries for place in (each.place, each.until_place)]
    return (
        story.vhost,
        tuple([_of_publish(each, story.vhost, playbacks.reaches) for each in publications]),
        tuple([(each.shown, each.action, each.observed, each.traced) for each in deliveries]),
        _order_of(moments_us),
        _order_of(places),
    )


def is_read(name: str, value: Any) -> bool:
    """Tell whether a broker looks at a property."""
    return bool(value == REPLY_TO) if name == "reply_to" else name not in _NOT_READ


def _can_share(publication: Publication) -> bool:
    """Tell whether messages published so may be alike: not if they have times of their own, or may be too large."""
    properties = publication.properties
    if "expiration" in properties or X_DEATH in properties.get("headers", ()):
        return False
    return len(publication.body) <= BODY_MAX


def _of_publish(publication: Publication, vhost: str, reaches: Reaches) -> Hashable:
    properties = publication.properties
    headers = properties.get("headers") or {}
    of_broker = sorted((name, repr(headers[name])) for name in BROKER_HEADERS.intersection(headers))
    read = repr([(name, value) for name, value in properties.items() if is_read(name, value)])
    return (
        publication.exchange,
        publication.routing_key,
        tuple(of_broker),
        reaches.read_headers(vhost, properties),
        read,
        publication.after,
        publication.refused_by,
    )


def _order_of(values: Sequence[float]) -> tuple[int, ...]:
    """Return the place of each value among all. Equal ones have the same."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return tuple([places[value] for value in values])
