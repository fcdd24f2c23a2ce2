"""Finds what a log may lack: rows that were lost, and publishes that were never traced.

A publish is put before the delivery in question, and the sequence replayed with it. Why the log
does not have the publish, the trace cannot tell; so one publish has several hypotheses, and what
the message and the other rows show makes some of them cheaper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dlx.deaths import REJECTED, X_DEATH
from simulator.events import Event
from simulator.replay.differences import content_differences
from simulator.replay.explain import Explainer
from simulator.replay.graph import Found
from simulator.replay.repair import costs
from simulator.replay.repair.hypotheses import Hypothesis
from simulator.replay.repair.sequences import Seen
from simulator.replay.repair.trials import Case
from simulator.replay.repair.unseen_publishes import forged_publishes, plain_publishes

Addresses = frozenset[tuple[str, tuple[str, ...]]]


class Suggestion(NamedTuple):
    """A hypothesis, and the deliveries of a sequence, by index, that it explains."""

    hypothesis: Hypothesis
    rows: frozenset[int]


class _Found(NamedTuple):
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

    def suggestions(self, case: Case) -> Iterator[Suggestion]:
        """Yield what explains the delivery, and with it perhaps others of the sequence."""
        yield from self._deliveries(case)
        yield from self.publishes(case)

    def publishes(self, case: Case) -> Iterator[Suggestion]:
        """Yield the publishes behind the delivery that the log may lack."""
        for plain in self._fitting(case, plain_publishes(case.delivered))[:1]:
            yield from self._of_plain(plain, case)
        if not any(each.row.event == Event.PUBLISHED for each in case.before):
            return  # the publish that the log lacks explains what a client's own headers would
        shown = [each.row.visible.x_death for each in case.before if each.row.visible.x_death is not None]
        for forged in self._fitting(case, forged_publishes(case.delivered, shown, self._explainer.release)):
            yield from self._of_forged(forged, case)

    def _deliveries(self, case: Case) -> Iterator[Suggestion]:
        """Yield the loss of deliveries in which a consumer rejected the message."""
        rows = case.explained(self._explainer, every_queue=True)
        lost = _lost(case, next(iter(rows.values()))) if rows else ()
        if lost:
            remarks = ("further row",) * (len(lost) - 1)
            yield Suggestion(
                Hypothesis(costs.ROWS_MISSING, self._vhost, queue=lost[0], remarks=remarks), frozenset(rows)
            )

    def _fitting(self, case: Case, publishes: Iterable[Seen]) -> list[_Found]:
        """Return the first publish into each queue that explains the case; only if there is none, with lost rows."""
        tried = [*publishes]
        for every_queue in (False, True):
            found: dict[str, _Found] = {}
            for publish in tried:
                rows = case.explained(self._explainer, publish, every_queue=every_queue)
                if rows:
                    path = next(iter(rows.values()))
                    entered = path.hops[0].queue if path.hops else path.state.queue
                    found.setdefault(entered, _Found(publish, entered, frozenset(rows), _lost(case, path)))
            if found:
                return list(found.values())
        return []

    # -- why the log does not have a publish -------------------------------------

    def _of_plain(self, found: _Found, case: Case) -> Iterator[Suggestion]:
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

    def _of_forged(self, found: _Found, case: Case) -> Iterator[Suggestion]:
        altered = _altered(case.before, found.publish)
        x_death = found.publish.row.visible.x_death
        shown = [each.row.visible.x_death for each in case.before]
        if altered or x_death not in shown[-1:]:
            headers = altered if altered and x_death in shown else (*altered, X_DEATH)
            yield self._unseen(costs.FORGED_HEADERS, found, headers=headers)
        if not altered and x_death in shown:
            yield self._unseen(costs.FOREIGN_PUBLISH, found)
            yield self._unseen(costs.ROWS_MISSING, found, "second publish")

    def _unseen(self, kind: costs.Kind, found: _Found, *remarks: str, headers: tuple[str, ...] = ()) -> Suggestion:
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


def _lost(case: Case, found: Found) -> tuple[str, ...]:
    """Return the queues in which the message must have been rejected though the log has no delivery there."""
    shown = {each.row.queue for each in case.before if each.row.event == Event.DELIVERED}
    rejected = [hop.queue for hop in found.hops if hop.reason == REJECTED]
    return tuple(dict.fromkeys(queue for queue in rejected if queue not in shown))
