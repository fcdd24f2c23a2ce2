"""The types that a file of tests is read by: cases, with the steps of scenarios and expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from dlx.deaths import REASONS
from dlx.nearest_names import suggestion
from simulator.scenario.steps import AnyStep, Properties, Step
from simulator.server.faults.fault import (
    CloseChannel,
    CloseConnection,
    DelayConfirm,
    DelayDelivery,
    DropConfirm,
    RaiseAlarm,
)

Time = int | str
"""A time since the start of a case: milliseconds, or text such as ``90s`` or ``1h 30min``."""
Releases = Annotated[str | list[str], msgspec.Meta(examples=["4.3", ">=3.10 <4.0"])]
LossKind = Literal["dropped", "cycle-dropped", "unroutable", "nacked", "purged"]
"""How a copy was lost: by the values of ``simulator.events.Event``."""


_Times = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_PROPERTIES = (*Properties.__struct_fields__, "expiration")


class ExpectedDeath(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """One entry of ``x-death``; what is left out may be anything.

    Attributes:
        queue, reason, count, exchange, routing_keys: as in the entry.
        original_expiration: as in the entry; null for an entry without.
    """

    queue: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    exchange: str | UnsetType = UNSET
    routing_keys: list[str] | UnsetType = UNSET
    original_expiration: str | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        _check_reason(self.reason)


class ExpectedMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message as a consumer would get it; what is left out may be anything.

    Attributes:
        exchange, routing_key: where it was published to last.
        deaths: the entries of its ``x-death``, all of them and in their order; an empty list for none.
        headers: some of its headers; null for one that it must not have.
        properties: some of its basic properties; null for one that it must not have.
        redelivered: the flag of the delivery.
        times: how many such messages follow each other.
    """

    exchange: str | UnsetType = UNSET
    routing_key: str | UnsetType = UNSET
    deaths: list[ExpectedDeath] | UnsetType = UNSET
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    redelivered: bool | UnsetType = UNSET
    times: _Times = 1

    def __post_init__(self) -> None:
        for name in self.properties:
            if name not in _PROPERTIES:
                raise ValueError(f"properties: no property {name!r}; {suggestion(name, _PROPERTIES)}")


class ExpectedLoss(msgspec.Struct, forbid_unknown_fields=True):
    """Copies that were lost; what is left out may be anything.

    Attributes:
        queue: the queue in which they died, or that refused them.
        reason: the reason of their death.
        how: what became of them.
        times: how many.
    """

    queue: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    how: LossKind | UnsetType = UNSET
    times: _Times = 1

    def __post_init__(self) -> None:
        _check_reason(self.reason)


def _check_reason(reason: str | UnsetType) -> None:
    if reason is not UNSET and reason not in REASONS:
        raise ValueError(f"reason: nothing dies of {reason!r}; {suggestion(reason, REASONS)}")


class Expect(Step, tag="expect", frozen=True):
    """What has to hold now, or at a time.

    Attributes:
        at: time passes until then.
        queues: the ready messages of each queue, the first one first: how many, or each of them. Those that are not
            named have to be empty. Without it no queue is looked at.
        lost: the copies that were lost since the start, besides unroutable and refused publishes.
        unroutable: how many publishes reached no queue since the start.
        refused: how many publishes were refused (``basic.nack``) since the start.
        unconfirmed: how many publishes had no answer so far, because of a fault.
        releases: the releases for which this is expected.
    """

    at: Time | None = None
    queues: dict[str, int | list[ExpectedMessage]] | None = None
    lost: tuple[ExpectedLoss, ...] = ()
    unroutable: int = 0
    refused: int = 0
    unconfirmed: int = 0
    releases: Releases | None = None


class Until(Step, tag="until", frozen=True):
    """Time passes until a time since the start.

    Attributes:
        at: the time.
    """

    at: Time


AnyFault = CloseChannel | CloseConnection | DelayDelivery | DropConfirm | DelayConfirm | RaiseAlarm
"""The faults that can strike in a case: all but the one of declarations, which no step makes."""


class SetFaults(Step, tag="faults", frozen=True):
    """From now on something goes wrong for the clients, on request (docs/how-to/faults.md).

    Attributes:
        clear: whether the faults that were set before are forgotten.
        set: the faults.
    """

    clear: bool = False
    set: tuple[AnyFault, ...] = ()


CaseStep = AnyStep | Expect | Until | SetFaults


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One case: a broker of its own, what happens there, and what is expected.

    Attributes:
        name: its name, which no other case of the file has.
        definitions: an export of one virtual host, or the path of one beside this file. Queues and exchanges are
            durable and have no arguments where they do not say. By default that of the file.
        vhost: the virtual host of the export that is meant, if there are several.
        releases: the releases for which the case is.
        steps: what publishers, consumers, operators and time do, and what is expected between them.
        each: the case is one for each of these rows, or for each combination of values in lists. $name stands for the
            value of the row everywhere in the case, $(name) for the same as text; write $$ for a dollar.
    """

    name: str
    steps: tuple[CaseStep, ...]
    definitions: dict[str, Any] | str | None = None
    vhost: str | None = None
    releases: Releases | None = None
    each: list[dict[str, Any]] | dict[str, list[Any]] | None = None


class CaseFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A file of cases.

    Attributes:
        cases: the cases.
        definitions: for the cases that have none of their own.
        vhost: the virtual host of these definitions that is meant, if there are several.
    """

    cases: tuple[Case, ...]
    definitions: dict[str, Any] | str | None = None
    vhost: str | None = None


FIELDS_AT: Mapping[str, type[msgspec.Struct]] = {
    "deaths": ExpectedDeath,
    "queues": ExpectedMessage,
    "lost": ExpectedLoss,
    "properties": Properties,
    "cases": Case,
    "": CaseFile,
}
"""The structs by the field that holds them, to name fields that come near an unknown one."""
