"""What ``dlx fuzz`` says of its findings: to people, to machines, and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dlx.possible_deaths import Rule
from simulator.files import write_whole
from simulator.scenario import steps
from simulator.testing.search.causes import as_json as setting_as_json
from simulator.testing.search.causes import assumptions, deciding_rule, told
from simulator.testing.search.counterexample import Counterexample
from simulator.testing.search.systematic_search import Search

NOTHING_FOUND = {
    "lossless": "No loss found",
    "settles": "No loop found",
    "punctual": "No delay found",
    "accepts": "No refusal found",
}
NOT_CHANGED = "Not tried: policies that change."
ASSUMED_MAX = 10


class Finding(msgspec.Struct, frozen=True):
    """A finding, the rule that decided it where one does, and the file of its picture."""

    counterexample: Counterexample
    rule: Rule | None
    picture: str | None

    @property
    def because(self) -> str:
        """The rule in a sentence; empty where there is none."""
        return "" if self.rule is None else told(self.rule)


def finding(search: Search, found: Counterexample, picture: Path | None) -> Finding:
    """Return the finding with the deciding rule; its picture is drawn into the file ``picture``, if there is one."""
    rule = deciding_rule(search, found.broken)
    if picture is not None:
        write_whole(picture, _drawn(search, found, picture.suffix).encode())
    return Finding(found, rule, None if picture is None else str(picture))


def picture_files(picture: Path | None) -> Any:
    """Return a function that names the picture of the n-th finding, from 1 on: the second is ``NAME-2.svg``."""

    def named(number: int) -> Path | None:
        if picture is None or number == 1:
            return picture
        return picture.with_name(f"{picture.stem}-{number}{picture.suffix}")

    return named


def _drawn(search: Search, found: Counterexample, suffix: str) -> str:
    events = found.events(search.release)
    if suffix == ".svg":
        from simulator.pictures.life_graph import life_graph
        from simulator.pictures.svg import as_svg

        return as_svg(life_graph(found.broken.why, events))
    from simulator.pictures.mermaid import sequence_as_mermaid as as_mermaid

    return as_mermaid(events) + "\n"


# For machines


def as_json(search: Search, findings: Sequence[Finding], seed: int) -> dict[str, Any]:
    """Return the report; of several findings the first also stands at the top."""
    found = findings[0].counterexample if findings else None
    report: dict[str, Any] = {
        "property": search.property.name if found is None else found.broken.property,
        "held": found is None,
        "history": [] if found is None else steps.to_builtins(found.history),
        "seed": seed,
        "release": search.release,
        "tried": search.tried,
        "untried": [*search.untried, *search.doubts],
        "complete": search.complete,
        "assumed": list(assumptions(search)),
        "findings": [_finding_as_json(search, each) for each in findings],
    }
    return report if found is None else report | {"why": found.broken.why, "note": found.note}


def _finding_as_json(search: Search, finding: Finding) -> dict[str, Any]:
    from simulator.testing.search.failure_report import life

    found, event = finding.counterexample, finding.counterexample.broken.event
    setting = None if finding.rule is None else finding.rule.setting
    return {
        "property": found.broken.property,
        "vhost": found.broken.vhost,
        "queue": None if event is None else event.queue,
        "reason": None if event is None else event.reason,
        "what": found.broken.cause.what,
        "why": found.broken.why,
        "because": finding.because,
        "setting": None if setting is None else setting_as_json(setting),
        "sentences": life(found.events(search.release)),
        "history": steps.to_builtins(found.history),
        "note": found.note,
        "picture": finding.picture,
    }


# For people


def told_in_full(search: Search, finding: Finding, command: str, heading: str) -> str:
    """Return the whole report on a finding; ``command`` plays it again."""
    from simulator.testing.search.failure_report import explained

    found = finding.counterexample
    text = explained(
        search.definitions,
        found.history,
        found.broken,
        release=search.release,
        command=command,
        events=found.events(search.release),
        heading=heading,
    )
    head, _, rest = text.partition("\n\n")
    because = f"{head}\nbecause: {finding.because}" if finding.because else head
    note = f"\n\n{found.note}" if found.note else ""
    return f"{because}\n\n{rest}{note}"


def held(search: Search) -> list[str]:
    """Return what to say where nothing was found: how far that can be trusted comes with it."""
    nothing = NOTHING_FOUND.get(search.property.name, "No fault found")
    lines = [f"{nothing}: {search.property.promise}. The search tried {search.tried:,} histories."]
    if not search.publishes:
        lines.append("No message can get into any queue, so nothing was published.")
    elif search.complete:
        lines.append("It is complete: every way that a message can go was tried.")
    return [*lines, *_said(search), *([NOT_CHANGED] if search.complete else [])]


def rest(search: Search) -> list[str]:
    """Return what to say after the findings."""
    return _said(search)


def _said(search: Search) -> list[str]:
    assumed = list(assumptions(search))
    more = [f"Assumed: the same of {len(assumed) - ASSUMED_MAX} more queues; --json has all."]
    return [
        *(f"Assumed: {each}." for each in assumed[:ASSUMED_MAX]),
        *(more if len(assumed) > ASSUMED_MAX else []),
        *(f"Not tried: {each}." for each in (*search.untried, *search.doubts)),
    ]
