"""The state that the management API of a node keeps between requests."""

from __future__ import annotations

from itertools import count

from simulator.message_history import RecordingBroker
from simulator.server.management.internal_channel import InternalChannel
from simulator.server.management.management_releases import Api, api_of
from simulator.server.management.running_traces import Traces
from simulator.server.node import Node


class ManagementState:
    """The state of the management API of one node.

    Attributes:
        node: the node that is managed.
        api: how the API of the node's release behaves.
        traces: the running traces, and the logs of all.
        vhosts_put_again: names of the virtual hosts that a PUT has changed, where that sets the default queue type.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.api: Api = api_of(node.broker.release)
        self.traces = Traces(node, self.new_channel)
        self.vhosts_put_again: set[str] = set()
        self._channel_numbers = count(1)

    def new_channel(self) -> InternalChannel:
        """Return a channel of the API's own, which is not open yet."""
        return InternalChannel(self.node, next(self._channel_numbers))

    @property
    def recorder(self) -> RecordingBroker | None:
        """The broker, if it records what happens to messages."""
        broker = self.node.broker
        return broker if isinstance(broker, RecordingBroker) else None
