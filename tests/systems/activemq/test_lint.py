"""What lint finds in an ``activemq.xml`` is lost in the simulator, and what it advises keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from simulator.cli.main import main
from simulator.systems.activemq.activemq_xml import ConfigurationError
from simulator.systems.activemq.lint import lint
from tests.systems.activemq.live.cases import (
    AUDIT_OFF,
    CASES,
    NO_AUDIT,
    PLUGIN,
    SCHEDULER,
    TO_A_AND_B,
    TWO,
    Case,
    configuration,
    fails,
    policies,
    shared,
    strategy,
    virtual,
    wait,
)
from tests.systems.activemq.live.configurations import CONFIGURATIONS, NOT_SIMULATED
from tests.systems.activemq.live.scenarios import DLQ, Steps, consumer, drain, send
from tests.systems.activemq.test_recorded import simulated, takes

KEEPS = 'processNonPersistent="true"'
ALL_KEPT = policies(
    strategy(f"<sharedDeadLetterStrategy {KEEPS}/>"), strategy(f"<sharedDeadLetterStrategy {KEEPS}/>", 'topic=">"')
)
DEAD = '<deadLetterQueue><queue physicalName="D"/></deadLetterQueue>'
FILTER = '<filteredDestination selector="x=1" queue="Z"/>'
FILTERED = f'<compositeQueue name="{DLQ}"><forwardTo>{FILTER}</forwardTo></compositeQueue>'
SHIPPED = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
    <property name="locations"><value>file:${activemq.conf}/credentials.properties</value></property>
  </bean>
  <bean id="reader" class="org.example.LogReader" lazy-init="false" scope="singleton" init-method="start"/>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="here" dataDirectory="${activemq.data}">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry topic=">">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>
    <managementContext><managementContext createConnector="false"/></managementContext>
    <persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
      <storeUsage><storeUsage limit="100 gb"/></storeUsage>
      <tempUsage><tempUsage limit="50 gb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://0.0.0.0:61616?maximumConnections=1000"/>
      <transportConnector name="ws" uri="ws://0.0.0.0:61614?maximumConnections=1000"/>
    </transportConnectors>
    <shutdownHooks><bean xmlns="http://www.springframework.org/schema/beans" class="org.example.Hook"/></shutdownHooks>
  </broker>
  <import resource="jetty.xml"/>
</beans>
"""
"""A file with the elements of the one that comes with ActiveMQ 5.17 to 6."""
ONE = [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c")]


class Loss(NamedTuple):
    """A configuration that loses messages, what lint says of it, the same as lint advises, and a history."""

    lost: str
    said: str
    kept: str
    steps: Steps
    queues: tuple[str, ...] = (DLQ,)
    attributes: str = ""
    kept_attributes: str = ""


def individual(attributes: str = "", key: str = 'queue=">"') -> str:
    return strategy(f'<individualDeadLetterStrategy queuePrefix="D." topicPrefix="D." {attributes}/>', key)


def discarding_plugin(attributes: str) -> str:
    return f"<plugins><discardingDLQBrokerPlugin {attributes}/></plugins>"


def redelivery(attributes: str = "", policy: str = 'queue="Q"') -> str:
    return (
        f"<plugins><redeliveryPlugin {attributes}><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        f'<redeliveryPolicy {policy} maximumRedeliveries="1" initialRedeliveryDelay="1000" redeliveryDelay="1000"/>'
        "</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"
    )


LOSSES: dict[str, Loss] = {
    "a strategy that discards": Loss(
        policies(strategy("<discarding/>")),
        "error all dead letters of queue://> are lost; a shared or individual strategy keeps them",
        policies(strategy("<sharedDeadLetterStrategy/>")),
        ONE,
    ),
    "a default that discards": Loss(
        "<destinationPolicy><policyMap><defaultEntry><policyEntry><deadLetterStrategy><discarding/></deadLetterStrategy>"
        "</policyEntry></defaultEntry></policyMap></destinationPolicy>",
        "error all dead letters of destinations without an entry are lost; ",
        "",
        ONE,
    ),
    "a queue without a name": Loss(
        policies(
            strategy("<sharedDeadLetterStrategy><deadLetterQueue><queue/></deadLetterQueue></sharedDeadLetterStrategy>")
        ),
        "error all dead letters of queue://> are lost: the queue has no name; give it a physicalName",
        policies(strategy(shared("DEAD"))),
        ONE,
        ("DEAD", DLQ),
    ),
    "a shared strategy that names the queue itself": Loss(
        policies(strategy(shared("Q"), 'queue="Q"')),
        "error all dead letters of queue://Q are lost: they would go to the queue in which the messages are",
        policies(strategy(shared("DEAD"), 'queue="Q"')),
        ONE,
        ("DEAD",),
    ),
    "an individual strategy without a prefix": Loss(
        policies(strategy('<individualDeadLetterStrategy queuePrefix=""/>')),
        "error all dead letters of queue://> are lost: they would go to the queue in which the messages are; ",
        policies(individual()),
        ONE,
        ("D.Q",),
    ),
    "a composite dead letter queue with a filter alone": Loss(
        virtual(FILTERED),
        f"error dead letters in queue://{DLQ} that no filteredDestination of queue://{DLQ} selects are lost; ",
        virtual(FILTERED.replace("name=", 'forwardOnly="false" name=')),
        ONE,
        ("Z", DLQ),
    ),
    "a topic of a shared strategy": Loss(
        policies(strategy(shared("DEAD").replace("<queue ", "<topic "))),
        "error dead letters go to topic://DEAD and are lost unless it has subscribers; send them to a queue",
        policies(strategy(shared("DEAD"))),
        ONE,
        ("DEAD", DLQ),
    ),
    "topics of an individual strategy": Loss(
        policies(individual('useQueueForQueueMessages="false"')),
        "error dead letters go to topic://D.> and are lost unless it has subscribers; send them to a queue",
        policies(individual()),
        ONE,
        ("D.Q", DLQ),
    ),
    "an audit that is off, and subscribers": Loss(
        NO_AUDIT,
        f"error of a message that two durable subscribers reject, queue://{DLQ} takes one dead letter, audit or not; an"
        ' individual strategy with destinationPerDurableSubscriber="true" keeps both',
        policies(individual('enableAudit="false" destinationPerDurableSubscriber="true"', 'topic=">"')),
        [*TWO, fails("c"), fails("d")],
        (DLQ, "D.T.i-c:s", "D.T.i-d:s"),
    ),
    "an audit that is off for topics one by one": Loss(
        policies(individual('enableAudit="false"', 'topic=">"')),
        "error of a message that two durable subscribers reject, queue://D.> takes one dead letter, audit or not; the"
        ' strategy with destinationPerDurableSubscriber="true" keeps both',
        policies(individual('enableAudit="false" destinationPerDurableSubscriber="true"', 'topic=">"')),
        [*TWO, fails("c"), fails("d")],
        (DLQ, "D.T", "D.T.i-c:s", "D.T.i-d:s"),
    ),
    "an audit that is off, and a send to two queues": Loss(
        policies(strategy(AUDIT_OFF)),
        f"error of a message that two consumers of a send to several queues reject, queue://{DLQ} takes one dead"
        " letter, audit or not; an individual strategy keeps both",
        policies(individual('enableAudit="false"')),
        [*TO_A_AND_B, fails("c"), fails("d")],
        (DLQ, "D.A", "D.B"),
    ),
    "the audit of the dead letter queue off, too": Loss(
        policies(strategy(AUDIT_OFF), f'<policyEntry queue="{DLQ}" enableAudit="false"/>'),
        f"reject, queue://{DLQ} takes one dead letter, while the first is there; an individual strategy keeps both",
        policies(individual('enableAudit="false"')),
        [*TO_A_AND_B, fails("c"), fails("d")],
        (DLQ, "D.A", "D.B"),
    ),
    "what is not persistent": Loss(
        policies(strategy(shared("DEAD"))),
        "warning messages of queue://> that are not persistent have no dead letter; processNonPersistent",
        policies(strategy(shared("DEAD").replace("Strategy>", f"Strategy {KEEPS}>", 1))),
        [*consumer("c", "Q", 0), *send("Q", "m1", persistent=False), fails("c")],
        ("DEAD", DLQ),
    ),
    "an entry without a strategy among others": Loss(
        ALL_KEPT.replace("</policyEntries>", '<policyEntry queue="Q"/></policyEntries>'),
        "warning messages of destinations without a strategy of their own that are not persistent have no dead letter",
        ALL_KEPT,
        [*consumer("c", "Q", 0), *send("Q", "m1", persistent=False), fails("c")],
    ),
    "what expires": Loss(
        policies(strategy('<sharedDeadLetterStrategy processExpired="false"/>')),
        "warning messages of queue://> that expire have no dead letter; ",
        policies(strategy("<sharedDeadLetterStrategy/>")),
        [*send("Q", "m1", ttl_ms=100), wait(500), *drain("Q")],
    ),
    "dead letters that expire": Loss(
        policies(strategy('<sharedDeadLetterStrategy expiration="500"/>')),
        f'warning dead letters in queue://{DLQ} expire after 500 ms and are lost; expiration="0" keeps them',
        policies(strategy('<sharedDeadLetterStrategy expiration="0"/>')),
        [*ONE, wait(1_000)],
    ),
    "the plugin that discards": Loss(
        discarding_plugin(""),
        'error all dead letters are lost (dropAll); dropAll="false" with dropOnly names some',
        discarding_plugin('dropAll="false" dropOnly="X"'),
        ONE,
    ),
    "the plugin that discards some": Loss(
        discarding_plugin('dropAll="false" dropOnly="X Q.*"'),
        "error dead letters of destinations that match Q.* are lost (dropOnly); ",
        discarding_plugin('dropAll="false" dropOnly="X"'),
        ONE,
    ),
    "the redelivery plugin, and subscribers": Loss(
        PLUGIN,
        "error what a durable subscriber rejects is lost: the copy that the plugin sends has the same identifier; "
        "policies for queues alone",
        redelivery(),
        [*TWO, fails("c", 2500), fails("d", 2500)],
        attributes=SCHEDULER,
        kept_attributes=SCHEDULER,
    ),
    "the redelivery plugin without a policy": Loss(
        redelivery('fallbackToDeadLetter="false"', 'queue="R"'),
        'error what is rejected on destinations that have no policy here is lost; fallbackToDeadLetter="true"',
        redelivery("", 'queue="R"'),
        ONE,
        attributes=SCHEDULER,
        kept_attributes=SCHEDULER,
    ),
    "the redelivery plugin over the limit": Loss(
        redelivery('sendToDlqIfMaxRetriesExceeded="false"'),
        "error what is rejected more often than its policy allows is lost; sendToDlqIfMaxRetriesExceeded",
        redelivery(),
        [*consumer("c", "Q", 0), *send("Q", "m1"), fails("c", 2500)],
        attributes=SCHEDULER,
        kept_attributes=SCHEDULER,
    ),
    "a broker that keeps nothing": Loss(
        "",
        'warning all messages are lost when the broker stops; persistent="true" keeps',
        "",
        [*ONE, {"do": "restart"}],
        attributes='persistent="false"',
        kept_attributes='persistent="true"',
    ),
    "a broker that begins with nothing": Loss(
        "",
        "warning all messages and durable subscriptions are lost when the broker starts (deleteAllMessagesOnStartup)",
        "",
        [*send("Q", "m1"), {"do": "restart"}],
        ("Q",),
        attributes='deleteAllMessagesOnStartup="true"',
        kept_attributes="",
    ),
}


def said(xml: str) -> list[str]:
    return [f"{each.severity} {each.text}; {each.fix}" for each in lint(xml).findings]


def left(inner: str, attributes: str, loss: Loss) -> int:
    steps = [*loss.steps, *drain(*loss.queues)]
    outcomes = simulated(Case(steps, inner, attributes))["outcomes"]
    return sum(len(each["messages"]) for each in outcomes if each["step"] >= len(loss.steps))


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_found_is_lost_and_what_is_advised_keeps_it(name: str) -> None:
    loss = LOSSES[name]
    found = [each for each in said(configuration(loss.lost, loss.attributes)) if loss.said in each]
    assert len(found) == 1, said(configuration(loss.lost, loss.attributes))
    assert found[0] not in said(configuration(loss.kept, loss.kept_attributes))
    assert left(loss.lost, loss.attributes, loss) < left(loss.kept, loss.kept_attributes, loss)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("two subscribers without audit have one dead letter", "two durable subscribers reject"),
        ("a composite send without audit has one dead letter", "consumers of a send to several queues reject"),
        ("but not while the first is there", "while the first is there"),
        ("the plugin loses what subscribers reject", "what a durable subscriber rejects is lost"),
        ("a dead letter queue without a name loses", "the queue has no name"),
    ],
)
def test_what_a_real_broker_lost_is_found(name: str, part: str) -> None:
    assert any(each.startswith("error ") and part in each for each in said(CASES[name].xml))


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if takes(name) and name not in NOT_SIMULATED])
def test_what_a_broker_starts_with_is_linted(name: str) -> None:
    inner, attributes = CONFIGURATIONS[name]
    found = lint(configuration(inner, attributes)).findings
    assert all(each.line > 0 and each.column > 0 for each in found)


def test_a_configuration_that_loses_nothing_has_no_finding() -> None:
    assert said(configuration(ALL_KEPT)) == []
    assert said(configuration(policies(strategy("<discarding/>")) + ALL_KEPT)) == []  # of two lists the last counts


def test_what_is_as_a_broker_comes_has_no_finding() -> None:
    linted = lint(SHIPPED)
    assert linted.findings == ()
    assert any("ActiveMQ.DLQ has the dead letters of persistent messages" in each for each in linted.assumed)


@pytest.mark.parametrize("retries", range(1, 8))
def test_deliveries_add_up_where_client_and_plugin_redeliver(retries: int) -> None:
    """As ActiveMQ 5.17.2 was seen to do: 28 deliveries where both allow 6 redeliveries."""
    entry = f'<redeliveryPolicy queue="Q" maximumRedeliveries="{retries}"/>'
    inner = (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        f"{entry}</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"
    )
    steps = [*consumer("c", "Q", 6), *send("Q", "m1"), fails("c", idle_ms=60_000)]
    (processed,) = simulated(Case(steps, inner, SCHEDULER))["outcomes"]
    said_of_it = [each for each in said(configuration(inner, SCHEDULER)) if "first the client redelivers" in each]
    assert [f"{processed['processed']} times" in each for each in said_of_it] == [True]
    assert retries != 6 or processed["processed"] == 28


@pytest.mark.parametrize(
    ("attribute", "part"),
    [
        ('maxPageSize="5"', "starves behind 5 messages for others (maxPageSize)"),
        ('maxExpirePageSize="5"', "that expire behind 5 others have no dead letter"),
        ('maxExpirePageSize="5" expireMessagesPeriod="0"', ""),
        ('maxBrowsePageSize="5"', "sees the first 5 messages (maxBrowsePageSize)"),
        ('maxBrowsePageSize="0"', "sees what consumers made the broker read, and nothing else"),
        ('maxPageSize="200" maxExpirePageSize="400" maxBrowsePageSize="400"', ""),
    ],
)
def test_small_pages_are_told(attribute: str, part: str) -> None:
    found = said(configuration(policies(f'<policyEntry queue="Q" {attribute}/>')))
    assert [part in each for each in found] == [True] * bool(part)


def test_a_subscription_that_ends_is_told() -> None:
    (found,) = said(configuration("", 'offlineDurableSubscriberTimeout="1000"'))
    assert "what waits for durable subscribers that stay away for 1000 ms is lost" in found


def test_one_queue_with_a_dead_letter_queue_of_its_own_needs_no_audit() -> None:
    own = f'<sharedDeadLetterStrategy {KEEPS} enableAudit="false">{DEAD}</sharedDeadLetterStrategy>'
    of_q, of_r = (strategy(own, f'queue="{name}"') for name in ("Q", "R"))
    assert not [each for each in lint(configuration(policies(of_q))).findings if each.severity == "error"]
    assert [each for each in lint(configuration(policies(of_q, of_r))).findings if each.severity == "error"]


def test_what_is_undefined_is_told() -> None:
    twice = policies(strategy(shared("D1"), 'queue="Q"'), strategy(shared("D2"), 'queue="Q"'))
    undefined = [each for each in lint(configuration(twice)).findings if "a broker takes either" in each.text]
    assert [(each.line, each.severity) for each in undefined] == [(8, "warning"), (9, "warning")]


def test_dead_letters_that_expire_where_nothing_is_kept_are_lost() -> None:
    nameless = "<sharedDeadLetterStrategy><deadLetterQueue><queue/></deadLetterQueue></sharedDeadLetterStrategy>"
    expiring = shared("D").replace("Strategy>", 'Strategy expiration="9">', 1)
    found = said(configuration(policies(strategy(expiring, 'queue="Q"'), strategy(nameless, 'queue="D"'))))
    assert 'warning dead letters in queue://D expire after 9 ms and are lost; expiration="0" keeps them' in found


def test_temporary_queues_have_no_dead_letters_with_the_plugin() -> None:
    only = discarding_plugin('dropAll="false" dropTemporaryTopics="false"')
    assert 'warning dead letters of temporary queues are lost; dropTemporaryQueues="false" keeps them' in said(
        configuration(only)
    )


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    file = tmp_path / "activemq.xml"
    entry = '<policyEntry queue="A" prioritizedMessages="true">\n  <deadLetterStrategy>\n    <discarding/>\n'
    file.write_text(configuration(policies(f"{entry}</deadLetterStrategy></policyEntry>")))
    return file


def test_dlx_lint_of_a_configuration(xml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(xml)]) == 1
    out = capsys.readouterr().out
    assert f"error {xml}: line 10, column 5: all dead letters of queue://A are lost; a shared or" in out
    assert f"{xml}: 1 error, 1 warning in 1 policy of ActiveMQ's broker\n" in out
    assert "Not checked: line 8: prioritizedMessages is not simulated: " in out
    assert main(["lint", str(xml), "--fail-on", "lost"]) == 1


def test_dlx_lint_of_a_configuration_for_machines(xml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(xml), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["system"], report["policies"]) == ("activemq", 1)
    assert [(each["severity"], each["line"]) for each in report["findings"]] == [("warning", 6), ("error", 10)]
    assert main(["lint", str(xml), "--format", "github"]) == 1
    assert f"::error file={xml},line=10,col=5,title=activemq::all dead letters of queue://A" in capsys.readouterr().out
    assert main(["lint", str(xml), "--baseline", str(xml)]) == 64


def test_a_configuration_that_no_broker_starts_with_is_bad_data(xml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xml.write_text(configuration(policies('<policyEntry queue="A" expireMessagePeriod="1"/>')))
    assert main(["lint", str(xml)]) == 65
    err = capsys.readouterr().err
    assert f"{xml}: line 8, column 1, <policyEntry>: there is no attribute 'expireMessagePeriod'; did you mean" in err
    with pytest.raises(ConfigurationError, match="not well-formed"):
        lint("<broker>")
