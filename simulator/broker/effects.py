"""The effects that an operation sets off: they happen after the command, first come, first served.

RabbitMQ's queues are processes that send each other messages; what one sets off at
another waits until the step that sent it is done. Here it waits on the agenda
(``NodeState.agenda``) as one of these values, which name queues instead of holding
them, for a queue may be gone by then. ``simulator.broker.agenda`` carries them out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from dlx.message import Message
from simulator.broker.commands import ChannelId
from simulator.broker.copies import Copy
from simulator.events import Event

if TYPE_CHECKING:
    from simulator.broker.replies import Delivered
    from simulator.broker.state.queues import QueueState
    from simulator.broker.state.virtual_hosts import Shovel


class Effect(msgspec.Struct, gc=False):
    """The base of all effects; each belongs to one virtual host."""

    vhost: str


class DeadLettered(Effect, gc=False):
    """A dead letter is on its way to one of the queues that it was routed to."""

    queue: str
    letter: Message
    body: bytes
    uid: int


class DeadMessageHeld(Effect, gc=False):
    """A queue holds a dead message that its at-least-once worker has not taken in hand."""

    queue: str


class Retried(Effect, gc=False):
    """An at-least-once worker tries again what it has in hand, since the settings of its queue have changed."""

    queue: str


class Leaving(Effect, gc=False):
    """Many messages left a queue at once, which no longer counts them: they die or are reported one after another.

    ``reason`` is what they die of; ``None``: they are removed. The queue itself may be gone.
    """

    queue: QueueState
    copies: deque[Copy]
    event: Event
    reason: str | None = None
    detail: str = ""


class PoliciesChanged(Effect, gc=False):
    """Policies were set or cleared that may apply to a queue."""

    queue: str


class Crashed(Effect, gc=False):
    """A queue's process has crashed and is started again; ``copies`` are what was ready in it."""

    queue: QueueState
    copies: list[Copy]


class DeliveryFailed(Effect, gc=False):
    """A channel failed over a message that cannot be written to its consumer."""

    channel: ChannelId


class ShovelLost(Effect, gc=False):
    """A shovel is to connect, or has lost a connection."""

    shovel: Shovel


class Shovelled(Effect, gc=False):
    """A message was delivered to a shovel."""

    shovel: Shovel
    delivered: Delivered


class Traced(Effect, gc=False):
    """The firehose made a trace of a publish or a delivery."""

    trace: Message
    body: bytes
