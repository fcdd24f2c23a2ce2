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

from dlx.operator_errors import OperatorError as OperatorError
from simulator.broker import commands as commands
from simulator.broker import replies as replies
from simulator.broker.broker import Broker as Broker
from simulator.broker.copies import Copy as Copy
from simulator.broker.operations.dead_letter_worker import RETRY_US as RETRY_US
from simulator.broker.operations.dead_letter_worker import WORKER_PREFETCH as WORKER_PREFETCH
from simulator.broker.operations.dead_letter_worker import dead_letter_of as dead_letter_of
from simulator.broker.operations.users import vhost_tags as vhost_tags
from simulator.broker.replies import delivered_properties as delivered_properties
from simulator.broker.state import Channel as Channel
from simulator.broker.state import Connection as Connection
from simulator.broker.state import Consumer as Consumer
from simulator.broker.state import Counters as Counters
from simulator.broker.state import NodeState as NodeState
from simulator.broker.state import Observer as Observer
from simulator.broker.state import Pending as Pending
from simulator.broker.state import Permissions as Permissions
from simulator.broker.state import QueueState as QueueState
from simulator.broker.state import Shovel as Shovel
from simulator.broker.state import Unacked as Unacked
from simulator.broker.state import User as User
from simulator.broker.state import VirtualHost as VirtualHost
from simulator.broker.stores.quorum import QuorumStore as QuorumStore
