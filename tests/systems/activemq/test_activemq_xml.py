"""Reading ``activemq.xml``: what it says, what is wrong with one, and what an attacker may try."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.activemq import plugins
from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.systems.activemq.dead_letter_strategies import Discarding, Individual, Shared
from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy
from simulator.systems.activemq.selectors import Selector
from simulator.systems.activemq.settings import BrokerSettings, DestinationPolicy
from simulator.systems.activemq.virtual_destinations import CompositeDestination, Forward
from simulator.systems.activemq.xml_elements import BYTES_MAX, DEPTH_MAX
from tests.systems.activemq.live.cases import virtual

LIVE = Path(__file__).parent / "live" / "activemq.xml"


def read(inner: str, attributes: str = 'schedulerSupport="true"') -> BrokerSettings:
    return broker_settings(
        f'<beans xmlns="http://www.springframework.org/schema/beans">\n'
        f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>\n{inner}\n</broker>\n</beans>'
    )


def policy(entries: str) -> str:
    return f"<destinationPolicy><policyMap><policyEntries>{entries}</policyEntries></policyMap></destinationPolicy>"


def strategy(inner: str) -> str:
    return policy(f'<policyEntry queue=">"><deadLetterStrategy>{inner}</deadLetterStrategy></policyEntry>')


def applying(settings: BrokerSettings, name: str, kind: str = "queue") -> DestinationPolicy | None:
    return settings.policies.lookup(Destination(kind, name))  # type: ignore[arg-type]


def test_the_example_of_the_documentation() -> None:
    settings = read(
        policy("""
        <!-- all queues -->
        <policyEntry queue=">">
          <deadLetterStrategy>
            <individualDeadLetterStrategy queuePrefix="DLQ." useQueueForQueueMessages="true" />
          </deadLetterStrategy>
        </policyEntry>""")
    )
    assert applying(settings, "orders") == DestinationPolicy(strategy=Individual(queue_prefix="DLQ."))
    assert applying(settings, "orders", "topic") is None


def test_the_configuration_of_the_live_tests() -> None:
    settings = broker_settings(LIVE.read_bytes())
    assert applying(settings, "ORDERS.a.EU") == DestinationPolicy(strategy=Individual(queue_prefix="EU."))
    assert applying(settings, "SOON.q") == DestinationPolicy(
        strategy=Shared(dead_letter_queue="queue://DEAD.SOON"), expire_period_ms=300
    )
    assert applying(settings, "GONE.q") == DestinationPolicy(strategy=Discarding())
    redelivery, discarding = settings.plugins
    assert isinstance(redelivery, plugins.Redelivery)
    assert redelivery.policies.lookup(Destination("queue", "AGAIN.x")) == RedeliveryPolicy(
        queue="AGAIN.>", maximum_redeliveries=1
    )
    assert discarding == plugins.Discarding(drop_all=False, drop_only=r"NEVER\..* GONE_TOO")


def test_prefixes_defaults_and_temporary_destinations() -> None:
    settings = broker_settings(
        """<amq:broker xmlns:amq="http://activemq.apache.org/schema/core" schedulerSupport="true">
        <amq:destinationPolicy><amq:policyMap>
          <amq:defaultEntry><amq:policyEntry expireMessagesPeriod="0"/></amq:defaultEntry>
          <amq:policyEntries>
            <amq:policyEntry tempQueue="true"><amq:deadLetterStrategy>
              <amq:sharedDeadLetterStrategy maxAuditDepth="7">
                <amq:deadLetterQueue><amq:topic physicalName="T"/></amq:deadLetterQueue>
              </amq:sharedDeadLetterStrategy>
            </amq:deadLetterStrategy></amq:policyEntry>
          </amq:policyEntries>
        </amq:policyMap></amq:destinationPolicy>
        <amq:plugins><amq:redeliveryPlugin fallbackToDeadLetter="false" sendToDlqIfMaxRetriesExceeded="false">
          <amq:redeliveryPolicyMap><amq:redeliveryPolicyMap><amq:defaultEntry>
            <amq:redeliveryPolicy maximumRedeliveries="4"/>
          </amq:defaultEntry></amq:redeliveryPolicyMap></amq:redeliveryPolicyMap>
        </amq:redeliveryPlugin><amq:loggingBrokerPlugin/></amq:plugins></amq:broker>"""
    )
    assert applying(settings, "any") == DestinationPolicy(expire_period_ms=0)
    assert applying(settings, "x", "temp-queue") == DestinationPolicy(
        strategy=Shared(dead_letter_queue="topic://T", max_audit_depth=7)
    )
    (plugin,) = settings.plugins
    assert isinstance(plugin, plugins.Redelivery)
    assert not plugin.fallback
    assert not plugin.dead_letter_when_exceeded
    assert plugin.policies.default == RedeliveryPolicy(maximum_redeliveries=4)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        (
            policy('\n<policyEntry expireMessagesPeriod="1"/>'),
            "line 4, column 1, <policyEntry>: expected one of queue,",
        ),
        (
            policy('<policyEntry queue="a" expireMessagePeriod="1"/>'),
            "line 3, column 46, <policyEntry>: there is no attribute 'expireMessagePeriod';"
            " did you mean 'expireMessagesPeriod'",
        ),
        (
            policy('<policyEntry queue="a"><deadletterStrategy/></policyEntry>'),
            "there is no <deadletterStrategy> in <policyEntry>; did you mean 'deadLetterStrategy'",
        ),
        ("<plugin/>", "there is no <plugin> in <broker>; did you mean 'plugins'"),
        (policy('<policyEntry queue=""/>'), "expected the name of a destination"),
        (policy('<policyEntry queue="a" expireMessagesPeriod="soon"/>'), "a whole number as expireMessagesPeriod"),
        (strategy("<ownStrategy/>"), "there is no <ownStrategy> in <deadLetterStrategy>; there are 'discarding'"),
        (strategy("<discarding/><discarding/>"), "expected one element in <deadLetterStrategy>, got another"),
        (strategy('<discarding colour="red"/>'), "<discarding>: there is no attribute 'colour'; there are"),
        (
            strategy('<sharedDeadLetterStrategy processExpired="maybe"/>'),
            "line 3, column 89, <sharedDeadLetterStrategy>: expected true or false as processExpired, got 'maybe'",
        ),
        (strategy('<sharedDeadLetterStrategy expiration="${ms}"/>'), "got the placeholder '${ms}'"),
        (
            strategy(
                '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName=""/></deadLetterQueue>'
                "</sharedDeadLetterStrategy>"
            ),
            "<queue>: expected the name of a destination",
        ),
        ('<plugins><discardingDLQBrokerPlugin dropOnly="("/></plugins>', "expected regular expressions as dropOnly"),
        ('<plugins><discardingDLQBrokerPlugin dropAll="yes"/></plugins>', "expected true or false as dropAll"),
        (
            "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>"
            '<redeliveryPolicy redeliveryDelay="10"/></defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap>'
            "</redeliveryPlugin></plugins>",
            "at least 1000 ms",
        ),
        ("<broker/>", "expected one <broker>, found 2"),
        (
            policy('<policyEntry queue="Q" memoryLimit="1.5mb"/>'),
            "a size as 1048576 or 10mb as memoryLimit, got '1.5mb'",
        ),
        (policy('<policyEntry topic="T" queue=""/>'), "expected the name of a destination, got ''"),
        (
            "<destinationInterceptors><virtualDestinationInterceptor/></destinationInterceptors>",
            "<virtualDestinationInterceptor>: expected <virtualDestinations> in it",
        ),
        (
            virtual(
                '<compositeQueue name="A"><forwardTo><filteredDestination selector="" queue="B"/></forwardTo>'
                "</compositeQueue>"
            ),
            "<filteredDestination>: expected a selector, got ''",
        ),
        ('<destinations><queue name="Q"/></destinations>', "<queue>: expected its name as physicalName"),
        (
            policy('<policyEntry queue="Q" id="${x}"/>'),
            "<policyEntry>: expected letters, digits, '.', '-' and '_' as id",
        ),
        (
            '<plugins><discardingDLQBrokerPlugin dropOnly="A.B a{,3}"/></plugins>',
            "got 'a{,3}': expected a number of repetitions in braces at character 2",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(inner: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(inner)
    assert str(raised.value).startswith("line ")
    assert said in str(raised.value)


CONFIGURER = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"


def test_a_placeholder_is_a_text_unless_a_bean_fills_it_in() -> None:
    inner = policy('<policyEntry queue="${name}" memoryLimit="1mb"/>')
    found = read(inner)
    assert [str(entry.key) for entry in found.policies.entries] == ["queue://${name}"]
    assert found.not_simulated[0].endswith("nothing in this file fills in '${name}', so it counts as written")
    with pytest.raises(ConfigurationError, match="expected the name of a destination, got the placeholder"):
        broker_settings(f'<beans><bean class="{CONFIGURER}"/><broker>{inner}</broker></beans>')
    broker_settings(f'<beans><bean class="{CONFIGURER}"/><broker persistent="true" dataDirectory="${{x}}"/></beans>')


def test_the_redelivery_plugin_wants_the_scheduler() -> None:
    with pytest.raises(ConfigurationError, match="schedulerSupport"):
        read("<plugins><redeliveryPlugin/></plugins>", attributes="")


@pytest.mark.parametrize("attribute", ['useJmx="yes"', 'deleteAllMessagesOnStartup="1"', 'persistent="x"'])
def test_a_switch_of_the_broker_is_true_or_false(attribute: str) -> None:
    name = attribute.partition("=")[0]
    with pytest.raises(ConfigurationError, match=f"<broker>: expected true or false as {name}, got "):
        read("", attributes=attribute)
    assert read(policy('<policyEntry queue="Q" memoryLimit="10 MB"/>'), attributes='useJmx="False"')


def test_what_is_asked_for_in_vain_is_said() -> None:
    topic = virtual('<virtualTopic name="V.>" setOriginalDestination="false"/>')
    said = read(topic, attributes='keepDurableSubsActive="false"').not_simulated
    assert [each.partition(" is not simulated")[0] for each in said] == [
        "line 4: setOriginalDestination",
        "line 2: keepDurableSubsActive",
    ]


LAUGHS = '<!DOCTYPE broker [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><broker>&b;</broker>'
FILE = '<!DOCTYPE broker [<!ENTITY f SYSTEM "file:///etc/passwd">]><broker>&f;</broker>'
PARAMETER = '<!DOCTYPE broker [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd"> %p;]><broker/>'
DTD = '<!DOCTYPE broker SYSTEM "http://127.0.0.1:1/x.dtd"><broker/>'


@pytest.mark.parametrize("attack", [LAUGHS, FILE, PARAMETER, DTD])
def test_a_document_with_a_dtd_is_refused(attack: str) -> None:
    with pytest.raises(ConfigurationError, match="without DTD, entities and external references"):
        broker_settings(attack)


def test_a_document_that_is_too_large_or_too_deep_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected at most 1,000,000 bytes"):
        broker_settings("<broker>" + " " * BYTES_MAX + "</broker>")
    with pytest.raises(ConfigurationError, match="inside each other"):
        broker_settings("<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1))


@pytest.mark.parametrize("text", ["", "broker", "<broker>", "<broker/><broker/>", b"\xff\xfe\x00", "<a/>"])
def test_what_is_no_configuration(text: str | bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^line "):
        broker_settings(text)


@given(st.one_of(st.text(), st.binary()), st.text(alphabet="<>/&;\"'= abrokeqn"))
def test_nonsense_raises_nothing_else(nonsense: str | bytes, markup: str) -> None:
    for text in (nonsense, f"<broker>{markup}</broker>"):
        try:
            broker_settings(text)
        except ConfigurationError:
            continue


def test_what_is_asked_for_and_not_done_is_told() -> None:
    entry = '<policyEntry queue=">" prioritizedMessages="true" strictOrderDispatch="false" queuePrefetch="1"/>'
    told = read(policy(entry) + "<networkConnectors/>").not_simulated
    assert [each.partition(": ")[2].partition(" is")[0] for each in told] == [
        "prioritizedMessages",
        "queuePrefetch",
        "networkConnectors",
    ]
    assert read(policy('<policyEntry queue=">"/>')).not_simulated == ()


def test_virtual_destinations() -> None:
    assert [str(each.destination) for each in read("").virtual_destinations] == ["topic://VirtualTopic.>"]
    assert read("", 'useVirtualTopics="false"').virtual_destinations == ()
    nothing = "<filteredDestination queue='B'/>"  # without selector it lets nothing through
    (found,) = read(
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations><compositeTopic name='T'>"
        f"<forwardTo>{nothing}<filteredDestination selector=\"a='b'\" topic='X'/></forwardTo></compositeTopic>"
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    ).virtual_destinations
    assert found == CompositeDestination(
        name="T", kind="topic", forward_to=(Forward(Destination("topic", "X"), Selector("a='b'")),)
    )
