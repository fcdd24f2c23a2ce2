"""Everything that one node remembers, as plain values: ``NodeState`` holds all of it.

Nothing here decides anything. The management API reads it; only the broker's operations change it.
"""

from simulator.broker.state.clients import Channel, Connection, Consumer, Unacked
from simulator.broker.state.global_counters import GlobalCounters
from simulator.broker.state.node import NodeState, Observer
from simulator.broker.state.queues import Pending, QueueState
from simulator.broker.state.users import Permissions, User
from simulator.broker.state.virtual_hosts import Counters, VirtualHost

__all__ = [
    "Channel",
    "Connection",
    "Consumer",
    "Counters",
    "GlobalCounters",
    "NodeState",
    "Observer",
    "Pending",
    "Permissions",
    "QueueState",
    "Unacked",
    "User",
    "VirtualHost",
]
