"""Carry out one case on a server and say what came of it, without anything that differs from run to run."""

from __future__ import annotations

from typing import Any

from tests.differential.client import Incoming
from tests.vectors import amqp
from tests.vectors.build import Case
from tests.vectors.server import BODY, FILLER, VHOST, Refused, Server

ARRIVAL_S = 0.4  # a message that has not come by then does not come
SEEN_S = 0.12  # to notice a message before it expires; longer than a dead letter's way, shorter than a loop's TTL
EXPIRY_S = 5.0
SETTLE_S = 0.06
RECENT_S = 3600.0
STATS_S = 15.0  # quorum queues publish their policies up to ten seconds late
QUORUM_TICK_S = 11.0  # quorum queues look at their expiry every five seconds
LIMIT_TRIES = 30  # more than the default delivery limit of 20
NO_LIMIT = "unlimited"

Outcome = dict[str, Any]


def run(server: Server, case: Case) -> Outcome:
    """The outcome of a case of any kind but settings, which take longer: see ``Settings``."""
    does = {
        "letters": letters,
        "routing": routing,
        "publish": routing,
        "effective": effective,
        "validation": validation,
    }
    try:
        return does[case.kind](server, case)
    finally:
        clear(server, case)


def clear(server: Server, case: Case) -> None:
    """Delete all that the case declared."""
    declared = [(what, d) for what, definitions in case.definitions.items() for d in definitions]
    declared += [(step["what"], step["definition"]) for step in (*case.steps, *case.attempts) if "what" in step]
    for what, definition in declared:
        if "name" in definition:
            server.delete(what, definition["name"])
    server.close_channel()  # one that saw a quorum queue fails at a classic queue of the same name


def _declare(server: Server, case: Case) -> Outcome | None:
    """Declare the definitions; the outcome where the server refuses one."""
    for what in ("policies", "operator_policies", "exchanges", "queues", "bindings"):
        for definition in case.definitions.get(what, ()):
            try:
                server.declare(what, definition)
            except Refused as refused:
                name = definition.get("name", definition.get("destination"))
                return {"refused": {"what": what, "name": name, **refused.to_json()}}
    return None


# -- letters ------------------------------------------------------------------


def letters(server: Server, case: Case) -> Outcome:
    """Publish, cause the deaths, and collect the copies from all queues."""
    if refusal := _declare(server, case):
        return refusal
    for step in case.steps:
        STEPS[step["do"]](server, step)
    server.sleep(SETTLE_S)
    copies = _collect(server, case)
    if not copies:  # gone, or late: look once more before saying so
        server.sleep(ARRIVAL_S)
        copies = _collect(server, case)
    return {"copies": copies}


def _collect(server: Server, case: Case) -> Outcome:
    copies: Outcome = {}
    for queue in sorted(case.definitions["queues"], key=lambda q: q["name"]):
        if found := [_copy(server, got) for got in _drain(server, queue)]:
            copies[queue["name"]] = found
    return copies


def _drain(server: Server, queue: dict[str, Any]) -> list[Incoming]:
    """All copies of the message in a queue. A queue process that restarts gets a second."""
    if queue["type"] == "stream":
        return [got for got in server.read_stream(queue["name"], ARRIVAL_S) if got.body == BODY]
    found: list[Incoming] = []
    tries = 0
    while True:
        try:
            got = server.get(queue["name"])
        except Refused:
            tries += 1
            if tries > 10:
                raise
            server.sleep(0.1)
            continue
        if got is None:
            return found
        server.ack(got)
        if got.body == BODY:
            found.append(got)


PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


def _copy(server: Server, got: Incoming) -> Outcome:
    copy: Outcome = {name: got.values[name] for name in ("exchange", "routing_key", "redelivered")}
    copy["properties"] = {p: value for p in PROPERTIES if (value := got.properties.get(p)) is not None}
    if "headers" in got.properties:
        copy["headers"] = _timeless(amqp.table_to_json(got.properties["headers"]), server.now())
    return copy


def _timeless(headers: Outcome, now_s: float) -> Outcome:
    """Set the times of deaths that happened just now to 0, in place; what a client claimed stays."""
    deaths = headers.get("x-death", {}).get("A", [])
    for entry in deaths:
        seconds = entry.get("F", {}).get("time", {}).get("T")
        if seconds is not None and abs(now_s - seconds) < RECENT_S:
            entry["F"]["time"] = {"T": 0}
    return headers


def _publish(server: Server, step: dict[str, Any]) -> None:
    headers = amqp.table_from_json(step["headers"]) if "headers" in step else None
    server.publish(step["exchange"], step["routing_key"], headers=headers, **step.get("properties", {}))


def _die(server: Server, step: dict[str, Any]) -> None:
    queue = step["queue"]
    match step["reason"]:
        case "rejected":
            if got := server.get(queue, ARRIVAL_S, BODY):
                server.sleep(step.get("after_ms", 0) / 1000)
                server.give_back(got, step["by"], requeue=False)
        case "expired":  # unless the release lets nothing expire in that queue, and the message stays
            server.wait_count(queue, 1, SEEN_S)
            server.wait_count(queue, 0, EXPIRY_S)
        case "maxlen" if step["by"] == "filler":
            server.wait_count(queue, 1, ARRIVAL_S)
            server.publish("", queue, FILLER)
            server.wait_count(queue, 1, ARRIVAL_S)
            if got := server.get(queue, ARRIVAL_S):  # the filler, which is not to stand in the way later
                if got.body != FILLER:
                    raise AssertionError(f"the message survived a filler in queue {queue!r}")
                server.ack(got)
        case "delivery_limit":
            _exhaust(server, queue)


def _exhaust(server: Server, queue: str) -> int:
    """Get and reject with requeue until the message is gone; how often it was delivered."""
    for deliveries in range(LIMIT_TRIES):
        got = server.get(queue, ARRIVAL_S if deliveries == 0 else 0.1, BODY)
        if got is None:
            return deliveries
        server.give_back(got, "reject", requeue=True)
    return LIMIT_TRIES


def _return(server: Server, step: dict[str, Any]) -> None:
    for _ in range(step["times"]):
        if not (got := server.get(step["queue"], ARRIVAL_S, BODY)):
            return
        server.sleep(step.get("after_ms", 0) / 1000)
        if step["by"] == "close":
            server.close_channel()
        else:
            server.give_back(got, step["by"], requeue=True)


def _republish(server: Server, step: dict[str, Any]) -> None:
    if not (got := server.get(step["queue"], ARRIVAL_S, BODY)):
        return
    properties = dict(got.properties)
    headers = {n: v for n, v in properties.pop("headers", {}).items() if n not in step["without"]}
    server.publish(step["exchange"], step["routing_key"], got.body, headers or None, **properties)
    server.ack(got)


def _fill(server: Server, step: dict[str, Any]) -> None:
    for _ in range(step["count"]):
        server.publish("", step["queue"], FILLER)


def _declare_step(server: Server, step: dict[str, Any]) -> None:
    server.declare(step["what"], step["definition"])
    if "polic" in step["what"]:
        server.sleep(0.3)  # it reaches the queues a little later, and nothing tells when


STEPS = {
    "publish": _publish,
    "die": _die,
    "return": _return,
    "republish": _republish,
    "fill": _fill,
    "declare": _declare_step,
    "delete_exchange": lambda server, step: server.delete("exchanges", step["exchange"]),
}


# -- routing and publish --------------------------------------------------------


def routing(server: Server, case: Case) -> Outcome:
    """For each publish the queues that got it, or the error."""
    if refusal := _declare(server, case):
        return refusal
    results: list[Outcome] = []
    for message in case.publishes:
        try:
            _publish(server, message)
            results.append({"queues": sorted(_collect(server, case))})
        except Refused as refused:
            results.append({"error": refused.to_json()})
    return {"publishes": results}


# -- settings -------------------------------------------------------------------


class Settings:
    """A case of kind settings in its own virtual host: set up first, ask when the statistics have come."""

    def __init__(self, server: Server, case: Case, number: int) -> None:
        self._server, self._case = server, case
        self.vhost = f"{VHOST}-{number}"
        self._refusal: Outcome | None = None
        self._ready_s = 0.0

    def set_up(self) -> None:
        """Create the virtual host and declare everything in it, by HTTP: a connection each would be slow."""
        self._server.drop_vhost(self.vhost)
        self._server.make_vhost(self.vhost)
        order = ["policies", "operator_policies", "exchanges", "queues"]
        if self._case.policies_last:
            order = [*order[2:], *order[:2]]
            self._ready_s = self._server.now() + STATS_S
        for what in order:
            for definition in self._case.definitions.get(what, ()):
                try:
                    self._declare(what, definition)
                except Refused as refused:
                    text = refused.text.replace(self.vhost, VHOST)
                    self._refusal = {
                        "refused": {
                            "what": what,
                            "name": definition["name"],
                            "code": refused.code,
                            "text": text,
                        }
                    }
                    return

    def _declare(self, what: str, definition: dict[str, Any]) -> None:
        path = what.replace("_", "-")
        if what in ("exchanges", "queues"):
            body = {k: v for k, v in definition.items() if k != "name" and not (what == "queues" and k == "type")}
        else:
            body = definition
        self._server.http("PUT", path, self.vhost, definition["name"], body=body)

    def outcome(self) -> Outcome:
        """What applies to each queue and exchange."""
        if self._refusal:
            return self._refusal
        self._server.sleep(max(0.0, self._ready_s - self._server.now()))  # statistics from before would mislead
        names = sorted(q["name"] for q in self._case.definitions.get("queues", ()))
        found: Outcome = {"queues": {name: self._queue(name) for name in names}}
        for definition in self._case.definitions.get("exchanges", ()):
            answer = self._server.http("GET", "exchanges", self.vhost, definition["name"])
            found.setdefault("exchanges", {})[definition["name"]] = {"policy": answer.get("policy")}
        return found

    def _queue(self, name: str) -> Outcome:
        until = self._server.now() + STATS_S
        while True:
            answer = self._server.http("GET", "queues", self.vhost, name)
            if "effective_policy_definition" in answer:
                break
            if self._server.now() >= until:
                raise TimeoutError(f"no statistics of queue {name!r} within {STATS_S} s")
            self._server.sleep(0.5)
        definition = answer["effective_policy_definition"] or {}  # empty is [] before 4.0
        return {
            "policy": answer.get("policy") or None,
            "operator_policy": answer.get("operator_policy") or None,
            "effective_policy_definition": dict(sorted(definition.items())) if definition else {},
        }


# -- effective ------------------------------------------------------------------


def effective(server: Server, case: Case) -> Outcome:
    """The value in force of each probed key, each on a fresh topology."""
    values: Outcome = {}
    for wanted in case.probes:
        if refusal := _declare(server, case):
            return refusal
        values.setdefault(wanted["queue"], {})[wanted["key"]] = PROBES[wanted["key"]](server, case, wanted)
        clear(server, case)
    return {"values": values}


def _one_dead_letter(server: Server, case: Case, queue: str) -> Outcome | None:
    server.publish("", queue)
    _die(server, {"queue": queue, "reason": "rejected", "by": "reject"})
    server.sleep(SETTLE_S)
    copies = [copy for found in _collect(server, case).values() for copy in found]
    return copies[0] if copies else None


def _probe_dlx(server: Server, case: Case, wanted: dict[str, Any]) -> Any:
    letter = _one_dead_letter(server, case, wanted["queue"])
    return letter["exchange"] if letter else None


def _probe_dlrk(server: Server, case: Case, wanted: dict[str, Any]) -> Any:
    letter = _one_dead_letter(server, case, wanted["queue"])
    if letter is None or letter["routing_key"] == wanted["queue"]:
        return None
    return letter["routing_key"]


def _probe_ttl(server: Server, case: Case, wanted: dict[str, Any]) -> int:
    low, high = wanted["candidates"]
    server.publish("", wanted["queue"])
    return low if server.wait_count(wanted["queue"], 0, low / 1000 + 0.5) else high


def _probe_expires(server: Server, case: Case, wanted: dict[str, Any]) -> int:
    low, high = wanted["candidates"]
    types = {q["name"]: q["type"] for q in case.definitions["queues"]}
    late_s = QUORUM_TICK_S if types[wanted["queue"]] == "quorum" else 0.5
    until = server.now() + low / 1000 + late_s
    while server.now() < until:
        server.sleep(0.2)
        try:  # by HTTP: a passive declare would restart the clock
            server.http("GET", "queues", VHOST, wanted["queue"])
        except Refused:
            return low
    return high


def _probe_length(server: Server, case: Case, wanted: dict[str, Any]) -> int | str:
    sent = 10
    for _ in range(sent):
        server.publish("", wanted["queue"], b"x")
    server.sleep(2 * SETTLE_S)
    stayed = server.count(wanted["queue"])
    return NO_LIMIT if stayed == sent else stayed


def _probe_overflow(server: Server, case: Case, wanted: dict[str, Any]) -> str:
    """The queue has a maximum length of 1 and dead-letters. A quorum queue refuses a little late."""
    confirms = []
    for _ in range(4):
        confirms.append(server.publish("", wanted["queue"], b"x"))
        server.sleep(SETTLE_S)
    if all(confirms):
        return "drop-head"
    others = [q["name"] for q in case.definitions["queues"] if q["name"] != wanted["queue"]]
    return "reject-publish-dlx" if any(server.count(name) for name in others) else "reject-publish"


def _probe_limit(server: Server, case: Case, wanted: dict[str, Any]) -> int | str:
    server.publish("", wanted["queue"])
    deliveries = _exhaust(server, wanted["queue"])
    return NO_LIMIT if deliveries == LIMIT_TRIES else deliveries - 1


PROBES = {
    "dead-letter-exchange": _probe_dlx,
    "dead-letter-routing-key": _probe_dlrk,
    "message-ttl": _probe_ttl,
    "expires": _probe_expires,
    "max-length": _probe_length,
    "max-length-bytes": _probe_length,
    "overflow": _probe_overflow,
    "delivery-limit": _probe_limit,
}


# -- validation -----------------------------------------------------------------


def validation(server: Server, case: Case) -> Outcome:
    """For each declaration, in order: accepted or the error."""
    results: list[Outcome] = []
    for attempt in case.attempts:
        try:
            server.declare(attempt["what"], attempt["definition"])
            results.append({"ok": True})
        except Refused as refused:
            results.append({"error": refused.to_json()})
    return {"attempts": results}
