"""The queues of one project, as IronMQ keeps them: requests and the time in, answers and events out.

It has no clock. Every request comes with the time, and what was due before happens first, each thing
at its own time. Refused requests raise ``simulator.systems.ironmq.http_errors.Refusal`` and change nothing.

The reference leaves these points open; here they are decided:

* messages that time out at one moment come back in the order in which they were reserved;
* a delayed message joins the end of its queue when its delay is over, a released one the front;
* a message expires whether it is reserved or not, and an expired message is not a dead letter;
* a dead letter joins the end of the dead letter queue, which is created again if it was deleted;
* a queue out of reach answers no request;
* a message is pushed ``retries`` times more often than once, and is gone once it was accepted or given up; its statuses
  stay as long as the queue;
* unicast tries the subscribers in their order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from dlx.deaths import DELIVERY_LIMIT, EXPIRED
from simulator.events import Event, Happened
from simulator.systems.ironmq import http_errors
from simulator.systems.ironmq.pushes import Endpoints, Pushing
from simulator.systems.ironmq.queues import (
    Message,
    Queue,
    QueuedMessage,
    Then,
    Timers,
    counted,
    dead_letter,
    is_dead,
    posted,
)
from simulator.systems.ironmq.requests import Delete, Post, Release, Reserve, Touch
from simulator.systems.ironmq.settings import DeadLetterSettings, Push, Settings, Subscriber, configured

_US = 1_000_000
_FIRST_ID = 6_000_000_000_000_000_000  # ids have the length of IronMQ's


class Project:
    """One project: its queues, and a request per method.

    Args:
        name: the project's id.
        seed: of the reservation ids, the only thing that is random.
        tell: is called with everything that happens to a message; the ``vhost`` of an event is the project, and its
            ``more`` has the message's count after it.

    Attributes:
        name: as given.
        queues: by name.
        endpoints: those of subscribers.
        sources: for the messages of error queues, the id of the message that could not be pushed.
    """

    def __init__(self, name: str, *, seed: int = 0, tell: Callable[[Happened], None] | None = None) -> None:
        self.name = name
        self.queues: dict[str, Queue] = {}
        self.endpoints = Endpoints()
        self.sources: dict[str, str] = {}
        self._random = random.Random(seed)
        self._hear = tell
        self._uids = count(1)
        self._timers = Timers()

    # Time

    def settle(self, now_us: int) -> None:
        """Do what is due."""
        for due in self._timers.ended(now_us):
            if due.then == Then.EXPIRE:
                self._expire(due.queue, due.stored, due.time_us)
            elif due.then == Then.PUSH:
                self._push(due.queue, due.stored, due.time_us)
            else:
                self._return(due.queue, due.stored, due.time_us, at_front=due.then == Then.TO_FRONT)

    def next_due_us(self) -> int | None:
        """Return when something next happens by itself; ``None`` if nothing will."""
        return self._timers.next_due_us()

    def _expire(self, queue: Queue, stored: QueuedMessage, time_us: int) -> None:
        queue.remove(stored)
        self._tell(Event.EXPIRED, queue, stored, time_us, EXPIRED)
        self._tell(Event.DROPPED, queue, stored, time_us, EXPIRED, "expired messages do not go to a dead letter queue")

    def _return(self, queue: Queue, stored: QueuedMessage, time_us: int, *, at_front: bool) -> None:
        if stored.reservation_id is not None:
            self._tell(Event.REQUEUED, queue, stored, time_us, detail="its reservation timed out")
        queue.offer(stored, at_front=at_front)
        if stored.message.id not in queue.pushing:
            self._push(queue, stored, time_us)

    # Queues

    def configure(self, name: str, document: object, now_us: int) -> Queue:
        """Create a queue, or update one that exists, with the object ``queue`` of a request.

        A dead letter queue that does not exist is created with the default settings.
        """
        current = self.queues.get(name)
        if current is not None:
            return self.update(name, document, now_us)
        self.settle(now_us)
        queue = self._create(name, configured(document))
        self._provide_target(queue.settings.dead_letter)
        return queue

    def update(self, name: str, document: object, now_us: int) -> Queue:
        """Update a queue that exists."""
        queue = self.queue(name, now_us)
        queue.settings = configured(document, queue.settings)
        self._provide_target(queue.settings.dead_letter)
        return queue

    def change(self, name: str, changed: Callable[[Settings], Settings], now_us: int) -> None:
        """Set a queue's settings to what ``changed`` makes of them."""
        queue = self.queue(name, now_us)
        queue.settings = changed(queue.settings)

    def delete_queue(self, name: str, now_us: int) -> None:
        """Delete a queue with the messages on it."""
        self.clear(name, now_us)
        del self.queues[name]

    def queue(self, name: str, now_us: int) -> Queue:
        """Return the queue of that name, as it is now."""
        self.settle(now_us)
        queue = self.queues.get(name)
        if queue is None:
            raise http_errors.queue_not_found()
        if not queue.is_reachable:
            raise http_errors.out_of_reach()
        return queue

    def set_reachable(self, name: str, reachable: bool, now_us: int) -> None:
        """Take all replicas of a queue offline, or bring them back. Its messages are kept meanwhile."""
        self.settle(now_us)
        if name not in self.queues:
            raise http_errors.queue_not_found()
        self.queues[name].is_reachable = reachable

    def _create(self, name: str, settings: Settings) -> Queue:
        self.queues[name] = queue = Queue(name, settings)
        return queue

    def _provide_target(self, wanted: DeadLetterSettings | None) -> None:
        if wanted is not None and wanted.queue_name not in self.queues:
            self._create(wanted.queue_name, Settings())

    # Messages

    def post(self, name: str, posts: Iterable[Post], now_us: int) -> list[str]:
        """Put messages on a queue, which is created if it does not exist. Return their ids."""
        self.settle(now_us)
        if name not in self.queues:
            self._create(name, Settings())
        queue = self.queue(name, now_us)
        return [self._post(queue, post, now_us) for post in posts]

    def _post(self, queue: Queue, post: Post, now_us: int) -> str:
        uid = next(self._uids)
        stored = QueuedMessage(uid, posted(str(_FIRST_ID + uid), post.body, queue.settings, now_us))
        self._tell(Event.PUBLISHED, queue, stored, now_us)
        self._put(queue, stored, now_us, delay_s=post.delay_s)
        return stored.message.id

    def _put(self, queue: Queue, stored: QueuedMessage, now_us: int, *, delay_s: int = 0) -> None:
        queue.add(stored)
        self._tell(Event.ROUTED, queue, stored, now_us, detail=f"available after {delay_s} s" if delay_s else "")
        self._timers.start(stored.message.expires_us, Then.EXPIRE, queue, stored)
        if delay_s:
            self._timers.start(now_us + delay_s * _US, Then.TO_END, queue, stored)
        else:
            queue.offer(stored, at_front=False)
            self._push(queue, stored, now_us)

    def reserve(self, name: str, request: Reserve, now_us: int) -> list[QueuedMessage]:
        """Reserve the next messages. Those that are dead go to the dead letter queue, and others take their place."""
        queue = self.queue(name, now_us)
        found: list[QueuedMessage] = []
        for _ in range(len(queue.available)):
            if len(found) == request.n:
                break
            stored = queue.take()
            if is_dead(stored.message, queue.settings.dead_letter):
                self._bury(queue, stored, now_us)
            else:
                self._reserve(queue, stored, request.timeout_s, now_us)
                found.append(stored)
        if request.delete:
            for stored in found:
                self._acknowledge(queue, stored, now_us)
        return found

    def _reserve(self, queue: Queue, stored: QueuedMessage, timeout_s: int | None, now_us: int) -> None:
        self._hold(queue, stored, timeout_s, now_us)
        self._tell(Event.DELIVERED, queue, stored, now_us)

    def _hold(self, queue: Queue, stored: QueuedMessage, timeout_s: int | None, now_us: int) -> None:
        """Count the reservation, and begin it."""
        stored.message = counted(stored.message)
        stored.reservation_id = f"{self._random.getrandbits(128):032x}"
        seconds = queue.settings.message_timeout_s if timeout_s is None else timeout_s
        self._timers.start(now_us + seconds * _US, Then.TO_FRONT, queue, stored)

    def _bury(self, queue: Queue, stored: QueuedMessage, now_us: int) -> None:
        """Move a dead message to the dead letter queue; drop it when that is out of reach."""
        wanted = queue.settings.dead_letter
        assert wanted is not None
        queue.remove(stored)
        limit = f"max_reservations is {wanted.max_reservations}"
        self._tell(Event.LIMIT_DROPPED, queue, stored, now_us, DELIVERY_LIMIT, limit)
        self._provide_target(wanted)
        target = self.queues[wanted.queue_name]
        if not target.is_reachable:
            lost = f"dead letter queue '{target.name}' is out of reach"
            self._tell(Event.DROPPED, queue, stored, now_us, DELIVERY_LIMIT, lost)
            return
        self._tell(Event.DEAD_LETTERED, queue, stored, now_us, DELIVERY_LIMIT, f"to '{target.name}'")
        self._put(target, QueuedMessage(stored.uid, dead_letter(stored.message, target.settings, now_us)), now_us)

    # Push queues

    def statuses(self, name: str, message_id: str, now_us: int) -> list[dict[str, Any]]:
        """Return how it stands between a message and each subscriber, also of one that was pushed and has gone."""
        queue = self.queue(name, now_us)
        if queue.settings.push is None:
            raise http_errors.bad_request("a pull queue has no subscribers")
        if message_id not in queue.messages and message_id not in queue.pushing:
            raise http_errors.message_not_found()
        return queue.pushing.get(message_id, Pushing()).shown(queue.settings.push)

    def _push(self, queue: Queue, stored: QueuedMessage, now_us: int) -> None:
        """Push a message of a push queue to its subscribers, and let it go once all is done."""
        push, kind = queue.settings.push, queue.settings.type
        if push is None:
            return
        pushing = queue.pushing.setdefault(stored.message.id, Pushing())
        for subscriber, code in pushing.round(kind, push, self.endpoints, now_us):
            self._tell(Event.DELIVERED, queue, stored, now_us, detail=f"pushed to {subscriber.name}: {code}")
        failed = pushing.failed(kind, push)
        if not failed:
            self._acknowledge(queue, stored, now_us)
        elif pushing.may_go_on(failed, push):
            self._timers.start(now_us + push.retries_delay_s * _US, Then.PUSH, queue, stored)
        else:
            self._give_up(queue, stored, push, failed, now_us)

    def _give_up(self, queue: Queue, stored: QueuedMessage, push: Push, failed: list[Subscriber], now_us: int) -> None:
        """Remove a message whose retries are over, and tell the error queue; it begins as a pull queue."""
        queue.remove(stored)
        limit = f"retries is {push.retries}: {', '.join(each.name for each in failed)}"
        self._tell(Event.LIMIT_DROPPED, queue, stored, now_us, DELIVERY_LIMIT, limit)
        if push.error_queue and push.error_queue not in self.queues:
            self._create(push.error_queue, Settings())
        target = self.queues.get(push.error_queue)
        if target is None or not target.is_reachable:
            why = f"error queue '{target.name}' is out of reach" if target else "the queue has no error queue"
            self._tell(Event.DROPPED, queue, stored, now_us, DELIVERY_LIMIT, why)
            return
        self._tell(Event.DEAD_LETTERED, queue, stored, now_us, DELIVERY_LIMIT, f"to '{target.name}'")
        message_id = str(_FIRST_ID + next(self._uids))
        self.sources[message_id] = stored.message.id
        told = queue.pushing[stored.message.id].error(stored.message.id, stored.message.body, failed)
        error = QueuedMessage(stored.uid, posted(message_id, told, target.settings, now_us))
        # A push queue that is an error queue waits before it pushes: two that name each other would never end.
        again = target.settings.push
        self._put(target, error, now_us, delay_s=again.retries_delay_s if again else 0)

    def message(self, name: str, message_id: str, now_us: int) -> Message:
        """Return a message by its id, whoever has it reserved."""
        return _found(self.queue(name, now_us), message_id).message

    def peek(self, name: str, n: int, now_us: int) -> list[Message]:
        """Return the next messages that can be reserved."""
        available = self.queue(name, now_us).available.values()
        return [stored.message for _, stored in zip(range(n), available, strict=False)]

    def touch(self, name: str, message_id: str, request: Touch, now_us: int) -> str:
        """Exchange a reservation for a new one, whose id is returned. It counts, and moves nothing."""
        queue = self.queue(name, now_us)
        stored = _reserved(queue, message_id, request.reservation_id)
        self._hold(queue, stored, request.timeout_s, now_us)
        assert stored.reservation_id is not None
        self._tell(Event.EXTENDED, queue, stored, now_us)
        return stored.reservation_id

    def release(self, name: str, message_id: str, request: Release, now_us: int) -> None:
        """Give up a reservation: the message goes to the front of its queue, now or after a delay."""
        queue = self.queue(name, now_us)
        stored = _reserved(queue, message_id, request.reservation_id)
        detail = f"released; available after {request.delay_s} s" if request.delay_s else "released"
        self._tell(Event.REQUEUED, queue, stored, now_us, detail=detail)
        stored.reservation_id = None
        if request.delay_s:
            self._timers.start(now_us + request.delay_s * _US, Then.TO_FRONT, queue, stored)
        else:
            queue.offer(stored, at_front=True)

    def delete(self, name: str, deletes: Iterable[Delete], now_us: int) -> None:
        """Delete messages: all of them, or none when one cannot be deleted."""
        queue = self.queue(name, now_us)
        for stored in {_deletable(queue, delete): None for delete in deletes}:
            if stored.reservation_id is None:
                self._purge(queue, stored, now_us, "deleted without a reservation")
            else:
                self._acknowledge(queue, stored, now_us)

    def clear(self, name: str, now_us: int) -> None:
        """Remove all messages from a queue, reserved ones too."""
        queue = self.queue(name, now_us)
        for stored in list(queue.messages.values()):
            self._purge(queue, stored, now_us)

    def _acknowledge(self, queue: Queue, stored: QueuedMessage, now_us: int) -> None:
        queue.remove(stored)
        self._tell(Event.ACKED, queue, stored, now_us)

    def _purge(self, queue: Queue, stored: QueuedMessage, now_us: int, detail: str = "") -> None:
        queue.remove(stored)
        self._tell(Event.PURGED, queue, stored, now_us, detail=detail)

    def _tell(
        self,
        event: Event,
        queue: Queue,
        stored: QueuedMessage,
        time_us: int,
        reason: str | None = None,
        detail: str = "",
    ) -> None:
        if self._hear is not None:
            self._hear(
                Happened(
                    event=event,
                    time_us=time_us,
                    vhost=self.name,
                    uid=stored.uid,
                    queue=queue.name,
                    reason=reason,
                    detail=detail,
                    message=stored.message.id,
                    more={"reserved_count": stored.message.reserved_count},
                )
            )


def _found(queue: Queue, message_id: str) -> QueuedMessage:
    stored = queue.messages.get(message_id)
    if stored is None:
        raise http_errors.message_not_found()
    return stored


def _reserved(queue: Queue, message_id: str, reservation_id: str) -> QueuedMessage:
    stored = _found(queue, message_id)
    if stored.reservation_id != reservation_id:
        raise http_errors.reservation_timed_out()
    return stored


def _deletable(queue: Queue, delete: Delete) -> QueuedMessage:
    if delete.reservation_id is not None:
        return _reserved(queue, delete.id, delete.reservation_id)
    stored = _found(queue, delete.id)
    if stored.reservation_id is not None:
        raise http_errors.reserved()
    return stored
