"""Differences from real servers that are known and stay: each with its reason, and what it is that differs.

An entry hides what differs and nothing more. So a case counts as known only if its transcripts are equal without
that; the end of a run says how often each was met.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dlx.releases import Release
from tests.differential.differences import same
from tests.differential.fuzz.values import plain
from tests.differential.operations import (
    Ack,
    CloseChannel,
    CloseConnection,
    Consume,
    DeclareQueue,
    DeleteQueue,
    Get,
    Http,
    KillConnection,
    Nack,
    Operation,
    Publish,
    Reject,
    SetPolicy,
    flattened,
)
from tests.differential.transcript import Transcript
from tests.differential.wire import AGAIN


class Known(NamedTuple):
    """A difference: its name, why it stays, and what a transcript says without it."""

    name: str
    reason: str
    without: Callable[[Any], Any]


def _repeated_fields(value: Any) -> Any:
    match value:
        case dict():
            return {name: _repeated_fields(item) for name, item in value.items() if not name.endswith(AGAIN)}
        case list():
            return [_repeated_fields(item) for item in value]
    return value


_FAILED = re.compile(r"Request to node \S+ failed with ")


def _failures_of_commands(value: Any) -> Any:
    match value:
        case {"event": "http", "status": 500, "reason": ""}:
            return value | {"status": 400}
        case {"event": "http", "status": 400, "reason": str(reason)} if _FAILED.match(reason) or "{'EXIT'," in reason:
            return value | {"reason": ""}
        case list():
            return [_failures_of_commands(item) for item in value]
    return value


KNOWN = (
    Known(
        "a field twice in a table",
        "The simulator's tables are dictionaries: the first of two equal fields counts, as where RabbitMQ looks one "
        "up, and the second is not given back. Scripts leave out what has the second: headers exchanges from 3.13 on, "
        "and the JSON of a message.",
        _repeated_fields,
    ),
    Known(
        "a command that fails",
        "Where the management API hands on what no command expects, such as a number for the type of an exchange, the "
        "server answers 400 and shows where in its code it failed; the simulator answers 400 and what it was, or 500.",
        _failures_of_commands,
    ),
)


QUEUE_CRASHES = Known(
    "a queue that crashes",
    "Until 3.12 a made-up x-death can crash a classic queue, as a negative priority can that the management API "
    "publishes to a queue with priorities. Whether its consumers are cancelled or subscribe again to the queue that "
    "is started in its place, is a race; and one in which such a message has expired crashes again and again, and "
    "answers no command meanwhile. This hides nothing: a case with such a message, and with consumers or with anything "
    "that expires, counts as known if it differs at all.",
    lambda transcript: transcript,
)


def crashes_queues(script: Sequence[Operation], release: Release) -> bool:
    """Whether a message of the script can crash a queue of that release, and what follows is left to chance."""
    if not any(map(_consumes_or_expires, flattened(tuple(script)))):
        return False
    prioritised = any("x-max-priority" in each.arguments for each in script if isinstance(each, DeclareQueue))
    if prioritised and any(map(_has_negative_priority, script)):
        return True
    claims = [(each.headers or {}).get("x-death") for each in flattened(tuple(script)) if isinstance(each, Publish)]
    entries = [entry for claim in claims if isinstance(claim, list) for entry in claim]
    return release.death_history == "headers" and any(map(_crashes, entries))


def _consumes_or_expires(operation: Operation) -> bool:
    match operation:
        case Consume():
            return True
        case DeclareQueue(arguments=arguments):
            return "x-message-ttl" in arguments
        case SetPolicy(definition=definition):
            return "message-ttl" in definition
        case Publish(properties=properties) | Http(body={"properties": properties}):
            return "expiration" in (properties or {})
    return False


def _has_negative_priority(operation: Operation) -> bool:
    match operation:
        case Http(body={"properties": {"priority": int(priority)}}):
            return priority < 0
    return False


def _crashes(entry: Any) -> bool:
    return not isinstance(entry, dict) or type(plain(entry.get("count", 0))) is not int


OF_ANOTHER_TYPE = Known(
    "a queue of another type under the same name",
    "From 3.10 on a channel that has got from a quorum queue, and in 3.10 from a classic one, keeps what it knows of "
    "it. If the queue is deleted and one of another type declared under its name, the channel ends its connection "
    "(541) as soon as it has to do with that. The simulator's channel goes on. This hides nothing: a case that "
    "declares a name with two types, and gets from it, counts as known if the server answers 541.",
    lambda transcript: transcript,
)


LOST_ON_ITS_WAY_OUT = Known(
    "a single active consumer lost while it makes way",
    "When the single active consumer of a 4.3 quorum queue makes way for one of higher priority, and its channel is "
    "lost before it has settled its deliveries, the queue has it wait for its next turn. When that comes, messages go "
    "to it and do not come back (rabbit_fifo.erl return_one, maybe_return_all, 4.3.5). The simulator forgets it. This "
    "hides nothing: a case with such consumers of different priorities, and with an end of a channel or connection, "
    "counts as known if it differs at all.",
    lambda transcript: transcript,
)


def loses_one_that_makes_way(script: Sequence[Operation], release: Release) -> bool:
    """Whether a single active consumer of a script may be lost while another waits to take over."""
    if release.name != "4.3":
        return False
    every = list(flattened(tuple(script)))
    single = {name for name, arguments in _declared(script) if "x-single-active-consumer" in arguments}
    consumers = [each for each in every if isinstance(each, Consume) and each.queue in single]
    prioritised = any("x-priority" in each.arguments for each in consumers)
    return prioritised and any(isinstance(each, CloseChannel | CloseConnection | KillConnection) for each in every)


INTO_ITSELF = Known(
    "at-least-once into itself, beyond a limit",
    "What a quorum queue that refuses does with at-least-once dead letters that come back into it beyond its limit: in "
    "3.10 it refuses all if it was over the limit at the first, and in 4.3 it takes some beyond a limit in bytes. The "
    "simulator's 3.10 never refuses them, and its 4.3 does. This hides nothing: a case of these releases with an "
    "at-least-once queue and such a limit counts as known if it differs at all.",
    lambda transcript: transcript,
)
_LIMIT_OF_ITSELF = {"3.10": "max-length", "4.3": "max-length-bytes"}


def feeds_itself_beyond_a_limit(script: Sequence[Operation], release: Release) -> bool:
    """Whether a script has an at-least-once queue, and a limit that decides what comes back into it."""
    limit = _LIMIT_OF_ITSELF.get(release.name)
    by_policy = {f"x-{key}" for each in script if isinstance(each, SetPolicy) for key in each.definition}
    keys_of_queues = [{*arguments} | by_policy for _, arguments in _declared(script)]
    return limit is not None and any({f"x-{limit}", "x-dead-letter-strategy"} <= keys for keys in keys_of_queues)


FIRST_FROM_A_WORKER = Known(
    "the first message from a worker",
    "The first message that a worker of at-least-once sends to a quorum queue waits until the queue knows the worker "
    "(rabbit_fifo_client.erl register_enqueuer), so what its other copies set off comes first: the dead letter of a "
    "classic queue that lets its copy die at once. The simulator's come in the order in which they were sent. This "
    "hides nothing: a case with an at-least-once queue, a limit or time to live, and a quorum queue, counts as known "
    "if the server and the simulator deliver the same messages, whatever their order.",
    lambda transcript: transcript,
)


def may_wait_for_a_worker(script: Sequence[Operation], live: Transcript, simulated: Transcript) -> bool:
    """Whether a worker may be new to a queue that another copy of its message comes to, and only the order differs."""
    keys = {key for _, arguments in _declared(script) for key in arguments}
    keys |= {f"x-{key}" for each in script if isinstance(each, SetPolicy) for key in each.definition}
    kills = keys & {"x-max-length", "x-max-length-bytes", "x-message-ttl"}
    return "x-dead-letter-strategy" in keys and bool(kills) and _delivered(live) == _delivered(simulated)


def _delivered(transcript: Transcript) -> Counter[tuple[Any, ...]]:
    """What was delivered, and what the management API shows of queues."""
    events = [event for step in transcript for event in step]
    found = Counter((each["body"], each.get("exchange"), each.get("routing_key")) for each in events if "body" in each)
    return found + Counter(tuple(each["shown"].items()) for each in events if "shown" in each)


def replaces_a_queue_it_got_from(script: Sequence[Operation], live: Transcript) -> bool:
    """Whether a script gets from a queue whose name it declares with two types, and the server broke down."""
    types: dict[str, set[Any]] = {}
    for name, arguments in _declared(script):
        types.setdefault(name, set()).add(arguments.get("x-queue-type", "classic"))
    several = {name for name, kinds in types.items() if len(kinds) > 1}
    got_from = any(isinstance(each, Get) and each.queue in several for each in flattened(tuple(script)))
    return got_from and any(event.get("code") == 541 for events in live for event in events)


OF_A_FORMER_QUEUE = Known(
    "a delivery of a former queue of that name",
    "From 3.10 on a channel that settles a delivery of a classic queue which was deleted and declared again, settles "
    "a message in the new queue: the one that came there in the same place, if it is out. The simulator's channel "
    "settles nothing. This hides nothing: a case that takes from a queue, deletes it, declares it again, takes from it "
    "and settles, counts as known if it differs at all.",
    lambda transcript: transcript,
)


def settles_one_of_a_former_queue(script: Sequence[Operation], release: Release) -> bool:
    """Whether a script may settle a delivery of a queue that was replaced, having taken from the new one."""
    if release.name == "3.8":
        return False
    taken, gone, back, mixed = set[str](), set[str](), set[str](), False
    for each in flattened(tuple(script)):
        match each:
            case Consume(queue=name) | Get(queue=name):
                mixed = mixed or name in back
                taken.add(name)
            case DeleteQueue(queue=name) | Http(method="DELETE", path=("queues", _, str(name))):
                gone |= {name} & taken
            case Ack() | Nack() | Reject() if mixed:
                return True
            case _:
                back |= {name for name, _ in _declared([each])} & gone
    return False


def _declared(script: Sequence[Operation]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each queue that is declared, also by the management API, with its arguments."""
    for each in flattened(tuple(script)):
        match each:
            case DeclareQueue(queue=str(name), arguments=dict(arguments)):
                yield name, arguments
            case Http(method="PUT", path=("queues", _, str(name)), body={"arguments": dict(arguments)}):
                yield name, arguments
            case Http(path=("definitions", *_), body={"queues": list(queues)}):
                yield from ((str(each.get("name")), each.get("arguments") or {}) for each in queues)


KNOWN_CASES = (
    QUEUE_CRASHES, OF_ANOTHER_TYPE, INTO_ITSELF, LOST_ON_ITS_WAY_OUT, FIRST_FROM_A_WORKER, OF_A_FORMER_QUEUE,
)  # fmt: skip
"""Those by which a whole case counts as known (``known_case``)."""


def known_case(script: Sequence[Operation], release: Release, live: Transcript, simulated: Transcript) -> str:
    """The name of a known difference by which a case counts as known; otherwise the empty text."""
    applies = {
        QUEUE_CRASHES.name: crashes_queues(script, release),
        INTO_ITSELF.name: feeds_itself_beyond_a_limit(script, release),
        LOST_ON_ITS_WAY_OUT.name: loses_one_that_makes_way(script, release),
        FIRST_FROM_A_WORKER.name: may_wait_for_a_worker(script, live, simulated),
        OF_ANOTHER_TYPE.name: replaces_a_queue_it_got_from(script, live),
        OF_A_FORMER_QUEUE.name: settles_one_of_a_former_queue(script, release),
    }
    return next((name for name, is_known in applies.items() if is_known), "")


def without_known(transcript: Any) -> Any:
    """A transcript, or a part of one, without anything that is known to differ."""
    for known in KNOWN:
        transcript = known.without(transcript)
    return transcript


def known_difference(one: Transcript, other: Transcript) -> str:
    """The names of what differs, if that is all; otherwise the empty text."""
    met = []
    for known in KNOWN:
        fewer_one, fewer_other = known.without(one), known.without(other)
        if not same(fewer_one, one) or not same(fewer_other, other):
            met.append(known.name)
        one, other = fewer_one, fewer_other
        if same(one, other):
            return ", ".join(met)
    return ""
