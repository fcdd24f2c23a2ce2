"""Builds the ``activemq.xml`` that comes closest to a topology of RabbitMQ, and says what clients have to do.

Limits without a pause are each client's: its redelivery policy. Pauses are the redeliveryPlugin's, since a client that
waits lets nothing else through. Where the plugin redelivers, clients must not: the two add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from simulator.systems.activemq.redelivery_policy import UNLIMITED
from simulator.systems.activemq.xml_elements import CORE, XSI
from simulator.systems.compare.nearest import CREATED_BY_USE, Answer, Moved, WorkQueue

NAME_MAX: int | None = None
SETS_TIME_TO_LIVE = "publisher"
PLAYS = ("rejected", "rejected every time", "returned every time", "consumer dies", "expires", "full", "held")
ASSUMED = (
    "clients of ActiveMQ use transacted sessions with prefetch 1, have the redelivery policies that stand in"
    " activemq.xml as comments, and give a message back by rollback",
    "messages are persistent",
)
WHY: Mapping[str, str] = {
    "rejected": "JMS has no reject: every rollback counts towards the redelivery policy of the queue, so that one limit"
    " serves rejects and returns",
    "rejected every time": "the redelivery policy counts rollbacks, and goes by the delays that stand in it",
    "returned every time": "a rollback is all that JMS has, and one limit serves rejects and returns",
    "delays": "one redelivery policy serves rejects, returns and their delays: a first delay, then one that stays or"
    " grows by a factor",
    "consumer dies": "a client, not the broker, compares the count of deliveries with its policy before it hands a"
    " message out; one that the redeliveryPlugin has sent again it does not compare",
    "expires": "a queue has no time to live: each publisher sets JMSExpiration, and the broker looks for expired"
    " messages every 30 s (expireMessagesPeriod)",
    "full": "a queue has no limit on the number of messages; memoryLimit counts bytes and holds up publishers",
    "held": "the broker takes no message from a consumer that stays connected",
}
ANSWERS: Mapping[str, Answer] = {
    "wait queue": Answer(
        "changes",
        "there is no queue for the pause: the broker's scheduler keeps the message (redeliveryPlugin; for one that is"
        " published to it, AMQ_SCHEDULED_DELAY on the message)",
        "the scheduler's messages are in no queue: JMX shows them as jobs, and no consumer can take one early",
    ),
    "exchange": Answer(
        "changes",
        "publishers name the queue: there are no exchanges, bindings and routing keys",
        "JMS has destinations",
    ),
    "fanout": Answer(
        "changes", "publishers send to the queue of its name, and a compositeQueue copies to the queues behind it"
    ),
    "unroutable": CREATED_BY_USE,
    "length in bytes": Answer(
        "cannot be had", "memoryLimit of a policyEntry counts bytes, and holds the publisher up in place of dropping"
    ),
    "single active consumer": Answer("kept", "one consumer gets all messages: allConsumersExclusiveByDefault"),
    "priorities": Answer(
        "changes", "there are 10 priorities (JMSPriority), in force with prioritizedMessages on the policyEntry"
    ),
    "queue expires": Answer(
        "cannot be had",
        "gcInactiveDestinations removes a queue that is empty and unused, and no other",
        "RabbitMQ deletes the queue with its messages",
    ),
    "stream": Answer(
        "cannot be had", "no destination keeps messages after they were read, for a reader from any offset"
    ),
    "carries": Answer(
        "changes",
        "the dead letter has originalDestination and dlqDeliveryFailureCause (none if it expired), and no list of"
        " deaths; a redelivery has JMSXDeliveryCount",
        "consumers that read x-death have to read these",
    ),
}


def allowed(name: str) -> str:
    """Return the name without the characters that are for patterns, options and composite destinations."""
    return re.sub(r"[*>,?]|://", "_", name.strip()) or "_"


def own(queue: WorkQueue, moved: Moved) -> dict[str, Any]:
    """Return the broker with that queue alone, and the redelivery policy of its clients."""
    alone = Moved(queues=[queue], others=moved.others, copied={}, names=moved.names)
    xml = _document(alone, plugin=_needs_plugin(moved))
    return {"broker": {"activemq_xml": xml}, "redelivery_policy": _client_policy(queue)}


def files(moved: Moved) -> dict[str, str]:
    """Return ``activemq.xml``."""
    return {"activemq.xml": _document(moved, plugin=_needs_plugin(moved))}


def _needs_plugin(moved: Moved) -> bool:
    return any(queue.delays_ms for queue in moved.queues)


def _client_policy(queue: WorkQueue) -> dict[str, int]:
    redeliveries = UNLIMITED if queue.attempts_max is None else queue.attempts_max - 1
    return {
        "maximumRedeliveries": 0 if queue.delays_ms else redeliveries,
        "initialRedeliveryDelay": 0,
        "redeliveryDelay": 0,
    }


def _document(moved: Moved, *, plugin: bool) -> str:
    scheduler = ' schedulerSupport="true"' if plugin else ""
    lines = [
        '<beans xmlns="http://www.springframework.org/schema/beans"',
        f'       xmlns:xsi="{XSI}"',
        '       xsi:schemaLocation="http://www.springframework.org/schema/beans',
        "         http://www.springframework.org/schema/beans/spring-beans.xsd",
        f'         {CORE} {CORE}/activemq-core.xsd">',
        f'  <broker xmlns="{CORE}" brokerName="moved"{scheduler}>',
        "    <destinationPolicy><policyMap><policyEntries>",
        *_entries(moved),
        "    </policyEntries></policyMap></destinationPolicy>",
        *_composites(moved),
        *(_plugin(moved) if plugin else ()),
        "  </broker>",
        "</beans>",
    ]
    return "\n".join(lines) + "\n"


def _entries(moved: Moved) -> Iterator[str]:
    keeps = '<sharedDeadLetterStrategy processNonPersistent="true"/>'
    for kind in ("queue", "topic"):
        yield f'      <policyEntry {kind}=">"><deadLetterStrategy>{keeps}</deadLetterStrategy></policyEntry>'
    for queue in moved.queues:
        name, dead = moved.names[queue.at], moved.named(queue.dead_at)
        policy = " ".join(f'{key}="{value}"' for key, value in _client_policy(queue).items())
        yield f"      <!-- clients that read {escape(name.replace('--', '- -'))}: {policy} -->"
        exclusive = ' allConsumersExclusiveByDefault="true"' if queue.single_active else ""
        strategy = keeps
        if dead is not None:
            there = f"<deadLetterQueue><queue physicalName={quoteattr(dead)}/></deadLetterQueue>"
            strategy = keeps.replace("/>", f">\n          {there}\n        </sharedDeadLetterStrategy>")
        if exclusive or dead is not None:
            yield f"      <policyEntry queue={quoteattr(name)}{exclusive}><deadLetterStrategy>"
            yield f"        {strategy}"
            yield "      </deadLetterStrategy></policyEntry>"


def _composites(moved: Moved) -> Iterator[str]:
    if not moved.copied:
        return
    yield "    <destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
    for exchange, queues in moved.copied.items():
        targets = "".join(f"<queue physicalName={quoteattr(moved.names[each])}/>" for each in queues)
        name = quoteattr(moved.names[exchange])
        yield f"      <compositeQueue name={name}><forwardTo>{targets}</forwardTo></compositeQueue>"
    yield "    </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"


def _plugin(moved: Moved) -> Iterator[str]:
    yield '    <plugins><redeliveryPlugin fallbackToDeadLetter="true" sendToDlqIfMaxRetriesExceeded="true">'
    yield "      <redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
    for queue in moved.queues:
        if queue.delays_ms:
            fields = " ".join(f'{name}="{value}"' for name, value in _plugin_policy(queue).items())
            yield f"        <redeliveryPolicy queue={quoteattr(moved.names[queue.at])} {fields}/>"
    yield "      </redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap>"
    yield "    </redeliveryPlugin></plugins>"


def _plugin_policy(queue: WorkQueue) -> dict[str, str | int | float]:
    first, second = queue.delays_ms[0], queue.delays_ms[min(1, len(queue.delays_ms) - 1)]
    policy: dict[str, str | int | float] = {
        "maximumRedeliveries": UNLIMITED if queue.attempts_max is None else queue.attempts_max - 1,
        "initialRedeliveryDelay": first,
        "redeliveryDelay": second,
    }
    if second > first:
        policy |= {"useExponentialBackOff": "true", "backOffMultiplier": second / first}
        policy |= {"maximumRedeliveryDelay": max(queue.delays_ms)}
    return policy
