"""The names that a broker of 5.17 takes in its configuration: elements, their attributes by type, what may be in them.

Those that the simulator reads are complete; of the others only the names of the elements are here, and what is in the
most common ones in ``xml_other_names.py``.

Source: the schema of activemq-spring 5.17.2.
"""

from __future__ import annotations

import msgspec


class Content(msgspec.Struct, frozen=True):
    """What may be in an element that stands for a property.

    ``elements`` is ``None`` for any element; ``single``: one of them, and none only where it may be ``empty``.
    """

    elements: tuple[str, ...] | None
    single: bool = False
    empty: bool = False


def one(elements: str) -> Content:
    """Return the content of one of these elements."""
    return Content(tuple(elements.split()), single=True)


def several(elements: str) -> Content:
    """Return the content of any number of these elements."""
    return Content(tuple(elements.split()))


ANYTHING = Content(None)
A_BEAN = Content(None, single=True)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One element: its attributes by type, separated by blanks, and its properties that are elements.

    ``switch``: true or false, of which the schema knows nothing; ``memory``: a size as ``10mb``.
    """

    text: str
    boolean: str = ""
    short: str = ""
    integer: str = ""
    long: str = ""
    decimal: str = ""
    switch: str = ""
    memory: str = ""
    properties: dict[str, Content] = {}

    @property
    def attributes(self) -> dict[str, str]:
        """The type of each attribute."""
        types = ("text", "boolean", "short", "integer", "long", "decimal", "switch", "memory")
        return {name: kind for kind in types for name in getattr(self, kind).split()}


FORMS: dict[str, Form] = {
    "broker": Form(
        boolean=(
            "adjustUsageLimits allowTempAutoCreationOnSend anonymousProducerAdvisorySupport cacheTempDestinations "
            "dedicatedTaskRunner enableMessageExpirationOnActiveDurableSubs enableStatistics keepDurableSubsActive "
            "monitorConnectionSplits networkConnectorStartAsync populateJMSXUserID populateUserNameInMBeans "
            "rejectDurableConsumers restartAllowed rollbackOnlyOnAsyncException shutdownOnMasterFailure "
            "splitSystemUsageForProducersConsumers start startAsync useAuthenticatedPrincipalForJMSXUserID "
            "useLocalHostBrokerName useLoggingForShutdownErrors useMirroredQueues useShutdownHook "
            "useTempMirroredQueues useVirtualDestSubs useVirtualDestSubsOnCreation useVirtualTopics"
        ),
        integer=(
            "consumerSystemUsagePortion maxPurgedDestinationsPerSweep maxSchedulerRepeatAllowed "
            "persistenceThreadPriority producerSystemUsagePortion schedulePeriodForDestinationPurge "
            "schedulePeriodForDiskUsageCheck storeOpenWireVersion systemExitOnShutdownExitCode taskRunnerPriority "
            "timeBeforePurgeTempDestinations"
        ),
        long=(
            "mbeanInvocationTimeout offlineDurableSubscriberTaskSchedule offlineDurableSubscriberTimeout "
            "waitForSlaveTimeout"
        ),
        switch=(
            "advisorySupport deleteAllMessagesOnStartup passiveSlave persistent schedulerSupport "
            "shutdownOnSlaveFailure systemExitOnShutdown useJmx waitForSlave"
        ),
        text=(
            "adminView brokerContext brokerId brokerName brokerObjectName consumerSystemUsage dataDirectory "
            "dataDirectoryFile destinationFactory destinationPolicy diskUsageCheckRegrowThreshold id "
            "ioExceptionHandler jobSchedulerStore managementContext messageAuthorizationPolicy "
            "persistenceAdapter persistenceFactory persistenceTaskRunnerFactory producerSystemUsage regionBroker "
            "schedulerDirectory schedulerDirectoryFile sslContext startException systemUsage taskRunnerFactory "
            "tempDataStore tmpDataDirectory vmConnectorURI"
        ),
        properties={
            "adminView": A_BEAN,
            "brokerContext": A_BEAN,
            "brokerObjectName": ANYTHING,
            "consumerSystemUsage": one("systemUsage"),
            "dataDirectoryFile": ANYTHING,
            "destinationFactory": A_BEAN,
            "destinationInterceptors": several("mirroredQueue virtualDestinationInterceptor"),
            "destinationPolicy": one("policyMap"),
            "destinations": several("queue tempQueue tempTopic topic"),
            "ioExceptionHandler": one("defaultIOExceptionHandler jDBCIOExceptionHandler leaseLockerIOExceptionHandler"),
            "jmsBridgeConnectors": several("jmsQueueConnector jmsTopicConnector"),
            "jobSchedulerStore": A_BEAN,
            "managementContext": one("managementContext"),
            "messageAuthorizationPolicy": A_BEAN,
            "networkConnectorURIs": ANYTHING,
            "networkConnectors": several("ldapNetworkConnector multicastNetworkConnector networkConnector"),
            "persistenceAdapter": one(
                "jdbcPersistenceAdapter journalPersistenceAdapter kahaDB mKahaDB memoryPersistenceAdapter"
            ),
            "persistenceFactory": one("journalPersistenceAdapterFactory"),
            "persistenceTaskRunnerFactory": Content(("taskRunnerFactory",), single=True, empty=True),
            "plugins": several(
                "authorizationPlugin connectionDotFilePlugin destinationDotFilePlugin destinationPathSeparatorPlugin "
                "destinationsPlugin discardingDLQBrokerPlugin forcePersistencyModeBrokerPlugin "
                "jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin jaasDualAuthenticationPlugin "
                "loggingBrokerPlugin multicastTraceBrokerPlugin partitionBrokerPlugin redeliveryPlugin "
                "runtimeConfigurationPlugin simpleAuthenticationPlugin statisticsBrokerPlugin "
                "timeStampingBrokerPlugin traceBrokerPathPlugin udpTraceBrokerPlugin virtualSelectorCacheBrokerPlugin"
            ),
            "producerSystemUsage": one("systemUsage"),
            "proxyConnectors": ANYTHING,
            "regionBroker": one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
            "schedulerDirectoryFile": ANYTHING,
            "services": several(
                "broker brokerService database-locker forwardingBridge inboundQueueBridge inboundTopicBridge "
                "jdbcPersistenceAdapter jmsQueueConnector jmsTopicConnector jobSchedulerUsage "
                "journalPersistenceAdapterFactory kahaDB ldapNetworkConnector lease-database-locker mKahaDB "
                "managementContext memoryUsage multicastNetworkConnector networkConnector outboundQueueBridge "
                "outboundTopicBridge pListStoreImpl proxyConnector shared-file-locker storeUsage systemUsage "
                "tempUsage transact-database-locker"
            ),
            "shutdownHooks": ANYTHING,
            "sslContext": one("sslContext"),
            "startException": A_BEAN,
            "systemUsage": one("systemUsage"),
            "taskRunnerFactory": Content(("taskRunnerFactory",), single=True, empty=True),
            "tempDataStore": one("pListStoreImpl"),
            "tmpDataDirectory": ANYTHING,
            "transportConnectorURIs": ANYTHING,
            "transportConnectors": several("transportConnector"),
            "vmConnectorURI": ANYTHING,
        },
    ),
    "policyMap": Form(
        text="defaultEntry id",
        properties={
            "defaultEntry": one("policyEntry"),
            "entries": A_BEAN,
            "policyEntries": ANYTHING,
        },
    ),
    "policyEntry": Form(
        boolean=(
            "advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages advisoryForFastProducers "
            "advisoryForSlowConsumers advisoryWhenFull allConsumersExclusiveByDefault alwaysRetroactive "
            "doOptimzeMessageStorage enableAudit gcInactiveDestinations gcWithNetworkConsumers includeBodyForAdvisory "
            "lazyDispatch optimizedDispatch persistJMSRedelivered prioritizedMessages producerFlowControl "
            "reduceMemoryFootprint sendAdvisoryIfNoConsumers sendDuplicateFromStoreToDLQ sendFailIfNoSpace "
            "strictOrderDispatch tempQueue tempTopic useCache useConsumerPriority usePrefetchExtension "
            "useTopicSubscriptionInflightStats"
        ),
        integer=(
            "consumersBeforeDispatchStarts cursorMemoryHighWaterMark durableTopicPrefetch maxAuditDepth "
            "maxBrowsePageSize maxDestinations maxExpirePageSize maxPageSize maxProducersToAudit maxQueueAuditDepth "
            "optimizeMessageStoreInFlightLimit queueBrowserPrefetch queuePrefetch storeUsageHighWaterMark "
            "timeBeforeDispatchStarts topicPrefetch"
        ),
        long=(
            "blockedProducerWarningInterval expireMessagesPeriod inactiveTimeoutBeforeGC inactiveTimoutBeforeGC "
            "minimumMessageSize sendFailIfNoSpaceAfterTimeout"
        ),
        memory="memoryLimit",
        text=(
            "deadLetterStrategy destination dispatchPolicy id messageEvictionStrategy "
            "messageGroupMapFactory messageGroupMapFactoryType networkBridgeFilterFactory "
            "pendingDurableSubscriberPolicy pendingMessageLimitStrategy pendingQueuePolicy pendingSubscriberPolicy "
            "queue slowConsumerStrategy subscriptionRecoveryPolicy topic"
        ),
        properties={
            "deadLetterStrategy": one("discarding individualDeadLetterStrategy sharedDeadLetterStrategy"),
            "destination": one("queue tempQueue tempTopic topic"),
            "dispatchPolicy": one(
                "clientIdFilterDispatchPolicy priorityDispatchPolicy priorityNetworkDispatchPolicy "
                "roundRobinDispatchPolicy simpleDispatchPolicy strictOrderDispatchPolicy"
            ),
            "messageEvictionStrategy": one(
                "oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy "
                "uniquePropertyMessageEvictionStrategy"
            ),
            "messageGroupMapFactory": one(
                "cachedMessageGroupMapFactory messageGroupHashBucketFactory simpleMessageGroupMapFactory"
            ),
            "networkBridgeFilterFactory": one(
                "conditionalNetworkBridgeFilterFactory defaultNetworkBridgeFilterFactory"
            ),
            "pendingDurableSubscriberPolicy": one(
                "fileDurableSubscriberCursor storeDurableSubscriberCursor vmDurableCursor"
            ),
            "pendingMessageLimitStrategy": one(
                "constantPendingMessageLimitStrategy prefetchRatePendingMessageLimitStrategy"
            ),
            "pendingQueuePolicy": one("fileQueueCursor storeCursor vmQueueCursor"),
            "pendingSubscriberPolicy": one("fileCursor vmCursor"),
            "slowConsumerStrategy": one("abortSlowAckConsumerStrategy abortSlowConsumerStrategy"),
            "subscriptionRecoveryPolicy": one(
                "fixedCountSubscriptionRecoveryPolicy fixedSizedSubscriptionRecoveryPolicy "
                "lastImageSubscriptionRecoveryPolicy noSubscriptionRecoveryPolicy "
                "queryBasedSubscriptionRecoveryPolicy retainedMessageSubscriptionRecoveryPolicy "
                "timedSubscriptionRecoveryPolicy"
            ),
        },
    ),
    "sharedDeadLetterStrategy": Form(
        boolean="enableAudit processExpired processNonPersistent",
        integer="maxAuditDepth maxProducersToAudit",
        long="expiration",
        text="deadLetterQueue id",
        properties={
            "deadLetterQueue": one("queue tempQueue tempTopic topic"),
        },
    ),
    "individualDeadLetterStrategy": Form(
        boolean=(
            "destinationPerDurableSubscriber enableAudit processExpired processNonPersistent useQueueForQueueMessages "
            "useQueueForTopicMessages"
        ),
        integer="maxAuditDepth maxProducersToAudit",
        long="expiration",
        text="id queuePrefix queueSuffix topicPrefix topicSuffix",
    ),
    "discarding": Form(
        boolean="enableAudit processExpired processNonPersistent",
        integer="maxAuditDepth maxProducersToAudit",
        long="expiration",
        text="deadLetterQueue id",
        properties={
            "deadLetterQueue": one("queue tempQueue tempTopic topic"),
        },
    ),
    "queue": Form(
        boolean="DLQ",
        text="id name physicalName properties",
        properties={
            "compositeDestinations": several("queue tempQueue tempTopic topic"),
            "properties": ANYTHING,
        },
    ),
    "topic": Form(
        boolean="DLQ",
        text="id name physicalName properties",
        properties={
            "compositeDestinations": several("queue tempQueue tempTopic topic"),
            "properties": ANYTHING,
        },
    ),
    "tempQueue": Form(
        boolean="DLQ",
        long="sequenceId",
        text="connection connectionId id name physicalName properties",
        properties={
            "compositeDestinations": several("queue tempQueue tempTopic topic"),
            "connection": ANYTHING,
            "properties": ANYTHING,
        },
    ),
    "tempTopic": Form(
        boolean="DLQ",
        long="sequenceId",
        text="connection connectionId id name physicalName properties",
        properties={
            "compositeDestinations": several("queue tempQueue tempTopic topic"),
            "connection": ANYTHING,
            "properties": ANYTHING,
        },
    ),
    "redeliveryPlugin": Form(
        boolean="fallbackToDeadLetter sendToDlqIfMaxRetriesExceeded",
        text="adminConnectionContext id next redeliveryPolicyMap",
        properties={
            "adminConnectionContext": A_BEAN,
            "next": one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
            "redeliveryPolicyMap": one("redeliveryPolicyMap"),
        },
    ),
    "redeliveryPolicyMap": Form(
        text="defaultEntry id",
        properties={
            "defaultEntry": one("redeliveryPolicy"),
            "entries": A_BEAN,
            "redeliveryPolicyEntries": ANYTHING,
        },
    ),
    "redeliveryPolicy": Form(
        boolean="preDispatchCheck tempQueue tempTopic useCollisionAvoidance useExponentialBackOff",
        decimal="backOffMultiplier",
        integer="maximumRedeliveries",
        long="initialRedeliveryDelay maximumRedeliveryDelay redeliveryDelay",
        short="collisionAvoidancePercent",
        text="destination id queue topic",
        properties={
            "destination": one("queue tempQueue tempTopic topic"),
        },
    ),
    "discardingDLQBrokerPlugin": Form(
        boolean="dropAll dropTemporaryQueues dropTemporaryTopics",
        integer="reportInterval",
        text="dropOnly id",
    ),
    "virtualDestinationInterceptor": Form(
        text="id",
        properties={
            "virtualDestinations": several("compositeQueue compositeTopic virtualTopic"),
        },
    ),
    "virtualTopic": Form(
        boolean="concurrentSend dropOnResourceLimit local selectorAware setOriginalDestination transactedSend",
        text="id name postfix prefix",
    ),
    "compositeQueue": Form(
        boolean="concurrentSend copyMessage forwardOnly sendWhenNotMatched",
        text="id name",
        properties={
            "forwardTo": ANYTHING,
        },
    ),
    "compositeTopic": Form(
        boolean="concurrentSend copyMessage forwardOnly sendWhenNotMatched",
        text="id name",
        properties={
            "forwardTo": ANYTHING,
        },
    ),
    "filteredDestination": Form(
        text="destination filter id queue selector topic",
        properties={
            "destination": one("queue tempQueue tempTopic topic"),
            "filter": ANYTHING,
        },
    ),
    "mirroredQueue": Form(
        boolean="copyMessage",
        text="brokerService id postfix prefix",
        properties={
            "brokerService": one("broker brokerService"),
        },
    ),
}
"""The elements that the simulator reads."""

_ALL = """
abortSlowAckConsumerStrategy abortSlowConsumerStrategy authenticationUser authorizationEntry authorizationMap
authorizationPlugin axionJDBCAdapter blobJDBCAdapter broker brokerService bytesJDBCAdapter
cachedLDAPAuthorizationMap cachedMessageGroupMapFactory clientIdFilterDispatchPolicy
compositeDemandForwardingBridge compositeQueue compositeTopic conditionalNetworkBridgeFilterFactory
connectionDotFilePlugin connectionFactory constantPendingMessageLimitStrategy database-locker db2JDBCAdapter
defaultIOExceptionHandler defaultJDBCAdapter defaultNetworkBridgeFilterFactory defaultUsageCapacity
demandForwardingBridge destinationDotFilePlugin destinationEntry destinationPathSeparatorPlugin
destinationsPlugin discarding discardingDLQBrokerPlugin fileCursor fileDurableSubscriberCursor fileQueueCursor
filteredDestination filteredKahaDB fixedCountSubscriptionRecoveryPolicy fixedSizedSubscriptionRecoveryPolicy
forcePersistencyModeBroker forcePersistencyModeBrokerPlugin forwardingBridge hsqldb-jdbc-adapter
imageBasedJDBCAdaptor inboundQueueBridge inboundTopicBridge individualDeadLetterStrategy informixJDBCAdapter
jDBCIOExceptionHandler jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin jaasDualAuthenticationPlugin
jdbcPersistenceAdapter jmsQueueConnector jmsTopicConnector jobSchedulerUsage journalPersistenceAdapter
journalPersistenceAdapterFactory journaledJDBC kahaDB lDAPAuthorizationMap lastImageSubscriptionRecoveryPolicy
ldapNetworkConnector lease-database-locker leaseLockerIOExceptionHandler loggingBrokerPlugin mKahaDB
managementContext maxdb-jdbc-adapter memoryPersistenceAdapter memoryUsage messageGroupHashBucketFactory
mirroredQueue multicastNetworkConnector multicastTraceBrokerPlugin mysql-jdbc-adapter networkConnector
noSubscriptionRecoveryPolicy oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy
oracleBlobJDBCAdapter oracleJDBCAdapter outboundQueueBridge outboundTopicBridge pListStoreImpl
partitionBrokerPlugin policyEntry policyMap pooledConnectionFactory postgresql-jdbc-adapter prefetchPolicy
prefetchRatePendingMessageLimitStrategy priorityDispatchPolicy priorityNetworkDispatchPolicy proxyConnector
publishedAddressPolicy queryBasedSubscriptionRecoveryPolicy queue queueDispatchSelector reconnectionPolicy
redeliveryPlugin redeliveryPolicy redeliveryPolicyMap retainedMessageSubscriptionRecoveryPolicy
roundRobinDispatchPolicy runtimeConfigurationPlugin shared-file-locker sharedDeadLetterStrategy
simpleAuthenticationPlugin simpleAuthorizationMap simpleDispatchPolicy simpleDispatchSelector
simpleJmsMessageConvertor simpleMessageGroupMapFactory sqlServerJDBCAdapter sslContext statements
statisticsBrokerPlugin storeCursor storeDurableSubscriberCursor storeUsage streamJDBCAdapter
strictOrderDispatchPolicy sybase-jdbc-adapter systemUsage taskRunnerFactory tempDestinationAuthorizationEntry
tempQueue tempTopic tempUsage timeStampingBrokerPlugin timedSubscriptionRecoveryPolicy topic
traceBrokerPathPlugin transact-database-locker transact-jdbc-adapter transportConnector udpTraceBrokerPlugin
uniquePropertyMessageEvictionStrategy usageCapacity virtualDestinationInterceptor
virtualSelectorCacheBrokerPlugin virtualTopic vmCursor vmDurableCursor vmQueueCursor xaConnectionFactory
"""
ELEMENTS = frozenset(_ALL.split())
"""All elements that there are."""
