"""What is said of a case that is not the same."""

from __future__ import annotations

import json

from tests.differential.differences import same
from tests.differential.fuzz.cases import Judged
from tests.differential.fuzz.known import without_known
from tests.differential.transcript import Event


def report(judged: Judged) -> str:
    """The script up to the first step that differs, what both saw there, and how to run it again."""
    case = judged.case
    lines = [f"{judged.outcome.value} on {case.release}, seed {case.seed}: {judged.error or _shown(judged)}"]
    if judged.error:
        lines += [f"  {operation!r}," for operation in case.script]
    which = f"--release {case.release} --kind '{case.kind}' --seed {case.seed} --cases 1"
    lines += [f"again: python -m tests.differential.fuzz {which}", ""]
    return "\n".join(lines)


def _shown(judged: Judged) -> str:
    live, simulated = without_known(judged.live), without_known(judged.simulated)
    steps = [*map(repr, judged.case.script), "what the queues hold in the end"]
    at = next((i for i, both in enumerate(zip(live, simulated, strict=True)) if not same(*([b] for b in both))), 0)
    lines = [f"step {at}"]
    for i, step in enumerate(steps[: at + 1]):
        lines += [f"  {step},", *(f"      # {json.dumps(event)}" for event in live[i] if i < at)]
    lines += [f"    {name}  {json.dumps(event)}" for name, event in _differing(live[at], simulated[at])]
    if rest := steps[at + 1 : -1]:
        lines += ["  then:", *(f"  {step}," for step in rest)]
    return "\n".join(lines)


def _differing(live: list[Event], simulated: list[Event]) -> list[tuple[str, Event]]:
    """The events from the first that differs on."""
    pairs = zip(map(json.dumps, live), map(json.dumps, simulated), strict=False)
    start = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(live), len(simulated)))
    return [("server   ", each) for each in live[start:]] + [("simulator", each) for each in simulated[start:]]
