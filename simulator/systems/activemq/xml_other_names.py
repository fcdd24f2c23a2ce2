"""The names in elements of an ``activemq.xml`` that the simulator does not read and most configurations have.

They are checked, so that what a broker refuses is refused here, too; nothing else comes of them.

Source: the schema of activemq-spring 5.17.2.
"""

from __future__ import annotations

from simulator.systems.activemq.xml_names import ANYTHING, Content, Form


def any_one(elements: str) -> Content:
    """Return the content of at most one of these elements."""
    return Content(tuple(elements.split()), single=True, empty=True)


OTHER_FORMS: dict[str, Form] = {
    "kahaDB": Form(
        boolean=(
            "archiveCorruptedIndex archiveDataLogs checkForCorruptJournalFiles checksumJournalFiles cleanupOnStop "
            "compactAcksIgnoresStoreGrowth concurrentStoreAndDispatchQueues concurrentStoreAndDispatchTopics "
            "enableAckCompaction enableIndexDiskSyncs enableIndexPageCaching enableIndexRecoveryFile "
            "enableIndexWriteAsync enableJournalDiskSyncs enableSubscriptionStatistics forceRecoverIndex "
            "ignoreMissingJournalfiles stopOnError useIndexLFRUEviction useLock"
        ),
        integer=(
            "compactAcksAfterNoGC databaseLockedWaitDelay failoverProducersAuditDepth maxAsyncJobs "
            "maxFailoverProducersToTrack"
        ),
        long="checkpointInterval cleanupInterval journalDiskSyncInterval lockKeepAlivePeriod",
        decimal="indexLFUEvictionFactor",
        text=(
            "brokerName brokerService directory directoryArchive id indexCacheSize indexDirectory "
            "indexWriteBatchSize journalDiskSyncStrategy journalMaxFileLength journalMaxWriteBatchSize locker "
            "preallocationScope preallocationStrategy purgeRecoveredXATransactionStrategy "
            "scheduledThreadPoolExecutor transactionIdTransformer usageManager"
        ),
        properties={
            "brokerService": any_one("broker brokerService"),
            "directory": ANYTHING,
            "directoryArchive": ANYTHING,
            "indexDirectory": ANYTHING,
            "locker": any_one("database-locker lease-database-locker shared-file-locker transact-database-locker"),
            "scheduledThreadPoolExecutor": ANYTHING,
            "transactionIdTransformer": ANYTHING,
            "usageManager": any_one("systemUsage"),
        },
    ),
    "mKahaDB": Form(
        boolean="checkForCorruption stopOnError useLock",
        long="journalCleanupInterval lockKeepAlivePeriod",
        text=(
            "brokerName brokerService directory id journalMaxFileLength journalWriteBatchSize locker "
            "scheduledThreadPoolExecutor transactionStore usageManager"
        ),
        properties={
            "brokerService": any_one("broker brokerService"),
            "directory": ANYTHING,
            "filteredPersistenceAdapters": ANYTHING,
            "locker": any_one("database-locker lease-database-locker shared-file-locker transact-database-locker"),
            "scheduledThreadPoolExecutor": ANYTHING,
            "transactionStore": ANYTHING,
            "usageManager": any_one("systemUsage"),
        },
    ),
    "filteredKahaDB": Form(
        boolean="perDestination tempQueue tempTopic",
        text="adapter destination id persistenceAdapter queue template topic usage",
        properties={
            "adapter": any_one(
                "jdbcPersistenceAdapter journalPersistenceAdapter kahaDB mKahaDB memoryPersistenceAdapter"
            ),
            "destination": any_one("queue tempQueue tempTopic topic"),
            "persistenceAdapter": any_one(
                "jdbcPersistenceAdapter journalPersistenceAdapter kahaDB mKahaDB memoryPersistenceAdapter"
            ),
            "template": any_one("filteredKahaDB"),
            "usage": any_one("storeUsage"),
        },
    ),
    "memoryPersistenceAdapter": Form(
        boolean="createTransactionStore useExternalMessageReferences",
        text="brokerName directory id usageManager",
        properties={
            "directory": ANYTHING,
            "usageManager": any_one("systemUsage"),
        },
    ),
    "managementContext": Form(
        boolean=("allowRemoteAddressInMBeanNames createMBeanServer findTigerMbeanServer useMBeanServer"),
        text=(
            "MBeanServer brokerName connectorHost connectorPath connectorPort createConnector environment id "
            "jmxDomainName rmiServerPort server suppressMBean"
        ),
        properties={
            "MBeanServer": ANYTHING,
            "environment": ANYTHING,
            "server": ANYTHING,
        },
    ),
    "systemUsage": Form(
        boolean="sendFailIfNoSpace sendFailIfNoSpaceExplicitySet",
        long="sendFailIfNoSpaceAfterTimeout",
        text=(
            "adapter checkLimitsLogLevel executor id jobSchedulerStore jobSchedulerUsage memoryUsage name parent "
            "storeUsage tempStore tempUsage"
        ),
        properties={
            "adapter": any_one(
                "jdbcPersistenceAdapter journalPersistenceAdapter kahaDB mKahaDB memoryPersistenceAdapter"
            ),
            "executor": ANYTHING,
            "jobSchedulerStore": ANYTHING,
            "jobSchedulerUsage": any_one("jobSchedulerUsage"),
            "memoryUsage": any_one("memoryUsage"),
            "parent": any_one("systemUsage"),
            "storeUsage": any_one("storeUsage"),
            "tempStore": any_one("pListStoreImpl"),
            "tempUsage": any_one("tempUsage"),
        },
    ),
    "memoryUsage": Form(
        integer="percentOfJvmHeap percentUsage pollingTime",
        long="usage",
        decimal="portion usagePortion",
        memory="limit",
        text="executor id limiter name parent percentUsageMinDelta",
        properties={
            "executor": ANYTHING,
            "limiter": any_one("defaultUsageCapacity usageCapacity"),
            "parent": ANYTHING,
        },
    ),
    "storeUsage": Form(
        integer="percentLimit percentUsage pollingTime",
        decimal="usagePortion",
        memory="limit",
        text="executor id limiter name parent percentUsageMinDelta store total",
        properties={
            "executor": ANYTHING,
            "limiter": any_one("defaultUsageCapacity usageCapacity"),
            "parent": ANYTHING,
            "store": any_one(
                "jdbcPersistenceAdapter journalPersistenceAdapter kahaDB mKahaDB memoryPersistenceAdapter"
            ),
        },
    ),
    "tempUsage": Form(
        integer="percentLimit percentUsage pollingTime",
        decimal="usagePortion",
        memory="limit",
        text="executor id limiter name parent percentUsageMinDelta store total",
        properties={
            "executor": ANYTHING,
            "limiter": any_one("defaultUsageCapacity usageCapacity"),
            "parent": ANYTHING,
            "store": any_one("pListStoreImpl"),
        },
    ),
    "loggingBrokerPlugin": Form(
        boolean=(
            "logAll logConnectionEvents logConsumerEvents logInternalEvents logProducerEvents logSessionEvents "
            "logTransactionEvents perDestinationLogger"
        ),
        text="adminConnectionContext id next",
        properties={
            "adminConnectionContext": ANYTHING,
            "next": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "timeStampingBrokerPlugin": Form(
        boolean="futureOnly processNetworkMessages",
        long="ttlCeiling zeroExpirationOverride",
        text="adminConnectionContext id next",
        properties={
            "adminConnectionContext": ANYTHING,
            "next": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "statisticsBrokerPlugin": Form(
        text="id",
    ),
    "forcePersistencyModeBrokerPlugin": Form(
        boolean="persistenceFlag",
        text="id",
    ),
    "destinationPathSeparatorPlugin": Form(
        text="adminConnectionContext id next pathSeparator",
        properties={
            "adminConnectionContext": ANYTHING,
            "next": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "simpleAuthenticationPlugin": Form(
        boolean="anonymousAccessAllowed",
        text="anonymousGroup anonymousUser id userGroups userPasswords",
        properties={
            "userGroups": ANYTHING,
            "userPasswords": ANYTHING,
            "users": ANYTHING,
        },
    ),
    "authenticationUser": Form(
        text="groups id password username",
    ),
    "authorizationPlugin": Form(
        text="id map",
        properties={
            "map": any_one("authorizationMap cachedLDAPAuthorizationMap lDAPAuthorizationMap simpleAuthorizationMap"),
        },
    ),
    "authorizationMap": Form(
        text="defaultEntry groupClass id tempDestinationAuthorizationEntry",
        properties={
            "authorizationEntries": ANYTHING,
            "defaultEntry": any_one("authorizationEntry tempDestinationAuthorizationEntry"),
            "entries": ANYTHING,
            "tempDestinationAuthorizationEntry": any_one("tempDestinationAuthorizationEntry"),
        },
    ),
    "authorizationEntry": Form(
        boolean="tempQueue tempTopic",
        text="admin destination groupClass id queue read topic write",
        properties={
            "adminACLs": ANYTHING,
            "destination": any_one("queue tempQueue tempTopic topic"),
            "readACLs": ANYTHING,
            "writeACLs": ANYTHING,
        },
    ),
    "transportConnector": Form(
        boolean=(
            "allowLinkStealing auditNetworkProducers disableAsyncDispatch displayStackTrace enableStatusMonitor "
            "rebalanceClusterClients updateClusterClients updateClusterClientsOnRemove warnOnRemoteClose"
        ),
        integer="maximumConsumersAllowedPerConnection maximumProducersAllowedPerConnection",
        text=(
            "brokerInfo brokerService discoveryAgent discoveryUri id messageAuthorizationPolicy name "
            "publishedAddressPolicy server taskRunnerFactory updateClusterFilter uri"
        ),
        properties={
            "brokerInfo": ANYTHING,
            "brokerService": any_one("broker brokerService"),
            "discoveryAgent": ANYTHING,
            "discoveryUri": ANYTHING,
            "messageAuthorizationPolicy": ANYTHING,
            "publishedAddressPolicy": any_one("publishedAddressPolicy"),
            "server": ANYTHING,
            "taskRunnerFactory": any_one("taskRunnerFactory"),
            "uri": ANYTHING,
        },
    ),
    "networkConnector": Form(
        boolean=(
            "advisoryForFailedForward alwaysSyncSend bridgeTempDestinations checkDuplicateMessagesOnDuplex "
            "conduitNetworkQueueSubscriptions conduitSubscriptions decreaseNetworkConsumerPriority dispatchAsync "
            "duplex dynamicOnly gcDestinationViews staticBridge suppressDuplicateQueueSubscriptions "
            "suppressDuplicateTopicSubscriptions syncDurableSubs useBrokerNameAsIdSees useCompression "
            "useVirtualDestSubs"
        ),
        integer=("advisoryAckPercentage advisoryPrefetchSize consumerPriorityBase consumerTTL messageTTL networkTTL"),
        long="gcSweepTime",
        text=(
            "bridgeFactory brokerName brokerService brokerURL clientIdToken connectionFilter destinationFilter "
            "discoveryAgent discoveryURI id localUri name objectName password prefetchSize remotePassword "
            "remoteUserName sslContext uri userName"
        ),
        properties={
            "bridgeFactory": ANYTHING,
            "brokerService": any_one("broker brokerService"),
            "connectionFilter": ANYTHING,
            "discoveryAgent": ANYTHING,
            "discoveryURI": ANYTHING,
            "durableDestinations": ANYTHING,
            "dynamicallyIncludedDestinations": ANYTHING,
            "excludedDestinations": ANYTHING,
            "localUri": ANYTHING,
            "objectName": ANYTHING,
            "sslContext": any_one("sslContext"),
            "staticallyIncludedDestinations": ANYTHING,
            "uri": ANYTHING,
        },
    ),
    "constantPendingMessageLimitStrategy": Form(
        integer="limit",
        text="id",
    ),
    "prefetchRatePendingMessageLimitStrategy": Form(
        decimal="multiplier",
        text="id",
    ),
    "abortSlowConsumerStrategy": Form(
        boolean="abortConnection ignoreNetworkConsumers",
        long="checkPeriod maxSlowCount maxSlowDuration",
        text="brokerService id name",
        properties={
            "brokerService": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "abortSlowAckConsumerStrategy": Form(
        boolean="abortConnection ignoreIdleConsumers ignoreNetworkConsumers",
        long="checkPeriod maxSlowCount maxSlowDuration maxTimeSinceLastAck",
        text="brokerService id name",
        properties={
            "brokerService": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "oldestMessageEvictionStrategy": Form(
        integer="evictExpiredMessagesHighWatermark",
        text="id",
    ),
    "roundRobinDispatchPolicy": Form(
        text="id",
    ),
    "strictOrderDispatchPolicy": Form(
        text="id",
    ),
    "fixedCountSubscriptionRecoveryPolicy": Form(
        integer="maximumSize",
        text="broker id",
        properties={
            "broker": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "lastImageSubscriptionRecoveryPolicy": Form(
        text="broker id",
        properties={
            "broker": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "timedSubscriptionRecoveryPolicy": Form(
        long="recoverDuration",
        text="broker id",
        properties={
            "broker": any_one(
                "destinationPathSeparatorPlugin destinationsPlugin forcePersistencyModeBroker loggingBrokerPlugin "
                "multicastTraceBrokerPlugin redeliveryPlugin timeStampingBrokerPlugin traceBrokerPathPlugin "
                "udpTraceBrokerPlugin"
            ),
        },
    ),
    "cachedMessageGroupMapFactory": Form(
        integer="cacheSize",
        text="id",
    ),
    "messageGroupHashBucketFactory": Form(
        integer="bucketCount cacheSize",
        text="id",
    ),
    "simpleMessageGroupMapFactory": Form(
        text="id",
    ),
}
