"""Runs a neutral scenario under RabbitMQ: a quorum queue with a delivery limit and a dead-letter exchange.

Delays are delayed retries where the release has them, and else a retry ladder: a
message that fails dies into a queue without consumers, and from there, expired, into
the queue of its next attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from dlx.death_headers import delivered_headers
from dlx.delivery_counts import Counts, count_headers
from dlx.field_values import plain
from dlx.releases import DEFAULT, Release, all_releases, release_and_remark
from dlx.settings import expires_messages
from dlx.topology import QUORUM
from simulator.events import Event
from simulator.scenario import steps
from simulator.scenario.player import START_US, Player
from simulator.scenario.rabbitmq_scenario import simulate
from simulator.systems.compare.consumer import consume
from simulator.systems.compare.neutral_scenario import Message, NeutralScenario
from simulator.systems.compare.outcome import Left, Ran, deliveries

VERSIONS = (DEFAULT, *(name for name in all_releases() if name != DEFAULT))
LIMIT = "the queue: its delivery-limit, an argument or a policy (quorum queues only)"
_TELLING = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count")
_BY_DEFAULT_EXCHANGE = {"x-dead-letter-exchange": ""}


def check_version(version: str) -> None:
    """Raise ``UnknownReleaseError``, which names the nearest, unless there are rules for a version of RabbitMQ."""
    release_and_remark(version)


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """The topology that a scenario is played on.

    Attributes:
        definitions: an export.
        consumed: the queues with consumers, of the virtual host.
        rejects: whether a consumer that gives a message back rejects it without requeue.
        publish: how a message comes into the queue of the scenario.
    """

    definitions: Mapping[str, Any]
    consumed: tuple[str, ...]
    rejects: bool
    publish: steps.Publish

    @property
    def vhost(self) -> str:
        """The virtual host in which all of it happens."""
        return self.publish.vhost


def run(neutral: NeutralScenario, version: str, own: Played | None = None) -> Ran:
    """Run the scenario under a release, given by name or version; a note says which version stands in for another."""
    rules, remark = release_and_remark(version)
    side = _Side(neutral, rules.name, own or _nearest(neutral, rules))
    acknowledged, notes = consume(neutral, side)
    side.finish()
    scenario = {
        "release": rules.name,
        "definitions": side.player.definitions,
        "steps": steps.to_builtins(side.player.history),
    }
    trace = simulate(scenario)
    events = [{**event, "message": side.names[event["message"]]} for event in trace["events"] if event.get("queue")]
    return Ran(
        scenario=scenario,
        events=events,
        attempts=deliveries(events),
        acknowledged=acknowledged,
        left={
            side.names[left["message"]]: Left(queue, _telling(left["headers"]))
            for queue, messages in trace["queues"].items()
            for left in messages
        },
        notes=[*([remark] if remark else []), *(_notes(neutral, rules) if own is None else ()), *notes],
        shows=side.shows,
    )


def _telling(headers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name.startswith(_TELLING)}


def _notes(neutral: NeutralScenario, rules: Release) -> list[str]:
    notes = []
    if neutral.retry_delay_ms and not rules.quorum_delayed_retry:
        notes.append("retry_delay_ms: by a retry ladder, one queue for each attempt")
    if any(message.how == "hold" for message in neutral.messages) and not rules.consumer_timeout_setting:
        default = rules.consumer_timeout_ms
        notes.append(f"ack_timeout_ms: {'this release has none' if default is None else f'{default} for all queues'}")
    if any(message.time_to_live_ms for message in neutral.messages) and not expires_messages(QUORUM, rules):
        notes.append("time_to_live_ms: quorum queues of this release have none")
    return notes


def _nearest(neutral: NeutralScenario, rules: Release) -> Played:
    """Return the topology that comes closest to the scenario; the quorum queues are those with consumers."""
    queues = _queues(neutral, rules)
    return Played(
        definitions=_definitions(queues),
        consumed=tuple(name for name, arguments in queues.items() if arguments["x-queue-type"] == QUORUM),
        rejects=f"{neutral.queue}.wait.1" in queues,
        publish=steps.Publish("", neutral.queue),
    )


def _queues(neutral: NeutralScenario, rules: Release) -> dict[str, dict[str, Any]]:
    """Return the arguments of each queue by its name."""
    queues: dict[str, dict[str, Any]] = {}
    if neutral.dead_letter_queue is not None:
        queues[neutral.dead_letter_queue] = {"x-queue-type": "classic"}
    common: dict[str, Any] = {"x-queue-type": "quorum"}
    if rules.consumer_timeout_setting and any(message.how == "hold" for message in neutral.messages):
        common["x-consumer-timeout"] = neutral.ack_timeout_ms
    if neutral.retry_delay_ms and not rules.quorum_delayed_retry:
        return queues | _ladder(neutral, common)
    own = common | {"x-delivery-limit": neutral.attempts_max - 1} | _dead_letters_to(neutral.dead_letter_queue)
    if neutral.retry_delay_ms:
        own["x-delayed-retry-type"] = "all"
        own["x-delayed-retry-min"] = own["x-delayed-retry-max"] = neutral.retry_delay_ms
    return queues | {neutral.queue: own}


def _ladder(neutral: NeutralScenario, common: dict[str, Any]) -> dict[str, dict[str, Any]]:
    queues: dict[str, dict[str, Any]] = {}
    last = neutral.attempts_max
    tries = [neutral.queue, *(f"{neutral.queue}.try.{attempt}" for attempt in range(2, last + 1))]
    for attempt, name in enumerate(tries, start=1):
        wait = f"{neutral.queue}.wait.{attempt}" if attempt < last else None
        # A message that is returned, because its consumer died, goes on as a rejected one does.
        queues[name] = common | {"x-delivery-limit": 0} | _dead_letters_to(wait or neutral.dead_letter_queue)
        if wait:
            delay = {"x-queue-type": "classic", "x-message-ttl": neutral.retry_delay_ms}
            queues[wait] = delay | _dead_letters_to(tries[attempt])
    return queues


def _dead_letters_to(queue: str | None) -> dict[str, Any]:
    return {} if queue is None else _BY_DEFAULT_EXCHANGE | {"x-dead-letter-routing-key": queue}


def _definitions(queues: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
            for name, arguments in queues.items()
        ],
    }


class _Side:
    """The broker, one consumer for each queue of attempts, and the publisher.

    Attributes:
        names: the messages by the broker's numbers for them.
        shows: the headers of each message's last delivery that tell of those before.
    """

    def __init__(self, neutral: NeutralScenario, release: str, played: Played) -> None:
        self.player = Player(played.definitions, release=release)
        self.names: dict[int, str] = {}
        self.shows: dict[str, dict[str, Any]] = {}
        self._neutral, self._played = neutral, played
        self._to_publish = deque(neutral.published())
        self._delivered: deque[int] = deque()
        self._queue_of: dict[str, str] = {}
        self._end_us = START_US + neutral.until_ms * 1_000

    def take(self) -> str | None:
        while not self._delivered:
            for queue in self._played.consumed:
                if not self.player.has_consumer(queue, self._played.vhost):
                    self._do(steps.Hold(queue, vhost=self._played.vhost))
            if not self._delivered and not self._pass_time():
                return None
        return self.names[self._delivered.popleft()]

    def acknowledge(self, name: str) -> None:
        self._do(steps.Ack(self._queue_of[name], vhost=self._played.vhost))

    def reject(self, name: str) -> None:
        reject = steps.Reject if self._played.rejects else steps.Requeue
        self._do(reject(self._queue_of[name], vhost=self._played.vhost))

    def crash(self, name: str) -> None:
        self._do(steps.Crash(self._queue_of[name], vhost=self._played.vhost))

    def hold(self, name: str) -> None:
        """Do nothing: the broker closes the consumer's channel when its time is over."""

    def finish(self) -> None:
        """Publish what is left, and let time pass to the end."""
        while self._pass_time():
            pass

    def _pass_time(self) -> bool:
        """Let the next publish happen, or what the broker does next; return false once the end has come."""
        due_us = self.player.broker.next_due()
        publish_us = self._to_publish[0].at_ms * 1_000 + START_US if self._to_publish else None
        if publish_us is not None and (due_us is None or publish_us <= max(due_us, self.player.now_us)):
            self._wait_until(publish_us)
            self._publish(self._to_publish.popleft())
            return True
        if self.player.now_us >= self._end_us:
            return False
        self._wait_until(self._end_us if due_us is None else min(due_us, self._end_us))
        return True

    def _wait_until(self, at_us: int) -> None:
        ahead_us = max(at_us - self.player.now_us, 0)
        self._do(steps.Wait(-(-ahead_us // 1_000)))

    def _publish(self, message: Message) -> None:
        step = msgspec.structs.replace(
            self._played.publish,
            expiration_ms=message.time_to_live_ms,
            body_bytes=len(message.body.encode()),
        )
        self._do(step, message.name)

    def _do(self, step: steps.AnyStep, publishing: str = "") -> None:
        self.player.do(step)
        for happened, _ in self.player.events:
            if happened.event is Event.PUBLISHED:
                self.names[happened.uid] = publishing
            elif happened.event is Event.DELIVERED:
                assert happened.queue is not None
                self._queue_of[self.names[happened.uid]] = happened.queue
                self._delivered.append(happened.uid)
                self.shows[self.names[happened.uid]] = self._shown(happened.uid)

    def _shown(self, uid: int) -> dict[str, Any]:
        release = self.player.broker.release
        queue, copy = next((queue, copy) for queue, copy in self.player.copies() if copy.uid == uid)
        counts = count_headers(Counts(copy.acquired, copy.failed), release) if queue.definition.type == QUORUM else {}
        headers = msgspec.to_builtins(delivered_headers(copy.message, release, counts) or {}, enc_hook=plain)
        return _telling(headers)
