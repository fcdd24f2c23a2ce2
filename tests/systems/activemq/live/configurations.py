"""Configurations of which it is not plain whether a broker starts with them: the inside of <broker>, and attributes.

What the real broker answered is in ``recorded_configurations.json``.
"""

from __future__ import annotations

from tests.systems.activemq.live.cases import SCHEDULER, policies, virtual


def _strategy(inner: str) -> str:
    return policies(f'<policyEntry queue=">"><deadLetterStrategy>{inner}</deadLetterStrategy></policyEntry>')


def _plugin(attributes: str = "", policy: str = 'maximumRedeliveries="1"') -> str:
    return (
        f"<plugins><redeliveryPlugin {attributes}><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        f'<redeliveryPolicy queue=">" {policy}/></redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap>'
        "</redeliveryPlugin></plugins>"
    )


def _composite(name: str, kind: str = "Queue") -> str:
    forward = '<forwardTo><queue physicalName="Z"/></forwardTo>'
    return f'<composite{kind} name="{name}">{forward}</composite{kind}>'


_GIVEN: dict[str, str | tuple[str, str]] = {
    "unknown attribute of policyEntry": policies('<policyEntry queue=">" expireMessagePeriod="1"/>'),
    "element in the wrong case": policies(
        '<policyEntry queue=">"><deadletterStrategy><discarding/></deadletterStrategy></policyEntry>'
    ),
    "attribute in the wrong case": '<plugins><discardingDLQBrokerPlugin dropall="false"/></plugins>',
    "empty deadLetterStrategy": policies('<policyEntry queue=">"><deadLetterStrategy/></policyEntry>'),
    "deadLetterQueue as attribute": _strategy('<sharedDeadLetterStrategy deadLetterQueue="queue://X"/>'),
    "deadLetterQueue as attribute, bare": _strategy('<sharedDeadLetterStrategy deadLetterQueue="X"/>'),
    "two queues in deadLetterQueue": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="A"/>'
        '<queue physicalName="B"/></deadLetterQueue></sharedDeadLetterStrategy>'
    ),
    "two deadLetterQueue": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="A"/>'
        '</deadLetterQueue><deadLetterQueue><queue physicalName="B"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "empty deadLetterQueue": _strategy("<sharedDeadLetterStrategy><deadLetterQueue/></sharedDeadLetterStrategy>"),
    "two strategies": _strategy("<discarding/><sharedDeadLetterStrategy/>"),
    "two deadLetterStrategy": policies(
        '<policyEntry queue=">"><deadLetterStrategy><discarding/></deadLetterStrategy>'
        "<deadLetterStrategy><sharedDeadLetterStrategy/></deadLetterStrategy></policyEntry>"
    ),
    "unknown strategy": _strategy("<ownStrategy/>"),
    "discardingDeadLetterStrategy": _strategy("<discardingDeadLetterStrategy/>"),
    "deadLetterStrategy as attribute": policies('<policyEntry queue=">" deadLetterStrategy="#x"/>'),
    "queue and topic": policies(
        '<policyEntry queue="Q" topic="T"><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>'
    ),
    "no queue or topic": policies("<policyEntry><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>"),
    "queue without a name": _strategy(
        "<sharedDeadLetterStrategy><deadLetterQueue><queue/></deadLetterQueue></sharedDeadLetterStrategy>"
    ),
    "queue with name=": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue name="X"/></deadLetterQueue></sharedDeadLetterStrategy>'
    ),
    "queue with an empty name": policies('<policyEntry queue=""/>'),
    "physicalName empty": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName=""/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "blanks around a number": _strategy('<sharedDeadLetterStrategy expiration=" 10 "/>'),
    "blanks around a boolean": _strategy('<sharedDeadLetterStrategy processExpired=" false "/>'),
    "boolean yes": _strategy('<sharedDeadLetterStrategy processExpired="yes"/>'),
    "boolean 1": _strategy('<sharedDeadLetterStrategy processExpired="0"/>'),
    "boolean True": _strategy('<sharedDeadLetterStrategy processExpired="True"/>'),
    "number 10s": _strategy('<sharedDeadLetterStrategy expiration="10s"/>'),
    "number +10": _strategy('<sharedDeadLetterStrategy expiration="+10"/>'),
    "number 010": _strategy('<sharedDeadLetterStrategy expiration="010"/>'),
    "number 1.5": _strategy('<sharedDeadLetterStrategy expiration="1.5"/>'),
    "number too large": _strategy('<sharedDeadLetterStrategy expiration="99999999999999999999"/>'),
    "int too large": _strategy('<sharedDeadLetterStrategy maxAuditDepth="9999999999"/>'),
    "number empty": _strategy('<sharedDeadLetterStrategy expiration=""/>'),
    "placeholder without configurer": _strategy('<sharedDeadLetterStrategy expiration="${x}"/>'),
    "placeholder in a name": policies('<policyEntry queue="${x}"/>'),
    "class attribute": _strategy('<sharedDeadLetterStrategy class="x"/>'),
    "id attribute": _strategy('<sharedDeadLetterStrategy id="x"/>'),
    "name attribute": _strategy('<sharedDeadLetterStrategy name="x"/>'),
    "attribute of another namespace": _strategy('<sharedDeadLetterStrategy xmlns:p="urn:x" p:foo="x"/>'),
    "spring p: attribute": _strategy(
        '<sharedDeadLetterStrategy xmlns:p="http://www.springframework.org/schema/p" p:expiration="5"/>'
    ),
    "spring bean": _strategy(
        '<bean xmlns="http://www.springframework.org/schema/beans"'
        ' class="org.apache.activemq.broker.region.policy.SharedDeadLetterStrategy"/>'
    ),
    "text in element": _strategy("<sharedDeadLetterStrategy>hello</sharedDeadLetterStrategy>"),
    "text in policyEntries": "<destinationPolicy><policyMap><policyEntries>hello</policyEntries></policyMap>"
    "</destinationPolicy>",
    "child of individual": _strategy(
        '<individualDeadLetterStrategy><deadLetterQueue><queue physicalName="A"/>'
        "</deadLetterQueue></individualDeadLetterStrategy>"
    ),
    "policyEntry without policyEntries": '<destinationPolicy><policyMap><policyEntry queue=">"/></policyMap>'
    "</destinationPolicy>",
    "no policyMap": '<destinationPolicy><policyEntries><policyEntry queue=">"/></policyEntries></destinationPolicy>',
    "unknown in policyEntries": "<destinationPolicy><policyMap><policyEntries><policyentry queue='Q'/></policyEntries>"
    "</policyMap></destinationPolicy>",
    "redeliveryPolicy in policyEntries": "<destinationPolicy><policyMap><policyEntries><redeliveryPolicy queue='Q'/>"
    "</policyEntries></policyMap></destinationPolicy>",
    "two destinationPolicy": policies('<policyEntry queue="A"/>') + policies('<policyEntry queue="B"/>'),
    "two policyMaps": "<destinationPolicy><policyMap/><policyMap/></destinationPolicy>",
    "two policyEntries": '<destinationPolicy><policyMap><policyEntries><policyEntry queue="A"/></policyEntries>'
    '<policyEntries><policyEntry queue="B"/></policyEntries></policyMap>'
    "</destinationPolicy>",
    "defaultEntry": "<destinationPolicy><policyMap><defaultEntry><policyEntry/></defaultEntry></policyMap>"
    "</destinationPolicy>",
    "same key twice": policies('<policyEntry queue="A"/>', '<policyEntry queue="A"/>'),
    "unknown broker child": "<destinationPolicys/>",
    "unknown broker child 2": "<plugin/>",
    "plugins: unknown": "<plugins><redeliveryplugin/></plugins>",
    "plugins: empty": "<plugins/>",
    "plugin without scheduler": (_plugin(), ""),
    "plugin": (_plugin(), SCHEDULER),
    "plugin: unknown attribute": (_plugin('fallBackToDeadLetter="true"'), SCHEDULER),
    "plugin: delay below 1000": (_plugin(policy='redeliveryDelay="10"'), SCHEDULER),
    "plugin: initial delay below 1000": (_plugin(policy='initialRedeliveryDelay="10"'), SCHEDULER),
    "plugin: without map": ("<plugins><redeliveryPlugin/></plugins>", SCHEDULER),
    "plugin: redeliveryPolicyMap once": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyEntries>"
        '<redeliveryPolicy queue=">"/></redeliveryPolicyEntries></redeliveryPolicyMap>'
        "</redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "plugin: policy without destination": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap>"
        '<redeliveryPolicyEntries><redeliveryPolicy maximumRedeliveries="1"/>'
        "</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap>"
        "</redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "plugin: backOffMultiplier 1,5": (_plugin(policy='backOffMultiplier="1,5"'), SCHEDULER),
    "plugin: collisionAvoidancePercent 200": (_plugin(policy='collisionAvoidancePercent="200"'), SCHEDULER),
    "dropOnly bad regex": '<plugins><discardingDLQBrokerPlugin dropOnly="("/></plugins>',
    "broker: unknown attribute": ("", 'schedulerSuport="true"'),
    "broker: persistent yes": ("", 'persistent="yes"'),
    "virtual: unknown attribute": virtual(
        '<compositeQueue name="A" forwardonly="true"><forwardTo><queue physicalName="B"/></forwardTo></compositeQueue>'
    ),
    "virtual: no forwardTo": virtual('<compositeQueue name="A"/>'),
    "virtual: no name": virtual('<compositeQueue><forwardTo><queue physicalName="B"/></forwardTo></compositeQueue>'),
    "virtual: bad selector": virtual(
        '<compositeQueue name="A"><forwardTo>'
        '<filteredDestination selector="a = = b" queue="B"/></forwardTo></compositeQueue>'
    ),
    "virtual: no selector": virtual(
        '<compositeQueue name="A"><forwardTo><filteredDestination queue="B"/></forwardTo></compositeQueue>'
    ),
    "virtual: no destination": virtual(
        '<compositeQueue name="A"><forwardTo><filteredDestination selector="a=1"/></forwardTo></compositeQueue>'
    ),
    "virtual: text as forward": virtual('<compositeQueue name="A"><forwardTo>B</forwardTo></compositeQueue>'),
    "virtual: mirroredQueue": "<destinationInterceptors><mirroredQueue/></destinationInterceptors>",
    "interceptors empty": "<destinationInterceptors/>",
    "order of the broker's children": "<transportConnectors/>" + policies('<policyEntry queue="A"/>'),
    "two plugins elements": "<plugins><discardingDLQBrokerPlugin/></plugins><plugins><loggingBrokerPlugin/></plugins>",
    "policyEntry tempQueue false": policies('<policyEntry tempQueue="false"/>'),
    "policyEntry queue and tempQueue": policies('<policyEntry queue="A" tempQueue="true"/>'),
    "expireMessagesPeriod negative": policies('<policyEntry queue="A" expireMessagesPeriod="-1"/>'),
    **{
        f"empty {name}": policies(f'<policyEntry queue=">"><{name}/></policyEntry>')
        for name in ("pendingQueuePolicy", "dispatchPolicy", "slowConsumerStrategy", "destination")
    },
    **{
        f"empty {name}": f"<{name}/>"
        for name in ("destinationPolicy", "persistenceAdapter", "systemUsage", "taskRunnerFactory", "brokerContext")
    },
    "empty defaultEntry": "<destinationPolicy><policyMap><defaultEntry/></policyMap></destinationPolicy>",
    "empty redeliveryPolicyMap": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap/></redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "blanks around schedulerSupport": ("", 'schedulerSupport=" true "'),
    "blanks around useVirtualTopics": ("", 'useVirtualTopics=" true "'),
    "blanks around persistent": ("", 'persistent=" false"'),
    "PERSISTENT in capitals": ("", 'persistent="FALSE"'),
    "name: two composite destinations": virtual(_composite("A") + _composite("A", "Topic")),
    "name: a composite and a virtual topic": virtual('<virtualTopic name="A"/>' + _composite("A")),
    "name: two virtual topics": virtual('<virtualTopic name=">"/><virtualTopic name=">" prefix="B.*."/>'),
    "name: virtual topics without": virtual('<virtualTopic/><virtualTopic prefix="B.*."/>'),
    "name: one of two": virtual(_composite("A,B") + _composite("B", "Topic")),
    "name: one of two with a blank": virtual(_composite("A B") + _composite("B", "Topic")),
    "name: of a connector": '<transportConnectors><transportConnector name="A" uri="tcp://127.0.0.1:0"/>'
    "</transportConnectors>" + virtual(_composite("A")),
    "name: the broker's": virtual(_composite("dlx")),
    "id: twice": policies('<policyEntry queue="A" id="x"/>', '<policyEntry queue="B" id="x"/>'),
    "id: the name of another": policies('<policyEntry queue="A" id="x"/>') + virtual(_composite("x")),
    "name: empty, of a composite queue": virtual(_composite("")),
    "name: blank, of a composite topic": virtual(_composite(" ", "Topic")),
    "name: empty, of a virtual topic": virtual('<virtualTopic name=""/>'),
    "reference as queue": policies('<policyEntry queue="#x"/>'),
    "reference as prefix": _strategy('<individualDeadLetterStrategy queuePrefix="#x"/>'),
    "two hashes as queue": policies('<policyEntry queue="##x"/>'),
    **{
        f"queue={name}": policies(f'<policyEntry queue="{name}"/>')
        for name in ("queue://Q", "queue://", "A,topic://B", "A,", ",", "?", "Q?x=1", " Q ", " ")
    },
    **{
        f"filtered queue={name}": virtual(
            f'<compositeQueue name="A"><forwardTo><filteredDestination selector="a = 1" queue="{name}"/></forwardTo>'
            "</compositeQueue>"
        )
        for name in ("queue://Q", "topic://", "A,topic://B", "other://B")
    },
    **{
        f"selector: {selector}": virtual(
            f'<compositeQueue name="A"><forwardTo><filteredDestination selector="{selector}" queue="B"/></forwardTo>'
            "</compositeQueue>"
        )
        for selector in ("a != 1", "a == 1", "a = 1 b", "NOT a = 1", "'x' &lt; a", "a")
    },
    "limit strategy: unknown attribute": policies(
        '<policyEntry topic="T"><pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limt="50"/>'
        "</pendingMessageLimitStrategy></policyEntry>"
    ),
    "slow consumers: no boolean": policies(
        '<policyEntry queue="Q"><slowConsumerStrategy><abortSlowConsumerStrategy abortConnection="x"/>'
        "</slowConsumerStrategy></policyEntry>"
    ),
    "plugin that logs: unknown attribute": '<plugins><loggingBrokerPlugin logAl="true"/></plugins>',
    "store: unknown attribute": '<persistenceAdapter><kahaDB directoy="d"/></persistenceAdapter>',
    **{
        f"memory: {limit}": f'<systemUsage><systemUsage><memoryUsage><memoryUsage limit="{limit}"/></memoryUsage>'
        "</systemUsage></systemUsage>"
        for limit in ("lots", "64 mb")
    },
    "memory: percent": '<systemUsage><systemUsage><memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>'
    "</systemUsage></systemUsage>",
    "management: attribute in the wrong case": "<managementContext>"
    '<managementContext createconnector="false"/></managementContext>',
    "management: no connector": '<managementContext><managementContext createConnector="false"/></managementContext>',
    "memoryLimit 1mb": policies('<policyEntry queue="A" memoryLimit="1mb"/>'),
    # -- placeholders that nothing fills in ------------------------------------------------------------------------
    "placeholder as a namespace": _strategy('<sharedDeadLetterStrategy xmlns:p="${x}" p:foo="x"/>'),
    "placeholder in an attribute of another namespace": _strategy(
        '<sharedDeadLetterStrategy xmlns:p="urn:x" p:foo="${x}"/>'
    ),
    "placeholder as physicalName": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="${x}"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "placeholder as queuePrefix": _strategy('<individualDeadLetterStrategy queuePrefix="${x}"/>'),
    "placeholder as a boolean": _strategy('<sharedDeadLetterStrategy processExpired="${x}"/>'),
    "placeholder as memoryLimit": policies('<policyEntry queue="A" memoryLimit="${x}"/>'),
    "placeholder as id": policies('<policyEntry queue="A" id="${x}"/>'),
    "placeholder as persistent": ("", 'persistent="${x}"'),
    "placeholder as schedulerSupport": ("", 'schedulerSupport="${x}"'),
    "placeholder as dataDirectory": ("", 'dataDirectory="${x}"'),
    "placeholder as useVirtualTopics": ("", 'useVirtualTopics="${x}"'),
    "placeholder as the name of a composite queue": virtual(_composite("${x}")),
    "placeholder as prefix of a virtual topic": virtual('<virtualTopic name=">" prefix="${x}"/>'),
    "placeholder as selector": virtual(
        '<compositeQueue name="A"><forwardTo><filteredDestination selector="${x}" queue="B"/></forwardTo>'
        "</compositeQueue>"
    ),
    "placeholder in the plugin's policy": (_plugin(policy='maximumRedeliveries="${x}"'), SCHEDULER),
    "placeholder as text": policies('<policyEntry queue="A">${x}</policyEntry>'),
    # -- regular expressions of Java -------------------------------------------------------------------------------
    **{
        f"dropOnly {pattern}": f'<plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="{pattern}"/></plugins>'
        for pattern in (
            *(r"\QA.B\E", r"\QA.B", r"A\E", r"\QA(\E B", "[a-z&amp;&amp;[^b]]", "[a", "[]", "[]a]", "[^]", "[a]]"),
            *("*a", "a**", "a++", "a{2,1}", "a{2}", "a{,3}", "{", "a{", "}", "a{x}", ")", "(?i)a", "(?&lt;n&gt;a)"),
            *("(?P&lt;n&gt;a)", "(?R)", "(?|a|b)", "(?#c)a", "(?&gt;a)", r"(?&lt;n&gt;a)\k&lt;n&gt;", r"\k&lt;n&gt;"),
            *(r"\p{Alpha}", r"\p{Foo}", r"\p{L}", r"\pL", r"\y", r"\h+", r"\x{41}", r"\x4", r"\u0041", r"\1", "A..B"),
            *(
                "(?&lt;=a+)b",
                "(?&lt;=a)b",
                r"\Z",
                r"\G",
                r"\R",
                r"\K",
                r"\N{DIGIT ONE}",
                "[[:alpha:]]",
                "[z-a]",
                "",
                "  ",
            ),
            *(
                "a|*b",
                "${x}",
                "a\\",
                r"\cA",
                "[a--b]",
                r"\Q[\E",
                r"[\Q]\E]",
                "(?x)a#(",
                r"\m",
                r"\_",
                "(?z)a",
                r"\07",
                r"\8",
            ),
        )
    },
    # -- selectors that ask for XML --------------------------------------------------------------------------------
    **{
        f"selector: {selector}": virtual(
            f'<compositeQueue name="A"><forwardTo><filteredDestination selector="{selector}" queue="B"/></forwardTo>'
            "</compositeQueue>"
        )
        for selector in ("XPATH '/a'", "XPATH '('", "XPATH a", "XQUERY '/a'", "a = 1 AND XPATH '/a'")
    },
    # -- as an outsider writes them --------------------------------------------------------------------------------
    "durable consumers rejected": ("", 'rejectDurableConsumers="true"'),
    "durable consumers rejected, in capitals": ("", 'rejectDurableConsumers="TRUE"'),
    "exclusive by default": policies('<policyEntry queue=">" allConsumersExclusiveByDefault="true"/>'),
    "policyMap without destinationPolicy": (
        '<policyMap><policyEntries><policyEntry queue="A"/></policyEntries></policyMap>'
    ),
    "strategy without its element": policies('<policyEntry queue="A"><sharedDeadLetterStrategy/></policyEntry>'),
    "strategy in the broker": "<deadLetterStrategy><discarding/></deadLetterStrategy>",
    "redelivery policy in a policyEntry": policies(
        '<policyEntry queue="A"><redeliveryPolicy maximumRedeliveries="3"/></policyEntry>'
    ),
    "plugin outside of plugins": '<redeliveryPlugin fallbackToDeadLetter="true"/>',
    "plugin with one map": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><defaultEntry><redeliveryPolicy/></defaultEntry>"
        "</redeliveryPolicyMap></redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "plugin without a map": ("<plugins><redeliveryPlugin/></plugins>", SCHEDULER),
    "plugin twice": ("<plugins><redeliveryPlugin/><redeliveryPlugin/></plugins>", SCHEDULER),
    "plugin: destination in the policy": (_plugin(policy='destination="queue://A"'), SCHEDULER),
    "plugin: a delay of 999": (_plugin(policy='redeliveryDelay="999"'), SCHEDULER),
    "plugin: maximumRedeliveryDelay 10": (_plugin(policy='maximumRedeliveryDelay="10"'), SCHEDULER),
    "plugin: maximumRedeliveries -7": (_plugin(policy='maximumRedeliveries="-7"'), SCHEDULER),
    "plugin: maximumRedeliveries 1.0": (_plugin(policy='maximumRedeliveries="1.0"'), SCHEDULER),
    "plugin: backOffMultiplier -1": (_plugin(policy='backOffMultiplier="-1"'), SCHEDULER),
    "plugin: preDispatchCheck": (_plugin(policy='preDispatchCheck="false"'), SCHEDULER),
    "plugin: a topic's policy": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        '<redeliveryPolicy topic="T" maximumRedeliveries="1"/></redeliveryPolicyEntries></redeliveryPolicyMap>'
        "</redeliveryPolicyMap></redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "plugin: a policy for nothing": (
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        '<redeliveryPolicy maximumRedeliveries="1"/></redeliveryPolicyEntries></redeliveryPolicyMap>'
        "</redeliveryPolicyMap></redeliveryPlugin></plugins>",
        SCHEDULER,
    ),
    "scheduler: yes": ("", 'schedulerSupport="yes"'),
    "scheduler: 1": ("", 'schedulerSupport="1"'),
    "scheduler: empty": ("", 'schedulerSupport=""'),
    "comment in the policies": policies('<!-- A --><policyEntry queue="A"/>'),
    "cdata in the policies": policies('<![CDATA[ ]]><policyEntry queue="A"/>'),
    "character reference in a name": policies('<policyEntry queue="A&#46;B"/>'),
    "a name with a star inside": policies('<policyEntry queue="A*B"/>'),
    "a name with > inside": policies('<policyEntry queue="A.>.B"/>'),
    "a name with two dots": policies('<policyEntry queue="A..B"/>'),
    "a name that ends with a dot": policies('<policyEntry queue="A."/>'),
    "another namespace's element": policies('<x:policyEntry xmlns:x="urn:x" queue="A"/>'),
    "no namespace": policies('<policyEntry xmlns="" queue="A"/>'),
    "individual: destinationPerDurableSubscriber": _strategy(
        '<individualDeadLetterStrategy destinationPerDurableSubscriber="true" topicPrefix="T." '
        'useQueueForTopicMessages="0"/>'
    ),
    "individual: queueSuffix": _strategy('<individualDeadLetterStrategy queueSuffix=".DLQ" topicSuffix=""/>'),
    "individual: queueSufix": _strategy('<individualDeadLetterStrategy queueSufix=".DLQ"/>'),
    "individual: deadLetterQueue": _strategy(
        '<individualDeadLetterStrategy><deadLetterQueue><queue physicalName="A"/></deadLetterQueue>'
        "</individualDeadLetterStrategy>"
    ),
    "discarding: processExpired": _strategy('<discarding processExpired="false" expiration="5"/>'),
    "discarding: deadLetterQueue": _strategy(
        '<discarding><deadLetterQueue><queue physicalName="A"/></deadLetterQueue></discarding>'
    ),
    "shared: queuePrefix": _strategy('<sharedDeadLetterStrategy queuePrefix="A."/>'),
    "shared: a topic": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><topic physicalName="A"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "shared: a temporary queue": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><tempQueue physicalName="A"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "shared: a pattern": _strategy(
        '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="A.>"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy>"
    ),
    "shared: text": _strategy("<sharedDeadLetterStrategy>A</sharedDeadLetterStrategy>"),
    "shared: maxProducersToAudit": _strategy('<sharedDeadLetterStrategy maxProducersToAudit="-1" maxAuditDepth="0"/>'),
    "shared: enableAudit in capitals": _strategy('<sharedDeadLetterStrategy enableAudit="FALSE"/>'),
    "composite: copyMessage": virtual(
        '<compositeQueue name="A" copyMessage="false" concurrentSend="true"><forwardTo><queue physicalName="B"/>'
        "</forwardTo></compositeQueue>"
    ),
    "composite: a tempQueue as forward": virtual(
        '<compositeQueue name="A"><forwardTo><tempQueue physicalName="B"/></forwardTo></compositeQueue>'
    ),
    "composite: empty forwardTo": virtual('<compositeQueue name="A"><forwardTo/></compositeQueue>'),
    "virtual topic: dropOnResourceLimit": virtual('<virtualTopic name=">" dropOnResourceLimit="true" local="1"/>'),
    "virtual topic: forwardTo": virtual('<virtualTopic name=">"><forwardTo/></virtualTopic>'),
    "two interceptors": virtual(_composite("A")) + virtual(_composite("B")),
    "two systemUsage": '<systemUsage><systemUsage sendFailIfNoSpace="true"/></systemUsage>' * 2,
    "expireMessagesPeriod 1e3": policies('<policyEntry queue="A" expireMessagesPeriod="1e3"/>'),
    "expireMessagesPeriod 0x10": policies('<policyEntry queue="A" expireMessagesPeriod="0x10"/>'),
    "queuePrefetch -1": policies('<policyEntry queue="A" queuePrefetch="-1"/>'),
    "queuePrefetch a word": policies('<policyEntry queue="A" queuePrefetch="many"/>'),
    "prioritizedMessages": policies('<policyEntry queue="A" prioritizedMessages="true"/>'),
    "messageGroupMapFactoryType": policies(
        '<policyEntry queue="A" messageGroupMapFactoryType="bucket?bucketCount=8"/>'
    ),
    "messageGroupMapFactoryType unknown": policies('<policyEntry queue="A" messageGroupMapFactoryType="x"/>'),
    "store of memory": "<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>",
    "deletion at the start": ("", 'deleteAllMessagesOnStartup="maybe"'),
}
CONFIGURATIONS = {name: given if isinstance(given, tuple) else (given, "") for name, given in _GIVEN.items()}
NOT_SIMULATED = frozenset({"spring p: attribute", "spring bean"})
"""A broker starts with these, and the simulator does not know what they say."""
