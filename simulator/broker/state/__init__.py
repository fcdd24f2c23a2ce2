"""Everything that one node remembers, as plain values: ``NodeState`` holds all of it.

Nothing here decides anything. The management API reads it; only the broker's operations change it.

What changes with every message is a dataclass, to whose fields Python assigns faster; all else is a struct, which costs
a start of the server next to nothing, where a dataclass takes half a millisecond. Those that refer to others do not
print their fields: these would be half of the node.
"""

from simulator.broker.state.clients import Channel, Connection, Consumer, Permissions, Unacked, User
from simulator.broker.state.node import GlobalCounters, NodeState, Observer
from simulator.broker.state.queues import Pending, QueueState
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
