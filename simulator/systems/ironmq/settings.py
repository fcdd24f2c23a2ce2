"""The settings of a queue, and the requests that change them: create, update, subscribers.

The fields are named as in IronMQ's JSON, with the units added.

Creating a queue that exists updates it. An update keeps what it does not name, with one
exception that the reference makes: naming a dead letter queue without ``max_reservations`` means
the default of 10, whatever was set before.

Source: API reference, Create Queue and Update Queue; push queues reference; dead letter queue reference, Creating
and Removing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from simulator.systems.ironmq.fields import Fields, an_object, required_text, some, text, whole
from simulator.systems.ironmq.http_errors import bad_request

PULL = "pull"
PUSH_TYPES = ("multicast", "unicast")
TYPES = (PULL, *PUSH_TYPES)

MAX_RESERVATIONS = 10
MESSAGE_TIMEOUT_S = 60
MESSAGE_EXPIRATION_S = 7 * 86_400
RETRIES = 3
RETRIES_DELAY_S = 60

MAX_RESERVATIONS_MAX = 1000
# The reference says at least 30 seconds; the tests of the authors' clients reserve for 3 and 5.
TIMEOUT_MIN_S, TIMEOUT_MAX_S = 1, 86_400
EXPIRATION_MAX_S = 2_592_000  # 30 days, the limit of IronMQ v2; v3 documents none
RETRIES_MAX = 100
DELAY_MIN_S, DELAY_MAX_S = 3, 86_400  # between retries


class DeadLetterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a queue's dead letters go, and after how many reservations.

    Attributes:
        queue_name: a queue of the same project.
        max_reservations: how often a message can be reserved.
    """

    queue_name: str
    max_reservations: int = MAX_RESERVATIONS


class Subscriber(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a push queue pushes its messages."""

    name: str
    url: str
    headers: Mapping[str, str] = {}


class Push(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that make a push queue. ``error_queue`` is empty if the queue does not have one."""

    subscribers: tuple[Subscriber, ...]
    retries: int = RETRIES
    retries_delay_s: int = msgspec.field(default=RETRIES_DELAY_S, name="retries_delay")
    error_queue: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one queue; the defaults are those of a pull queue.

    Attributes:
        message_timeout_s: how long a reservation lasts that does not say so itself.
        message_expiration_s: how long a message lives on the queue.
        type: ``pull``, ``multicast`` or ``unicast``; it never changes.
        push: of a push queue.
        dead_letter: of a pull queue whose dead letters are kept.
    """

    message_timeout_s: int = msgspec.field(default=MESSAGE_TIMEOUT_S, name="message_timeout")
    message_expiration_s: int = msgspec.field(default=MESSAGE_EXPIRATION_S, name="message_expiration")
    type: str = PULL
    push: Push | None = None
    dead_letter: DeadLetterSettings | None = None

    def shown(self) -> dict[str, Any]:
        """Return the settings as IronMQ shows them: ``push`` and ``dead_letter`` only if the queue has them."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if value is not None}


# What a request may set. IronMQ passes over other names; a scenario with one has a misprint in it.
FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(Settings))


# What requests make of them


def configured(document: object, current: Settings | None = None) -> Settings:
    """Return the settings after a request.

    Args:
        document: the object ``queue`` of the request; ``None``: it says nothing.
        current: the settings before; ``None``: the queue is new.

    Raises:
        Refusal: 400, the document cannot be used.
    """
    fields = an_object(document, "queue")
    before = current or Settings(type=_type_of_new(fields))
    if fields.get("type") not in (None, before.type):
        raise bad_request(f"type must be one of {', '.join(TYPES)}, and is static: this queue is {before.type}")
    return Settings(
        message_timeout_s=whole(fields, "message_timeout", TIMEOUT_MIN_S, TIMEOUT_MAX_S, before.message_timeout_s),
        message_expiration_s=whole(fields, "message_expiration", 1, EXPIRATION_MAX_S, before.message_expiration_s),
        type=before.type,
        push=_push(fields, before),
        dead_letter=_dead_letter(fields, before),
    )


def _type_of_new(fields: Fields) -> str:
    """Return the type of a new queue. With ``push`` it is a push queue even if the type is left out."""
    kind = fields.get("type")
    if kind is None:
        return PUSH_TYPES[0] if fields.get("push") is not None else PULL
    if kind not in TYPES:
        raise bad_request(f"type must be one of {', '.join(TYPES)}")
    return str(kind)


def _dead_letter(fields: Fields, before: Settings) -> DeadLetterSettings | None:
    if fields.get("dead_letter") is None:
        return before.dead_letter
    if before.type != PULL:
        raise bad_request("dead_letter cannot be specified on a push queue; use push.error_queue")
    asked = an_object(fields["dead_letter"], "dead_letter")
    name = text(asked, "queue_name", "dead_letter.queue_name")
    if name:
        base = DeadLetterSettings(queue_name=name)
    elif before.dead_letter is None:
        raise bad_request("dead_letter.queue_name must be a non-empty string")
    elif name is None:
        base = before.dead_letter
    else:
        return None
    reservations = whole(
        asked, "max_reservations", 1, MAX_RESERVATIONS_MAX, base.max_reservations, "dead_letter.max_reservations"
    )
    return replace(base, max_reservations=reservations)


def _push(fields: Fields, before: Settings) -> Push | None:
    if before.type == PULL:
        if fields.get("push") is not None:
            raise bad_request("push cannot be specified on a pull queue")
        return None
    asked = an_object(fields.get("push"), "push")
    current = before.push or Push(subscribers=())
    subscribers = current.subscribers
    if asked.get("subscribers") is not None or not subscribers:
        subscribers = _subscribers(asked.get("subscribers"), "push.subscribers")
    error_queue = text(asked, "error_queue", "push.error_queue")
    return Push(
        subscribers=subscribers,
        retries=whole(asked, "retries", 0, RETRIES_MAX, current.retries, "push.retries"),
        retries_delay_s=whole(
            asked, "retries_delay", DELAY_MIN_S, DELAY_MAX_S, current.retries_delay_s, "push.retries_delay"
        ),
        error_queue=current.error_queue if error_queue is None else error_queue,
    )


def _subscribers(value: object, path: str) -> tuple[Subscriber, ...]:
    found = []
    for index, item in enumerate(some(value, path)):
        where = f"{path}[{index}]"
        fields = an_object(item, where)
        headers = an_object(fields.get("headers"), f"{where}.headers")
        found.append(
            Subscriber(
                name=required_text(fields, "name", f"{where}.name"),
                url=required_text(fields, "url", f"{where}.url"),
                headers={name: required_text(headers, name, f"{where}.headers.{name}") for name in headers},
            )
        )
    return tuple(found)


# The subscribers of a push queue


def subscribers_added(settings: Settings, value: object) -> Settings:
    """Add subscribers to settings, or change those whose name is known. Raises ``Refusal`` 400."""
    known = {subscriber.name: subscriber for subscriber in _pushed(settings).subscribers}
    return _subscribed(settings, (known | {each.name: each for each in _subscribers(value, "subscribers")}).values())


def subscribers_replaced(settings: Settings, value: object) -> Settings:
    """Return settings with these subscribers and no others. Raises ``Refusal`` 400."""
    _pushed(settings)
    return _subscribed(settings, _subscribers(value, "subscribers"))


def subscribers_removed(settings: Settings, value: object) -> Settings:
    """Remove the subscribers of these names from settings; at least one must be left. Raises ``Refusal`` 400."""
    names = {
        required_text(an_object(item, f"subscribers[{index}]"), "name", f"subscribers[{index}].name")
        for index, item in enumerate(some(value, "subscribers"))
    }
    left = [subscriber for subscriber in _pushed(settings).subscribers if subscriber.name not in names]
    if not left:
        raise bad_request("a push queue must keep one subscriber at least")
    return _subscribed(settings, left)


def _pushed(settings: Settings) -> Push:
    if settings.push is None:
        raise bad_request("a pull queue has no subscribers")
    return settings.push


def _subscribed(settings: Settings, subscribers: Iterable[Subscriber]) -> Settings:
    return replace(settings, push=replace(_pushed(settings), subscribers=tuple(subscribers)))
