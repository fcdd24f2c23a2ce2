"""One topology: what the search finds in it, and whether the oracle and the invariants agree."""

from __future__ import annotations

from typing import Any

import msgspec

from dlx.message import Message
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.properties.property import Property, PropertyBroken
from simulator.scenario.properties.property_registry import INVARIANTS, Lossless, Settles
from simulator.scenario.steps import History
from simulator.scenario.trial import Trial, replay
from simulator.testing.fuzz.counterexample import Counterexample
from simulator.testing.fuzz.systematic_search import Search
from tests.enumeration.oracle import Oracle, Queue
from tests.enumeration.space import Space, Topology

HISTORIES_MAX = 50_000
"""So many histories are tried in one search at most; a topology with more is counted as not searched to the end."""


class Disagreement(msgspec.Struct, frozen=True):
    """A topology of which the search, the oracle or an invariant say different things.

    ``invariant``: an invariant is broken, whatever the topology promises.
    """

    property: str
    why: str
    invariant: bool
    definitions: dict[str, Any]
    history: list[dict[str, Any]] = []


class Verdict(msgspec.Struct, frozen=True):
    """What was found out about one property of one topology."""

    property: str
    broken: bool
    reasons: tuple[str, ...]
    histories: int
    ended: bool
    disagreement: Disagreement | None


class _Watched(Property):
    """A promise that looks at all the invariants first."""

    def __init__(self) -> None:
        super().__init__()
        self._invariants = [each() for each in INVARIANTS.values()]

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Show the event to all."""
        for each in self._invariants:
            each.observe(trial, event, message)
        super().observe(trial, event, message)

    def check(self, trial: Trial) -> None:
        """Ask all."""
        for each in self._invariants:
            each.check(trial)
        super().check(trial)


class _WatchedLossless(_Watched, Lossless):
    """Nothing is lost, and the invariants hold."""


class _WatchedSettles(_Watched, Settles):
    """Messages settle, and the invariants hold."""


_WATCHED: dict[str, type[Property]] = {Lossless.name: _WatchedLossless, Settles.name: _WatchedSettles}
PROPERTIES = tuple(_WATCHED)


class _Search(Search):
    """A search that shortens its counterexample only where somebody will read it, which saves most of the time."""

    def counterexample(self, history: History) -> Counterexample | None:
        """Return the history as it is, if it breaks the definitions as given."""
        return self.play(history) or super().counterexample(history)

    def shortened(self, history: History) -> History:
        """The history made shorter."""
        found = super().counterexample(history)
        return history if found is None else found.history


def check(space: Space, topology: Topology) -> list[Verdict]:
    """Judge both properties of a topology."""
    oracle = Oracle([Queue(space.kinds[kind], target) for kind, target in topology], space.release)
    expected = {"lossless": oracle.losses(), "settles": oracle.restless()}
    definitions = space.definitions(topology)
    return [_judged(name, definitions, space.release.name, expected[name]) for name in PROPERTIES]


def _judged(name: str, definitions: dict[str, Any], release: str, expected: set[str]) -> Verdict:
    search = _Search(definitions, _WATCHED[name], release=release)
    try:
        found = search.run(lambda tried: tried < HISTORIES_MAX)
    except PropertyBroken as broken:
        why = f"the search does not catch what it finds: {broken}"
        fault = Disagreement(name, why, broken.property != name, definitions, steps.to_builtins(broken.history))
        return Verdict(name, True, tuple(sorted(expected)), search.tried, True, fault)
    return Verdict(
        property=name,
        broken=found is not None,
        reasons=tuple(sorted(expected)),
        histories=search.tried,
        ended=found is not None or search.tried < HISTORIES_MAX,
        disagreement=_disagreement(search, found, expected),
    )


def _disagreement(search: _Search, found: Counterexample | None, expected: set[str]) -> Disagreement | None:
    name, definitions, release = search.property.name, search.definitions, search.release
    assert isinstance(definitions, dict)
    if found is None:
        why = f"the search finds nothing; the oracle says: {', '.join(sorted(expected))}"
        return Disagreement(name, why, False, definitions) if expected else None
    invariant = found.broken.property != name
    if invariant:
        why = f"an invariant is broken: {found.broken}"
    elif not expected:
        why = f"the oracle says that it holds; the search finds: {found.broken}"
    elif not breaks(definitions, found.history, name, release):
        why = "the counterexample's history does not break it when it is played again"
    else:
        return None
    return Disagreement(name, why, invariant, definitions, steps.to_builtins(search.shortened(found.history)))


def breaks(definitions: dict[str, Any], history: History, name: str, release: str) -> bool:
    """Whether a history breaks a property."""
    try:
        replay(definitions, history, release=release, properties=[name])
    except PropertyBroken:
        return True
    return False
