"""A message, and what becomes of it when it is dead.

Source: activemq-broker, RegionBroker.sendToDeadLetterQueue, BrokerSupport.doResend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from simulator.systems.activemq.destinations import ADVISORY, Destination

ORIGINAL_EXPIRATION = "originalExpiration"
ORIGINAL_DELIVERY_MODE = "originalDeliveryMode"
FAILURE_CAUSE = "dlqDeliveryFailureCause"
REDELIVERY_DELAY = "redeliveryDelay"
SCHEDULED_JOB = "scheduledJobId"
SCHEDULED_DELAY = "AMQ_SCHEDULED_DELAY"
SCHEDULED_PERIOD = "AMQ_SCHEDULED_PERIOD"
SCHEDULED_REPEAT = "AMQ_SCHEDULED_REPEAT"
SCHEDULED_CRON = "AMQ_SCHEDULED_CRON"
_SCHEDULED = (SCHEDULED_DELAY, SCHEDULED_PERIOD, SCHEDULED_REPEAT, SCHEDULED_CRON)
GROUP = "JMSXGroupID"
GROUP_SEQUENCE = "JMSXGroupSeq"
NEVER = 0


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a broker holds it.

    Attributes:
        message_id: JMSMessageID; its dead letters keep it.
        destination: where it is.
        body: text, or the bytes of a BytesMessage.
        persistent: JMSDeliveryMode.
        timestamp_ms: when it was sent, milliseconds since 1970.
        expiration_ms: when its time is up, milliseconds since 1970; 0 never.
        priority: 0 to 9.
        properties: those of the application and of the broker.
        original_destination: where it was before it was dead-lettered.
        redelivery_counter: how often it was delivered again before it came here.
        about: what an advisory message tells of.
    """

    message_id: str
    destination: Destination
    body: str | bytes = ""
    persistent: bool = True
    timestamp_ms: int = 0
    expiration_ms: int = NEVER
    priority: int = 4
    properties: Mapping[str, Any] = {}
    original_destination: Destination | None = None
    redelivery_counter: int = 0
    about: Message | None = None

    @property
    def text(self) -> str:
        """The body as text; of bytes that are none, as Python writes them."""
        return self.body if isinstance(self.body, str) else self.body.decode(errors="backslashreplace")

    @property
    def producer(self) -> str:
        """Who sent it, as the identifier says: what stands before its last number."""
        head, mark, number = self.message_id.rpartition(":")
        return head if mark and number.isdecimal() else self.message_id

    @property
    def sequence(self) -> int:
        """Its number among the messages of its producer; 0 where the identifier has none."""
        number = self.message_id.rpartition(":")[2]
        return int(number) if number.isdecimal() and number != self.message_id else 0

    @property
    def group(self) -> str | None:
        """Its message group; ``None`` where it belongs to none."""
        group = self.properties.get(GROUP)
        return None if group is None else str(group)

    @property
    def group_sequence(self) -> int:
        """Its number in its group; 0 where it has none."""
        number = str(self.properties.get(GROUP_SEQUENCE, 0))
        return int(number) if number.removeprefix("-").isdecimal() else 0

    def expired(self, now_ms: int) -> bool:
        """Return whether the message's time is up."""
        return 0 < self.expiration_ms < now_ms


def dead_letter(
    message: Message, target: Destination, *, expiration_ms: int, cause: str | None, now_ms: int
) -> Message:
    """Make the dead letter of a message.

    Args:
        message: what died.
        target: the destination of the dead letter.
        expiration_ms: how long the strategy lets a dead letter live; 0 for ever, and so is a negative number, which
            the dead letter then has as its expiration.
        cause: why it died, without the class of Java's exception; ``None`` where the client did not say.
        now_ms: milliseconds since 1970.
    """
    properties = without_expiration(message.properties)
    if expiration_ms <= 0:
        properties[ORIGINAL_EXPIRATION] = message.expiration_ms
    if not message.persistent:
        properties[ORIGINAL_DELIVERY_MODE] = "NON_PERSISTENT"
    if cause is not None:
        properties[FAILURE_CAUSE] = f"java.lang.Throwable: {cause}"
    return msgspec.structs.replace(
        message,
        destination=target,
        persistent=True,
        expiration_ms=now_ms + expiration_ms if expiration_ms > 0 else expiration_ms,
        properties=properties,
        original_destination=message.destination,
        redelivery_counter=0,
    )


AdvisoryKind = Literal["Expired", "MessageDLQd"]
"""What an advisory message tells: that a message has expired, or that it has a dead letter."""


def advisory_topic(kind: AdvisoryKind, destination: Destination) -> Destination:
    """Return the topic in which a broker tells what becomes of messages of a destination."""
    of = destination.kind.title().replace("-", "")
    if kind == "Expired":  # tells no temporary ones apart
        of = of.removeprefix("Temp")
    return Destination("topic", f"{ADVISORY}{kind}.{of}.{destination.name}")


def advisory(kind: AdvisoryKind, about: Message, *, number: int, now_ms: int) -> Message:
    """Make the message in which a broker tells what became of another one."""
    return Message(
        message_id=f"{kind} {number} of {about.message_id}",
        destination=advisory_topic(kind, about.destination),
        persistent=False,
        timestamp_ms=now_ms,
        priority=0,
        properties={"orignalMessageId": about.message_id} if kind == "Expired" else {},
        about=about,
    )


def without_expiration(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties without the original expiration, which no copy takes along, nor what a client sends."""
    return {name: value for name, value in properties.items() if name != ORIGINAL_EXPIRATION}


def copied(message: Message, to: Destination) -> Message:
    """Make the copy of a message that a virtual destination sends elsewhere."""
    return msgspec.structs.replace(
        message,
        destination=to,
        original_destination=message.destination,
        properties=without_expiration(message.properties),
    )


def expiry_cause(message: Message) -> str:
    """Return the cause of death of a message whose time is up."""
    return f"Message Expired. Expiration:{message.expiration_ms}"


def rescheduled(message: Message, *, counter: int, delay_ms: int) -> Message:
    """Make the copy that the redelivery plugin gives to the scheduler."""
    properties = {**message.properties, REDELIVERY_DELAY: delay_ms}
    properties.pop(SCHEDULED_JOB, None)
    return msgspec.structs.replace(message, properties=properties, redelivery_counter=counter)


def sent_by_scheduler(message: Message, job: str, now_ms: int) -> Message:
    """Return the copy as the scheduler sends it: with the job's name, and its time to live started again."""
    alive_ms = message.expiration_ms - message.timestamp_ms
    renewed = message.expiration_ms > 0 and now_ms + alive_ms > message.expiration_ms
    kept = {name: value for name, value in message.properties.items() if name not in _SCHEDULED}
    properties = {**kept, SCHEDULED_JOB: job}
    return msgspec.structs.replace(
        message,
        properties=properties,
        expiration_ms=now_ms + alive_ms if renewed else message.expiration_ms,
        timestamp_ms=now_ms if renewed else message.timestamp_ms,
    )
