"""Runs a neutral scenario under ActiveMQ Classic: redelivery policy, dead-letter strategy, transacted consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from simulator.systems.activemq import simulate
from simulator.systems.compare.consumer import consume
from simulator.systems.compare.neutral_scenario import NeutralScenario
from simulator.systems.compare.outcome import Left, Ran, deliveries

VERSIONS = ("5.17.2", "5.18", "document")
LIMIT = "each client: maximumRedeliveries of its redelivery policy; with the redeliveryPlugin, the broker as well"
_KIND = "queue://"


def run(neutral: NeutralScenario, version: str, own: Mapping[str, Any] | None = None) -> Ran:
    """Run the scenario under a profile.

    ``own`` has the parts ``broker`` and ``redelivery_policy`` of a scenario for ActiveMQ.
    """
    side = _Side(neutral, version, own or _nearest(neutral))
    acknowledged, notes = consume(neutral, side)
    side.finish()
    scenario = side.scenario(side.steps)
    trace = simulate(scenario)
    events = [{**event, "queue": _name(event["queue"])} for event in trace["events"]]
    return Ran(
        scenario=scenario,
        events=events,
        attempts=deliveries(events),
        acknowledged=acknowledged,
        left={
            left["message"]: Left(_name(queue), _telling(left))
            for queue, messages in trace["queues"].items()
            for left in messages
        },
        notes=[*_notes(neutral), *notes],
        shows={event["message"]: _shown(event) for event in deliveries(events)},
    )


def _shown(event: Mapping[str, Any]) -> dict[str, Any]:
    return {"JMSRedelivered": event["redelivered"], "JMSXDeliveryCount": event["delivery_count"]}


def _name(queue: str) -> str:
    return queue.removeprefix(_KIND)


def _telling(message: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dead letter that tell of its death."""
    return {"originalDestination": message["originalDestination"], **message["properties"]}


def _nearest(neutral: NeutralScenario) -> Mapping[str, Any]:
    """Return the broker and the clients' redelivery policy that come closest to the scenario."""
    strategy: dict[str, Any] = {"strategy": "discarding"}
    if neutral.dead_letter_queue is not None:
        strategy = {"strategy": "shared", "deadLetterQueue": neutral.dead_letter_queue}
    return {
        "broker": {"policies": [{"queue": neutral.queue, "deadLetterStrategy": strategy}]},
        "redelivery_policy": {
            "maximumRedeliveries": neutral.attempts_max - 1,
            "initialRedeliveryDelay": neutral.retry_delay_ms,
            "redeliveryDelay": neutral.retry_delay_ms,
        },
    }


def _notes(neutral: NeutralScenario) -> list[str]:
    notes = []
    if any(message.how == "hold" for message in neutral.messages):
        notes.append("ack_timeout_ms: ActiveMQ has none; a consumer keeps its message for as long as it is connected")
    if any(message.how == "crash" for message in neutral.messages) and neutral.retry_delay_ms:
        notes.append("retry_delay_ms: the client waits, so not after a crash")
    return notes


class _Side:
    """The broker, the publisher and the consumer, as steps of a scenario that grows."""

    def __init__(self, neutral: NeutralScenario, profile: str, configured: Mapping[str, Any]) -> None:
        self.steps: list[dict[str, Any]] = []
        self._neutral, self._profile, self._configured = neutral, profile, configured
        self._now_ms = self._connections = 0
        self._to_send = deque(neutral.published())
        self._hangs = False
        if neutral.consumed:
            self._connect()

    def scenario(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the scenario with these steps."""
        return {"profile": self._profile, "broker": self._configured["broker"], "steps": steps}

    def take(self) -> str | None:
        while not self._hangs:
            self._send_due()
            until_ms = self._to_send[0].at_ms if self._to_send else self._neutral.until_ms
            timeout_ms = max(until_ms - self._now_ms, 0)
            self.steps.append({"do": "receive", "consumer": self._consumer, "timeout_ms": timeout_ms})
            outcome = simulate(self.scenario(self.steps))["outcomes"][-1]
            self._now_ms = outcome["time_ms"]
            if outcome["received"] is not None:
                return str(outcome["received"]["message"])
            if not self._to_send and self._now_ms >= self._neutral.until_ms:
                break
        return None

    def acknowledge(self, name: str) -> None:
        self.steps.append({"do": "commit", "session": self._session})

    def reject(self, name: str) -> None:
        self.steps.append({"do": "rollback", "session": self._session})

    def crash(self, name: str) -> None:
        self.steps.append({"do": "disconnect", "connection": self._connection})
        self._connect()

    def hold(self, name: str) -> None:
        """Let the consumer hang to the end, because nothing takes the message from it."""
        self._hangs = True

    def finish(self) -> None:
        """Send what is left, and let time pass to the end."""
        while self._to_send:
            self._now_ms = max(self._now_ms, self._to_send[0].at_ms)
            self._send_due()
        if self._now_ms < self._neutral.until_ms:
            self.steps.append({"do": "wait", "ms": self._neutral.until_ms - self._now_ms})
            self._now_ms = self._neutral.until_ms

    @property
    def _connection(self) -> str:
        return f"connection-{self._connections}"

    @property
    def _session(self) -> str:
        return f"session-{self._connections}"

    @property
    def _consumer(self) -> str:
        return f"consumer-{self._connections}"

    def _connect(self) -> None:
        self._connections += 1
        policy = self._configured["redelivery_policy"]
        self.steps += [
            {"do": "connect", "connection": self._connection, "prefetch": 1, "redelivery_policy": policy},
            {
                "do": "session",
                "session": self._session,
                "connection": self._connection,
                "acknowledge": "transacted",
            },
            {
                "do": "consumer",
                "consumer": self._consumer,
                "session": self._session,
                "destination": _KIND + self._neutral.queue,
            },
        ]

    def _send_due(self) -> None:
        while self._to_send and self._to_send[0].at_ms <= self._now_ms:
            message = self._to_send.popleft()
            self.steps.append(
                {
                    "do": "send",
                    "at_ms": message.at_ms,
                    "to": _KIND + self._neutral.queue,
                    "message": message.name,
                    "body": message.body,
                    "ttl_ms": message.time_to_live_ms or 0,
                }
            )
