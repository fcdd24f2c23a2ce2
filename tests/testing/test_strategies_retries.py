"""Drawn retry plans and death histories fit each other: every plan decides what becomes of every message."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlx
from simulator.testing.strategies import death_histories, retry_plans
from tests.testing.reaching import reached

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@given(retry_plans(), death_histories() | death_histories(hostile=True))
def test_a_plan_decides(plan: dlx.RetryPlan, history: dlx.DeathHistory) -> None:
    decision = plan.decide(history, now=NOW, identity="m1")
    if isinstance(decision, dlx.Retry):
        assert 0 <= decision.delay_ms <= max(plan.delays_ms)
    else:
        assert isinstance(decision, dlx.GiveUp if plan.parking is None else dlx.Park)


@pytest.mark.parametrize("kind", [dlx.Retry, dlx.Park, dlx.GiveUp])
def test_every_decision_is_reached(kind: type) -> None:
    cases = st.builds(
        lambda plan, history: plan.decide(history, now=NOW, identity="m1"), retry_plans(), death_histories()
    )
    assert reached(cases, lambda decision: isinstance(decision, kind)).attempt >= 1


@given(st.from_type(dlx.DeathHistory))
def test_a_history_by_its_type_is_what_a_broker_wrote(history: dlx.DeathHistory) -> None:
    assert history.malformed == ()
    assert len(history.counts) == len(history.deaths)
    assert (history.last is None) == (not history.deaths)
