"""Runs a neutral scenario under IBM MQ: a queue with a consumer, or the dead-letter queue handler.

With ``jms`` an attempt is a delivery, as in the other systems: BOTHRESH and BOQNAME limit them, and the IBM MQ classes
for JMS look after both. With ``runmqdlq`` the messages are on the dead-letter queue already, because they could not be
put to the queue they were for. An attempt is a put to that queue; one that fails is a full queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from simulator.events import Event
from simulator.systems.compare.neutral_scenario import Message, NeutralScenario, note_rounded, whole_seconds
from simulator.systems.compare.outcome import Left, Ran, deliveries
from simulator.systems.ibm_mq import simulate
from simulator.systems.ibm_mq.mqdlh import read_mqdlh
from simulator.systems.ibm_mq.rules_table import USUAL_INPUTQ
from simulator.systems.ibm_mq.trace import reason_name

VERSIONS = ("jms", "runmqdlq")
LIMIT = "the queue's BOTHRESH, which the IBM MQ classes for JMS, or the application, have to read and follow"
_FAILED, _PUT = "MQRC_Q_FULL", "OK"
_HOW = {"reject": "backout", "crash": "crash", "hold": "hold"}


def run(neutral: NeutralScenario, version: str, own: Mapping[str, Any] | None = None) -> Ran:
    """Run the scenario with a consumer (``jms``) or with the handler (``runmqdlq``).

    ``own``: the attributes BOTHRESH and BOQNAME of the consumer's queue.
    """
    allowed = _allowed(neutral)
    ran = _consumed(allowed, own) if version == "jms" else _handled(allowed)
    if allowed == neutral:
        return ran
    asked = {allowed.queue: neutral.queue, allowed.dead_letter_queue: neutral.dead_letter_queue}
    ran.left = {name: Left(asked.get(left.queue) or left.queue, left.carries) for name, left in ran.left.items()}
    renamed = [(new, old) for new, old in asked.items() if new != old]
    ran.notes += [f"queue: IBM MQ allows no dash in a name; {new} for {old}" for new, old in renamed]
    return ran


def _allowed(neutral: NeutralScenario) -> NeutralScenario:
    """Return the scenario with names of queues that IBM MQ allows; they stay two."""
    for instead in "_%":
        queue, dead = (name and name.replace("-", instead) for name in (neutral.queue, neutral.dead_letter_queue))
        if queue != dead:
            break
    return msgspec.structs.replace(neutral, queue=queue, dead_letter_queue=dead)


# A queue with a consumer


def _consumed(neutral: NeutralScenario, own: Mapping[str, Any] | None) -> Ran:
    scenario = _with_consumer(neutral, own)
    trace = simulate(scenario)
    left = {
        message["message"]: Left(queue, _telling(message))
        for queue, messages in trace["queues"].items()
        for message in messages
    }
    events = [*trace["events"], *_expired_later(neutral, left)]
    return Ran(
        scenario=scenario,
        events=events,
        attempts=deliveries(events),
        acknowledged=[event["message"] for event in events if event["event"] == Event.ACKED],
        left=left,
        notes=[*_notes_on_consumer(neutral), *trace["warnings"]],
        shows={event["message"]: {"BackoutCount": event["backout_count"]} for event in deliveries(events)},
    )


def _with_consumer(neutral: NeutralScenario, own: Mapping[str, Any] | None) -> dict[str, Any]:
    dead = neutral.dead_letter_queue
    nearest: dict[str, Any] = {"BOTHRESH": neutral.attempts_max} | ({} if dead is None else {"BOQNAME": dead})
    return {
        "queues": [
            {
                "name": neutral.queue,
                **(nearest if own is None else own),
                "messages": [
                    {
                        "name": message.name,
                        "time_s": message.at_ms / 1_000,
                        "fails": message.fails,
                        "how": _HOW[message.how],
                        **_expiry(message),
                        **({"discard": True} if dead is None and own is None else {}),
                        "body": message.body,
                    }
                    for message in neutral.published()
                ],
            }
        ],
        "until_s": neutral.until_ms / 1_000,
    }


def _notes_on_consumer(neutral: NeutralScenario) -> list[str]:
    notes = ["attempts_max: the IBM MQ classes for JMS heed BOTHRESH; the queue manager only counts"]
    if neutral.retry_delay_ms:
        notes.append("retry_delay_ms: IBM MQ has none; a message that is backed out is delivered again at once")
    if any(message.how == "hold" for message in neutral.messages):
        notes.append("ack_timeout_ms: IBM MQ has none; a unit of work lasts as long as its connection")
    if neutral.dead_letter_queue is None:
        notes.append("dead_letter_queue: none, by MQRO_DISCARD_MSG; else the queue manager's would take the message")
    return [*notes, *_notes_on_expiry(neutral)]


# The dead-letter queue handler


def _handled(neutral: NeutralScenario) -> Ran:
    scenario = _scenario(neutral)
    trace = _played(neutral, scenario)
    left = {
        message["message"]: Left(queue, _telling(message))
        for queue, messages in trace["queues"].items()
        if queue != neutral.queue
        for message in messages
    }
    events = [*_deaths(trace, left), *_expired_later(neutral, left)]
    return Ran(
        scenario=scenario,
        events=events,
        attempts=[visit for visit in trace["visits"] if visit["action"] == "RETRY"],
        acknowledged=[message["message"] for message in trace["queues"].get(neutral.queue, ())],
        left=left,
        notes=_notes(neutral),
    )


def _scenario(neutral: NeutralScenario) -> dict[str, Any]:
    dead = "DISCARD)" if neutral.dead_letter_queue is None else f"FWD) FWDQ('{neutral.dead_letter_queue}')"
    return {
        "rules_table": [
            f"RETRYINT({_interval_s(neutral)}) WAIT(YES)",
            f"DESTQ('{neutral.queue}') ACTION(RETRY) RETRY({neutral.attempts_max})",
            f"ACTION({dead}",
        ],
        "messages": [
            {
                "name": message.name,
                "time_s": message.at_ms / 1_000,
                **_expiry(message),
                "REASON": _FAILED,
                "DESTQ": neutral.queue,
                "body": message.body,
            }
            for message in neutral.published()
        ],
        "put_results": [],
        "until_s": neutral.until_ms / 1_000,
    }


def _expiry_ms(time_to_live_ms: int) -> int:
    """Return the time rounded up to tenths of a second, which an MQMD counts in."""
    return -(-time_to_live_ms // 100) * 100


def _expiry(message: Message) -> dict[str, float]:
    return {} if message.time_to_live_ms is None else {"expiry_s": _expiry_ms(message.time_to_live_ms) / 1_000}


def _expired_later(neutral: NeutralScenario, left: dict[str, Left]) -> list[dict[str, Any]]:
    """Take the dead letters that expire out of those that are left, and return their deaths: nobody reads them."""
    events = []
    for name, where in list(left.items()):
        message = neutral.message(name)
        if message.time_to_live_ms is None or where.queue != neutral.dead_letter_queue:
            continue
        time_ms = message.at_ms + _expiry_ms(message.time_to_live_ms)
        if time_ms <= neutral.until_ms:
            what = {"event": Event.EXPIRED, "time_ms": time_ms, "message": name}
            events.append({**what, "queue": where.queue, "reason": "expired"})
            del left[name]
    return events


def _interval_s(neutral: NeutralScenario) -> int:
    return whole_seconds(neutral.retry_delay_ms, least=1)


def _played(neutral: NeutralScenario, scenario: dict[str, Any]) -> dict[str, Any]:
    """Run it as often as there are puts, each time with the result of one more put; return the last trace."""
    results: list[str] = scenario["put_results"]
    attempts: Counter[str] = Counter()
    while True:
        trace = simulate(scenario)
        puts = [visit for visit in trace["visits"] if "put_to" in visit]
        if len(puts) == len(results):
            return trace
        put = puts[len(results)]
        result = _PUT
        if put["action"] == "RETRY":
            attempts[put["message"]] += 1
            if not neutral.message(put["message"]).succeeds(attempts[put["message"]]):
                result = _FAILED
        results.append(result)


def _telling(message: dict[str, Any]) -> dict[str, Any]:
    """Return what the MQDLH says, if the message was put with one."""
    if not message.get("with_mqdlh"):
        return {}
    header = read_mqdlh(
        bytes.fromhex(message["data_hex"]),
        encoding=message["encoding"],
        coded_char_set_id=message["coded_char_set_id"],
    )
    return {"Reason": reason_name(header.reason), "DestQName": header.dest_q_name.rstrip()}


def _deaths(trace: dict[str, Any], left: dict[str, Left]) -> list[dict[str, Any]]:
    """Return the events, where a message's death is the end of its tries and not its arrival."""
    forwarded = {
        visit["message"]: {
            "event": Event.DEAD_LETTERED,
            "time_ms": visit["time_ms"],
            "message": visit["message"],
            "queue": USUAL_INPUTQ,
            "reason": left[visit["message"]].carries["Reason"],
        }
        for visit in trace["visits"]
        if visit["action"] == "FWD"
    }
    events = []
    for event in trace["events"]:
        arrives = event["event"] == Event.DEAD_LETTERED
        if event["event"] == Event.ROUTED and event["time_ms"] == forwarded.get(event["message"], {}).get("time_ms"):
            events.append(forwarded[event["message"]])
        events.append({**event, "event": Event.PUBLISHED} if arrives else event)
    return events


def _notes(neutral: NeutralScenario) -> list[str]:
    notes = ["an attempt is a put to the queue, made by the handler"]
    notes += note_rounded("retry_delay_ms", neutral.retry_delay_ms, _interval_s(neutral))
    if any(message.how != "reject" for message in neutral.messages):
        notes.append("crash, hold: a put fails one way only")
    return [*notes, *_notes_on_expiry(neutral)]


def _notes_on_expiry(neutral: NeutralScenario) -> list[str]:
    notes = []
    for message in neutral.messages:
        ttl_ms = message.time_to_live_ms
        if ttl_ms is not None:
            notes += note_rounded(f"time_to_live_ms of {message.name}", ttl_ms, _expiry_ms(ttl_ms) / 1_000)
    return notes
