"""The faults that may be asked for, as data, and how they are read.

A fault has occasions, such as the deliveries from a queue. It strikes at every ``nth`` of
them, with a ``probability`` if one is given, until it has struck as many ``times`` as asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

import msgspec

from dlx.amqp_errors import NAMES, SOFT
from dlx.nearest_names import suggestion
from simulator.server.alarm import Resource

MS_MAX = 100 * 365 * 86_400_000  # a hundred years
_AT = re.compile(r" - at `\$\.(\w+).*`$")
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=MS_MAX)]
_MillisecondsOrNone = Annotated[int, msgspec.Meta(ge=0, le=MS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=200)]


class FaultError(ValueError):
    """A fault that cannot be set: the field that is wrong, what would be right, and the nearest name."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="fault"):
    """What all faults have in common: nothing but their name."""

    @property
    def kind(self) -> str:
        """The name of the fault, such as ``close_channel``."""
        return str(self.__struct_config__.tag)


class Repeated(Fault, frozen=True, kw_only=True):
    """A fault that strikes on occasions.

    Attributes:
        vhost: only in this virtual host; ``None``: in all.
        nth: it strikes at every nth occasion.
        times: how often it strikes at most; ``None``: until it is cleared.
        probability: of striking when it is its turn.
        seed: of the dice for ``probability``.
    """

    vhost: str | None = None
    nth: _Count = 1
    times: _Count | None = 1
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1
    seed: int = 0


class OfDeliveries(Repeated, frozen=True, kw_only=True):
    """A fault whose occasions are deliveries from a queue; ``None``: from any queue."""

    queue: str | None = None


class OfConfirms(Repeated, frozen=True, kw_only=True):
    """A fault whose occasions are confirms of publishes to an exchange ("": the default one); ``None``: to any."""

    exchange: str | None = None


class Closing(OfDeliveries, frozen=True, kw_only=True):
    """After a delivery, at once or ``delay_ms`` later, the server closes what it went through."""

    delay_ms: _MillisecondsOrNone = 0
    code: int
    text: _Text = ""


class CloseChannel(Closing, frozen=True, kw_only=True, tag="close_channel"):
    """After a delivery, the server closes the channel that it went to."""

    code: int = 406


class CloseConnection(Closing, frozen=True, kw_only=True, tag="close_connection"):
    """After a delivery, the server closes the connection that it went to; ``silent``: it is cut without a word."""

    code: int = 320
    silent: bool = False


class DelayDelivery(OfDeliveries, frozen=True, kw_only=True, tag="delay_delivery"):
    """A delivery to a consumer comes later, and those behind it on its channel not before it."""

    delay_ms: _Milliseconds


class DropConfirm(OfConfirms, frozen=True, kw_only=True, tag="drop_confirm"):
    """A confirm is lost on its way."""


class DelayConfirm(OfConfirms, frozen=True, kw_only=True, tag="delay_confirm"):
    """A confirm comes later."""

    delay_ms: _Milliseconds


class RefuseDeclare(Repeated, frozen=True, kw_only=True, tag="refuse_declare"):
    """A queue or an exchange of this name cannot be declared, passively either."""

    queue: str | None = None
    exchange: str | None = None
    code: int = 406
    text: _Text = ""


class RaiseAlarm(Fault, frozen=True, kw_only=True, tag="alarm"):
    """A resource is short: publishers must wait, for ``for_ms`` or until the fault is cleared."""

    resource: str
    for_ms: _Milliseconds | None = None


KINDS: Mapping[str, type[Fault]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (CloseChannel, CloseConnection, DelayDelivery, DropConfirm, DelayConfirm, RefuseDeclare, RaiseAlarm)
}


def read_fault(document: Mapping[str, Any]) -> Fault:
    """Return the fault that JSON such as ``{"fault": "close_channel", "queue": "orders"}`` asks for.

    Raises:
        FaultError: it names the field that is wrong.
    """
    name = document.get("fault")
    if not isinstance(name, str):
        raise FaultError(f"fault: expected the name of a fault, got {name!r:.60}; there are {', '.join(KINDS)}")
    kind = KINDS.get(name)
    if kind is None:
        raise FaultError(f"fault: no fault {name!r:.60}; {suggestion(name, KINDS)}")
    fields = kind.__struct_fields__
    for field in document.keys() - {"fault", *fields}:
        raise FaultError(f"{field:.60}: {name} has no such field; {suggestion(field, fields)}")
    try:
        fault = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise FaultError(_reword(str(error))) from error
    _check(fault)
    return fault


def _check(fault: Fault) -> None:
    """Raise ``FaultError`` for fields whose values do not go with the fault, or with each other."""
    match fault:
        case CloseChannel(code=code) if code not in SOFT:
            raise FaultError(f"code: expected one that ends a channel ({_listed(SOFT)}), got {code}")
        case CloseConnection(code=code) if code not in NAMES.keys() - SOFT:
            raise FaultError(f"code: expected one that ends a connection ({_listed(NAMES.keys() - SOFT)}), got {code}")
        case RefuseDeclare(code=code) if code not in NAMES:
            raise FaultError(f"code: expected a reply code ({_listed(NAMES)}), got {code}")
        case RefuseDeclare(queue=queue, exchange=exchange) if (queue is None) == (exchange is None):
            raise FaultError("queue, exchange: expected one of the two: the name that clients cannot declare")
        case RaiseAlarm(resource=resource) if resource not in get_args(Resource):
            raise FaultError(f"resource: no resource {resource!r:.60}; {suggestion(resource, get_args(Resource))}")


def _reword(problem: str) -> str:
    """Return the problem with its field in front."""
    missing = re.fullmatch(r"Object missing required field `(\w+)`", problem)
    if missing:
        return f"{missing[1]}: expected a value, got none"
    found = _AT.search(problem)
    text = problem[: found.start()] if found else problem
    return f"{found[1]}: {text[0].lower()}{text[1:]}" if found else text


def _listed(codes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(codes)))
