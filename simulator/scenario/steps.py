"""The steps of a history: each is something that a publisher, a consumer, an operator or time does to a broker.

Steps are values. They name queues, never deliveries, so that a history stays
meaningful when steps are taken out of it, and they go to JSON and back. A step that
finds nothing to do, such as an acknowledgement where the queue is empty, does nothing.
``simulator.scenario.player`` plays them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from dlx.field_values import plain
from dlx.topology import Policy
from simulator.json_reading import SCHEMA_DIALECT
from simulator.json_values import canonical_json

TIMES_MAX = 1_000_000_000
BODY_BYTES_MAX = 1 << 24

_NO_HEADERS: Mapping[str, Any] = {}


class Step(
    msgspec.Struct,
    frozen=True,
    tag_field="do",
    omit_defaults=True,
    repr_omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The base of all steps. The JSON form says in ``do`` which it is: ``{"do": "crash", "queue": "orders"}``."""


def _checked_times(times: int) -> None:
    if not 1 <= times <= TIMES_MAX:
        raise ValueError(f"times is {times}; expected 1 to {TIMES_MAX:,}")


_Short = Annotated[str, msgspec.Meta(max_length=255)]
_Octet = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Properties(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, forbid_unknown_fields=True):
    """The basic properties of a publish that a step does not name itself, by their names in the protocol."""

    content_type: _Short | None = None
    content_encoding: _Short | None = None
    delivery_mode: _Octet = 2
    priority: _Octet | None = None
    correlation_id: _Short | None = None
    reply_to: _Short | None = None
    message_id: _Short | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0)] | None = None
    type: _Short | None = None
    user_id: _Short | None = None
    app_id: _Short | None = None
    cluster_id: _Short | None = None


class Publish(Step, tag="publish", frozen=True):
    """A client publishes ``times`` messages.

    Attributes:
        body_bytes: the size of each body.
        properties: the other basic properties, such as ``message_id``.
    """

    exchange: str
    routing_key: str
    headers: Mapping[str, Any] = _NO_HEADERS
    expiration_ms: int | None = None
    body_bytes: int = 0
    times: int = 1
    vhost: str = "/"
    properties: Properties = Properties()

    def __post_init__(self) -> None:
        _checked_times(self.times)
        if not 0 <= self.body_bytes <= BODY_BYTES_MAX:
            raise ValueError(f"body_bytes is {self.body_bytes}; expected 0 to {BODY_BYTES_MAX:,}")


class _AtQueue(Step, frozen=True):
    queue: str
    times: int = 1
    vhost: str = "/"

    def __post_init__(self) -> None:
        _checked_times(self.times)


class Ack(_AtQueue, tag="ack", frozen=True):
    """The queue's consumer acknowledges its oldest delivery; it subscribes first if it has no delivery."""


class Reject(_AtQueue, tag="reject", frozen=True):
    """The queue's consumer rejects its oldest delivery for good (``basic.reject``, ``requeue=False``)."""


class Requeue(_AtQueue, tag="requeue", frozen=True):
    """The queue's consumer returns its oldest delivery with ``requeue=True``, by ``basic.reject`` or ``basic.nack``."""

    method: Literal["reject", "nack"] = "reject"


class Modify(_AtQueue, tag="modify", frozen=True):
    """The queue's consumer, a client of AMQP 1.0, settles its oldest delivery as ``modified`` (from 4.0 on).

    Attributes:
        delivery_failed: whether the delivery counts as failed.
        undeliverable_here: whether the message is dead-lettered as a rejected one is; otherwise it goes back.
        annotations: what a quorum queue adds to its message annotations, which AMQP 0-9-1 sees as headers.
    """

    delivery_failed: bool = False
    undeliverable_here: bool = False
    annotations: Mapping[str, Any] = _NO_HEADERS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_annotations(self.annotations)


def check_annotations(annotations: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for annotations of an outcome with which RabbitMQ ends the session of who settles, or gets.

    Source: rabbit_amqp_session.erl settle_op_from_outcome, mc_util.erl infer_type.
    """
    for name, value in annotations.items():
        if not (isinstance(name, str) and name.startswith("x-")):
            raise ValueError(f"annotations: {name!r} does not begin with 'x-'; RabbitMQ ends the session for it")
        if value is None or isinstance(value, float):
            what = "it cannot be delivered: RabbitMQ closes the connection of each consumer that gets the message"
            raise ValueError(f"annotations: {name} is {value!r}; {what}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"annotations: {name} is {value}; a whole number has at most 64 bits in AMQP 1.0")


class Crash(_AtQueue, tag="crash", frozen=True):
    """The connection of the queue's consumer dies while it has a delivery; afterwards the queue has no consumer."""


class Hold(_AtQueue, tag="hold", frozen=True):
    """A consumer subscribes with a prefetch of ``times``, and keeps what it gets."""


class Get(_AtQueue, tag="get", frozen=True):
    """A client that does not subscribe takes a message by ``basic.get``; the queue's consumer settles it."""


class Leave(Step, tag="leave", frozen=True):
    """The queue's consumer closes its connection; what it has goes back."""

    queue: str
    vhost: str = "/"


class Wait(Step, tag="wait", frozen=True):
    """Time passes."""

    ms: int

    def __post_init__(self) -> None:
        if self.ms < 0:
            raise ValueError(f"ms is {self.ms}; time only goes forward")


class SetPolicy(Step, tag="set-policy", frozen=True):
    """An operator sets a policy, or with ``operator`` an operator policy."""

    policy: Policy
    operator: bool = False
    vhost: str = "/"


class ClearPolicy(Step, tag="clear-policy", frozen=True):
    """An operator removes a policy."""

    name: str
    operator: bool = False
    vhost: str = "/"


class Repeat(Step, tag="repeat", frozen=True):
    """The same steps again and again."""

    steps: tuple[AnyStep, ...]
    times: int

    def __post_init__(self) -> None:
        _checked_times(self.times)
        for step in self.steps:
            checked(step)
        if length([self]) > TIMES_MAX:
            raise ValueError(f"repeated steps make {length([self]):,} actions; expected {TIMES_MAX:,} at most")


AnyStep = (
    Publish | Ack | Reject | Requeue | Modify | Crash | Hold | Get | Leave | Wait | SetPolicy | ClearPolicy | Repeat
)
History = tuple[AnyStep, ...]
Changed = TypeVar("Changed", bound=Step)


def to_builtins(history: Iterable[AnyStep]) -> list[dict[str, Any]]:
    """Return the history as plain JSON values."""
    values: list[dict[str, Any]] = msgspec.to_builtins(list(history), enc_hook=plain)
    return values


def from_builtins(values: Any) -> History:
    """Return a history from plain JSON values. Raises ``msgspec.ValidationError`` naming the place that is wrong."""
    return msgspec.convert(values, type=History)


def made(do: str, **fields: Any) -> AnyStep:
    """Return a step of that kind. Raises ``ValueError`` naming the field that is wrong."""
    try:
        step: AnyStep = msgspec.convert({"do": do, **fields}, type=AnyStep)
    except msgspec.ValidationError as error:
        raise ValueError(f"{do}: {error}") from error
    return step


def checked(step: Any) -> AnyStep:
    """Return the step. Raises ``TypeError`` for anything else."""
    if not isinstance(step, Step):
        raise TypeError(f"{step!r} is not a step; expected one from simulator.scenario.steps, such as Wait(1_000)")
    return step  # type: ignore[return-value]


def changed(step: Changed, **fields: Any) -> Changed:
    """Return the step with other values in some fields."""
    return msgspec.structs.replace(step, **fields)


def again(part: History, times: int) -> AnyStep:
    """Return the steps of ``part``, ``times`` times: one step that says how often, where that is possible."""
    if len(part) == 1 and hasattr(part[0], "times") and not isinstance(part[0], Hold):
        step: AnyStep = changed(part[0], times=part[0].times * times)
        return step
    return Repeat(part, times)


def length(history: Iterable[AnyStep]) -> int:
    """Return how many single actions the history has."""
    return sum(_length(step) for step in history)


def _length(step: AnyStep) -> int:
    if isinstance(step, Repeat):
        return step.times * length(step.steps)
    return getattr(step, "times", 1)


def beginning(history: Iterable[AnyStep], actions: int) -> History:
    """Return the steps of which the history's first ``actions`` single actions are."""
    found: list[AnyStep] = []
    for step in history:
        size = _length(step)
        if actions >= size:
            found.append(step)
        elif isinstance(step, Repeat):
            times, rest = divmod(actions, length(step.steps))
            found += [again(step.steps, times)] if times else []
            found += beginning(step.steps, rest)
        elif actions:
            found.append(changed(step, times=actions))
        actions -= size
        if actions <= 0:
            break
    return tuple(found)


# The JSON Schema (draft 2020-12) of a system's scenarios, made from the types that read them.
#
# Editors complete and check scenarios by it. It has what the types know: fields, their values, and
# what docstrings say of them. What needs more than one field (a queue that no step creates, an id
# that is taken) the reader of a scenario says.


_FIELD = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)


def scenario_schema(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """Return the schema of what ``kind`` reads, as plain JSON values."""
    schema = msgspec.json.schema(kind)
    for struct in _structs(kind, set()):
        described = schema["$defs"][struct.__name__]
        described["description"] = _said(struct)[0]
        names = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
        for name, text in _field_texts(struct).items():
            described["properties"][names[name]].setdefault("description", text)
    return {"$schema": SCHEMA_DIALECT, "title": title, **schema}


def _structs(kind: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a type is made of, each once."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        for part in get_args(kind):
            yield from _structs(part, seen)
    elif kind not in seen:
        seen.add(kind)
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _structs(hint, seen)


def _field_texts(struct: type) -> dict[str, str]:
    """Return what the docstrings of a struct and of its bases say of its fields."""
    texts: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if each is not msgspec.Struct and issubclass(each, msgspec.Struct):
            texts |= _said(each)[1]
    known = {field.name for field in msgspec.structs.fields(struct)}
    return {name: text for name, text in texts.items() if name in known}


def _said(struct: type) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the struct, and of its fields in the section ``Attributes``."""
    whole, _, attributes = inspect.cleandoc(struct.__doc__ or "").partition("\n\nAttributes:\n")
    _, *parts = _FIELD.split(attributes)
    texts: dict[str, str] = {}
    for names, text in zip(parts[::2], parts[1::2], strict=True):
        texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return whole, texts


# Says the steps of a history in words, a line for each.


def in_words(history: Iterable[AnyStep], indent: str = "") -> list[str]:
    """Return the history in words, a line for each step."""
    lines = []
    for step in history:
        if isinstance(step, Repeat):
            lines.append(f"{indent}{step.times:,} times:")
            lines += in_words(step.steps, indent + "    ")
        else:
            lines.append(indent + _words(step))
    return lines


def _words(step: AnyStep) -> str:
    match step:
        case Publish():
            where = f"exchange '{step.exchange}'" if step.exchange else "the default exchange"
            told = f"publish to {where} with routing key '{step.routing_key}'"
            told += (
                f", headers {canonical_json(msgspec.to_builtins(dict(step.headers), enc_hook=plain))}"
                if step.headers
                else ""
            )
            told += f", properties {more}" if (more := msgspec.to_builtins(step.properties)) else ""
            told += f", expiration {step.expiration_ms} ms" if step.expiration_ms is not None else ""
            told += f", {step.body_bytes:,} bytes" if step.body_bytes else ""
        case Ack():
            told = f"the consumer of '{step.queue}' acknowledges"
        case Reject():
            told = f"the consumer of '{step.queue}' rejects for good"
        case Requeue():
            told = f"the consumer of '{step.queue}' requeues by basic.{step.method}"
        case Modify():
            told = f"the consumer of '{step.queue}' settles as modified{_modified(step)}"
        case Crash():
            told = f"the consumer of '{step.queue}' crashes with its delivery"
        case Hold():
            return f"a consumer of '{step.queue}' takes up to {step.times} and keeps them{_where(step)}"
        case Get():
            told = f"a client takes from '{step.queue}' by basic.get"
        case Leave():
            told = f"the consumer of '{step.queue}' leaves"
        case Wait():
            return f"{step.ms:,} ms pass"
        case SetPolicy():
            told = f"an operator sets {'operator ' * step.operator}policy '{step.policy.name}'"
        case ClearPolicy():
            told = f"an operator clears {'operator ' * step.operator}policy '{step.name}'"
        case _:
            raise TypeError(f"not a step: {step!r}")
    times = getattr(step, "times", 1)
    return told + _where(step) + (f", {times:,} times" if times > 1 else "")


def _modified(step: Modify) -> str:
    told = ", delivery failed" * step.delivery_failed + ", undeliverable here" * step.undeliverable_here
    if step.annotations:
        told += f", annotations {canonical_json(msgspec.to_builtins(dict(step.annotations), enc_hook=plain))}"
    return told


def _where(step: Any) -> str:
    return "" if step.vhost == "/" else f" in virtual host '{step.vhost}'"
