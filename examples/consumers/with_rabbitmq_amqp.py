"""The retry ladder over AMQP 1.0: python -m examples.consumers.with_rabbitmq_amqp amqp://guest:guest@localhost:5672/

With rabbitmq-amqp-python-client, on RabbitMQ 4. A failed attempt is dead-lettered by the outcome ``modified``, and the
message says in an annotation why.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    Connection,
    Consumer,
    Environment,
    Event,
    Management,
    Message,
    OutcomeState,
    Publisher,
    QuorumQueueSpecification,
    symbol,
)

import dlx
from examples.consumers.arguments import broker_url
from examples.consumers.ladder import PARKING, PLAN, TRY_QUEUES, parked_headers, queue_arguments, work

WHY = symbol("x-opt-failed-because")  # with a plain string RabbitMQ ends the session


def consume(connection: Connection, publisher: Publisher) -> list[Consumer]:
    """Declare the queues, and return the consumers of those with work: run one, and it runs all of its connection."""
    management = connection.management()
    for queue, arguments in queue_arguments().items():
        declare(management, queue, arguments)
    management.close()
    return [
        connection.consumer(AddressHelper.queue_address(queue), message_handler=Handler(publisher))
        for queue in TRY_QUEUES
    ]


def declare(management: Management, queue: str, arguments: dict[str, Any]) -> None:
    """Declare one queue."""
    ttl_ms = arguments.get("x-message-ttl")
    management.declare_queue(
        QuorumQueueSpecification(
            name=queue,
            message_ttl=None if ttl_ms is None else timedelta(milliseconds=ttl_ms),
            dead_letter_exchange="" if "x-dead-letter-exchange" in arguments else None,
            dead_letter_routing_key=arguments.get("x-dead-letter-routing-key"),
        )
    )


class Handler(AMQPMessagingHandler):
    """One attempt after the other."""

    def __init__(self, publisher: Publisher) -> None:
        super().__init__()
        self._publisher = publisher

    def on_amqp_message(self, event: Event) -> None:
        """One attempt."""
        message = event.message
        message.body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        try:
            work(message.body)
        except ValueError as error:
            match PLAN.decide(dlx.death_history(message)):
                case dlx.Retry():
                    # modified, delivery failed and undeliverable here: the queue dead-letters it
                    self.delivery_context.discard_with_annotations(event, {WHY: str(error)})
                    return
                case dlx.Park() as decision:
                    message.application_properties = parked_headers(message.application_properties, decision)
                    message.annotations = None
                    message.address = AddressHelper.queue_address(PARKING)
                    self._publish(message)
        self.delivery_context.accept(event)

    def _publish(self, message: Message) -> None:
        """Publish, and wait until the broker has the message. Raises ``RuntimeError`` if it does not take it."""
        outcome = self._publisher.publish(message).remote_state
        if outcome != OutcomeState.ACCEPTED:
            raise RuntimeError(f"the broker did not take a message for {PARKING}: {outcome}")


if __name__ == "__main__":
    environment = Environment(uri=broker_url())
    consuming, publishing = environment.connection(), environment.connection()
    consuming.dial()
    publishing.dial()  # a handler cannot wait for an answer on the connection that is calling it
    consumers = consume(consuming, publishing.publisher())
    consumers[0].run()
