"""What a run of the enumeration counts, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from tests.enumeration.check import PROPERTIES, Disagreement, Verdict

DISAGREEMENTS_MAX = 20
"""So many disagreements are kept to be shown, and more where an invariant is broken; all are counted."""


class Tally:
    """The counts of one release and number of queues.

    Attributes:
        before: how many topologies there are before any is left out.
        topologies: how many were checked, of those left after symmetry.
        histories: how many the searches played.
        unended: how many searches were cut off.
        disagreeing: how many verdicts disagree, by what disagrees; ``disagreements`` are the first of them, and all
            that break an invariant.
    """

    def __init__(self, release: str, queues: int, before: int) -> None:
        self.release, self.queues, self.before = release, queues, before
        self.topologies = self.histories = self.unended = 0
        self.seconds = 0.0
        self.outcomes: Counter[tuple[str, bool]] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.disagreeing: Counter[str] = Counter()
        self.disagreements: list[Disagreement] = []

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Count one topology."""
        self.topologies += 1
        for verdict in verdicts:
            self.histories += verdict.histories
            self.unended += not verdict.ended
            self.outcomes[verdict.property, verdict.broken] += 1
            self.reasons.update((verdict.property, reason) for reason in verdict.reasons)
            if verdict.disagreement is not None:
                self.disagreeing[f"{verdict.property}: {verdict.disagreement.why.split(':')[0]}"] += 1
                if verdict.disagreement.invariant or len(self.disagreements) < DISAGREEMENTS_MAX:
                    self.disagreements.append(verdict.disagreement)

    @property
    def agrees(self) -> bool:
        """Whether everything was searched, and nothing disagrees."""
        return not self.disagreeing and not self.unended

    @property
    def faulty(self) -> bool:
        """Whether an invariant is broken."""
        return any(each.invariant for each in self.disagreements)

    def lines(self) -> Iterable[str]:
        """The counts for people."""
        what = f"RabbitMQ {self.release}, {_some(self.queues, 'queue')}"
        yield f"{what}: {self.topologies:,} topologies of {self.before:,}"
        yield f"  {self.histories:,} histories played, {self.seconds:,.0f} s"
        for name in PROPERTIES:
            yield f"  {name:<9} holds {self.outcomes[name, False]:>7,}  broken {self.outcomes[name, True]:>7,}"
            for (of, reason), number in self.reasons.most_common():
                if of == name:
                    yield f"    {number:>7,}  {reason}"
        yield f"  {_some(self.disagreeing.total(), 'disagreement')}, {self.unended:,} not searched to the end"
        for why, number in self.disagreeing.most_common():
            yield f"    {number:>7,}  {why}"
        for each in self.disagreements:
            yield f"  {each.property}: {each.why}"
            yield f"    definitions: {msgspec.json.encode(each.definitions).decode()}"
            if each.history:
                yield f"    history: {msgspec.json.encode(each.history).decode()}"

    def as_json(self) -> dict[str, Any]:
        """The counts for machines."""
        return {
            "release": self.release,
            "queues": self.queues,
            "before_symmetry": self.before,
            "topologies": self.topologies,
            "histories": self.histories,
            "seconds": round(self.seconds, 1),
            "properties": {
                name: {
                    "holds": self.outcomes[name, False],
                    "broken": self.outcomes[name, True],
                    "reasons": {reason: number for (of, reason), number in self.reasons.items() if of == name},
                }
                for name in PROPERTIES
            },
            "not_searched_to_the_end": self.unended,
            "disagreeing": dict(self.disagreeing),
            "disagreements": msgspec.to_builtins(self.disagreements),
        }


def _some(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
