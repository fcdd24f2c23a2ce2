"""Shovels between this node and its peers: clients of both servers, each with a thread of its own.

The broker keeps such a shovel and its state, but moves none of its messages; see
``simulator.broker.operations.shovels``. What happens here is reported to it.

Source: rabbit_shovel_worker.erl, rabbit_amqp091_shovel.erl.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from pika import BasicProperties, BlockingConnection, PlainCredentials, URLParameters
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError

from dlx.shovels import QUEUE_LENGTH, ShovelUri, shovelled_properties
from simulator.broker import Shovel
from simulator.broker.commands import ReportShovel
from simulator.capture.capture_errors import CaptureUnavailable
from simulator.capture.client_rows import PROPERTIES
from simulator.capture.connected import amqp_parameters, exact_values, why_lost
from simulator.server.node import Node

_LOOK_S = 0.2
_REFUSED_S = 0.1  # until a message that the destination refused goes back
_NOT_FOUND = 404


class ShovelsToPeers:
    """Starts and stops the shovels of a node that have an end at a peer, as they come and go.

    pika decodes the values in headers exactly meanwhile, in the whole process.

    Args:
        node: has the shovels.
        own_url: where it listens, for their other end.
    """

    def __init__(self, node: Node, own_url: str) -> None:
        self._node = node
        self._own_url = own_url
        self._loop = asyncio.get_running_loop()
        self._running: dict[Shovel, RunningShovel] = {}
        self._exact = contextlib.ExitStack()
        self._exact.enter_context(exact_values(to_publish=True))
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop them all; what was not acknowledged goes back to its queue."""
        self._following.cancel()
        for running in self._running.values():
            running.stop()
        while any(running.is_alive() for running in self._running.values()):
            await asyncio.sleep(_LOOK_S / 10)
        self._exact.close()

    async def _follow(self) -> None:
        changes = self._node.changes
        while not changes.ended:
            number = changes.number
            self._start_and_stop()
            await changes.after(number, _LOOK_S)

    def _start_and_stop(self) -> None:
        state = self._node.broker.state
        shovels = {each for vhost in state.vhosts.values() for each in vhost.shovels.values()}
        wanted = {each for each in shovels if each.definition.reaches(state.peers)}
        for shovel, running in list(self._running.items()):
            if shovel not in wanted or (shovel.state == "starting" and running.has_begun):
                running.stop()
                if not running.is_alive():
                    del self._running[shovel]
        for shovel in wanted - self._running.keys():
            if shovel.state == "starting":
                self._running[shovel] = RunningShovel(self._node, shovel, self._own_url, self._reported)
                self._running[shovel].start()

    def _reported(self, running: RunningShovel, report: ReportShovel) -> None:
        """Tell the node what has become of a shovel, in its own thread."""

        def tell() -> None:
            if not running.is_stopped:
                running.has_begun = True
                self._node.handle(report)

        with contextlib.suppress(RuntimeError):  # the node has stopped
            self._loop.call_soon_threadsafe(tell)


class RunningShovel(threading.Thread):
    """Takes messages from one server and publishes them to another, until it is stopped or has done what it was to do.

    Attributes:
        has_begun: whether the node knows that it runs, or why it does not.
    """

    def __init__(
        self, node: Node, shovel: Shovel, own_url: str, reported: Callable[[RunningShovel, ReportShovel], None]
    ) -> None:
        super().__init__(name=f"shovel {shovel.name}", daemon=True)
        self.has_begun = False
        self._state = node.broker.state
        self._shovel = shovel
        self._definition = shovel.definition
        self._own_url = own_url
        self._reported = reported
        self._stopped = threading.Event()
        self._forwarded = 0
        self._left: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether it ends soon, or has ended."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have it end soon."""
        self._stopped.set()

    def run(self) -> None:
        """Move messages; connect again after ``reconnect-delay`` when a connection is lost."""
        wait_s = self._definition.reconnect_s
        while not self._stopped.is_set():
            try:
                self._connect_and_move()
                why = "needed a restart"
            except (AMQPError, AMQPConnectorException, OSError) as error:
                why = why_lost(error)
            except (CaptureUnavailable, ValueError) as error:  # an address that pika cannot use
                why = str(error)
            if self._left == 0 or self._stopped.is_set():
                return
            self._report("terminated", why)
            if not wait_s:
                return
            self._stopped.wait(wait_s)

    def _report(self, state: Any, reason: str = "") -> None:
        shovel = self._shovel
        report = ReportShovel(shovel.vhost, shovel.name, state, reason, self._forwarded, self._left)
        self._reported(self, report)

    def _connect_and_move(self) -> None:
        definition, value = self._definition, self._definition.value
        with (
            BlockingConnection(self._parameters(definition.destination)) as destination,
            BlockingConnection(self._parameters(definition.source)) as source,
        ):
            publishing = destination.channel()
            if definition.to_queue is not None:
                publishing, _ = _declared(publishing, definition.to_queue, value, "dest")
            if definition.ack_mode == "on-confirm":
                publishing.confirm_delivery()
            consuming, queue, ready = self._prepared_source(source.channel())
            self._forwarded = 0
            self._left = ready if definition.delete_after == QUEUE_LENGTH else definition.delete_after  # type: ignore[assignment]
            self._report("running")
            self._move(consuming, queue, publishing)

    def _parameters(self, uri: ShovelUri) -> URLParameters:
        """Return how to connect to a peer, or to the node itself, where nobody named is guest."""
        if uri.server in self._state.peers:
            return amqp_parameters(uri.url)
        parameters = URLParameters(self._own_url)
        parameters.virtual_host = uri.vhost
        parameters.credentials = PlainCredentials(uri.user or "guest", uri.password if uri.user else "guest")
        return parameters

    def _prepared_source(self, channel: BlockingChannel) -> tuple[BlockingChannel, str, int]:
        """Return the channel to consume on, the queue, and how many messages it has ready."""
        definition, value = self._definition, self._definition.value
        if definition.queue:
            channel, ready = _declared(channel, definition.queue, value, "src")
            queue = definition.queue
        else:
            queue, ready = channel.queue_declare("", exclusive=True).method.queue, 0
            channel.queue_bind(queue, definition.exchange, definition.key)
        channel.basic_qos(prefetch_count=min(definition.prefetch, 0xFFFF))
        return channel, queue, ready

    def _move(self, consuming: BlockingChannel, queue: str, publishing: BlockingChannel) -> None:
        """Move messages until the shovel has done its part, is stopped, or its consumer is cancelled."""
        mode = self._definition.ack_mode
        arguments = self._definition.value.get("src-consumer-args") or {}
        if self._left == 0:
            return
        deliveries = consuming.consume(queue, mode == "no-ack", arguments=arguments, inactivity_timeout=_LOOK_S)
        for method, properties, body in deliveries:
            if self._stopped.is_set():
                return
            publishing.connection.process_data_events(0)  # its heartbeats, and what ended it
            if method is None:
                continue
            taken = self._publish(publishing, method.routing_key, properties, body)
            if mode != "no-ack" and taken:
                consuming.basic_ack(method.delivery_tag)
            elif mode != "no-ack":
                self._stopped.wait(_REFUSED_S)
                consuming.basic_nack(method.delivery_tag)
            if self._has_counted_the_last():
                consuming.cancel()
                self._report("running")
                return
            self._report("running")

    def _publish(self, channel: BlockingChannel, key: str, properties: BasicProperties, body: bytes) -> bool:
        """Publish a message; return whether it was taken, or that is not asked."""
        definition = self._definition
        delivered = {name: getattr(properties, name) for name in PROPERTIES}
        delivered = {name: each for name, each in delivered.items() if each is not None}
        shovel, state = self._shovel, self._state
        published = shovelled_properties(
            definition, delivered, shovel.name, shovel.vhost, state.cluster_name, state.now_us
        )
        exchange = definition.to_exchange if definition.to_queue is None else ""
        key = key if definition.to_key is None else definition.to_key
        try:
            channel.basic_publish(exchange, key, body, BasicProperties(**published))
        except NackError:
            return False
        return True

    def _has_counted_the_last(self) -> bool:
        """Count a message, taken or refused; return whether it was the last."""
        self._forwarded += 1
        if self._left is not None:
            self._left -= 1
        return self._left == 0


def _declared(channel: BlockingChannel, queue: str, value: Any, side: str) -> tuple[BlockingChannel, int]:
    """Declare a queue that is missing; return the channel that is open then, and how many messages are ready."""
    connection = channel.connection
    try:
        return channel, channel.queue_declare(queue, passive=True).method.message_count
    except ChannelClosedByBroker as error:
        if error.reply_code != _NOT_FOUND or value.get(f"{side}-predeclared", False):
            raise
    channel = connection.channel()
    arguments = value.get(f"{side}-queue-args") or {}
    return channel, channel.queue_declare(queue, durable=True, arguments=arguments).method.message_count
