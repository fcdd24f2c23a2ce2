"""What an ``activemq.xml`` asks for that changes what becomes of messages, and that the simulator does not do."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.systems.activemq.xml_elements import Element

_POLICY_SWITCHES = {
    "prioritizedMessages": "messages are given out in the order in which they came, whatever their priority",
    "strictOrderDispatch": "a consumer that comes after others gets what they gave back in the order in which they did",
    "persistJMSRedelivered": "a broker that starts again has forgotten which messages were delivered",
    "sendDuplicateFromStoreToDLQ": "a message that comes twice is lost",
    "alwaysRetroactive": "a subscriber gets what is sent from then on",
}
_POLICY_VALUES = {
    "queuePrefetch": "a consumer has the prefetch of its connection",
    "topicPrefetch": "a consumer has the prefetch of its connection",
    "durableTopicPrefetch": "a consumer has the prefetch of its connection",
    "usePrefetchExtension": "consumers that hold messages get others ahead",
    "consumersBeforeDispatchStarts": "the first consumer gets messages at once",
    "timeBeforeDispatchStarts": "the first consumer gets messages at once",
    "messageGroupMapFactory": "a group has one owner, found by its name",
    "messageGroupMapFactoryType": "a group has one owner, found by its name",
    "memoryLimit": "a queue takes any number of messages",
}
_POLICY_PARTS = {
    "messageGroupMapFactory": "a group has one owner, found by its name",
    "slowConsumerStrategy": "a slow consumer stays connected",
    "pendingMessageLimitStrategy": "a slow subscriber keeps all its messages",
    "messageEvictionStrategy": "a slow subscriber keeps all its messages",
    "dispatchPolicy": "consumers get messages in turn",
}
_PLUGINS = {
    "timeStampingBrokerPlugin": "messages keep the time and the expiration that they were sent with",
    "forcePersistencyModeBrokerPlugin": "messages are as persistent as they were sent",
    "destinationPathSeparatorPlugin": "names of destinations are split at dots",
    "partitionBrokerPlugin": "there is one broker",
}
_BROKER_PARTS = {
    "networkConnectors": "there is one broker",
    "jmsBridgeConnectors": "there is one broker",
}


def not_simulated(broker: Element) -> tuple[str, ...]:
    """Return a sentence for each thing that is asked for and not done: where it stands, and what happens here."""
    return tuple(dict.fromkeys(_sentences(broker)))


def _sentences(broker: Element) -> Iterator[str]:
    for element in broker.all():
        for text in element.attributes.values():
            if "${" in text and not element.filled_in:
                yield f"line {element.line}: nothing in this file fills in '{text}', so it counts as written"
    for entry in broker.everywhere("policyEntry"):
        for name, instead in _POLICY_SWITCHES.items():
            if entry.attributes.get(name, "").strip() in ("true", "1"):
                yield _said(entry, name, instead)
        for name, instead in _POLICY_VALUES.items():
            if name in entry.attributes:
                yield _said(entry, name, instead)
        yield from _parts(entry, _POLICY_PARTS)
    yield from _parts(broker, _BROKER_PARTS)
    for installed in broker.named("plugins"):
        yield from _parts(installed, _PLUGINS)
    if broker.attributes.get("useMirroredQueues", "").strip() in ("true", "1") or any(
        broker.everywhere("mirroredQueue")
    ):
        yield _said(broker, "mirrored queues", "messages are not copied to topics")
    for topic in broker.everywhere("virtualTopic"):
        if topic.attributes.get("setOriginalDestination", "").strip() in ("false", "0"):
            yield _said(topic, "setOriginalDestination", "copies have the queue as their destination, not the topic")
    if broker.attributes.get("keepDurableSubsActive", "").strip() in ("false", "0"):
        yield _said(broker, "keepDurableSubsActive", "a subscription without a subscriber remembers what it has had")


def _parts(element: Element, names: dict[str, str]) -> Iterator[str]:
    for child in element.named(*names):
        yield _said(child, child.name, names[child.name])


def _said(element: Element, name: str, instead: str) -> str:
    return f"line {element.line}: {name} is not simulated: {instead}"
