"""Lint: each rule finds what it is about and nothing else, and what it calls lost is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlx.releases import release
from simulator.definitions import read_definitions
from simulator.questions.lint_rules.linting import LintReport, lint
from simulator.questions.lint_rules.rule import RULES, LintRule
from simulator.scenario.properties.promises import Lossless
from simulator.scenario.trial import Trial

EXAMPLES = Path(__file__).parent / "lint_examples"
# Streams take dead letters from the release on that the table of releases names.
OTHER_RELEASE = {"stream-loses-dead-letters": "3.10"}


def linted(rule: LintRule, suffix: str = "") -> LintReport:
    file = EXAMPLES / f"{rule.name}{suffix}.json"
    return lint(read_definitions(file), release(OTHER_RELEASE.get(rule.name, "4.3")))


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_each_rule_finds_its_example_and_nothing_else(rule: LintRule) -> None:
    found = linted(rule).findings
    assert {each.name for each in found} == {rule.name}
    assert all(each.message.endswith((".", "?")) and each.because and each.fix.text for each in found)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_no_rule_finds_its_near_miss(rule: LintRule) -> None:
    assert rule.name not in {each.name for each in linted(rule, ".near").findings}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_an_error_has_a_history_that_loses_a_message(rule: LintRule) -> None:
    for each in linted(rule).findings:
        assert (each.severity == "error") == bool(each.history)
        if each.history:
            trial = Trial(EXAMPLES / f"{rule.name}.json", release=linted(rule).release, properties=[Lossless()])
            with pytest.raises(AssertionError, match="lossless is broken"):
                trial.play(each.history)
