"""Finds what a log may lack: rows that were lost, and publishes that were never traced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, REJECTED, X_DEATH
from dlx.delays import X_DELAY
from dlx.releases import Release
from simulator.events import Event
from simulator.replay.checks.differences import content_differences
from simulator.replay.checks.explain import Explainer
from simulator.replay.repair import hypotheses as costs
from simulator.replay.repair.hypotheses import Hypothesis
from simulator.replay.repair.other_definitions import stops
from simulator.replay.repair.sequences import Seen
from simulator.replay.repair.trials import WrongDelivery
from simulator.replay.rows.row_codec import Signature, read_signature, write_signature
from simulator.replay.search.graph import StatePath
from simulator.replay.search.visible_state import row_of

# Publishes that the log does not show, but which may be behind a delivery.


_BROKERS = frozenset((X_DEATH, *FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS))
FORGED_DEATHS_MAX = 2
"""Deaths since a forged publish that are looked for."""
SHOWN_MAX = 3
"""Earlier values of ``x-death`` that a client may have sent on."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def plain_publishes(delivered: Seen) -> Iterator[Seen]:
    """Yield publishes without a history that may have led to the delivery, the likeliest first."""
    seen = read_signature(delivered.row.signature)
    deaths = stops(seen.x_death)
    if not deaths:
        yield _publish(delivered, seen.exchange, seen.routing_keys, seen.expiration, None, False)
        return
    first = _first_death(seen)
    entries = sorted(_entries(seen.x_death), key=lambda entry: _point(entry) != first)
    for entry in dict.fromkeys(map(_encode, entries)):
        yield _at(delivered, msgspec.json.decode(entry), None, False)


def forged_publishes(delivered: Seen, shown: Sequence[str], release: Release) -> Iterator[Seen]:
    """Yield publishes with the headers that brokers write, which a client may have sent.

    Where a release goes on with a client's ``x-death``, it may have died since. ``shown`` is what
    earlier deliveries had for ``x-death``: a shovel, or a client, may have sent one of them on.
    """
    seen = read_signature(delivered.row.signature)
    if seen.x_death is None and not _BROKERS & msgspec.json.decode(seen.broker_headers).keys():
        return
    entries = _entries(seen.x_death) if release.client_deaths_continued else []
    if seen.x_death not in shown:
        yield from _sent_on(delivered, entries[:FORGED_DEATHS_MAX], shown)
    yield _publish(delivered, seen.exchange, seen.routing_keys, seen.expiration, seen.x_death, True)
    for latest, before in islice(_undone(entries, release), FORGED_DEATHS_MAX):
        for forged in (before, before[::-1]):
            yield _at(delivered, latest, _encode(forged).decode(), True)


def _sent_on(delivered: Seen, latest: Sequence[dict[str, Any]], shown: Sequence[str]) -> Iterator[Seen]:
    """Yield publishes with an ``x-death`` that was delivered before, after which the message died as the latest say."""
    for x_death in islice(dict.fromkeys(reversed(shown)), SHOWN_MAX):
        for entry in latest:
            yield _at(delivered, entry, x_death, True)
            # The address of a death that happened before stays that of the first: it hides the latest one.
            yield _publish(delivered, "", (entry["queue"],), None, x_death, True)


def _entries(x_death: str | None) -> list[dict[str, Any]]:
    """Return the entries from which an address can be read."""
    decoded = [] if x_death is None else msgspec.json.decode(x_death)
    return [entry for entry in decoded if stops(_encode([entry]).decode())] if isinstance(decoded, list) else []


def _undone(entries: list[dict[str, Any]], release: Release) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each death, the latest first, and the entries that it found."""
    reverses = release.death_order == "reversed on every death"
    while len(entries) > 1:
        latest, *entries = entries
        entries = entries[::-1] if reverses else entries
        yield latest, entries


def _first_death(seen: Signature) -> tuple[Any, ...]:
    headers = msgspec.json.decode(seen.broker_headers)
    return tuple(headers.get(name) for name in FIRST_DEATH_HEADERS)


def _point(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry.get("reason"), entry.get("queue"), entry.get("exchange")


def _at(delivered: Seen, entry: dict[str, Any], x_death: str | None, keep: bool) -> Seen:
    """Return the publish to the address that an entry of ``x-death`` names."""
    keys = tuple(map(str, entry["routing-keys"]))
    return _publish(delivered, entry["exchange"], keys, entry.get("original-expiration"), x_death, keep)


def _publish(
    delivered: Seen, exchange: str, keys: tuple[str, ...], expiration: str | None, x_death: str | None, keep: bool
) -> Seen:
    """Return the row of a publish; ``keep`` the headers that brokers write."""
    row = read_signature(delivered.row.signature)
    headers: dict[str, Any] = msgspec.json.decode(row.broker_headers)
    if len(keys) > 1 and "CC" not in headers:
        headers["CC"] = list(keys[1:])
    kept = {name: value for name, value in headers.items() if name in ("CC", X_DELAY) or (keep and name in _BROKERS)}
    signature = Signature(
        event=Event.PUBLISHED.value,
        vhost=row.vhost,
        queue=None,
        exchange=exchange,
        expiration=expiration,
        routing_keys=keys,
        broker_headers=_encode(kept).decode(),
        x_death=x_death,
    )
    return Seen(row_of(write_signature(signature)), delivered.content, delivered.headers)


# Finds what a log may lack: rows that were lost, and publishes that were never traced.
#
# A publish is put before the delivery in question, and the sequence replayed with it. Why the log does not have the
# publish, the trace cannot tell; so one publish has several hypotheses, and what the message and the other rows show
# makes some of them cheaper.


Addresses = frozenset[tuple[str, tuple[str, ...]]]


class Suggestion(NamedTuple):
    """A hypothesis, and the deliveries of a sequence, by index, that it explains."""

    hypothesis: Hypothesis
    rows: frozenset[int]


class _UnseenPublish(NamedTuple):
    """A publish into ``queue`` that explains rows if the deliveries from the queues ``lost`` are missing, too."""

    publish: Seen
    queue: str
    rows: frozenset[int]
    lost: tuple[str, ...]


class UnseenRows:
    """Finds what the log of a virtual host may lack.

    Args:
        vhost: its name.
        explainer: explains deliveries by its definitions.
        addresses: the exchanges and keys that the log has publishes to.
    """

    def __init__(self, vhost: str, explainer: Explainer, addresses: Addresses) -> None:
        self._vhost = vhost
        self._explainer = explainer
        self._addresses = addresses

    def suggestions(self, case: WrongDelivery) -> Iterator[Suggestion]:
        """Yield what explains the delivery, and with it perhaps others of the sequence."""
        yield from self._deliveries(case)
        yield from self.publishes(case)

    def publishes(self, case: WrongDelivery) -> Iterator[Suggestion]:
        """Yield the publishes behind the delivery that the log may lack."""
        for plain in self._fitting(case, plain_publishes(case.delivered))[:1]:
            yield from self._of_plain(plain, case)
        if not any(each.row.event == Event.PUBLISHED for each in case.before):
            return  # the publish that the log lacks explains what a client's own headers would
        shown = [each.row.visible.x_death for each in case.before if each.row.visible.x_death is not None]
        for forged in self._fitting(case, forged_publishes(case.delivered, shown, self._explainer.release)):
            yield from self._of_forged(forged, case)

    def _deliveries(self, case: WrongDelivery) -> Iterator[Suggestion]:
        """Yield the loss of deliveries in which a consumer rejected the message."""
        rows = case.explained(self._explainer, every_queue=True)
        lost = _lost(case, next(iter(rows.values()))) if rows else ()
        if lost:
            remarks = ("further row",) * (len(lost) - 1)
            yield Suggestion(
                Hypothesis(costs.ROWS_MISSING, self._vhost, queue=lost[0], remarks=remarks), frozenset(rows)
            )

    def _fitting(self, case: WrongDelivery, publishes: Iterable[Seen]) -> list[_UnseenPublish]:
        """Return the first publish into each queue that explains the case; only if there is none, with lost rows."""
        tried = [*publishes]
        for every_queue in (False, True):
            found: dict[str, _UnseenPublish] = {}
            for publish in tried:
                rows = case.explained(self._explainer, publish, every_queue=every_queue)
                if rows:
                    path = next(iter(rows.values()))
                    entered = path.hops[0].queue if path.hops else path.state.queue
                    found.setdefault(entered, _UnseenPublish(publish, entered, frozenset(rows), _lost(case, path)))
            if found:
                return list(found.values())
        return []

    # -- why the log does not have a publish -------------------------------------

    def _of_plain(self, found: _UnseenPublish, case: WrongDelivery) -> Iterator[Suggestion]:
        altered = _altered(case.before, found.publish)
        if altered:
            yield self._unseen(costs.FORGED_HEADERS, found, headers=altered)
            return
        visible = found.publish.row.visible
        remarks = [] if (visible.exchange, visible.routing_keys) in self._addresses else ["new address"]
        if any(each.row.event == Event.PUBLISHED for each in case.before):
            remarks.append("second publish")
        yield self._unseen(costs.ROWS_MISSING, found, *remarks)
        yield self._unseen(costs.FOREIGN_PUBLISH, found)
        if any(each.row.visible.x_death is not None for each in case.before):
            yield self._unseen(costs.FORGED_HEADERS, found, "left out", headers=(X_DEATH,))

    def _of_forged(self, found: _UnseenPublish, case: WrongDelivery) -> Iterator[Suggestion]:
        altered = _altered(case.before, found.publish)
        x_death = found.publish.row.visible.x_death
        shown = [each.row.visible.x_death for each in case.before]
        if altered or x_death not in shown[-1:]:
            headers = altered if altered and x_death in shown else (*altered, X_DEATH)
            yield self._unseen(costs.FORGED_HEADERS, found, headers=headers)
        if not altered and x_death in shown:
            yield self._unseen(costs.FOREIGN_PUBLISH, found)
            yield self._unseen(costs.ROWS_MISSING, found, "second publish")

    def _unseen(
        self, kind: costs.Kind, found: _UnseenPublish, *remarks: str, headers: tuple[str, ...] = ()
    ) -> Suggestion:
        visible = found.publish.row.visible
        hypothesis = Hypothesis(
            kind,
            self._vhost,
            exchange=visible.exchange,
            routing_keys=visible.routing_keys,
            queue=found.queue,
            headers=headers,
            remarks=(*remarks, *("further row",) * len(found.lost)),
        )
        return Suggestion(hypothesis, found.rows)


def _altered(before: Sequence[Seen], publish: Seen) -> tuple[str, ...]:
    """Return the properties and user headers that are not those of the row before; empty if some row has them all."""
    contents = [each.content for each in before]
    if not contents or publish.content in contents:
        return ()
    fields = [difference.field for difference in content_differences(contents[-1], publish.content)]
    return tuple(field.removeprefix("headers.") for field in fields)


def _lost(case: WrongDelivery, found: StatePath) -> tuple[str, ...]:
    """Return the queues in which the message must have been rejected though the log has no delivery there."""
    shown = {each.row.queue for each in case.before if each.row.event == Event.DELIVERED}
    rejected = [hop.queue for hop in found.hops if hop.reason == REJECTED]
    return tuple(dict.fromkeys(queue for queue in rejected if queue not in shown))
