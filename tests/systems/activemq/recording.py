"""Makes a scenario of what a real ActiveMQ and its client were recorded to do.

A recorded document has the client's policy, a line about the broker's configuration,
a sentence about the application, and the trace: what the application did and saw.
What it did becomes steps, at the times at which it did it. Where the trace has only
what was seen, the step in between is a receive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simulator.systems.activemq.destinations import matches, parse_destination
from simulator.systems.activemq.messages import (
    FAILURE_CAUSE,
    ORIGINAL_DELIVERY_MODE,
    ORIGINAL_EXPIRATION,
    REDELIVERY_DELAY,
    SCHEDULED_JOB,
)

LATE_MS = 30
"""How late the server may be."""
SCHEDULER_LATE_MS = 1000
"""How late the broker's scheduler may be, which brings what the redelivery plugin sends."""
CLOSING_MS = 250
"""How long the recorded client took at most to close a consumer and begin something else."""
DRAINED_MS = 1000
"""The same, and to find out that there are no dead letters."""
START_MS = 1_600_000_000_000
DEFAULT_DLQ = "ActiveMQ.DLQ"
BROKERS_PROPERTIES = {FAILURE_CAUSE, ORIGINAL_DELIVERY_MODE, ORIGINAL_EXPIRATION, REDELIVERY_DELAY, SCHEDULED_JOB}
_ACTIONS = ("rollback", "commit", "recover", "acknowledge")


def _applies(named: tuple[str, str, str], kind: str, key: str) -> bool:
    return matches(parse_destination(f"{named[0]}://{named[1]}"), parse_destination(f"{kind}://{key}"))


class Recording:
    """One document: the scenario that it makes, and what is expected of each step.

    Attributes:
        steps: of the scenario.
        expected: by step, the event of the trace that has to come of it.
        counts: by step, the field of the document that says how many messages are on a queue then, and its number.
        sections: what each consumer is for, and the step where it begins.
    """

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        self.document, self.name = document, name
        self.what: str = document.get("what", "")
        self.trace = _sent_first(document["trace"])
        self.steps: list[dict[str, Any]] = []
        self.expected: dict[int, dict[str, Any]] = {}
        self.counts: dict[int, tuple[str, int]] = {}
        self.sections: list[tuple[str, int]] = []
        self.topic = document["broker_policy"].startswith("topic")
        self.source = ""
        self.open: str | None = None  # the consumer that reads
        self.opened = 0
        self.at_ms = 0

    # -- the scenario ----------------------------------------------------------------------------------------------

    def scenario(self) -> dict[str, Any]:
        """Read the whole trace."""
        self._subscribe_first()
        for index, event in enumerate(self.trace):
            self._step_of(event, index)
        self._finish(len(self.trace), last=True)
        return {"start_ms": START_MS, "broker": broker_part(self.document["broker_policy"]), "steps": self.steps}

    def _step_of(self, event: dict[str, Any], index: int) -> None:
        kind, time_ms = event["event"], event["t_ms"]
        match kind:
            case "sent":
                self._finish(index)
                self._sent(event)
                if index + 1 == len(self.trace) or self.trace[index + 1]["event"] != "sent":
                    self._look_before_reading()
            case "subscriber" | "queue":
                self._finish(index)
                self._begin(event)
            case "delivered" | "receive_null":
                self._received(event)
            case "onMessage":
                self._add({"do": "wait", "ms": 0}, time_ms)
            case "session_close" | "socket_dropped":
                if self.open is None:  # it saw nothing at all
                    self._connect("none")
                    self._add(self._nothing(max(0, time_ms - self.at_ms)))
                elif index + 1 == len(self.trace) and self.document.get("left_on_source") == 0:
                    self._add({"do": "commit", "session": self.open})  # not in the trace, but nothing was left
                self._add({"do": "close" if kind == "session_close" else "disconnect", **self._gone(kind)}, time_ms)
                self.open = None
            case "dlq_message" | "dlq_drained":
                self._finish(index)
                self._drained(event, index)
            case _ if kind in _ACTIONS:
                where = {"consumer": self.open} if kind == "acknowledge" else {"session": self.open}
                self._add({"do": kind, **where}, time_ms)
            case _:
                raise AssertionError(f"{self.name}: the reader does not know the event '{kind}'")

    def _add(self, step: dict[str, Any], at_ms: int | None = None) -> int:
        if at_ms is not None:
            self.at_ms = max(self.at_ms, at_ms)
            step["at_ms"] = self.at_ms
        self.steps.append(step)
        return len(self.steps) - 1

    def _subscribe_first(self) -> None:
        """Subscribers to topics, and listeners, are there before anything is sent."""
        sent = next((event for event in self.trace if event["event"] == "sent"), None)
        if sent is None:
            return
        self.source = f"{'topic' if self.topic else 'queue'}://{sent['dest']}"
        keys = [event["key"] for event in self.trace if event["event"] == "subscriber"]
        for key in keys:
            self._connect(key, durable=key)
        if not keys and (self.topic or self._listens):
            self._connect("first")

    @property
    def _listens(self) -> bool:
        return any(event["event"] == "onMessage" for event in self.trace)

    def _sent(self, event: dict[str, Any]) -> None:
        self.source = f"{'topic' if self.topic else 'queue'}://{event['dest']}"
        step = {
            "do": "send",
            "to": self.source,
            "body": event["body"],
            "message": event["id"],
            "persistent": event["deliveryMode"] == "PERSISTENT",
            "ttl_ms": event["ttl"],
            "properties": self._application_properties(event["id"]),
        }
        self._add(step, event["t_ms"])

    def _application_properties(self, message_id: str) -> dict[str, Any]:
        """What the application gave to a message; the trace has it in the dead letter only."""
        letters = [event["message"] for event in self.trace if event["event"] == "dlq_message"]
        found = next((letter["properties"] for letter in letters if letter["id"] == message_id), {})
        return {name: value for name, value in found.items() if name not in BROKERS_PROPERTIES}

    def _begin(self, event: dict[str, Any]) -> None:
        """Go on with a subscriber that is there, or with another queue."""
        if "key" in event:
            self.open = event["key"]
            self.sections.append((event["key"].partition(":")[0], len(self.steps)))
        else:
            self.source = f"queue://{event['q']}"
            self._connect(event["q"])

    def _connect(self, label: str, *, durable: str | None = None, mode: str | None = None) -> None:
        self.opened += 1
        name = durable or f"c{self.opened}"
        connect: dict[str, Any] = {"do": "connect", "connection": name, **self._policies()}
        if "nonBlockingRedelivery" in self.what and "nonBlockingRedelivery=false" not in self.what:
            connect["non_blocking_redelivery"] = True
        client_id, _, subscription = (durable or "").partition(":")
        if durable:
            connect["client_id"] = client_id
        self._add(connect)
        self._add({"do": "session", "session": name, "connection": name, "acknowledge": mode or self._mode()})
        consumer = {"do": "consumer", "consumer": name, "session": name, "destination": self.source}
        if durable:
            consumer["subscription"] = subscription
        if self._listens:
            consumer["listener"] = {"fails": "always", "exception": self._exception()}
        self._add(consumer)
        if not durable:
            self.open = name
            self.sections.append((label, len(self.steps)))

    def _policies(self) -> dict[str, Any]:
        if "client_policy" in self.document:
            return {"redelivery_policy": self.document["client_policy"]}
        return self._policy_map()

    def _policy_map(self) -> dict[str, Any]:
        """The policies of a map, as the sentence names them; the delay is in the trace only."""
        gaps = [event["message"].get("gap_since_rollback_ms") for event in self.trace if "message" in event]
        delay = min((gap for gap in gaps if gap is not None), default=0)

        def policy(maximum: str) -> dict[str, Any]:
            return {"maximumRedeliveries": int(maximum), "initialRedeliveryDelay": delay, "redeliveryDelay": delay}

        default = re.search(r"default max (-?\d+)", self.what)
        named = re.findall(r"(queue|topic) (\S+) max (-?\d+)", self.what)
        put = self.document.get("deliveries_by_put_without_destination", {})
        found: dict[str, Any] = {"redelivery_policy": policy(default[1])} if default else {}
        if len(self.sections) < len(put):  # of two that apply a server takes either; this one took the first
            found["put_policies"] = {
                f"{kind}://{key}": policy(maximum)
                for index, (kind, key, maximum) in enumerate(named)
                if not any(_applies(each, kind, key) for each in named[:index])
            }
        else:
            found["redelivery_policies"] = [{kind: key, **policy(maximum)} for kind, key, maximum in named]
        return found

    def _mode(self) -> str:
        after_drop = re.search(r"then an? (AUTO|CLIENT|DUPS_OK|INDIVIDUAL)_ACKNOWLEDGE", self.what)
        named = re.search(r"(AUTO|CLIENT|DUPS_OK|INDIVIDUAL)_ACKNOWLEDGE", self.what)
        dropped = any(step["do"] == "disconnect" for step in self.steps)
        if after_drop is not None:
            return after_drop[1].lower() if dropped else "transacted"
        if named is not None:
            return named[1].lower()
        ends = {event["event"] for event in self.trace}
        numbered = any({"session", "conn"} & set(event) for event in self.trace)
        first_dies = document_limit(self.document) < 0
        return "transacted" if ends & {"rollback", "commit"} or numbered or first_dies else "auto"

    def _exception(self) -> str:
        """What the listener throws: as the dead letter has it, with the call's number at the end."""
        causes = (event["message"]["properties"] for event in self.trace if event["event"] == "dlq_message")
        text = next(causes, {}).get("dlqDeliveryFailureCause", "cause:failed 1").rpartition("cause:")[2]
        return re.sub(r"\d+$", "{n}", text)

    def _received(self, event: dict[str, Any]) -> None:
        number = event.get("session", event.get("conn"))
        if self.open is not None and number is not None and self.sections[-1][0] != str(number):
            self._add({"do": "close", "connection": self.open})
            self.open = None
        if self.open is None:
            self._connect(str(number))
        self._add({"do": "wait", "ms": 0}, self.at_ms)
        timeout = max(0, event["t_ms"] - self.at_ms) + (LATE_MS if event["event"] == "delivered" else 0)
        step = self._add({"do": "receive", "consumer": self.open, "timeout_ms": timeout})
        self.expected[step] = event

    def _gone(self, kind: str) -> dict[str, Any]:
        return {"session" if kind == "session_close" else "connection": self.open}

    def _finish(self, index: int, *, last: bool = False) -> None:
        """The consumer that read has seen nothing more for a while, and goes; queues are looked at."""
        if index == 0 or (not last and self.trace[index]["event"] == "sent" == self.trace[index - 1]["event"]):
            return
        before, until_ms = self.trace[index - 1]["event"], None if last else self.trace[index]["t_ms"]
        if before == "sent" and not self._listens and "deliveries" in self.document:
            self._connect("none")  # it saw nothing at all
        if self.open is not None:
            self._end_of(before, index)
            if last or self.trace[index]["event"] != "subscriber":
                for name in self._still_open():
                    self._add({"do": "close", "connection": name})
            self.open = None
        elif before == "sent":
            return
        if until_ms is not None:
            self._add({"do": "wait", "ms": 0}, until_ms)
        self._count("left_on_source", self.source)
        self._count(f"left_{re.escape(self.source.partition('://')[2])}", self.source)
        self._count("dlq_\\w+_depth_after", self._strategy_queue)

    def _end_of(self, before: str, index: int) -> None:
        """What a consumer does last: wait for a message that does not come."""
        self._count("dlq_\\w+_depth_before.*", self._strategy_queue)
        idle_ms = 0
        if index < len(self.trace):
            following = self.trace[index]
            waited_ms = DRAINED_MS if following["event"] == "dlq_drained" else CLOSING_MS
            idle_ms = following["t_ms"] - self.at_ms - waited_ms
        if idle_ms > 0 and before in ("rollback", "recover", "onMessage", "sent", "queue", "subscriber"):
            self._add({"do": "wait", "ms": idle_ms} if self._listens else self._nothing(idle_ms))
        self._count("on_dlq_before_close", self.dead_letter_queue)

    def _nothing(self, idle_ms: int) -> dict[str, Any]:
        """Wait for a message that must not come."""
        self.expected[len(self.steps)] = {"event": "receive_null"}
        return {"do": "receive", "consumer": self.open, "timeout_ms": idle_ms}

    def _still_open(self) -> list[str]:
        made = [step["connection"] for step in self.steps if step["do"] == "connect"]
        gone = [
            step.get("connection")
            for step in self.steps
            if step["do"] in ("disconnect", "close") and step.get("connection")
        ]
        return [name for name in made if name not in gone]

    def _drained(self, event: dict[str, Any], index: int) -> None:
        """One drain for all dead letters that were taken together."""
        if index and self.trace[index - 1]["event"] == "dlq_message":
            return
        letters = []
        for each in self.trace[index:]:
            if each["event"] == "dlq_drained":
                break
            letters.append(each["message"])
        step = self._add({"do": "drain", "queue": event["queue"]}, event["t_ms"])
        self.expected[step] = {"event": "drained", "queue": event["queue"], "letters": letters}

    # -- numbers of the document -----------------------------------------------------------------------------------

    @property
    def dead_letter_queue(self) -> str:
        """The queue that was looked at last."""
        drained = [event["queue"] for event in self.trace if event["event"] == "dlq_drained"]
        return drained[-1] if drained else DEFAULT_DLQ

    @property
    def _strategy_queue(self) -> str:
        found = re.search(r"sharedDeadLetterStrategy\((\S+)\)", self.document["broker_policy"])
        return found[1] if found else DEFAULT_DLQ

    def _count(self, field: str, queue: str) -> None:
        """Look at a queue, where the document says how many messages were seen there."""
        for name, value in self.document.items():
            if re.fullmatch(field, name) and name not in [known for known, _ in self.counts.values()]:
                self.counts[self._add({"do": "browse", "queue": queue})] = (name, value)

    def _look_before_reading(self) -> None:
        """Depths that were looked at after some seconds, in the order in which the document has them."""
        for name in self.document:
            seconds = re.fullmatch(r"(?:dlq|source)_depth_after_(\d+)s_.*", name)
            if seconds is not None:
                self._add({"do": "wait", "ms": 0}, self.at_ms if self.counts else self.at_ms + int(seconds[1]) * 1000)
            if seconds is not None or name == "dlq_depth_after_browsing_source":
                self._count(re.escape(name), self.source if name.startswith("source") else self.dead_letter_queue)


def broker_part(text: str) -> dict[str, Any]:
    """The configuration of the broker, from the line that a document has about it."""
    words = text.split()
    fields: dict[str, Any] = {}
    last = ""
    for word in words:
        name, mark, value = word.partition("=")
        if mark:
            fields[name], last = _value(value), name
        elif last == "dropOnly":
            fields[last] += f" {word}"
    destination = {kind: fields.pop(kind) for kind in ("queue", "topic") if kind in fields}
    if words[0] == "redeliveryPlugin":
        plugin = {
            name: fields.pop(name)
            for name in ("fallbackToDeadLetter", "sendToDlqIfMaxRetriesExceeded")
            if name in fields
        }
        return {"redelivery_plugin": {**plugin, "policies": [{**destination, **fields}]}}
    if words[0] == "discardingDLQBrokerPlugin":
        return {"discarding_plugin": fields}
    if not destination:
        return {}
    period = {name: fields.pop(name) for name in ("expireMessagesPeriod",) if name in fields}
    strategy = {**_strategy(words), **fields}
    return {"policies": [{**destination, **period, "deadLetterStrategy": strategy}]}


def _strategy(words: list[str]) -> dict[str, Any]:
    for word in words:
        kind, _, queue = word.rstrip(")").partition("(")
        if kind == "individualDeadLetterStrategy":
            return {"strategy": "individual"}
        if kind == "sharedDeadLetterStrategy":
            return {"strategy": "shared", **({"deadLetterQueue": queue} if queue else {})}
    return {"strategy": "discarding"}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def document_limit(document: Mapping[str, Any]) -> int:
    """The redeliveries that the client allows; none for a number below -1."""
    limit = int(document.get("client_policy", {}).get("maximumRedeliveries", 0))
    return limit if limit < -1 else 0


def _sent_first(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A listener runs beside the sender, and may write first what came second."""
    calls = [event["t_ms"] for event in trace if event["event"] == "onMessage"]
    if not calls:
        return trace
    sent = [{**event, "t_ms": min(event["t_ms"], calls[0])} for event in trace if event["event"] == "sent"]
    return [*sent, *(event for event in trace if event["event"] != "sent")]
