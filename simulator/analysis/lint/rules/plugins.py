"""Rules about exchange plugins and dynamic shovels."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.delays import plugin_starts
from dlx.server_plugins import CONSISTENT_HASH, DELAYED, MODULUS_HASH
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    OVERFLOW,
    Settings,
    alternate_exchange,
)
from simulator.analysis.findings import Fix, ObjectName
from simulator.analysis.lint.rule import Found, Subject, queue_name, rule, said_by
from simulator.analysis.shovels import shovels_of
from simulator.analysis.slices import behind_queues

_HASHES = (CONSISTENT_HASH, MODULUS_HASH)


def _type(subject: Subject, vhost: str, exchange: str) -> str | None:
    """Return the type of an exchange, if it is there."""
    found = subject.snapshot.topologies[vhost].exchanges.get(exchange)
    return None if found is None else found.type


def _delayed(subject: Subject) -> Iterator[ObjectName]:
    """Yield the delayed message exchanges."""
    for vhost, topology in subject.snapshot.topologies.items():
        for name, exchange in topology.exchanges.items():
            if exchange.type == DELAYED:
                yield ObjectName("exchange", vhost, name)


@rule("DLX039", "delayed-exchange-does-not-start")
def delayed_exchange_does_not_start(subject: Subject) -> Iterator[Found]:
    """No released version of the delayed message exchange starts on this release of RabbitMQ.

    Why: the plugin keeps its messages in Mnesia, which RabbitMQ 4.3 no longer has. With the plugin enabled a server
    does not start, and without it the exchange cannot be declared.
    Example: exchange 'later' of type x-delayed-message under 4.3.
    Fix: delay retries with a queue that has a TTL and dead-letters back, or with the delayed retries of quorum queues.
    """
    if plugin_starts(subject.snapshot.release):
        return
    for about in _delayed(subject):
        yield Found(
            severity="warning",
            about=about,
            message=f"'{about.name}' is a delayed message exchange: no released version of its plugin starts on "
            f"RabbitMQ {subject.snapshot.release.name}.",
            because=f"the type of '{about.name}' is {DELAYED}",
            fix=Fix(True, "delay messages in a queue with a TTL that dead-letters to where they are to go"),
        )


@rule("DLX040", "delayed-exchange-with-alternate")
def delayed_exchange_with_alternate(subject: Subject) -> Iterator[Found]:
    """A delayed message exchange has an alternate exchange, which gets a copy of each delayed message at once.

    Why: while it delays a message, the exchange tells RabbitMQ that it routes it nowhere. So the alternate exchange
    gets it right away, and the bound queues get it when the delay is over. A mandatory publish is returned for the same
    reason, though the message is delivered later.
    Example: exchange 'later' of type x-delayed-message with alternate-exchange 'unrouted'.
    Fix: remove the alternate exchange.
    """
    for about in _delayed(subject):
        flow = subject.snapshot.flows[about.vhost]
        alternate = alternate_exchange(flow.topology.exchanges[about.name], flow.topology, flow.release)
        if alternate:
            yield Found(
                severity="warning",
                about=about,
                message=f"each message that '{about.name}' delays goes to alternate exchange '{alternate}' at once, "
                "and a second copy to the bound queues when the delay is over.",
                because=f"alternate-exchange of '{about.name}' is '{alternate}'",
                fix=Fix(True, f"remove the alternate exchange of '{about.name}'"),
            )


@rule("DLX041", "dead-letters-delayed-once")
def dead_letters_delayed_once(subject: Subject) -> Iterator[Found]:
    """A queue dead-letters to a delayed message exchange, which delays each message once, or not at all.

    Why: the exchange delays by the header x-delay of the message, which it negates when the delay is over. A dead
    letter keeps the negated header, so later rounds do not wait; one whose publisher set no x-delay never waits. A
    delay of more than 4,294,967,295 ms does not count, either. From at-least-once queues the exchange gets each
    message twice.
    Example: 'jobs' has dead-letter exchange 'later' of type x-delayed-message, which leads back to 'jobs'.
    Fix: let the consumer publish the message to the exchange anew, with x-delay, and acknowledge it; or retry through a
    queue with a TTL.
    """
    for (vhost, name), settings in subject.queues():
        dlx = settings.dead_letter_exchange
        if dlx is None or _type(subject, vhost, dlx) != DELAYED:
            continue
        flow = subject.snapshot.flows[vhost]
        back = name in behind_queues(flow, flow.possible_targets(name))
        so = "later rounds come back at once, for ever" if back else "one without that header does not wait"
        yield Found(
            severity="warning" if back else "note",
            about=queue_name((vhost, name)),
            message=f"dead letters of '{name}' wait in '{dlx}' once at most, if their publisher set x-delay: {so}.",
            because=_said(settings, DEAD_LETTER_EXCHANGE),
            fix=Fix(True, "have the consumer publish it again with x-delay, or retry through a queue with a TTL"),
        )


@rule("DLX042", "dead-letters-in-one-of-many")
def dead_letters_in_one_of_many(subject: Subject) -> Iterator[Found]:
    """All dead letters of a queue have one routing key, and their exchange chooses a queue by the hash of it.

    Why: equal keys have equal hashes, so one of the bound queues gets everything and the others nothing.
    Example: 'orders' has dead-letter routing key 'failed', and its dead-letter exchange is of type x-consistent-hash.
    Fix: remove the dead-letter routing key, or hash a header such as x-first-death-queue (argument hash-header).
    """
    for (vhost, name), settings in subject.queues():
        dlx, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if dlx is None or key is None or _type(subject, vhost, dlx) not in _HASHES:
            continue
        topology = subject.snapshot.topologies[vhost]
        by_another = {"hash-header", "hash-property"} & topology.exchanges[dlx].arguments.keys()
        bound = {each.destination for each in topology.bindings.get(dlx, ())}
        if by_another or len(bound) < 2:
            continue
        yield Found(
            severity="warning",
            about=queue_name((vhost, name)),
            message=f"all dead letters of '{name}' come to the same one of the {len(bound)} destinations of '{dlx}', "
            f"which chooses by the hash of their routing key '{key}'.",
            because=_said(settings, DEAD_LETTER_ROUTING_KEY),
            fix=Fix(True, f"remove the dead-letter routing key of '{name}', or give '{dlx}' a hash-header"),
        )


@rule("DLX043", "shovel-closes-loop")
def shovel_closes_loop(subject: Subject) -> Iterator[Found]:
    """A shovel takes messages from where their dead letters end back to where they died: they go round for ever.

    Why: a shovel is a client that publishes. RabbitMQ drops messages that come back by dying alone, and does not see
    this loop. Until 3.13 x-death goes on counting through a shovel; from 4.0 on the next death starts anew with a count
    of 1, so a consumer that gives up after some deaths never does.
    Example: 'work' dead-letters to 'parked', and a shovel without an end moves 'parked' back to 'work'.
    Fix: let the shovel end (src-delete-after: queue-length), or have consumers count in a header of their own.
    """
    for shovel in shovels_of(subject.snapshot):
        if shovel.definition.delete_after is not None:
            continue
        vhost = shovel.source[0]
        flow = subject.snapshot.flows[vhost]
        entered = [name for at, name in shovel.destination if at == vhost]
        if shovel.source[1] not in behind_queues(flow, entered):
            continue
        counted = (
            "x-death goes on counting" if flow.release.client_deaths_continued else "x-death starts anew each time"
        )
        first = entered[0]
        yield Found(
            severity="warning",
            about=queue_name(shovel.source),
            message=f"shovel '{shovel.name}' moves messages of '{shovel.source[1]}' to '{first}', whose dead letters "
            f"come back to '{shovel.source[1]}': what dies each time goes round for ever, and {counted}.",
            because=f"parameter shovel '{shovel.name}' has no src-delete-after",
            fix=Fix(True, f"set src-delete-after of shovel '{shovel.name}' to queue-length, or park what fails again"),
        )


@rule("DLX044", "shovel-into-refusing-queue")
def shovel_into_refusing_queue(subject: Subject) -> Iterator[Found]:
    """A shovel moves messages to a queue that refuses them while it is full.

    Why: with ack-mode on-confirm, the default, a refused message goes back to its source and comes again at once, for
    as long as the queue is full; a quorum source counts each time, until its delivery limit ends the message (until
    4.2). Refused messages count towards src-delete-after: such a shovel ends with messages left in its source. With
    on-publish and no-ack a refused message is gone.
    Example: shovel 'back' with ack-mode no-ack to 'work', which has x-max-length 1000 and x-overflow reject-publish.
    Fix: use ack-mode on-confirm, and move no more than fits (src-delete-after).
    """
    for shovel in shovels_of(subject.snapshot):
        for vhost, name in shovel.destination:
            settings = subject.snapshot.flows[vhost].settings(name)
            if not (settings.has_length_limit and settings.refuses_when_full):
                continue
            mode = shovel.definition.ack_mode
            so = "are lost" if mode != "on-confirm" else f"go back to '{shovel.source[1]}' and come again at once"
            if mode == "on-confirm" and shovel.definition.delete_after is not None:
                so += ", and each counts towards src-delete-after, so that the shovel may end with some left there"
            yield Found(
                severity="warning" if mode != "on-confirm" else "note",
                about=queue_name((vhost, name)),
                message=f"shovel '{shovel.name}' moves messages to '{name}', which refuses them while it is full: they "
                f"{so}.",
                because=f"ack-mode of shovel '{shovel.name}' is {mode}; {_said(settings, OVERFLOW)}",
                fix=Fix(True, f"set ack-mode of shovel '{shovel.name}' to on-confirm")
                if mode != "on-confirm"
                else Fix(True, f"let shovel '{shovel.name}' end after as many messages as '{name}' has room for"),
            )


def _said(settings: Settings, key: str) -> str:
    return said_by(settings.values[key])
