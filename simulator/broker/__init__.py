"""RabbitMQ as a state machine: ``Broker`` takes commands and the time, and gives events.

``commands`` are what can be asked, ``replies`` what is answered on channels,
``simulator.events`` what happens to messages. From the outside in: ``broker`` is the
face; ``dispatch`` finds the operation for a command, ``agenda`` the one for an effect
or a deadline; ``operations`` change ``state``, which is all there is to know, and put
``effects`` on the agenda; ``stores`` hold the messages of queues; ``snapshots`` saves it all.

A rejected message passes ``dispatch``, ``operations.acknowledgements`` (which
deliveries, and which queues they came from), ``operations.queues`` (they die there),
``operations.dead_letters`` (where the dead letter goes, and why), and ``agenda``, which
has it arrive.
"""

from dlx.operator_errors import OperatorError
from simulator.broker import commands, replies
from simulator.broker.broker import Broker
from simulator.broker.copies import Copy
from simulator.broker.operations.dead_letter_worker import RETRY_US, dead_letter_of
from simulator.broker.operations.users import tag_names
from simulator.broker.replies import delivered_properties
from simulator.broker.state import (
    Channel,
    Connection,
    Consumer,
    Counters,
    NodeState,
    Observer,
    Pending,
    Permissions,
    QueueState,
    Unacked,
    User,
    VirtualHost,
)

__all__ = [
    "RETRY_US",
    "Broker",
    "Channel",
    "Connection",
    "Consumer",
    "Copy",
    "Counters",
    "NodeState",
    "Observer",
    "OperatorError",
    "Pending",
    "Permissions",
    "QueueState",
    "Unacked",
    "User",
    "VirtualHost",
    "commands",
    "dead_letter_of",
    "delivered_properties",
    "replies",
    "tag_names",
]
