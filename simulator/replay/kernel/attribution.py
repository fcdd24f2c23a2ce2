"""Finds the rows of the release table that cause a difference between prediction and delivery.

The message is replayed a second time under the release that captured the log, or under
any other release that predicts what was delivered. Then it is replayed once for each
behaviour in which the two releases differ, with only that behaviour set back. The
behaviours that bring the difference back are its causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from dlx.plugins import PluginError
from dlx.releases import MESSAGE_ROWS, RELEASES, Release, all_releases, differing_behaviours, release, with_behaviour
from simulator.replay.checks.explain import Explainer
from simulator.replay.kernel.message_verdicts import Fits, Lineage, RowVerdict, always
from simulator.replay.rows.verdict_words import PATH, Difference, Verdict, path_text
from simulator.replay.search.visible_state import CaptureRow

_Taken = tuple[CaptureRow, str, Mapping[str, Any]]
ROWS_MAX = 256
"""A message with more rows is replayed without asking for causes."""
_AS_ROUTED = Verdict("agree")
"""The value for a publish that was routed as predicted: it has none."""


class AttributingLineage(Lineage):
    """Replays one message, and names the behaviours that cause each difference."""

    def __init__(self, explainer: Explainer, captured_on: Release | None) -> None:
        super().__init__(explainer, details=True)
        self._captured_on = captured_on
        self._steps: list[_Taken] = []
        self._shadows: dict[Release, _Shadow] = {}

    def step(self, row: CaptureRow, content: str, headers: Mapping[str, Any], fits: Fits = always) -> RowVerdict:
        """Take the next row, as ``Lineage.step`` does."""
        step = super().step(row, content, headers, fits)
        if len(self._steps) > ROWS_MAX:
            return step
        self._steps.append((row, content, headers))
        if step.verdict is None or step.verdict.name not in ("differ", "unexplained"):
            return step
        return step._replace(verdict=self._with_causes(step.verdict))

    def _with_causes(self, verdict: Verdict) -> Verdict:
        fields = _fields(verdict)
        for other in self._other_releases():
            elsewhere = self._under(other)
            gone = fields - _fields(elsewhere)
            if gone:
                causes = self._causes(other, gone)
                return _with_causes(verdict, elsewhere, causes)
        return verdict

    def _causes(self, other: Release, gone: set[str]) -> dict[str, tuple[str, ...]]:
        """Return, by field, the behaviours that bring the difference back to the other release.

        If no behaviour does so alone, return those that take the difference away from this release.
        """
        own = self._explainer.release
        found: dict[str, list[str]] = {field: [] for field in gone}
        rows = differing_behaviours(own, other, MESSAGE_ROWS)
        for row in rows:
            for field in gone & _fields(self._under(with_behaviour(other, row.name, own))):
                found[field].append(row.name)
        unclear = {field for field in gone if not found[field]}
        for row in rows if unclear else ():
            for field in unclear - _fields(self._under(with_behaviour(own, row.name, other))):
                found[field].append(row.name)
        return {field: tuple(names) for field, names in found.items()}

    def _under(self, rules: Release) -> Verdict:
        """Return the verdict on the latest row under other rules."""
        if rules not in self._shadows:
            self._shadows[rules] = _Shadow(Lineage(self._explainer.under(rules)))
        return self._shadows[rules].verdict(self._steps)

    def _other_releases(self) -> Sequence[Release]:
        own = self._explainer.release
        if self._captured_on is not None and self._captured_on != own:
            return [self._captured_on]
        return [other for other in releases_by_likelihood() if other != own]


class _Shadow:
    """Replays the same message under other rules, up to the latest row whenever it is asked."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._taken = 0

    def verdict(self, steps: Sequence[_Taken]) -> Verdict:
        last: Verdict | None = None
        for step in steps[self._taken :]:
            last = self._lineage.step(*step).verdict
        self._taken = len(steps)
        return last or _AS_ROUTED


@cache
def releases_by_likelihood() -> tuple[Release, ...]:
    """Return RabbitMQ's releases, the newest first, then those that other distributions add."""
    found = [release(name) for name in reversed(RELEASES)]
    for name in all_releases()[len(RELEASES) :]:
        with suppress(PluginError):  # one that cannot be used explains nothing
            found.append(release(name))
    return tuple(found)


def _fields(verdict: Verdict) -> set[str]:
    """Return the fields that differ; a delivery without any explanation differs in its path."""
    if verdict.name == "unexplained":
        return {PATH}
    return {difference.field for difference in verdict.differences}


def _with_causes(verdict: Verdict, elsewhere: Verdict, causes: Mapping[str, tuple[str, ...]]) -> Verdict:
    differences = [
        msgspec.structs.replace(difference, behaviours=causes.get(difference.field, ()))
        for difference in verdict.differences
    ]
    if PATH in causes:
        differences.append(Difference(PATH, "none", path_text(elsewhere.hops), causes[PATH]))
    return msgspec.structs.replace(verdict, differences=tuple(differences))
