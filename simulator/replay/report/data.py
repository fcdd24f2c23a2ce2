"""The data that a report shows: small, already aggregated tables, whatever the size of the replay."""

from __future__ import annotations

import msgspec

from simulator.capture import FileReport
from simulator.replay.coverage.totals import Coverage
from simulator.replay.repair.repair_report import NO_REPAIRS, Repairs
from simulator.replay.results.counters import Balance
from simulator.replay.results.summary import LostMessages, Summary, UncheckedFinding
from simulator.replay.search.losses import LossyQueue

REPUBLISHED = "republished"
"""Stands in a path beside the queue that had delivered a message before a client published it again."""


class Published(msgspec.Struct, frozen=True):
    """Copies that publishes put into a queue; ``queue`` ``None``: publishes that reached none."""

    vhost: str
    exchange: str
    queue: str | None
    count: int


class DeadLetterFlow(msgspec.Struct, frozen=True):
    """Dead letters of one kind: who died where and why, and through which exchange it went where.

    ``count`` are the copies; of a death with several, only one is in ``deaths``.
    """

    vhost: str
    queue: str
    reason: str
    exchange: str
    to_queue: str
    count: int
    deaths: int


class QueueDeliveries(msgspec.Struct, frozen=True):
    """Deliveries from a queue; ``unlike`` of them differ or are unexplained."""

    vhost: str
    queue: str
    count: int
    unlike: int


class Deaths(msgspec.Struct, frozen=True):
    """Dead letters of a queue for a reason in one interval; ``queue`` ``None``: all queues not named."""

    start_us: int
    vhost: str | None
    queue: str | None
    reason: str
    count: int


class DeathPath(msgspec.Struct, frozen=True):
    """Deliveries to which the same deaths led, each as (queue, reason), and of how many messages.

    The first reason is ``republished`` where a client published the message again after that queue had delivered it.
    """

    vhost: str
    deaths: tuple[tuple[str, str], ...]
    queue: str
    deliveries: int
    messages: int


class Example(msgspec.Struct, frozen=True):
    """One delivery, by where the log has it."""

    vhost: str
    queue: str
    message: str
    file: str
    line: int


class FieldDiffers(msgspec.Struct, frozen=True):
    """Deliveries from a queue in which a field differs, for the same behaviours of the release table."""

    field: str
    behaviours: tuple[str, ...]
    count: int
    expected: str
    seen: str
    example: Example


class DifferenceCause(msgspec.Struct, frozen=True):
    """The number of deliveries that differ because of the same behaviours, or of none that is known."""

    behaviours: tuple[str, ...]
    count: int


class Unexplained(msgspec.Struct, frozen=True):
    """Deliveries that nothing explains, for the same reason; ``behaviours`` as in ``DifferenceCause``."""

    why: str
    count: int
    example: Example
    behaviours: tuple[str, ...] = ()


class Ambiguous(msgspec.Struct, frozen=True):
    """Deliveries that the same few paths explain equally well."""

    alternatives: tuple[str, ...]
    count: int
    example: Example


class MessageStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a message's life, in words. ``kind`` is how it is marked; ``time_us`` ``None``: it has no time."""

    time_us: int | None
    kind: str
    text: str
    line: str = ""


class MessageLife(msgspec.Struct, frozen=True):
    """What the log and the rules tell of one message.

    ``ending`` says whether it is ``lost`` or ``held``, or ``may be`` either, in ``queue``, and ``why``; ``unlike``: one
    of its deliveries is not as predicted.
    """

    vhost: str
    message: str
    steps: tuple[MessageStep, ...]
    ending: str = ""
    queue: str = ""
    unlike: bool = False
    why: str = ""


class ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows.

    ``publishes`` is ``None`` where the captured rows were not at hand. ``cut``
    names the tables that have more rows than are kept; those kept are the most frequent.
    ``balance`` is ``None`` where the broker's counters were not given.
    """

    rules: str
    captured_on: str | None
    definitions: str
    summary: Summary
    files: tuple[FileReport, ...]
    span_us: tuple[int, int] | None
    publishes: tuple[Published, ...] | None
    dead_letters: tuple[DeadLetterFlow, ...]
    deliveries: tuple[QueueDeliveries, ...]
    bucket_us: int
    deaths: tuple[Deaths, ...]
    paths: tuple[DeathPath, ...]
    differences: tuple[FieldDiffers, ...]
    causes: tuple[DifferenceCause, ...]
    unexplained: tuple[Unexplained, ...]
    ambiguous: tuple[Ambiguous, ...]
    losses: tuple[LossyQueue, ...]
    unchecked: tuple[UncheckedFinding, ...] = ()
    lost: tuple[LostMessages, ...] = ()
    messages: tuple[MessageLife, ...] = ()
    cut: frozenset[str] = frozenset()
    balance: Balance | None = None
    repairs: Repairs = NO_REPAIRS
    coverage: Coverage | None = None
