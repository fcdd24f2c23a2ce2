"""RabbitMQ as a state machine: ``Broker`` takes commands and the time, and gives events.

``commands`` are what can be asked, ``replies`` what is answered on channels,
``simulator.events`` what happens to messages. From the outside in: ``broker``
dispatches; ``connections``, ``declaring``, ``publishing``, ``consuming``, ``settling``,
``operators`` and ``importing`` carry commands out, within ``access``, ``serving`` and
``ack_timeouts``; ``queues`` and ``dead_letters`` are the life of messages; ``classic``,
``quorum`` and ``stream`` hold them; ``state`` is all there is to know, and ``snapshots``
saves it.
"""

from simulator.broker.broker import Broker

__all__ = ["Broker"]
