"""Builds the queue definitions and the rules table of IBM MQ that come closest to a topology of RabbitMQ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simulator.systems.compare.nearest import NO_OFFSETS, STAYS, Answer, Moved, WorkQueue
from simulator.systems.ibm_mq.keyword_values import NAME_LENGTH
from simulator.systems.ibm_mq.rules_table import USUAL_INPUTQ

NAME_MAX: int | None = NAME_LENGTH
SETS_TIME_TO_LIVE = "publisher"
VERSIONS = ("jms",)
PLAYS = ("rejected", "rejected every time", "returned every time", "consumer dies", "held")
ASSUMED = (
    "applications of IBM MQ use the IBM MQ classes for JMS in transacted sessions, which compare the BackoutCount of a"
    " message with BOTHRESH and move it to BOQNAME; another application has to do that itself",
    "the queue manager names SYSTEM.DEAD.LETTER.QUEUE as its dead-letter queue, and the handler runs with rules.tab",
)
_CAPPED = "CAPEXPRY caps the expiry on a queue, publishers set MQMD.Expiry"
WHY: Mapping[str, str] = {
    "rejected": "MQ has no reject: every backout counts towards BOTHRESH, and the message is the next one again",
    "rejected every time": "BackoutCount counts all backouts, and nothing waits between two attempts",
    "returned every time": "BackoutCount counts all backouts, towards one threshold for rejects and returns",
    "delays": "nothing waits between two attempts of an application",
    "consumer dies": "the unit of work is backed out, and that counts as any other backout",
    "held": "a unit of work lasts as long as its connection",
    "expires": f"the queue manager discards an expired message, with a report if that was asked for; {_CAPPED}",
}
ANSWERS: Mapping[str, Answer] = {
    "expires": Answer("lost", "the queue manager discards a message that expired: no dead letter", WHY["expires"]),
    "wait queue": Answer(
        "cannot be had",
        "nothing waits between two attempts of an application; RETRYINT is the handler's, for messages on the"
        " dead-letter queue",
    ),
    "length limit": Answer(
        "changes",
        "MAXDEPTH limits the queue: the put fails with MQRC_Q_FULL (2053), and what a channel brings goes to the"
        " dead-letter queue, where the rules table has it tried again",
        "the newest message is turned away; RabbitMQ's default drops the oldest",
    ),
    "exchange": Answer("changes", "applications name the queue, or publish to a topic with an administrative object"),
    "fanout": Answer("changes", "a topic with a subscription for each queue copies messages; none is built here"),
    "unroutable": Answer(
        "changes", "the application is told: MQOPEN of a queue that is not there fails (2085)", "RabbitMQ drops it"
    ),
    "length in bytes": Answer("cannot be had", "MAXFSIZE limits a queue's file, and puts fail beyond it"),
    "single active consumer": Answer(
        "changes", "NOSHARE and DEFSOPT(EXCL): a second application cannot open the queue"
    ),
    "priorities": Answer("changes", "there are 10 priorities (MQMD.Priority), and MSGDLVSQ(PRIORITY) is the default"),
    "queue expires": STAYS,
    "stream": NO_OFFSETS,
    "carries": Answer(
        "changes",
        "a message that was moved to BOQNAME says nothing of its death, and its BackoutCount begins again; what the"
        " queue manager put to the dead-letter queue has an MQDLH with the reason and the queue",
        "consumers that read x-death have to read these",
    ),
}
_REST = "MOVED.REALLY.DEAD"
_DEPTH_MAX = 999_999_999


def allowed(name: str) -> str:
    """Return the name with letters, digits, dots, slashes, underscores and percent signs."""
    return re.sub(r"[^A-Za-z0-9./_%]", "_", name) or "_"


def own(queue: WorkQueue, moved: Moved) -> dict[str, Any]:
    """Return the attributes of the queue that are about messages which are backed out."""
    return _backouts(queue, moved.named(queue.dead_at))


def files(moved: Moved) -> dict[str, str]:
    """Return the commands for ``runmqsc``, and the rules table for ``runmqdlq``."""
    return {
        "queues.mqsc": "\n".join(_commands(moved)) + "\n",
        "rules.tab": "\n".join(_rules(moved)) + "\n",
    }


def _backouts(queue: WorkQueue, dead: str | None) -> dict[str, Any]:
    return {"BOTHRESH": queue.attempts_max, "BOQNAME": dead} if dead and queue.attempts_max else {}


def _commands(moved: Moved) -> Iterator[str]:
    yield f"DEFINE QLOCAL('{_REST}') DEFPSIST(YES) REPLACE"
    for at in moved.others:
        yield f"DEFINE QLOCAL('{moved.names[at]}') DEFPSIST(YES) REPLACE"
    for queue in moved.queues:
        dead = moved.named(queue.dead_at)
        backouts = _backouts(queue, dead)
        limit = f" BOTHRESH({backouts['BOTHRESH']}) BOQNAME('{dead}')" if backouts else ""
        depth = "" if queue.max_length is None else f" MAXDEPTH({min(queue.max_length, _DEPTH_MAX)})"
        shared = " NOSHARE DEFSOPT(EXCL)" if queue.single_active else ""
        yield f"DEFINE QLOCAL('{moved.names[queue.at]}') DEFPSIST(YES){limit}{depth}{shared} REPLACE"


def _rules(moved: Moved) -> Iterator[str]:
    yield f"INPUTQ('{USUAL_INPUTQ}') RETRYINT(30) WAIT(YES)"
    for queue in moved.queues:
        name, dead = moved.names[queue.at], moved.named(queue.dead_at)
        yield f"DESTQ('{name}') REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)"
        if dead is not None:
            yield f"DESTQ('{name}') ACTION(FWD) FWDQ('{dead}') HEADER(YES)"
    yield f"ACTION(FWD) FWDQ('{_REST}') HEADER(YES)"
