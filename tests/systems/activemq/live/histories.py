"""Random histories with several consumers. The seed says which; the same seed is the same history.

Everything happens in slots, a redelivery and an expiration in the middle of one, so
that a machine that is a little late sees the same order of things. Where it is late by
more, the same history has longer slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.systems.activemq.live.cases import AUDIT_OFF, SCHEDULER, Case, page_sizes, policies, shared, strategy
from tests.systems.activemq.live.scenarios import DLQ, Steps

SLOTS_MS = (100, 100, 200, 400, 800, 1600)
LATE_MAX = 0.35
"""By how much of a slot everything may be late, so that it happens in the order of the simulator."""
SCHEDULED_SLOT_MS = 800
"""The shortest slot of a history with a scheduler's messages: a broker sends them up to half a second later."""
PAGED = 0.5
"""Which share of the histories has small pages, and as many messages to begin with as make several."""
_SWEEP_SLOTS = 60.4
SCHEDULED_EACH = 20
"""One of so many histories has a scheduler that sends."""
_SCHEDULED_SLOTS = 4.2
_DELAY_SLOTS = 2.5
_RECEIVE_SLOTS = 4
_DRAIN_MS = 500
"""How long the player waits for another message before it has drained a queue."""
QUEUES = ("Q", "R")
TOPIC = "topic://T"
_MODES = ("transacted", "transacted", "transacted", "client", "individual", "auto")
_PREFETCHES = (0, 1, 1, 2, 3, 5, 1000, 1000)
_SELECTORS = ("n = 1", "n <> 1", "n IS NULL OR n = 2", "n BETWEEN 1 AND 1", "NOT (n = 1)", "JMSPriority > 4")
_OPTIONS = ("consumer.exclusive=true", "consumer.priority=3", "consumer.exclusive=true&consumer.priority=5")
_CONFIGURATIONS = (
    ("", "", (DLQ,)),
    ("", SCHEDULER, (DLQ,)),
    (policies(strategy('<individualDeadLetterStrategy queuePrefix="DLQ."/>')), "", ("DLQ.Q", "DLQ.R", DLQ)),
    (policies(strategy(AUDIT_OFF), strategy(AUDIT_OFF, 'topic=">"')), "", (DLQ,)),
    (policies(strategy('<sharedDeadLetterStrategy processNonPersistent="true"/>')), "", (DLQ,)),
    (policies(strategy(shared("DEAD"), 'queue="Q"')), "", ("DEAD", DLQ)),
    (policies('<policyEntry queue="Q" allConsumersExclusiveByDefault="true"/>'), "", (DLQ,)),
)
"""What is in the element broker, its attributes, and where dead letters may be."""
_PLUGIN = """<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
<redeliveryPolicy queue="Q" maximumRedeliveries="1" initialRedeliveryDelay="{0}" redeliveryDelay="{0}"/>
</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"""


class _History:
    def __init__(self, seed: int, slot_ms: int, *, scheduled: bool) -> None:
        self.random, self.slot_ms = Random(seed), slot_ms
        self.steps: Steps = []
        self.at_ms = 0
        self.sent = self.opened = 0
        self.grouped = self.random.random() < 0.25
        self.scheduled_ms = int(_SCHEDULED_SLOTS * slot_ms) if scheduled else 0
        self.consumers: dict[str, dict[str, Any]] = {}

    def add(self, slots: int, **step: Any) -> None:
        """Do something, and leave it so many slots."""
        self.steps.append({**step, "at_ms": self.at_ms})
        self.at_ms += slots * self.slot_ms

    def open(self) -> None:
        """Open a connection, a session and a consumer."""
        self.opened += 1
        name, random = f"c{self.opened}", self.random
        mode, prefetch = random.choice(_MODES), random.choice(_PREFETCHES)
        policy = {
            "maximumRedeliveries": random.choice((0, 1, 1, 2, 3, -1)),
            "initialRedeliveryDelay": int(_DELAY_SLOTS * self.slot_ms),
            "redeliveryDelay": int(_DELAY_SLOTS * self.slot_ms),
        }
        durable = random.random() < 0.2
        taken = {each["client_id"] for each in self.consumers.values()}
        client_id = (
            next(each for each in ("i1", "i2", "i3", "i4", "i5", "i6") if each not in taken) if durable else None
        )
        identity = {"client_id": client_id} if client_id else {}
        blocking = {"non_blocking_redelivery": True} if random.random() < 0.1 else {}
        self.add(1, do="connect", connection=name, redelivery_policy=policy, prefetch=prefetch, **identity, **blocking)
        self.add(1, do="session", session=name, connection=name, acknowledge=mode)
        more: dict[str, Any] = {"subscription": "s"} if durable else {}
        if random.random() < 0.15:
            more["selector"] = random.choice(_SELECTORS)
        destination = TOPIC if durable else random.choice(("Q", "Q", "Q", "R"))
        if not durable and random.random() < 0.15:
            destination += f"?{random.choice(_OPTIONS)}"
        self.add(1, do="consumer", consumer=name, session=name, destination=destination, **more)
        self.consumers[name] = {"mode": mode, "client_id": client_id, "read": False}

    def send(self) -> None:
        """Send up to three messages."""
        for _ in range(self.random.randint(1, 3)):
            self.send_one(to=self.random.choice(("Q", "Q", "Q", "R", TOPIC, "Q,R")))

    def send_one(self, to: str) -> None:
        """Send a message."""
        random = self.random
        self.sent += 1
        fields: dict[str, Any] = {"to": to, "body": f"m{self.sent}"}
        fields["properties"] = {"n": random.randint(1, 2)}
        if self.grouped and random.random() < 0.6:
            fields["properties"]["JMSXGroupID"] = random.choice(("a", "b"))
            fields["properties"]["JMSXGroupSeq"] = random.choice(("0", "0", "0", "1", "-1"))
        if random.random() < 0.15:
            fields["priority"] = random.randint(0, 9)
        if self.scheduled_ms and random.random() < 0.3:
            fields["delay_ms"] = self.scheduled_ms
        if random.random() < 0.2:
            fields["ttl_ms"] = int((random.randint(3, 12) + 0.6) * self.slot_ms)
        if random.random() < 0.1 and fields["to"] != TOPIC:
            fields["persistent"] = False
        transacted = [name for name, each in self.consumers.items() if each["mode"] == "transacted"]
        if transacted and random.random() < 0.15:
            fields["session"] = random.choice(transacted)
        self.add(1, do="send", **fields)

    def fill(self) -> None:
        """Send messages for several pages."""
        for _ in range(self.random.randint(8, 30)):
            self.send_one(to="Q")

    def act(self) -> None:
        """Let a consumer do something."""
        random = self.random
        name = random.choice(list(self.consumers))
        consumer = self.consumers[name]
        choice = random.random()
        if choice < 0.6:
            for _ in range(random.randint(1, 3)):
                self.add(_RECEIVE_SLOTS + 1, do="receive", consumer=name, timeout_ms=_RECEIVE_SLOTS * self.slot_ms)
            consumer["read"] = True
        elif choice < 0.75 and consumer["mode"] == "transacted":
            self.add(1, do="rollback", session=name)
        elif choice < 0.9 and consumer["mode"] == "transacted":
            self.add(1, do="commit", session=name)
        elif choice < 0.75 and consumer["mode"] in ("client", "individual"):
            self.add(1, do="recover", session=name)
        elif choice > 0.9:
            self.close(name)

    def close(self, name: str) -> None:
        """Let a consumer go away, in one way or another."""
        del self.consumers[name]
        how = self.random.choice(("session", "connection", "disconnect", "disconnect"))
        if how == "disconnect":
            self.add(5, do="disconnect", connection=name)
            return
        self.add(1, do="close", **{how: name})
        if how == "session":
            self.add(1, do="close", connection=name)


def slots_ms(seed: int) -> tuple[int, ...]:
    """Return the lengths of slots in which the history of a seed may be played, the shortest first."""
    shortest_ms = SCHEDULED_SLOT_MS if seed % SCHEDULED_EACH == 0 else 0
    return tuple(each for each in SLOTS_MS if each >= shortest_ms)


def history(seed: int, slot_ms: int) -> Case:
    """Return the history of a seed, in slots of that length, which is one of ``slots_ms``."""
    scheduled = seed % SCHEDULED_EACH == 0
    made = _History(seed, slot_ms, scheduled=scheduled)
    inner, attributes, dead_letter_queues = made.random.choice(_CONFIGURATIONS)
    if scheduled:
        inner = made.random.choice(("", _PLUGIN.format(made.scheduled_ms)))
        attributes, dead_letter_queues = SCHEDULER, (DLQ,)
    elif made.random.random() < PAGED:
        inner = _small_pages(made.random, slot_ms)
        made.fill()
    for _ in range(made.random.randint(1, 4)):
        made.open()
    for _ in range(made.random.randint(8, 14)):
        choice = made.random.random()
        if choice < 0.3:
            made.send()
        elif choice < 0.4 and len(made.consumers) < 6:
            made.open()
        elif choice < 0.44:
            made.add(3, do="browse", queue=made.random.choice(QUEUES))
        elif choice < 0.46:
            made.consumers.clear()
            made.add(20, do="restart")
        elif made.consumers:
            made.act()
        else:
            made.open()
    for name in list(made.consumers):
        made.close(name)
    for queue in (*QUEUES, *dead_letter_queues):
        made.add(8, do="drain", queue=queue)
    return Case(made.steps, inner, attributes)


def _small_pages(random: Random, slot_ms: int) -> str:
    sizes = {name: random.randint(5, 20) for name in ("maxPageSize", "maxExpirePageSize", "maxBrowsePageSize")}
    period_ms = random.choice((0, int(_SWEEP_SLOTS * slot_ms)))
    return page_sizes(**sizes, expireMessagesPeriod=period_ms)


def late_ms(case: Case, lines: Sequence[Mapping[str, Any]]) -> int:
    """Return by how many milliseconds the broker's machine was late at most; half a slot changes what happens."""
    late = [0]
    for line in lines:
        if "late_ms" in line:
            return int(line["late_ms"])
        step = case.steps[line["step"]] if line["step"] >= 0 else {}
        if "at_ms" not in step or (step["do"] == "receive" and ("delivered" in line or line["received"])):
            continue  # what a receive got may have come at any time
        waited = {"receive": step.get("timeout_ms", 0), "drain": _DRAIN_MS}.get(step["do"], 0)
        late.append(line["time_ms"] - step["at_ms"] - waited)
    return max(late)
