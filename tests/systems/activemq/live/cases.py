"""Named cases, each for a broker of its own with a configuration of its own.

What the real broker made of them is in ``recorded/``: ``python -m tests.systems.activemq.live.record`` asks it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.systems.activemq.live.scenarios import DLQ, Steps, consumer, drain, end, process, rollback, send

HEAD = """<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
         http://www.springframework.org/schema/beans/spring-beans.xsd
         http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
"""
SCHEDULER = 'schedulerSupport="true"'
ADVISORY = "topic://ActiveMQ.Advisory."
RESTART = {"do": "restart"}
AUDIT_OFF = '<sharedDeadLetterStrategy enableAudit="false"/>'
PLUGIN = """<plugins><redeliveryPlugin fallbackToDeadLetter="true" sendToDlqIfMaxRetriesExceeded="true">
<redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>
<redeliveryPolicy maximumRedeliveries="1" initialRedeliveryDelay="1000" redeliveryDelay="1000"/>
</defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"""


class Case(msgspec.Struct, frozen=True):
    """A configuration and what applications do. ``inner`` and ``attributes`` are those of the element broker."""

    steps: Steps
    inner: str = ""
    attributes: str = ""

    @property
    def xml(self) -> str:
        """The whole ``activemq.xml``."""
        return configuration(self.inner, self.attributes)


def configuration(inner: str = "", attributes: str = "") -> str:
    """Return an ``activemq.xml``; ``inner`` begins in its line 7."""
    broker = f'<broker xmlns="http://activemq.apache.org/schema/core" brokerName="dlx" {attributes}>'.replace(" >", ">")
    return f"{HEAD}{broker}\n{inner}\n</broker>\n</beans>\n"


def policies(*entries: str) -> str:
    """Return a destinationPolicy of these entries."""
    inner = "\n".join(entries)
    return f"<destinationPolicy><policyMap><policyEntries>\n{inner}\n</policyEntries></policyMap></destinationPolicy>"


def strategy(inner: str, key: str = 'queue=">"') -> str:
    """Return an entry with this dead letter strategy."""
    return f"<policyEntry {key}><deadLetterStrategy>{inner}</deadLetterStrategy></policyEntry>"


def shared(*queues: str) -> str:
    """Return a shared strategy with this queue."""
    named = "".join(f'<deadLetterQueue><queue physicalName="{queue}"/></deadLetterQueue>' for queue in queues)
    return f"<sharedDeadLetterStrategy>{named}</sharedDeadLetterStrategy>"


def virtual(inner: str) -> str:
    """Return an interceptor with these virtual destinations."""
    return (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>\n"
        f"{inner}\n</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )


def with_fields(steps: Steps, what: str, **fields: Any) -> Steps:
    """Return the steps, with these fields in those that do ``what``."""
    return [{**step, **fields} if step["do"] == what else step for step in steps]


def fails(name: str, idle_ms: int = 700) -> Mapping[str, Any]:
    """Receive and fail until nothing comes."""
    return process(name, idle_ms=idle_ms)


def commit(name: str) -> Mapping[str, Any]:
    """The session commits."""
    return {"do": "commit", "session": name}


def acknowledge(name: str) -> Mapping[str, Any]:
    """The consumer acknowledges what it received last."""
    return {"do": "acknowledge", "consumer": name}


def wait(ms: int) -> Mapping[str, Any]:
    """Let time pass."""
    return {"do": "wait", "ms": ms}


def retry(queue: str = DLQ) -> Mapping[str, Any]:
    """Send dead letters back."""
    return {"do": "retry", "queue": queue}


def browse(queue: str) -> Mapping[str, Any]:
    """Count messages."""
    return {"do": "browse", "queue": queue}


def few(name: str, count: int = 1, timeout_ms: int = 400) -> Steps:
    """So many messages, or as many nothings, with little patience."""
    return [{"do": "receive", "consumer": name, "timeout_ms": timeout_ms}] * count


def subscriber(name: str, topic: str, maximum: int = 0, **more: Any) -> Steps:
    """A durable subscriber with an identifier of its own."""
    return consumer(name, f"topic://{topic}", maximum, client_id=f"i-{name}", subscription="s", **more)


def selecting(steps: Steps, selector: str) -> Steps:
    """Let the consumer have a selector."""
    return with_fields(steps, "consumer", selector=selector)


def given_ahead(steps: Steps, prefetch: int) -> Steps:
    """Let the consumer have a prefetch."""
    return with_fields(steps, "connect", prefetch=prefetch)


def killed(name: str) -> Steps:
    """The client is killed, and the broker has seen it."""
    return [wait(300), {"do": "disconnect", "connection": name}, wait(500)]


def given(name: str, count: int = 6) -> Steps:
    """All that a consumer is given, acknowledged."""
    return [*few(name, count), commit(name)]


def plugin(**more: str) -> str:
    """Return the redelivery plugin with one retry after a second; ``more``: attributes of its own."""
    attributes = " ".join(f'{name}="{value}"' for name, value in more.items())
    return f"""<plugins><redeliveryPlugin {attributes}><redeliveryPolicyMap><redeliveryPolicyMap>\
<redeliveryPolicyEntries>
<redeliveryPolicy queue="Q" maximumRedeliveries="1" initialRedeliveryDelay="1000" redeliveryDelay="2000"/>
</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"""


TWO = [*subscriber("c", "T"), *subscriber("d", "T"), *send("topic://T", "m1")]
TO_A_AND_B = [*consumer("c", "A", 0), *consumer("d", "B", 0), *send("A,B", "m1")]
BOTH_FAIL = [fails("c"), fails("d")]
NO_AUDIT = policies(strategy(AUDIT_OFF), strategy(AUDIT_OFF, 'topic=">"'))
FORWARD_A_AND_B = '<forwardTo><queue physicalName="A"/><queue physicalName="B"/></forwardTo>'
EVERY_200_MS = policies('<policyEntry queue=">" expireMessagesPeriod="200"/>')


def page_sizes(**sizes: int) -> str:
    """Return a destinationPolicy with these sizes of pages, and what else a policyEntry of all queues has."""
    attributes = " ".join(f'{name}="{each}"' for name, each in sizes.items())
    return policies(f'<policyEntry queue=">" {attributes}/>')


def numbered(count: int, letter: str = "m", **more: Any) -> Steps:
    """Return so many messages to Q."""
    return send("Q", *(f"{letter}{number}" for number in range(count)), **more)


def wanted(*numbers: int) -> Steps:
    """Return messages to Q with these numbers, which a selector may want."""
    return [step for index, n in enumerate(numbers) for step in send("Q", f"m{index}", properties={"n": n})]


def scheduled(**properties: Any) -> Steps:
    """Return a message to Q with these properties for the scheduler, given in the end of their names."""
    more = {name: properties.pop(name) for name in ("ttl_ms",) if name in properties}
    return send("Q", "m1", properties={f"AMQ_SCHEDULED_{name}": str(each) for name, each in properties.items()}, **more)


STORED_OVER_A_RESTART = [
    *subscriber("c", "T"), end("c", "connection"), *send("Q", "m1"), *send("topic://T", "m2"),
    *send("R", "m3", delay_ms=2000), RESTART, *send("topic://T", "m4"), browse("Q"),
    *with_fields(subscriber("d", "T"), "connect", client_id="i-c"), *few("d", 2), wait(2500), *drain("R"),
]  # fmt: skip

CASES: dict[str, Case] = {
    # -- a second message of one identifier ------------------------------------------------------------------------
    "two subscribers without audit have one dead letter": Case([*TWO, *BOTH_FAIL, *drain(DLQ)], NO_AUDIT),
    "also where it was drained in between": Case([*TWO, fails("c"), *drain(DLQ), fails("d"), *drain(DLQ)], NO_AUDIT),
    "a composite send without audit has one dead letter": Case([*TO_A_AND_B, *BOTH_FAIL, *drain(DLQ)], NO_AUDIT),
    "and on a broker that stores nothing": Case([*TO_A_AND_B, *BOTH_FAIL, *drain(DLQ)], NO_AUDIT, 'persistent="false"'),
    "two dead letter queues have one each": Case(
        [*TO_A_AND_B, *BOTH_FAIL, *drain("DLQ.A", "DLQ.B")],
        policies(strategy('<individualDeadLetterStrategy queuePrefix="DLQ." enableAudit="false"/>')),
    ),
    "a dead letter queue without audit has a second when the first was taken": Case(
        [*TWO, fails("c"), *drain(DLQ), fails("d"), *drain(DLQ)],
        policies(strategy(AUDIT_OFF, 'topic=">"'), f'<policyEntry queue="{DLQ}" enableAudit="false"/>'),
    ),
    "but not while the first is there": Case(
        [*TWO, *BOTH_FAIL, *drain(DLQ)],
        policies(strategy(AUDIT_OFF, 'topic=">"'), f'<policyEntry queue="{DLQ}" enableAudit="false"/>'),
    ),
    "a broker that starts again has forgotten": Case(
        [*TWO, fails("c"), *drain(DLQ), RESTART, *subscriber("d", "T"), fails("d"), *drain(DLQ)],
    ),
    "but not what is there": Case(
        [*TWO, fails("c"), RESTART, *subscriber("d", "T"), fails("d"), *drain(DLQ)], NO_AUDIT,
    ),
    "a message that was retried may die again": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), retry(), fails("c"), *drain(DLQ)],
    ),
    "one that expired, was retried and died": Case(
        [*send("Q", "m1", ttl_ms=100), wait(1000), browse(DLQ), retry(), *consumer("c", "Q", 0), fails("c"),
         *drain(DLQ)],
        EVERY_200_MS,
    ),
    "one of a topic that is retried comes to nobody": Case([*TWO, fails("c"), retry(), *BOTH_FAIL, *drain(DLQ)]),
    # -- virtual destinations --------------------------------------------------------------------------------------
    "a virtual topic": Case(
        [*consumer("c", "Consumer.A.VirtualTopic.X", 0), *consumer("d", "Consumer.B.VirtualTopic.X", 1),
         *send("topic://VirtualTopic.X", "m1"), *BOTH_FAIL, *drain(DLQ, "Consumer.A.VirtualTopic.X")],
    ),
    "a virtual topic before its first consumer": Case(
        [*send("topic://VirtualTopic.X", "m0"), *consumer("c", "Consumer.A.VirtualTopic.X", 0), *few("c"),
         *send("topic://VirtualTopic.X", "m1"), fails("c"), *drain(DLQ)],
    ),
    "a virtual topic with queues, a subscriber and a consumer": Case(
        [*consumer("c", "Consumer.A.VirtualTopic.X", 0), *subscriber("d", "VirtualTopic.>"),
         *consumer("e", "topic://VirtualTopic.X", 0, acknowledge="auto"), *send("topic://VirtualTopic.X", "m1"),
         *few("e"), *BOTH_FAIL, *drain("DLQ.Consumer.A.VirtualTopic.X", DLQ)],
        policies(strategy('<individualDeadLetterStrategy queuePrefix="DLQ."/>')),
    ),
    "consumers of virtual topics by pattern": Case(
        [*consumer("c", "Consumer.A.VirtualTopic.>", 0), *consumer("d", "Consumer.B.VirtualTopic.*", 0),
         *send("topic://VirtualTopic.X", "m1"), *few("c"), *few("d"), rollback("c"), rollback("d"), *drain(DLQ),
         browse("Consumer.A.VirtualTopic.X")],
    ),
    "a broker without virtual topics": Case(
        [*consumer("c", "Consumer.A.VirtualTopic.X", 0), *send("topic://VirtualTopic.X", "m1"), *few("c")],
        "", 'useVirtualTopics="false"',
    ),
    "a composite queue": Case(
        [*consumer("c", "A", 0), *consumer("d", "B", 0), *consumer("i", "IN", 0), *send("IN", "m1"), *BOTH_FAIL,
         *few("i"), *drain(DLQ)],
        virtual(f'<compositeQueue name="IN">{FORWARD_A_AND_B}</compositeQueue>'),
    ),
    "a composite queue that keeps a copy": Case(
        [*consumer("c", "A", 0), *subscriber("d", "T"), *consumer("i", "IN", 0), *send("IN", "m1"), *BOTH_FAIL,
         fails("i"), *drain(DLQ)],
        virtual('<compositeQueue name="IN" forwardOnly="false"><forwardTo><queue physicalName="A"/>'
                '<topic physicalName="T"/></forwardTo></compositeQueue>'),
    ),
    "a composite topic with a filter, and no virtual topics besides": Case(
        [*consumer("c", "A", 0), *consumer("d", "B", 0), *consumer("v", "Consumer.A.VirtualTopic.X", 0),
         *send("topic://VirtualTopic.X", "v"), *send("topic://T", "m1"), *BOTH_FAIL, *few("v"), *drain(DLQ)],
        virtual("""<compositeTopic name="T"><forwardTo>
        <filteredDestination selector="app = 'live'" queue="A"/><filteredDestination selector="app = 'x'" queue="B"/>
        </forwardTo></compositeTopic>"""),
    ),
    "virtual topics with a prefix and a postfix of their own": Case(
        [*consumer("c", "VTC.A.news.q", 0), *consumer("d", "VTC.A.news", 0), *send("topic://news", "m1"), *BOTH_FAIL,
         *drain(DLQ)],
        virtual('<virtualTopic name=">" prefix="VTC.*." postfix=".q"/>'),
    ),
    "a virtual topic that knows selectors": Case(
        [*selecting(consumer("c", "C.A.n", 0), "app='other'"), *consumer("d", "C.B.n", 0), *send("topic://n", "m1"),
         *few("d"), browse("C.A.n"), browse("C.B.n")],
        virtual('<virtualTopic name=">" prefix="C.*." selectorAware="true"/>'),
    ),
    "two virtual destinations for one queue": Case(
        [*send("IN", "m1"), *drain("A", "B", "IN")],
        virtual('<compositeQueue name="IN"><forwardTo><queue physicalName="A"/></forwardTo></compositeQueue>\n'
                '<compositeQueue name="IN.>" forwardOnly="false"><forwardTo><queue physicalName="B"/></forwardTo>'
                "</compositeQueue>"),
    ),
    "a dead letter queue that is composite": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain("A", "B", DLQ)],
        virtual(f'<compositeQueue name="{DLQ}">{FORWARD_A_AND_B}</compositeQueue>'),
    ),
    "a strategy with two names in one": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain("D.C1", "D.C2", DLQ)],
        policies(strategy(shared("D.C1,D.C2"))),
    ),
    # -- the redelivery plugin -------------------------------------------------------------------------------------
    "the plugin loses what subscribers reject": Case(
        [*TWO, fails("c", 2500), fails("d", 2500), *drain(DLQ)], PLUGIN, SCHEDULER,
    ),
    "a subscriber that is new gets the plugin's copy": Case(
        [*subscriber("c", "T"), *send("topic://T", "m1"), fails("c", 400), *subscriber("d", "T"), fails("d", 2500),
         fails("c"), *drain(DLQ)],
        PLUGIN, SCHEDULER,
    ),
    # -- configurations that look wrong and are not ----------------------------------------------------------------
    "an entry for a queue and a topic is for the topic": Case(
        [*consumer("c", "Q", 0), *subscriber("d", "T"), *send("Q", "m1"), *send("topic://T", "m2"), *BOTH_FAIL,
         *drain(DLQ)],
        policies(strategy("<discarding/>", 'topic="T" queue="Q"')),
    ),
    "an entry for a queue and temporary queues is for those": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain(DLQ)],
        policies(strategy("<discarding/>", 'queue="Q" tempQueue="false"')),
    ),
    "a dead letter queue without a name loses": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain(DLQ), browse("Q")],
        policies(strategy("<sharedDeadLetterStrategy><deadLetterQueue><queue/></deadLetterQueue>"
                          "</sharedDeadLetterStrategy>")),
    ),
    "the last strategy counts": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain("D1", "D2", DLQ)],
        policies(f'<policyEntry queue=">"><deadLetterStrategy>{shared("D1")}</deadLetterStrategy>'
                 f'<deadLetterStrategy>{shared("D2")}</deadLetterStrategy></policyEntry>'),
    ),
    "the last dead letter queue counts": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain("D1", "D2", DLQ)],
        policies(strategy(shared("D1", "D2"))),
    ),
    "the last list of policies counts": Case(
        [*consumer("c", "A", 0), *consumer("d", "B", 0), *send("A", "m1"), *send("B", "m2"), *BOTH_FAIL,
         *drain("D1", "D2", DLQ)],
        policies(strategy(shared("D1"), 'queue="A"')) + policies(strategy(shared("D2"), 'queue="B"')),
    ),
    "the last list of plugins counts": Case(
        [*consumer("c", "A", 0), *send("A", "m1"), fails("c"), *drain(DLQ)],
        "<plugins><discardingDLQBrokerPlugin/></plugins><plugins><loggingBrokerPlugin/></plugins>",
    ),
    "blanks around a number, and a sign": Case(
        [*consumer("c", "A", 0), *send("A", "m1"), fails("c"), *send("A", "m2", persistent=False), fails("c"),
         wait(1500), *drain(DLQ)],
        policies(strategy('<sharedDeadLetterStrategy expiration=" +500 " processNonPersistent=" 1 "/>')),
    ),
    "a strategy with a negative expiration": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", ttl_ms=60000), fails("c"), *drain(DLQ)],
        policies(strategy('<sharedDeadLetterStrategy expiration="-5"/>')),
    ),
    "an entry for queue://Q is for a queue of that very name": Case(
        [*consumer("c", "Q", 0), *consumer("d", "queue://queue://Q", 0), *send("Q", "m1"),
         *send("queue://queue://Q", "m2"), *BOTH_FAIL, *drain("D", DLQ)],
        policies(strategy(shared("D"), 'queue="queue://Q"')),
    ),
    "an entry for a queue and a topic in one name": Case(
        [*consumer("c", "A", 0), *subscriber("d", "B"), *consumer("e", "B", 0), *send("A", "m1"),
         *send("topic://B", "m2"), *send("B", "m3"), *BOTH_FAIL, fails("e"), *drain("D", DLQ)],
        policies(strategy(shared("D"), 'queue="A,topic://B, ,"')),
    ),
    "a copy to a queue and a topic in one name": Case(
        [*consumer("c", "A", 0), *subscriber("d", "B"), *send("IN", "m1"), *BOTH_FAIL, *drain(DLQ)],
        virtual('<compositeQueue name="IN"><forwardTo><queue physicalName="A,topic://B"/></forwardTo></compositeQueue>'),
    ),
    "a dead letter queue with options": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"), *drain("D", DLQ)],
        policies(strategy(shared("D?consumer.prefetchSize=1"), 'queue="Q"')),
    ),
    "a send to one queue twice": Case([*send("A,B,A", "m1"), *drain("A", "B")]),
    "NOT belongs to the name behind it": Case(
        [*selecting(consumer("c", "Q", 0), "NOT n = 1"), *send("Q", "m1", properties={"n": 1}),
         *send("Q", "m2", properties={"n": 2}), *few("c", 2),
         *selecting(consumer("d", "Q", 0), "NOT (n = 1)"), *few("d", 2)],
    ),
    "a dead letter is selected by where it came from": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c"),
         *selecting(consumer("d", DLQ, 0), f"JMSDestination = 'queue://{DLQ}'"), *few("d"),
         *selecting(consumer("e", DLQ, 0), "JMSDestination = 'queue://Q'"), *few("e")],
    ),
    # -- what a consumer is given ahead ----------------------------------------------------------------------------
    "what is read again is not told again": Case(
        [*given_ahead(consumer("c", "Q", 5), 1), *send("Q", "m0", "m1", "m2"), *few("c"), rollback("c"), *few("c", 3),
         commit("c"), *few("c"), commit("c")],
    ),
    "messages that come back wait behind those that came back before": Case(
        [*given_ahead(consumer("c", "Q", 5), 1), *consumer("d", "Q", 5), *send("Q", "m0", "m1", "m2"), *few("c"),
         end("d", "connection"), end("c", "connection"), *consumer("e", "Q", 5), *few("e", 4)],
    ),
    "one that holds a message has the others ahead": Case(
        [*given_ahead(consumer("c", "Q", 5), 3), *send("Q", "m0"), *few("c"), rollback("c"), *few("c"),
         *send("Q", "m1", "m2", "m3", ttl_ms=600), wait(1200), commit("c"), *few("c", 3), commit("c"), *drain(DLQ)],
        EVERY_200_MS,
    ),
    "acknowledged by the client, a few ahead": Case(
        [*given_ahead(consumer("c", "Q", 5, acknowledge="client"), 2), *send("Q", "m0", "m1", "m2", "m3", "m4"),
         *few("c", 2), {"do": "recover", "session": "c"}, *few("c", 4), acknowledge("c"), *few("c", 3),
         acknowledge("c")],
    ),
    "prefetch 0": Case(
        [*given_ahead(consumer("c", "Q", 1), 0), *given_ahead(consumer("d", "Q", 1), 0), *send("Q", "m1", "m2", "m3"),
         *few("c", 2), *few("d", 2), rollback("c"), *few("c", 3), rollback("c"), *few("d"), commit("d"), *few("d"),
         *drain(DLQ)],
    ),
    "prefetch 0, and some are past their limit": Case(
        [*given_ahead(consumer("c", "Q", 5), 3), *send("Q", "m1", "m2", "m3", "m4"), *few("c", 3), *killed("c"),
         *given_ahead(consumer("d", "Q", 0), 0), *few("d", 2), commit("d"), *drain(DLQ)],
    ),
    "prefetch 0 and time to live": Case(
        [*send("Q", "m1", ttl_ms=300), *send("Q", "m2"), *given_ahead(consumer("c", "Q", 1), 0), wait(600),
         *few("c", 2), commit("c"), *drain(DLQ)],
    ),
    # -- what applications do --------------------------------------------------------------------------------------
    "an application's original expiration": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", properties={"originalExpiration": 17}), fails("c"),
         *send("Q", "m2", properties={"originalExpiration": "x"}, ttl_ms=60000), fails("c"), *drain(DLQ)],
    ),
    "a dead letter that dies again has its own expiration": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", ttl_ms=60000), fails("c"), *consumer("d", DLQ, 0), fails("d"),
         *drain("DLQ.2")],
        policies(strategy(shared("DLQ.2"), f'queue="{DLQ}"')),
    ),
    "selectors": Case(
        [*selecting(consumer("c", "Q", 0), "colour = 'red'"), *send("Q", "m0", properties={"colour": "red", "n": 0}),
         *send("Q", "m1", properties={"colour": "blue", "n": 1}),
         *send("Q", "m2", properties={"colour": "red", "n": 2}), fails("c"),
         *selecting(consumer("d", "Q", 0), "n BETWEEN 1 AND 5 AND colour LIKE 'bl%'"), fails("d"),
         *drain(DLQ)],
    ),
    "subscribers with selectors": Case(
        [*selecting(subscriber("c", "T"), "app = 'other'"), *selecting(subscriber("d", "T"), "app IN ('live')"),
         *send("topic://T", "m1"), fails("d"), fails("c"), end("d", "connection"), *send("topic://T", "m2"),
         *selecting(subscriber("d", "T"), "app IS NULL"), *few("d"), *drain(DLQ)],
    ),
    "a send with a delay": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", delay_ms=2000), *few("c"),
         {"do": "receive", "consumer": "c", "timeout_ms": 4000}, rollback("c"), *drain(DLQ)],
        "", SCHEDULER,
    ),
    "a send with a delay to a broker without scheduler": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", delay_ms=2000), *few("c"), rollback("c"), *drain(DLQ)],
    ),
    "sends in the consumer's transaction": Case(
        [*consumer("c", "Q", 1), *send("Q", "m1"), *few("c"), *send("R", "lost", session="c"), browse("R"),
         rollback("c"), browse("R"), *few("c"), *send("R", "kept", session="c"), commit("c"), *drain("R", "Q", DLQ)],
    ),
    "a send that repeats": Case(
        [*consumer("c", "Q", 0), *scheduled(DELAY=1000, PERIOD=1500, REPEAT=2), *few("c", 4, 3500), commit("c")],
        "", SCHEDULER,
    ),
    "a send with a period alone": Case(
        [*consumer("c", "Q", 0), *scheduled(PERIOD=1500), *few("c", 2, 3500)], "", SCHEDULER,
    ),
    "a send with repeats alone": Case([*consumer("c", "Q", 0), *scheduled(REPEAT=2), *few("c", 2)], "", SCHEDULER),
    "a send that repeats, to a broker without scheduler": Case(
        [*consumer("c", "Q", 0), *scheduled(DELAY=1000, PERIOD=500, REPEAT=2), *few("c", 2)],
    ),
    "a send that repeats has a dead letter each time": Case(
        [*consumer("c", "Q", 0), *scheduled(PERIOD=1500, REPEAT=1), *few("c", 1, 3500), rollback("c"),
         *few("c", 1, 3500), rollback("c"), *drain(DLQ)],
        "", SCHEDULER,
    ),
    "a send that repeats expires each time": Case(
        [*scheduled(PERIOD=1500, REPEAT=1, ttl_ms=1000), wait(5000), browse("Q"), *drain("Q", DLQ)], "", SCHEDULER,
    ),
    "a send that repeats over a restart": Case(
        [*scheduled(PERIOD=2000, REPEAT=2), wait(3000), RESTART, *consumer("c", "Q", 0), *few("c", 4, 3500)],
        "", SCHEDULER,
    ),
    "a broker that deletes all messages when it starts keeps what is scheduled": Case(
        STORED_OVER_A_RESTART, "", f'{SCHEDULER} deleteAllMessagesOnStartup="true"',
    ),
    "a broker that stores nothing does not keep what is scheduled": Case(
        STORED_OVER_A_RESTART, "", f'{SCHEDULER} persistent="false"',
    ),
    "a send by cron": Case(
        [*consumer("c", "Q", 0), *scheduled(CRON="* * * * *"), *few("c", 1, 62000)], "", SCHEDULER,
    ),
    "a delayed send in a transaction": Case(
        [*consumer("c", "Q", 1), *send("Q", "m1"), *few("c"), *send("R", "late", session="c", delay_ms=1000),
         wait(1500), browse("R"), commit("c"), browse("R"), wait(2500), *drain("R")],
        "", SCHEDULER,
    ),
    "acknowledged twice": Case(
        [*consumer("c", "Q", 1, acknowledge="client"), *send("Q", "m1", "m2"), *few("c", 2), acknowledge("c"),
         acknowledge("c"), {"do": "recover", "session": "c"}, *few("c"), end("c"), *consumer("d", "Q"), *few("d")],
    ),
    "one message acknowledged twice": Case(
        [*consumer("c", "Q", 1, acknowledge="individual"), *send("Q", "m1", "m2"), *few("c", 2), acknowledge("c"),
         acknowledge("c"), {"do": "recover", "session": "c"}, *few("c"), end("c"), *consumer("d", "Q"), *few("d", 2)],
    ),
    "a broker that starts again has lost counts and what is not persistent": Case(
        [*consumer("c", "Q", 3), *send("Q", "m1", "m2"), *send("Q", "n1", persistent=False), *few("c"), rollback("c"),
         *few("c", 2), RESTART, *consumer("d", "Q", 3), *few("d", 3)],
    ),
    "a broker that starts again looks for what has expired a period later": Case(
        [*send("Q", "m0", ttl_ms=300), wait(2000), RESTART, wait(1500), browse(DLQ), wait(2500), browse(DLQ),
         *drain(DLQ)],
        policies('<policyEntry queue="Q" expireMessagesPeriod="3000"/>'),
    ),
    "a broker that starts again has read nothing of what has expired": Case(
        [*send("Q", "m0", ttl_ms=1000), RESTART, *send("Q", "m1", ttl_ms=300), wait(1500), *drain("Q", DLQ)],
    ),
    "a send in a transaction makes the queue at once": Case(
        [*consumer("c", "Q", 1), *send("R", "m0", session="c"), wait(1500), *send("R", "m1", ttl_ms=200), wait(2200),
         browse(DLQ), rollback("c"), *drain("R", DLQ)],
        policies('<policyEntry queue="R" expireMessagesPeriod="3000"/>'),
    ),
    "a subscription whose subscriber stays away": Case(
        [*subscriber("c", "T"), *subscriber("d", "T"), end("c", "connection"), *send("topic://T", "m0"), wait(1500),
         end("d", "connection"), wait(700), *subscriber("d", "T"), *few("d"), wait(800), *subscriber("c", "T"),
         *send("topic://T", "m1"), *few("c", 2), *few("d")],
        "", 'offlineDurableSubscriberTimeout="1700" offlineDurableSubscriberTaskSchedule="1000"',
    ),
    "a subscription of a broker that starts again, whose subscriber stays away": Case(
        [*subscriber("c", "T"), *send("topic://T", "m0"), RESTART, wait(2500), *subscriber("c", "T"), *few("c")],
        "", 'offlineDurableSubscriberTimeout="500" offlineDurableSubscriberTaskSchedule="1000"',
    ),
    # -- who gets which message ------------------------------------------------------------------------------------
    **{
        f"three consumers of prefetch {prefetch}, one of which is killed": Case(
            [*given_ahead(consumer("c", "Q", 5), prefetch), *given_ahead(consumer("d", "Q", 5), prefetch),
             *given_ahead(consumer("e", "Q", 5), prefetch),
             *send("Q", "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"), *few("c"), *few("d"), *killed("d"),
             *given("e"), *given("c"), *given("e", 3)],
        )
        for prefetch in (1, 2, 1000)
    },
    **{
        f"prefetch 2, and one expires with the consumer ({mode})": Case(
            [*given_ahead(consumer("c", "Q", 5, acknowledge=mode), 2), *send("Q", "m0", ttl_ms=500),
             *send("Q", "m1", "m2", "m3", "m4", "m5"), wait(900), *few("c"), wait(600), *consumer("d", "Q", 5),
             *few("d", 5), *few("c", 3), end("c", "connection"), *few("d", 3), *drain(DLQ)],
        )
        for mode in ("transacted", "client", "individual", "auto")
    },
    **{
        f"messages expire with a durable subscriber of prefetch {prefetch} and behind it": Case(
            [*given_ahead(subscriber("c", "T", 5), prefetch), *send("topic://T", "m0"),
             *send("topic://T", "m1", ttl_ms=600), *send("topic://T", "m2"),
             *send("topic://T", "m3", "m4", ttl_ms=600), *send("topic://T", "m5"), *few("c"), wait(1100), *few("c", 2),
             commit("c"), *few("c", 2), *drain(DLQ)],
        )
        for prefetch in (2, 3)
    },
    "prefetch 2, and the second expires with the consumer": Case(
        [*given_ahead(consumer("c", "Q", 5, acknowledge="client"), 2), *send("Q", "m0"), *send("Q", "m1", ttl_ms=700),
         *send("Q", "m2", "m3", "m4", "m5", "m6"), *few("c"), wait(1000), *few("c"), wait(600),
         *consumer("d", "Q", 5),
         *few("d", 6), *few("c", 3), acknowledge("c"), *few("c", 2), *drain(DLQ)],
    ),
    "an exclusive consumer": Case(
        [*consumer("c", "Q", 5), *consumer("d", "Q?consumer.exclusive=true", 5),
         *consumer("e", "Q?consumer.exclusive=true", 5), *send("Q", "m0", "m1", "m2"), *few("c"),
         *few("e"), *few("d", 2),
         end("d", "connection"), *few("c"), *given("e", 4), *send("Q", "m3"), *few("c"), *few("e"),
         end("e", "connection"), *few("c", 2)],
    ),
    "an exclusive consumer that is killed": Case(
        [*given_ahead(consumer("c", "Q?consumer.exclusive=true", 5), 1), *consumer("d", "Q?consumer.exclusive=true", 5),
         *consumer("e", "Q?consumer.exclusive=true&consumer.priority=5", 5), *send("Q", "m0", "m1", "m2"), *few("c"),
         *few("d"), *few("e", 2), *killed("e"), *few("d", 4), *few("c", 3)],
    ),
    "all consumers are exclusive": Case(
        [*consumer("c", "Q", 5), *consumer("d", "Q", 5), *consumer("e", "Q", 5),
         *send("Q", "m0", "m1", "m2"), *few("d"),
         *few("e"), *few("c", 2), end("c", "connection"), *few("e"), *few("d", 4)],
        policies('<policyEntry queue=">" allConsumersExclusiveByDefault="true"/>'),
    ),
    "one that acknowledges as it reads is killed": Case(
        [*given_ahead(consumer("c", "Q", 5, non_blocking_redelivery=True), 5),
         *given_ahead(selecting(consumer("d", "Q", 5), "n = 1"), 1), *consumer("e", "Q", 5),
         *with_fields(send("Q", "m0", "m1", "m2", "m3"), "send", properties={"n": 1}), *few("c", 2), browse("Q"),
         *killed("c"), *few("d", 2), *few("e", 4)],
        policies('<policyEntry queue="Q" allConsumersExclusiveByDefault="true"/>'),
    ),
    "one that asked to be exclusive goes, and nobody is where all are to be": Case(
        [*consumer("c", "Q?consumer.exclusive=true", 5), *given_ahead(consumer("d", "Q", 5), 1), *consumer("e", "Q", 5),
         *send("Q", "m0", "m1", "m2", "m3"), *few("c"), end("c", "connection"), *few("d"), *few("e", 3)],
        policies('<policyEntry queue="Q" allConsumersExclusiveByDefault="true"/>'),
    ),
    "a browser lets another be exclusive, who owns fewer groups": Case(
        [*consumer("c", "Q", 5), *consumer("d", "Q", 5),
         *with_fields(send("Q", "m0"), "send", properties={"JMSXGroupID": "a"}), browse("Q"), *send("Q", "m1"),
         *few("c", 2), *few("d")],
        policies('<policyEntry queue="Q" allConsumersExclusiveByDefault="true"/>'),
    ),
    "consumers of different priorities": Case(
        [*given_ahead(consumer("c", "Q", 5), 1), *given_ahead(consumer("d", "Q?consumer.priority=7", 5), 1),
         *given_ahead(consumer("e", "Q?consumer.priority=7", 5), 1), *send("Q", "m0", "m1", "m2", "m3", "m4"),
         *given("d", 1), *given("e", 1), *given("c", 1), *given("d", 1), *given("e", 1), *given("c", 1)],
    ),
    "message groups": Case(
        [*consumer("c", "Q", 5), *consumer("d", "Q", 5), *send("Q", "a0", "a1", properties={"JMSXGroupID": "a"}),
         *send("Q", "b0", properties={"JMSXGroupID": "b"}), *send("Q", "m0", "m1"),
         *send("Q", "a2", properties={"JMSXGroupID": "a"}), *send("Q", "g0", properties={"JMSXGroupID": "g"}),
         *given("c"), *given("d"), *consumer("e", "Q", 5), *send("Q", "h0", properties={"JMSXGroupID": "h"}),
         *send("Q", "a3", properties={"JMSXGroupID": "a"}), *given("e", 3), *few("c", 3), *few("d", 3)],
    ),
    "a message group whose owner goes away": Case(
        [*given_ahead(consumer("c", "Q", 5), 1), *given_ahead(consumer("d", "Q", 5), 1),
         *send("Q", "a0", "a1", "a2", properties={"JMSXGroupID": "a"}), *send("Q", "m0"), *few("c"), *few("d", 2),
         end("c", "connection"), *few("d", 2), commit("d"), *few("d", 3)],
    ),
    "a message group that ends, and one that begins again": Case(
        [*consumer("c", "Q", 5), *consumer("d", "Q", 5), *send("Q", "a0", properties={"JMSXGroupID": "a"}),
         *send("Q", "a1", properties={"JMSXGroupID": "a", "JMSXGroupSeq": "-1"}), *send("Q", "m0"),
         *send("Q", "a2", properties={"JMSXGroupID": "a"}), *given("c"), *given("d"),
         *send("Q", "b0", properties={"JMSXGroupID": "b", "JMSXGroupSeq": "1"}), *send("Q", "m1"),
         *send("Q", "b1", properties={"JMSXGroupID": "b", "JMSXGroupSeq": "1"}), *few("c", 3), *few("d", 3)],
    ),
    "dead letters of a message group": Case(
        [*consumer("c", "Q", 0), *consumer("d", "Q", 0),
         *send("Q", "a0", "a1", properties={"JMSXGroupID": "a"}), *BOTH_FAIL,
         *drain(DLQ)],
    ),
    "priorities of messages": Case(
        [*[step for index, priority in enumerate((0, 9, 4)) for step in send("Q", f"m{index}", priority=priority)],
         *consumer("c", "Q", 0), *few("c"), rollback("c"), *given("c", 3), *drain(DLQ)],
    ),
    # -- browsers and what has expired -----------------------------------------------------------------------------
    "a browser": Case(
        [*send("Q", "m0", "m1"), browse("Q"), browse("Q"), *consumer("c", "Q", 0), browse("Q"), fails("c"), browse("Q"),
         browse(DLQ), *drain(DLQ)],
    ),
    "a browser finds what has expired": Case(
        [*send("Q", "m0", ttl_ms=300), *send("Q", "m1"), wait(700), browse("Q"), browse(DLQ), *drain("Q", DLQ)],
    ),
    "a browser finds what has expired with a consumer": Case(
        [*consumer("c", "Q", 0), *send("Q", "m0", ttl_ms=400), *send("Q", "m1"), wait(800), browse("Q"), browse(DLQ),
         *few("c", 2), commit("c"), *drain(DLQ)],
    ),
    "a browser does not see what a transaction has acknowledged": Case(
        [*consumer("c", "Q", 5, non_blocking_redelivery=True), *send("Q", "m0", "m1", "m2"), browse("Q"), *few("c", 2),
         browse("Q"), rollback("c"), browse("Q"), *few("c", 1), commit("c"), browse("Q")],
    ),
    "a redelivery that blocks nothing comes to a message that has expired": Case(
        [*consumer("c", "Q", 5, delay_ms=1000, non_blocking_redelivery=True), *send("Q", "m0", ttl_ms=800), *few("c"),
         rollback("c"), wait(400), browse(DLQ), wait(1500), *drain(DLQ), *few("c")],
    ),
    "a redelivery that blocks comes to a message that has expired": Case(
        [*consumer("c", "Q", 5, delay_ms=1000), *send("Q", "m0", ttl_ms=800), *few("c"),
         rollback("c"), wait(1900), *drain(DLQ), *few("c"), *drain(DLQ)],
    ),
    "the last that a consumer read has died when it goes away": Case(
        [*consumer("c", "Q", 5), *send("Q", "m0", ttl_ms=1500), *send("Q", "m1", "m2"), *few("c"), wait(2000),
         browse("Q"), end("c", "connection"), *drain("Q", DLQ)],
    ),
    "a browser of an exclusive consumer's queue": Case(
        [*consumer("c", "Q?consumer.exclusive=true", 0), *send("Q", "m0", "m1"), browse("Q"), *few("c", 2), browse("Q"),
         commit("c"), browse("Q")],
    ),
    "expired when it arrives, by the scheduler": Case(
        [*consumer("c", "Q", 0), *send("Q", "m0", ttl_ms=300, delay_ms=2000), wait(3500), browse("Q"), *few("c"),
         *drain(DLQ)],
        "", SCHEDULER,
    ),
    "expired when it arrives, with a transaction": Case(
        [*consumer("c", "R", 0), *consumer("d", "Q", 0),
         *send("Q", "m0", ttl_ms=300, session="c"), wait(800), commit("c"),
         *few("d"), browse("Q"), *drain(DLQ)],
    ),
    "expired when it arrives at nobody": Case(
        [*consumer("c", "R", 0), *send("Q", "m0", ttl_ms=300, session="c"), wait(800), commit("c"), browse(DLQ),
         *consumer("d", "Q", 0), *few("d"), *drain(DLQ)],
    ),
    "expired when a virtual topic copies it": Case(
        [*consumer("c", "Consumer.A.VirtualTopic.X", 0), *consumer("d", "R", 0),
         *send("topic://VirtualTopic.X", "m0", ttl_ms=300, session="d"), wait(800), commit("d"),
         *few("c"), *drain(DLQ)],
    ),
    "expired when it arrives at a topic that nobody subscribes to": Case(
        [*consumer("c", "R", 0),
         *send("topic://T", "m0", ttl_ms=300, session="c"), wait(800), commit("c"), *drain(DLQ)],
    ),
    "expired when it arrives at a subscription": Case(
        [*consumer("c", "R", 0), *subscriber("d", "T"), *send("topic://T", "m0", ttl_ms=300, session="c"), wait(800),
         commit("c"), *few("d"), *drain("DLQ.T", "DLQ.T.i-d:s", DLQ)],
        policies(strategy('<individualDeadLetterStrategy topicPrefix="DLQ." destinationPerDurableSubscriber="true"/>',
                          'topic=">"')),
    ),
    "expired when it arrives at a composite queue": Case(
        [*consumer("c", "R", 0), *send("IN", "m0", ttl_ms=300, session="c"), wait(800), commit("c"), *drain(DLQ)],
        virtual('<compositeQueue name="IN" forwardOnly="false"><forwardTo><queue physicalName="A"/></forwardTo>'
                "</compositeQueue>"),
    ),
    # -- advisory messages -----------------------------------------------------------------------------------------
    "a dead letter is told in an advisory topic": Case(
        [*consumer("a", f"{ADVISORY}MessageDLQd.Queue.Q", 0), *consumer("c", "Q", 1),
         *send("Q", "m0", "m1", properties={"n": "1"}), fails("c"), *few("a", 3), commit("a"), *drain(DLQ)],
    ),
    "what has expired is told in two advisory topics": Case(
        [*consumer("a", f"{ADVISORY}Expired.Queue.>,{ADVISORY}MessageDLQd.Queue.>", 0),
         *send("Q", "m0", ttl_ms=300), wait(700), browse("Q"), *few("a", 3), *drain(DLQ)],
    ),
    "what has no dead letter is told in an advisory topic where it has expired": Case(
        [*consumer("a", f"{ADVISORY}Expired.>,{ADVISORY}MessageDLQd.>", 0), *consumer("c", "Q", 0), *send("Q", "m0"),
         fails("c"), end("c", "connection"), *send("Q", "m1", ttl_ms=300), wait(700), browse("Q"), *few("a", 2)],
        policies(strategy("<discarding/>")),
    ),
    "dead letters of subscriptions are told in an advisory topic": Case(
        [*consumer("a", f"{ADVISORY}MessageDLQd.Topic.T", 0), *subscriber("c", "T"), *consumer("d", "topic://T", 0),
         *consumer("e", f"{ADVISORY}Expired.Topic.>", 0), *consumer("f", "R", 0), *send("topic://T", "m0"),
         *send("topic://T", "m1", ttl_ms=300, session="f"), fails("c"), fails("d"), wait(800), commit("f"),
         *few("a", 3), *few("e", 3), *drain(DLQ)],
    ),
    "the plugin's retries are told in no advisory topic": Case(
        [*consumer("a", f"{ADVISORY}MessageDLQd.>", 0), *consumer("c", "Q", 0), *send("Q", "m0"), *few("c"),
         rollback("c"), *few("a"), *few("c", 1, 2500), rollback("c"), *few("a", 2), *drain(DLQ)],
        plugin(), SCHEDULER,
    ),
    "a broker without advisory messages": Case(
        [*consumer("a", f"{ADVISORY}>", 0), *consumer("c", "Q", 0), *send("Q", "m0"), fails("c"), *few("a"),
         *drain(DLQ)],
        attributes='advisorySupport="false"',
    ),
    # -- pages -----------------------------------------------------------------------------------------------------
    "a page for a consumer, and more with its commit": Case(
        [*numbered(12), *consumer("c", "Q", 5), *few("c", 6), commit("c"), *few("c", 8)], page_sizes(maxPageSize=5),
    ),
    "a page for a consumer, and more with each acknowledgement": Case(
        [*numbered(12), *consumer("c", "Q", 5, acknowledge="auto"), *few("c", 13)], page_sizes(maxPageSize=5),
    ),
    "a page for a consumer, and more with its rollback": Case(
        [*numbered(12), *consumer("c", "Q", 5), *few("c", 6), rollback("c"), *few("c", 13)], page_sizes(maxPageSize=5),
    ),
    "a page for a consumer, and no more as it recovers": Case(
        [*numbered(12), *consumer("c", "Q", 5, acknowledge="client"), *few("c", 6), {"do": "recover", "session": "c"},
         *few("c", 7)],
        page_sizes(maxPageSize=5),
    ),
    "a message that comes brings a page": Case(
        [*numbered(12), *consumer("c", "Q", 5), *few("c", 6), *send("Q", "n"), *few("c", 6)], page_sizes(maxPageSize=5),
    ),
    "a consumer that comes brings a page": Case(
        [*numbered(12), *consumer("c", "Q", 5), *few("c", 6), *consumer("d", "Q", 5), *few("c", 4), *few("d", 4)],
        page_sizes(maxPageSize=5),
    ),
    "a browser brings pages": Case(
        [*numbered(32), *consumer("c", "Q", 5), *few("c", 6), browse("Q"), *few("c", 28)],
        page_sizes(maxPageSize=5, maxBrowsePageSize=7),
    ),
    "a look for what has expired brings pages": Case(
        [*numbered(22), *consumer("c", "Q", 5), *few("c", 6), wait(3500), *few("c", 18)],
        page_sizes(maxPageSize=5, maxExpirePageSize=13, expireMessagesPeriod=3000),
    ),
    "a consumer of prefetch 0 brings a page with each receive": Case(
        [*wanted(*[0] * 12, 1, 1), *given_ahead(selecting(consumer("c", "Q", 5), "n = 1"), 0), *few("c", 4)],
        page_sizes(maxPageSize=5),
    ),
    "who wants one of a page sees the next": Case(
        [*wanted(0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 1), *selecting(consumer("c", "Q", 5), "n = 1"), *few("c", 6),
         commit("c"), *few("c", 4)],
        page_sizes(maxPageSize=5),
    ),
    "who wants none of a page starves until the broker looks for what has expired": Case(
        [*wanted(*[0] * 12, 1, 1), *selecting(consumer("c", "Q", 5), "n = 1"), *few("c", 2), wait(3000), *few("c", 3)],
        page_sizes(maxPageSize=5, expireMessagesPeriod=3000),
    ),
    "who wants none of a page starves until somebody browses": Case(
        [*wanted(*[0] * 12, 1, 1), *selecting(consumer("c", "Q", 5), "n = 1"), *few("c", 2), browse("Q"),
         *few("c", 3)],
        page_sizes(maxPageSize=5),
    ),
    "pages of both kinds": Case(
        [*[step for index in range(12) for step in send("Q", f"m{index}", persistent=index % 3 == 0)],
         *consumer("c", "Q", 5), *few("c", 6), commit("c"), *few("c", 8)],
        page_sizes(maxPageSize=5),
    ),
    "a page that comes to others brings the next": Case(
        [*wanted(0, 0, 1, 1, 1, 0, 0, *[1] * 10), *selecting(consumer("c", "Q", 5), "n = 1"), *few("c", 4),
         *send("Q", "n", properties={"n": 0}), *few("c", 9)],
        page_sizes(maxPageSize=5),
    ),
    "a broker that starts again reads what it stored a few at a time": Case(
        [*numbered(2), *numbered(1, "e", ttl_ms=200), *numbered(9, "n"), wait(400), RESTART, *consumer("c", "Q", 5),
         *few("c", 5), *send("Q", "x", persistent=False), *few("c", 6)],
        page_sizes(maxPageSize=5),
    ),
    "a consumer that is killed leaves a page to the next": Case(
        [*numbered(22), *given_ahead(consumer("c", "Q", 5), 7), *few("c", 3), *killed("c"), *consumer("d", "Q", 5),
         *few("d", 14), commit("d"), *few("d", 12)],
        page_sizes(maxPageSize=5),
    ),
    "no pages at all": Case([*numbered(3), *consumer("c", "Q", 5), *few("c", 2), browse("Q")],
                            page_sizes(maxPageSize=0)),
    "a browser sees a page": Case([*numbered(12), browse("Q")], page_sizes(maxPageSize=5, maxBrowsePageSize=7)),
    "a browser without a page sees what is in memory": Case(
        [*numbered(12), browse("Q"), *consumer("c", "Q", 5), *few("c", 2), browse("Q")],
        page_sizes(maxPageSize=5, maxBrowsePageSize=0),
    ),
    "what has expired does not count where a browser reads it": Case(
        [*numbered(4, "e", ttl_ms=300), *numbered(12), wait(600), browse("Q"), *drain(DLQ)],
        page_sizes(maxPageSize=5, maxBrowsePageSize=7),
    ),
    "what has expired counts where a browser finds it in memory": Case(
        [*numbered(4, "e", ttl_ms=2500), *numbered(12), browse("Q"), wait(2800), browse("Q"), *drain(DLQ)],
        page_sizes(maxPageSize=5, maxBrowsePageSize=7),
    ),
    "what has expired behind a page stays": Case(
        [*numbered(6), *numbered(6, "e", ttl_ms=200), wait(2200), browse(DLQ), browse("Q"), *drain("Q", DLQ)],
        page_sizes(maxPageSize=5, expireMessagesPeriod=500, maxExpirePageSize=5),
    ),
    "what has expired before a page does not count": Case(
        [*numbered(3), *numbered(6, "e", ttl_ms=200), *numbered(9, "n"), *numbered(6, "f", ttl_ms=200), wait(2200),
         *drain(DLQ), browse("Q"), *drain("Q", DLQ)],
        page_sizes(maxPageSize=5, expireMessagesPeriod=500, maxExpirePageSize=5),
    ),
    "a broker that looks at nothing for what has expired": Case(
        [*numbered(1), *numbered(6, "e", ttl_ms=200), wait(2200), browse(DLQ), *drain("Q", DLQ)],
        page_sizes(maxPageSize=5, expireMessagesPeriod=500, maxExpirePageSize=0),
    ),
    "what has expired of a subscription, behind a page": Case(
        [*subscriber("c", "T"), end("c", "connection"), *send("topic://T", "m0", "m1", "m2", "m3", "m4", "m5"),
         *send("topic://T", "e0", "e1", "e2", "e3", ttl_ms=200), wait(2200), *drain(DLQ)],
        policies('<policyEntry topic=">" expireMessagesPeriod="500" maxExpirePageSize="8"/>'),
    ),
    "what has expired of a subscription with a consumer": Case(
        [*given_ahead(subscriber("c", "T"), 1), *send("topic://T", "m0", "m1"),
         *send("topic://T", "e0", "e1", ttl_ms=200), wait(2200), browse(DLQ), *few("c"), commit("c"), *few("c"),
         commit("c"), *few("c", 2), *drain(DLQ)],
        policies('<policyEntry topic=">" expireMessagesPeriod="500"/>'),
    ),
    "a queue that remembers one producer": Case(
        [*TWO[:-1], *send("topic://T", "m1", message="ID:a-1:1:1:1:1"),
         *send("topic://T", "m2", message="ID:b-1:1:1:1:1"), fails("c"), *drain(DLQ), fails("d"), *drain(DLQ)],
        policies(strategy(AUDIT_OFF, 'topic=">"'), f'<policyEntry queue="{DLQ}" maxProducersToAudit="1"/>'),
    ),
    # -- retries of the plugin -------------------------------------------------------------------------------------
    "the plugin retries": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), *few("c"), rollback("c"), *few("c", 1, 2500), rollback("c"),
         *few("c", 1, 4000), *drain(DLQ)],
        plugin(), SCHEDULER,
    ),
    "the plugin retries, and another consumer succeeds": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1", "m2"), *few("c"), rollback("c"),
         *given("c", 1), end("c", "connection"),
         *consumer("d", "Q", 0), *few("d", 1, 2500), commit("d"), *few("d"), *drain(DLQ)],
        plugin(), SCHEDULER,
    ),
    "the plugin's retries end after a restart": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), *few("c"), rollback("c"), RESTART, *consumer("d", "Q", 0),
         *few("d", 1, 3000), rollback("d"), *few("d", 1, 4000), *drain(DLQ)],
        plugin(), SCHEDULER,
    ),
    "the plugin leaves what expires": Case(
        [*send("Q", "m1", ttl_ms=300), wait(700), *consumer("c", "Q", 0), *few("c", 1, 2500), *drain(DLQ)],
        plugin(), SCHEDULER,
    ),
    "the plugin without a policy, and no fallback": Case(
        [*consumer("c", "R", 0), *send("R", "m1"), fails("c", 2500), *drain(DLQ)],
        plugin(fallbackToDeadLetter="false"), SCHEDULER,
    ),
    "the plugin without a dead letter at the end": Case(
        [*consumer("c", "Q", 0), *send("Q", "m1"), *few("c"), rollback("c"), *few("c", 1, 2500), rollback("c"),
         *few("c", 1, 4000), *drain(DLQ)],
        plugin(sendToDlqIfMaxRetriesExceeded="false"), SCHEDULER,
    ),
    # -- the discarding plugin -------------------------------------------------------------------------------------
    "dropOnly with a quotation": Case(
        [*consumer("c", "A.B", 0), *consumer("d", "A-B", 0), *send("A.B", "m1"), *send("A-B", "m2"),
         *BOTH_FAIL, *drain(DLQ)],
        r'<plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="\QA.B\E"/></plugins>',
    ),
    "dropOnly with a class without some": Case(
        [*consumer("c", "a", 0), *consumer("d", "b", 0), *send("a", "m1"), *send("b", "m2"), *BOTH_FAIL, *drain(DLQ)],
        '<plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="[a-c&amp;&amp;[^b]]"/></plugins>',
    ),
    "a broker that starts again and a subscription": Case(
        [*subscriber("c", "T", 3), *send("topic://T", "m1", "m2"), *few("c"), end("c", "connection"), RESTART,
         *subscriber("c", "T", 3), *few("c", 3)],
    ),
}  # fmt: skip
REFUSALS: dict[str, Case] = {
    "a durable subscriber where none is let in": Case(subscriber("c", "T"), "", 'rejectDurableConsumers="true"'),
    "a durable subscriber of advisory messages": Case(subscriber("c", "ActiveMQ.Advisory.Expired.Queue.Q")),
}
"""What the broker does not let clients do, at the last step."""
