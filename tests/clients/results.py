"""What became of each test of a suite, read from the reports that pytest, node, go and our JUnit runner write."""

from __future__ import annotations

import json
import re
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

EXPECTED = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Outcome:
    """One test; ``status`` is ``passed``, ``failed``, ``skipped`` or ``expected`` (to fail), ``why`` its message."""

    test: str
    status: str
    why: str = ""


@dataclass(frozen=True)
class Expected:
    """A failure that no broker here is spared. ``*`` in ``test`` stands for anything.

    With ``releases``, it is what these releases of RabbitMQ do: there the test must fail. Without, it is for want of
    something, which another machine may have; with ``lacks``, only of a broker that lacks this.
    """

    suite: str
    test: str
    reason: str
    releases: tuple[str, ...] = ()
    lacks: str = ""

    def fits(self, test: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, self.test.split("*"))), test) is not None


def expected(path: Path = EXPECTED) -> list[Expected]:
    """What ``expected.toml`` lists."""
    tables = tomllib.loads(path.read_text())
    return [Expected(**row) for row in tables["needs"]] + [
        Expected(**{**row, "releases": tuple(row["releases"])}) for row in tables["changed"]
    ]


def judged(
    suite: str, release: str, outcomes: Iterable[Outcome], known: Sequence[Expected], *, has: Collection[str] = ()
) -> list[Outcome]:
    """The outcomes, with ``expected`` for a failure that an entry of ``known`` explains, and ``failed`` for a pass
    where an entry says that this release of RabbitMQ fails. ``has`` is what the broker does not lack."""
    of_suite = [entry for entry in known if entry.suite == suite and entry.lacks not in has]
    entries = [entry for entry in of_suite if release in (entry.releases or (release,))]
    return [_judged(outcome, [entry for entry in entries if entry.fits(outcome.test)]) for outcome in outcomes]


def _judged(outcome: Outcome, entries: Sequence[Expected]) -> Outcome:
    if outcome.status == "failed" and entries:
        return replace(outcome, status="expected")
    if outcome.status == "passed" and any(entry.releases for entry in entries):
        return replace(outcome, status="failed", why=f"passed, but this RabbitMQ fails: {entries[0].reason}")
    return outcome


def junit_xml(path: Path) -> list[Outcome]:
    """The report of pytest or node: ``testcase`` elements, at any depth."""
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        test = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
        bad = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if bad is not None:
            outcomes[test] = Outcome(test, "failed", f"{bad.get('message') or ''}\n{bad.text or ''}".strip())
        elif outcomes.get(test, Outcome(test, "passed")).status != "failed":
            outcomes[test] = Outcome(test, "skipped" if case.find("skipped") is not None else "passed")
    return list(outcomes.values())


def go_json(text: str) -> list[Outcome]:
    """What ``go tool test2json`` prints: an event a line."""
    words = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    output: dict[str, list[str]] = {}
    status: dict[str, str] = {}
    for line in text.splitlines():
        event = json.loads(line)
        if not (test := event.get("Test")):
            continue
        if event["Action"] == "output":
            output.setdefault(test, []).append(event["Output"])
        elif event["Action"] == "run":
            status[test] = "failed"  # stands where the process dies in the middle of a test
        elif event["Action"] in words:
            status[test] = words[event["Action"]]
    return [Outcome(test, how, "".join(output.get(test, ())).strip()) for test, how in status.items()]


def lines(path: Path) -> list[Outcome]:
    """What ``junit/Suite.java`` writes: status, test and message, separated by tabs."""
    return [Outcome(test, status, why) for status, test, why in
            (line.split("\t", 2) for line in path.read_text().splitlines())]  # fmt: skip
