"""Finds what may be behind the deliveries of one sequence that are not as predicted.

Every idea is tried by replaying the sequence under it, by the same automaton that replays the
log: with other definitions beside the given ones, or with rows that the log does not have. An
idea counts if it explains a delivery and makes no other one wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dlx.delivery_counts import X_ACQUIRED_COUNT, X_DELIVERY_COUNT
from dlx.message_flow import MessageFlow
from simulator.events import Event
from simulator.replay.explain import Explainer
from simulator.replay.graph import Effort
from simulator.replay.repair import costs
from simulator.replay.repair.changes import AT_LEAST, Change, OtherSetting, changed_flow, touched_queues
from simulator.replay.repair.either_flow import EitherFlow
from simulator.replay.repair.hypotheses import Hypothesis
from simulator.replay.repair.other_definitions import pairs_for, singles_for
from simulator.replay.repair.other_limits import other_limits
from simulator.replay.repair.sequences import RowSequence, Seen
from simulator.replay.repair.trials import Case, replay_rows
from simulator.replay.repair.unseen_rows import Addresses, Suggestion, UnseenRows

SEARCH_STATES_MAX = 300
"""States that one search for an explanation may look at."""
STATES_MAX = 800
"""States that all searches for one sequence may look at."""
OBSERVED_STATES_MAX = 2_000
"""States that the search for a delivery may look at which is known to have an explanation."""
EXPLAINERS_MAX = 2_000
"""Changes whose answers are kept."""


class Repairer:
    """Finds hypotheses for the sequences of one virtual host.

    Args:
        vhost: its name.
        flow: what can become of messages under its definitions.
        addresses: the exchanges and keys that the log has publishes to.
    """

    def __init__(self, vhost: str, flow: MessageFlow, addresses: Addresses = frozenset()) -> None:
        self._vhost = vhost
        self._flow = flow
        self._addresses = addresses
        self._effort = Effort(SEARCH_STATES_MAX, every_way=False, left=0)
        self._observer = Explainer(flow.topology, flow.release, flow, Effort(OBSERVED_STATES_MAX, every_way=False))

    def _forget(self) -> None:
        """Forget what searches found that ended too early."""
        self._explainer = Explainer(self._flow.topology, self._flow.release, self._flow, self._effort)
        self._unseen = UnseenRows(self._vhost, self._explainer, self._addresses)
        self._either: dict[Change, Explainer] = {}

    def suggestions(self, sequence: RowSequence, seen: Sequence[Seen]) -> list[Suggestion]:
        """Return what explains some of the bad deliveries of a sequence; ``seen`` are its rows."""
        if self._effort.left <= 0:
            self._forget()
        self._effort.left = STATES_MAX
        found: dict[Suggestion, None] = {}
        other: set[int] = set()  # outlived the TTL, or counts no more returns than before
        for at, (field, expected, shown) in zip(sequence.bad, sequence.differing, strict=True):
            for part in other_limits(field, expected, shown):
                found[Suggestion(self._hypothesis(frozenset([part])), frozenset([at]))] = None
                other |= {at} if part.bound == AT_LEAST else set()
            other |= {at} if field in (X_DELIVERY_COUNT, X_ACQUIRED_COUNT) else set()
        bad = frozenset(sequence.bad)
        rows = replay_rows(self._observer, seen, bad)
        changed: set[int] = set()  # what the change behind an earlier delivery explains needs no other change
        for at in sorted(bad):
            case = Case(seen, rows, bad, at)
            if case.explained(self._explainer):  # that needs no hypothesis, and so every one would fit
                if at in other:  # but it is another message, if it was published again meanwhile
                    found.update(dict.fromkeys(self._unseen.publishes(case)))
                continue
            own = [*self._unseen.suggestions(case)]
            if at not in changed:
                changes = [*self._other_definitions(case, singles_for)]
                changes = changes if own or changes else [*self._other_definitions(case, pairs_for)]
                changed.update(*(suggestion.rows for suggestion in changes))
                own += changes
            found.update(dict.fromkeys(own))
        return list(found)

    def either(self, change: Change) -> Explainer:
        """Return what explains deliveries by the definitions or by the changed ones."""
        if change not in self._either:
            if len(self._either) >= EXPLAINERS_MAX:
                self._either.clear()
            changed = self.changed(change)
            flow = EitherFlow(self._flow, changed, touched_queues(change, changed.topology))
            self._either[change] = Explainer(changed.topology, flow.release, flow, self._effort)
        return self._either[change]

    def changed(self, change: Change) -> MessageFlow:
        """Return what can become of messages under the changed definitions alone."""
        return changed_flow(change, self._flow.topology, self._flow.release)

    def _other_definitions(self, case: Case, ways: Callable[..., Iterator[Change]]) -> Iterator[Suggestion]:
        published = [each.row for each in case.before if each.row.event == Event.PUBLISHED]
        found: list[Change] = []
        for change in ways(case.delivered.row, published, self._flow):
            if not any(smaller <= change for smaller in found):
                explained = case.explained(self.either(change))
                if explained:
                    found.append(change)
                    yield Suggestion(self._hypothesis(change), frozenset(explained))

    def _hypothesis(self, change: Change) -> Hypothesis:
        settings = [part for part in change if isinstance(part, OtherSetting)]
        different = {(part.key, part.value) for part in settings}  # a policy sets one value in several queues
        remarks = ["another part"] * (len(different) + len(change) - len(settings) - 1)
        if any(self._is_argument(part) for part in settings):
            remarks.append("argument")
        return Hypothesis(costs.OTHER_DEFINITIONS, self._vhost, change, remarks=tuple(remarks))

    def _is_argument(self, part: OtherSetting) -> bool:
        queue = self._flow.topology.queues.get(part.queue)
        return queue is not None and f"x-{part.key}" in queue.arguments
