"""How two transcripts of one script differ, for people."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.differential.operations import Operation, Scenario
from tests.differential.transcript import Event, Transcript


def same(one: Transcript, other: Transcript) -> bool:
    """Equal including the order of fields, which tables have on the wire."""
    return json.dumps(one) == json.dumps(other)


def shown(script: Sequence[Operation], transcript: Transcript) -> str:
    """A transcript with the operation before what came of it."""
    return "\n".join(line for step in _steps(script, transcript) for line in step)


def difference(scenario: Scenario, release: str, transcripts: dict[str, Transcript]) -> str:
    """The first step in which two named transcripts differ, both transcripts whole, and how to see it again."""
    (one_name, one), (other_name, other) = transcripts.items()
    at = next(i for i, (mine, theirs) in enumerate(zip(one, other, strict=True)) if not same([mine], [theirs]))
    what = repr(scenario.operations[at]) if at < len(scenario.operations) else "what the queues hold in the end"
    width = max(len(one_name), len(other_name))
    lines = [f"{scenario.name} on {release}: step {at}, {what}"]
    for mine, theirs in _differing(one[at], other[at]):
        lines += [f"  {one_name:{width}}  {_line(mine)}", f"  {other_name:{width}}  {_line(theirs)}"]
    for name, transcript in transcripts.items():
        lines += ["", f"--- {name}", shown(scenario.operations, transcript)]
    lines += ["", f"again: python -m tests.differential.compare {release} {scenario.name!r}"]
    return "\n".join(lines)


def _differing(one: list[Event], other: list[Event]) -> list[tuple[Event | None, Event | None]]:
    """The first pair of events that differ."""
    longest = max(len(one), len(other))
    pairs = [(_at(one, i), _at(other, i)) for i in range(longest)]
    return [pair for pair in pairs if json.dumps(pair[0]) != json.dumps(pair[1])][:1]


def _at(events: list[Event], index: int) -> Event | None:
    return events[index] if index < len(events) else None


def _line(event: Event | None) -> str:
    return "nothing" if event is None else json.dumps(event)


def _steps(script: Sequence[Operation], transcript: Transcript) -> list[list[str]]:
    names = [*map(repr, script), "what the queues hold in the end"]
    pairs = zip(names, transcript, strict=True)
    return [[f"{i:3} {name}", *(f"      {_line(e)}" for e in events)] for i, (name, events) in enumerate(pairs)]
