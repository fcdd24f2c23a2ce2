"""The fields of the messaging topology operator's objects, and what each may be.

Source: the custom resource definitions of rabbitmq/messaging-topology-operator 1.20.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_REFERENCE = {"name": str}
_CLUSTER = {"name": str, "namespace": str, "connectionSecret": _REFERENCE}
_STRINGS = [str]
_DELETION = ("delete", "retain")
_ACK_MODES = ("on-confirm", "on-publish", "no-ack")
_PROTOCOLS = ("amqp091", "amqp10")

SPECS: Mapping[str, Mapping[str, Any]] = {
    "Queue": {
        "name": str,
        "vhost": str,
        "type": str,
        "durable": bool,
        "autoDelete": bool,
        "deleteIfEmpty": bool,
        "deleteIfUnused": bool,
        "arguments": dict,
        "rabbitmqClusterReference": _CLUSTER,
        "deletionPolicy": _DELETION,
    },
    "Exchange": {
        "name": str,
        "vhost": str,
        "type": str,
        "durable": bool,
        "autoDelete": bool,
        "arguments": dict,
        "rabbitmqClusterReference": _CLUSTER,
    },
    "Binding": {
        "vhost": str,
        "source": str,
        "destination": str,
        "destinationType": ("exchange", "queue"),
        "routingKey": str,
        "arguments": dict,
        "rabbitmqClusterReference": _CLUSTER,
    },
    "Policy": {
        "name": str,
        "vhost": str,
        "pattern": str,
        "applyTo": ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"),
        "priority": int,
        "definition": dict,
        "rabbitmqClusterReference": _CLUSTER,
    },
    "OperatorPolicy": {
        "name": str,
        "vhost": str,
        "pattern": str,
        "applyTo": ("queues", "classic_queues", "quorum_queues", "streams"),
        "priority": int,
        "definition": dict,
        "rabbitmqClusterReference": _CLUSTER,
    },
    "Vhost": {
        "name": str,
        "tracing": bool,
        "tags": _STRINGS,
        "defaultQueueType": ("quorum", "classic", "stream"),
        "rabbitmqClusterReference": _CLUSTER,
        "deletionPolicy": _DELETION,
        "limits": {"connections": int, "queues": int},
    },
    "User": {
        "tags": [("management", "policymaker", "monitoring", "administrator")],
        "rabbitmqClusterReference": _CLUSTER,
        "importCredentialsSecret": _REFERENCE,
        "limits": {"connections": int, "channels": int},
    },
    "Permission": {
        "user": str,
        "userReference": _REFERENCE,
        "vhost": str,
        "permissions": {"configure": str, "write": str, "read": str},
        "rabbitmqClusterReference": _CLUSTER,
    },
    "TopicPermission": {
        "user": str,
        "userReference": _REFERENCE,
        "vhost": str,
        "permissions": {"exchange": str, "read": str, "write": str},
        "rabbitmqClusterReference": _CLUSTER,
    },
    "Shovel": {
        "name": str,
        "vhost": str,
        "rabbitmqClusterReference": _CLUSTER,
        "uriSecret": _REFERENCE,
        "ackMode": _ACK_MODES,
        "prefetchCount": int,
        "reconnectDelay": int,
        "addForwardHeaders": bool,
        "deleteAfter": str,
        "srcDeleteAfter": str,
        "srcPrefetchCount": int,
        "destAddForwardHeaders": bool,
        "destAddTimestampHeader": bool,
        "srcQueueArgs": dict,
        "destQueueArgs": dict,
        "destProtocol": _PROTOCOLS,
        "destQueue": str,
        "destExchange": str,
        "destExchangeKey": str,
        "destPublishProperties": dict,
        "destAddress": str,
        "destApplicationProperties": dict,
        "destProperties": dict,
        "destMessageAnnotations": dict,
        "srcProtocol": _PROTOCOLS,
        "srcQueue": str,
        "srcExchange": str,
        "srcExchangeKey": str,
        "srcConsumerArgs": dict,
        "srcAddress": str,
        "deletionPolicy": _DELETION,
    },
    "Federation": {
        "name": str,
        "vhost": str,
        "rabbitmqClusterReference": _CLUSTER,
        "uriSecret": _REFERENCE,
        "prefetch-count": int,
        "ackMode": _ACK_MODES,
        "expires": int,
        "messageTTL": int,
        "maxHops": int,
        "reconnectDelay": int,
        "trustUserId": bool,
        "exchange": str,
        "queue": str,
        "deletionPolicy": _DELETION,
        "queueType": ("classic", "quorum"),
        "resourceCleanupMode": ("default", "never"),
    },
    "SuperStream": {
        "name": str,
        "vhost": str,
        "partitions": int,
        "routingKeys": _STRINGS,
        "rabbitmqClusterReference": _CLUSTER,
    },
}
"""The fields of each kind: a type, the strings that it may be, a list of one of these, or fields of its own."""
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "Policy": ("name", "pattern", "definition"),
    "OperatorPolicy": ("name", "pattern", "definition"),
    "Shovel": ("name", "uriSecret"),
    "Federation": ("name", "uriSecret"),
    "Permission": ("vhost", "permissions"),
    "TopicPermission": ("vhost", "permissions"),
    "Binding": (),
    "User": (),
}
"""What an object needs besides ``rabbitmqClusterReference``; kinds that are not here need ``name``."""
_NEW_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def server_name(field: str) -> str:
    """Return the name that servers have for a field of a Shovel or a Federation: ``src-queue`` for ``srcQueue``."""
    return _NEW_WORD.sub("-", field).lower()
