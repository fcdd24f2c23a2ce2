"""As a consumer, a tester and an analyst write it: type checkers have nothing to say of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import assert_never

import dlx
import simulator
from simulator.capture import CaptureError, open_log
from simulator.replay import Summary, Verdict
from simulator.testing import (
    Broker,
    Clock,
    PropertyBroken,
    ReceivedMessage,
    Trial,
    assert_dead_lettered,
    assert_nothing_lost,
    assert_settles,
)

# A consumer

PLAN = dlx.RetryPlan(delays_ms=(1_000, 5_000), parking="orders.parking", queue="orders", age_max_ms=60_000)


class Properties:
    """As a client has them."""

    headers: dict[str, object] | None = None


def where_to(properties: Properties) -> str | None:
    history: dlx.DeathHistory = dlx.death_history(properties)
    first: dlx.DeathPoint | None = history.first
    if first is not None and first.queue == "orders" and history.rejected_in("orders") > 3:
        return None
    decision: dlx.Decision = PLAN.decide(history, now=datetime.now(UTC))
    match decision:
        case dlx.Retry():
            return decision.to
        case dlx.Park():
            return decision.to
        case dlx.GiveUp():
            return None
        case _:
            assert_never(decision)


def republished(headers: dict[str, object]) -> dict[str, object]:
    return dlx.republish_headers(headers, attempts=dlx.death_history({"headers": headers}).attempts)


# A tester


def test_with_fixtures(dlx_broker: Broker, dlx_clock: Clock, dlx_topology: dlx.Topology, dlx_amqp_url: str) -> None:
    dlx_broker.publish("", "orders", b"{}", message_id="order-1")
    message: ReceivedMessage | None = dlx_broker.get("orders", auto_ack=False)
    assert message is not None
    message.reject(requeue=False)
    passed_s: float = dlx_broker.wait_for("parked", within_s=3600)
    assert dlx_clock.advance(seconds=passed_s) > dlx_clock.now_us()
    assert {dlx_amqp_url} == {dlx_broker.amqp_url}
    assert "orders" in dlx_topology.queues
    assert_nothing_lost(dlx_broker)


def test_orders(definitions: Path) -> None:
    with simulator.serve("4.3", definitions=definitions, management_port=0) as server:
        url: str = server.amqp_url
        now_us: int = server.clock.advance(hours=24)
        assert_nothing_lost(server)
        assert_dead_lettered(server, to="dead", reason="expired", times=1)
        assert_settles(server, within=timedelta(minutes=1))
    assert url.startswith("amqp://")
    assert now_us > 0


def losses(definitions: dict[str, object]) -> tuple[object, ...]:
    trial = Trial(definitions, release="4.0", properties=["lossless"])
    try:
        trial.set_policy(dlx.Policy(name="ttl", pattern=".*", definition={"message-ttl": 5}))
    except simulator.OperatorError:
        return ()
    try:
        trial.publish("", "orders", headers={"tenant": 7}, expiration_ms=10, times=2)
        trial.requeue("orders", method="nack")
    except PropertyBroken as broken:
        return broken.history
    return tuple(trial.history)


def release_of(broker: simulator.Broker, clock: simulator.VirtualClock) -> dlx.Release:
    clock.advance(minutes=5)
    return broker.release


# An analyst


def queues_after(queue: dlx.Queue, topology: dlx.Topology, rules: dlx.Release) -> tuple[str, ...]:
    settings: dlx.Settings = dlx.effective_settings(queue, topology, rules)
    try:
        message: dlx.Message = dlx.published("", "orders", expiration="100", release=rules)
        letter: dlx.DeadLetter = dlx.dead_letter(message, "expired", settings, topology, rules, time_s=1)
    except (dlx.PublishRefusedError, dlx.QueueCrashError, dlx.UnknownExchangeTypeError):
        return ()
    return letter.queues


def readable(log: Path) -> bool:
    try:
        return any(True for _ in open_log(log))
    except CaptureError:
        return False


def told(summary: Summary, verdict: Verdict) -> str:
    return f"{summary.agreement_percent} {verdict.name}"


def known(name: dlx.ReleaseName) -> dlx.Release:
    try:
        return dlx.release(name)
    except dlx.UnknownReleaseError:
        return dlx.release("4.3")
