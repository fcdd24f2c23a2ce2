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


TOPOLOGIES = Path("examples/topologies")
# What lint says of the topologies that users reported, and of sound ones.
SAID = {
    "broken/argument-hides-policy": {"missing-dlx", "argument-hides-policy"},
    "broken/at-least-once-without-reject-publish": {"unroutable-dead-letter", "at-least-once-ineffective"},
    "broken/default-delivery-limit": {"no-dlx-on-rejecting", "default-delivery-limit"},
    "broken/delay-behind-a-longer-one": {"head-of-line-ttl"},
    "broken/exchange-without-bindings": {"unroutable-dead-letter"},
    "broken/full-dead-letter-queue": {"reject-publish-on-dead-letter-queue"},
    "broken/full-queue-refuses": set(),  # publishers with confirms know
    "broken/key-not-covered": {"unroutable-dead-letter"},
    "broken/ladder-cycle": {"automatic-cycle"},
    "broken/length-limit-alone": {"no-dlx-on-rejecting"},
    "broken/own-dead-letter-exchange": {"self-dlx"},
    "broken/retry-queue-expires": {"queue-removed-with-messages", "endless-retry"},
    "sound/length-limit-keeps-everything": {"unbounded-dead-letter-queue"},
    "sound/reject-then-ttl": {"endless-retry"},
    "sound/three-delays-and-parking": {"endless-retry"},
    "sound/unlimited-quorum": {"no-dlx-on-rejecting"},
}


@pytest.mark.parametrize("name", sorted(f"{each.parent.name}/{each.stem}" for each in TOPOLOGIES.glob("*/*.json")))
def test_reported_topologies_are_called_what_they_are(name: str) -> None:
    report = lint(read_definitions(TOPOLOGIES / f"{name}.json"), release("4.3"))
    assert {each.name for each in report.findings} == SAID.get(name, set())
    if name.startswith("sound"):
        assert "error" not in {each.severity for each in report.findings}
