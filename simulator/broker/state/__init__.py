"""Everything that one node remembers, as plain values: ``NodeState`` holds all of it.

Nothing here decides anything. The management API reads it; only the broker's operations change it.

What changes with every message is a dataclass, to whose fields Python assigns faster; all else is a struct, which costs
a start of the server next to nothing, where a dataclass takes half a millisecond. Those that refer to others do not
print their fields: these would be half of the node.
"""

from simulator.broker.state.clients import Channel as Channel
from simulator.broker.state.clients import Connection as Connection
from simulator.broker.state.clients import Consumer as Consumer
from simulator.broker.state.clients import Permissions as Permissions
from simulator.broker.state.clients import Unacked as Unacked
from simulator.broker.state.clients import User as User
from simulator.broker.state.node import DelayedMessage as DelayedMessage
from simulator.broker.state.node import GlobalCounters as GlobalCounters
from simulator.broker.state.node import NodeState as NodeState
from simulator.broker.state.node import Observer as Observer
from simulator.broker.state.queues import Pending as Pending
from simulator.broker.state.queues import QueueState as QueueState
from simulator.broker.state.virtual_hosts import Counters as Counters
from simulator.broker.state.virtual_hosts import Shovel as Shovel
from simulator.broker.state.virtual_hosts import VirtualHost as VirtualHost
