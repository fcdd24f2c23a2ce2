"""How what was played differs from what was recorded."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.plugins.cases import Run
from tests.plugins.player import Step

LATER_MS = 20
EARLIER_MS = 300
EARLIER_PART = 0.25


def differences(run: Run) -> dict[int, str]:
    """Return the steps whose answer or times differ, each with both as text."""
    found = {}
    for number, step in enumerate(run.case.steps):
        recorded, played = run.recorded.answers[number], run.played.answers[number]
        if _comparable(step, recorded) != _comparable(step, played):
            found[number] = f"recorded {_text(recorded)}\n  played   {_text(played)}"
        elif wrong := _wrong_times(run, number):
            found[number] = wrong
    return found


def _comparable(step: Step, answer: Any) -> str:
    """Return the answer as text, without what is left to chance.

    That is the time of the recording, the order in which a server exports its definitions, and whether it calls a type
    unknown or invalid, which says whether its virtual machine happens to have such an atom.
    """
    if step.get("path", "").startswith("/api/definitions") and step["http"] == "GET":
        body = answer.get("body", {})
        answer = answer | {"body": {k: sorted(v, key=_text) if isinstance(v, list) else v for k, v in body.items()}}
    text = re.sub(r'\{"T": 1\d{9}\}', '{"T": "now"}', _text(answer))
    return text.replace("invalid exchange type", "unknown exchange type")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _wrong_times(run: Run, number: int) -> str:
    """Return what is wrong with the times of a step: a busy server may be later than the simulator, but little.

    A server also takes its time to gather what its management API shows: after a wait for that only later is wrong.
    """
    given = run.recorded.ms.get(run.release, {}).get(str(number), [])
    recorded = given if isinstance(given, list) else [given]
    played = run.played.ms.get(number, [])
    waited = any("until_has" in step for step in run.case.steps[:number])
    for then, now in zip(recorded, played, strict=False):
        if now > then + LATER_MS or (not waited and now < then * (1 - EARLIER_PART) - EARLIER_MS):
            return f"recorded at {recorded} ms\n  played at   {played} ms"
    return ""
