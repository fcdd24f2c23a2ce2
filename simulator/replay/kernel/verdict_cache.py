"""What a replay has worked out: signatures, verdicts and sequences by number, and the explainer of each virtual host.

All of it is remembered from batch to batch, and worked out again when there is too much of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from dlx.bounded_cache import BoundedCache
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.topology import Topology
from simulator.events import Event
from simulator.replay.checks import check_texts
from simulator.replay.checks.explain import Explainer
from simulator.replay.checks.lengths import Arrivals
from simulator.replay.checks.path_times import UNKNOWN
from simulator.replay.checks.times import HopMarks, Refutation, TimeCheck
from simulator.replay.coverage.shown import ExplainedDelivery, RuleAtQueue, ShownRules
from simulator.replay.kernel.attribution import AttributingLineage
from simulator.replay.kernel.message_verdicts import Fits, Lineage, RowVerdict, always, not_checked
from simulator.replay.kernel.signatures import Signatures
from simulator.replay.rows.assumptions import Assumptions
from simulator.replay.rows.columns import AlikeKeys, Ints, alike_sequences, firsts
from simulator.replay.rows.verdict_words import Verdict
from simulator.replay.search.copies import DeadEnd

T = TypeVar("T")
_encode = msgspec.json.Encoder(order="deterministic").encode
REMEMBERED_MAX = 200_000
"""How many sequences, templates and states are kept; beyond that they are worked out again."""
Found = npt.NDArray[np.int32]
"""What is found out about the rows of a message: the numbers of their verdicts; below them of what they ask of the
times, of their dead ends, and of the deliveries whose rules they may show."""
NO_VERDICT = -1
"""The number for no verdict: only deliveries have one."""


class Numbered(Generic[T]):
    """Values by number; equal ones have the same."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.values: list[T] = []

    def number(self, value: T) -> int:
        """Return the number of a value; a new one gets the next."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


def sequence_numbers(values: Ints, lengths: Ints, known: Numbered[tuple[int, ...]]) -> Ints:
    """Return a number for each sequence of values, which are below 2^32 and follow each other."""
    which = alike_sequences(values, lengths)
    starts = np.cumsum(lengths) - lengths
    first = firsts(which)
    sequences = zip(starts[first].tolist(), (starts + lengths)[first].tolist(), strict=True)
    return np.array([known.number(tuple(values[start:end].tolist())) for start, end in sequences], np.int64)[which]


class Memory:
    """All results for one log under the rules of one release.

    Attributes:
        lateness: how late the rows may be.
        lost_rows: where the log lacks rows.
        signatures: the signatures and their templates.
        clock: judges the times of rows.
        dead_ends: the ways in which messages may be lost; 0 is none.
        remembered: what was found out, by what the verdicts on the rows of a message depend on.
    """

    def __init__(
        self,
        topologies: Mapping[str | None, Topology],
        rules: Release,
        captured_on: Release | None,
        assumptions: Assumptions,
        arrivals: Arrivals,
        *,
        details: bool,
    ) -> None:
        self.lateness = assumptions.lateness
        self.lost_rows = assumptions.lost_rows
        self._topologies = topologies
        self._rules = rules
        self._captured_on = captured_on
        self._assumptions = assumptions
        self._arrivals = arrivals
        self._details = details
        self._begin()

    def _begin(self) -> None:
        self._explainers: dict[str, Explainer] = {}
        self._shown_rules: dict[str, ShownRules] = {}
        self._verdicts: Numbered[Verdict] = Numbered()
        self._marked: dict[tuple[int, str, str, HopMarks], int] = {}
        self.dead_ends: Numbered[tuple[DeadEnd, ...]] = Numbered()
        self.dead_ends.number(())  # 0
        self._deliveries: dict[Any, int] = {}
        self._waiting: dict[int, tuple[str, ExplainedDelivery]] = {}
        self._shown: dict[int, tuple[RuleAtQueue, ...]] = {}
        self.begin_rows()
        self._keys: dict[str, AlikeKeys] = {}
        self.signatures = Signatures(self._number_of_key_of)
        self.clock = TimeCheck(self._assumptions, self._arrivals)
        self.remembered: BoundedCache[bytes, Found] = BoundedCache(REMEMBERED_MAX)
        self._headers: Numbered[bytes] = Numbered()
        self.headers_number({})  # 0
        self._repeats: Numbered[tuple[int, ...]] = Numbered()
        self._repeats.number((0,))  # 0

    def begin_rows(self) -> None:
        """Begin with other rows of the log: no rule is shown yet."""
        self._asked: set[int] = set()
        self._told: set[tuple[str, RuleAtQueue]] = set()

    def forget(self) -> None:
        """Keep memory bounded on logs in which little repeats."""
        states = sum(explainer.size for explainer in self._explainers.values())
        most = max(states, len(self._verdicts.values), self.signatures.template_count, self.clock.size)
        most = max(most, len(self._deliveries), len(self._headers.values), len(self._repeats.values))
        if most > REMEMBERED_MAX:
            self._begin()
        self.signatures.forget()

    def explainer(self, vhost: str) -> Explainer | None:
        """Return the explainer of a virtual host, ``None`` if the definitions do not have it."""
        if vhost not in self._explainers:
            topology = self._topologies.get(vhost, self._topologies.get(None))
            if topology is None:
                return None
            self._explainers[vhost] = Explainer(topology, self._rules)
            self._shown_rules[vhost] = ShownRules(self._explainers[vhost])
        return self._explainers[vhost]

    def _number_of_key_of(self, vhost: str) -> Callable[[str], int | None] | None:
        """Return what numbers the routing keys of a virtual host, ``None`` if the definitions do not have it."""
        known = self._keys.get(vhost)
        explainer = None if known else self.explainer(vhost)
        if explainer is not None:
            known = self._keys[vhost] = AlikeKeys(explainer.flow)
        return None if known is None else known.number

    def headers_looked_at(self, vhost: str) -> frozenset[str]:
        """Return the user headers that exchanges of the virtual host compare."""
        explainer = self.explainer(vhost)
        return frozenset() if explainer is None else explainer.headers_looked_at

    def headers_number(self, headers: Mapping[str, Any]) -> int:
        """Return the number of user headers; equal ones have the same, and none have 0."""
        return self._headers.number(_encode(headers))

    def repeats(self, values: Ints, lengths: Ints) -> npt.NDArray[np.int32]:
        """Return for each row of messages the number of how its content and its values repeat earlier ones.

        ``values`` say so for the content, and then for each value, one row after the other; each row has as
        many. The number of a row with the message's first content and without values is 0.
        """
        return sequence_numbers(values, lengths, self._repeats).astype(np.int32)

    def lineage(self, vhost: str) -> Lineage | None:
        """Return the beginning of a message in that virtual host, ``None`` if the definitions do not have it."""
        explainer = self.explainer(vhost)
        if explainer is None:
            return None
        return AttributingLineage(explainer, self._captured_on) if self._details else Lineage(explainer)

    def step(
        self, lineage: Lineage | None, number: int, content: str, headers: Mapping[str, Any], fits: Fits = always
    ) -> RowVerdict:
        """Take the next row of a message."""
        row = self.signatures.row(number)
        if lineage is not None:
            return lineage.step(row, content, headers, fits)
        if row.event != Event.DELIVERED:
            return RowVerdict(None, UNKNOWN)
        why = f"virtual host '{row.vhost}' is not in the definitions"
        return RowVerdict(not_checked("queue", row.queue or "", why), UNKNOWN)

    # -- coverage ----------------------------------------------------------------

    def delivery_number(self, delivery: ExplainedDelivery | None) -> int:
        """Return the number of an explained delivery; those that show the same rules have the same, none has 0.

        All have 0 unless details are wanted.
        """
        if delivery is None or not self._details:
            return 0
        key = delivery.row.vhost, delivery.key
        number = self._deliveries.get(key)
        if number is None:
            number = self._deliveries[key] = len(self._deliveries) + 1
            self._waiting[number] = delivery.row.vhost, delivery
        return number

    def newly_shown(self, vhost: str, number: int) -> list[RuleAtQueue]:
        """Return the rules that the delivery with that number is the first to show; nothing if it was asked before."""
        if not number or number in self._asked:
            return []
        self._asked.add(number)
        new = [each for each in self._shown_by(number) if (vhost, each) not in self._told]
        self._told.update((vhost, each) for each in new)
        return new

    def _shown_by(self, number: int) -> tuple[RuleAtQueue, ...]:
        if number in self._waiting:
            vhost, delivery = self._waiting.pop(number)
            self._shown[number] = self._shown_rules[vhost].of(delivery)
        return self._shown.get(number, ())

    # -- verdicts ----------------------------------------------------------------

    def number(self, verdict: Verdict | None) -> int:
        """Return the verdict's number; equal verdicts have the same, and none has ``NO_VERDICT``."""
        return NO_VERDICT if verdict is None else self._verdicts.number(verdict)

    def verdict(self, number: int) -> Verdict | None:
        """Return the verdict with that number, ``None`` for ``NO_VERDICT``."""
        return None if number < 0 else self._verdicts.values[number]

    def marked(self, number: int, vhost: str, queue: str, marks: HopMarks) -> int:
        """Return the number of the verdict, on a delivery from that queue, with what is unchecked where marks are."""
        key = number, vhost, queue, marks
        if key not in self._marked:
            verdict = self._verdicts.values[number]
            flow = self._flow(vhost)
            settings = {name: flow.settings(name) for name in (queue, *(hop.queue for hop in verdict.hops))}
            found = check_texts.unchecked(verdict.hops, queue, settings, marks, self._assumptions.tolerance_ms)
            unchecked = tuple(dict.fromkeys((*verdict.unchecked, *found)))
            self._marked[key] = self.number(msgspec.structs.replace(verdict, unchecked=unchecked))
        return self._marked[key]

    def refuted(self, number: int, vhost: str, queue: str, fault: Refutation) -> int:
        """Return the number of the verdict on a delivery all paths to which the times refute.

        ``queue`` is where it was delivered from.
        """
        verdict = self._verdicts.values[number]
        hop = verdict.hops[fault.place] if fault.place < len(verdict.hops) else None
        settings = self._flow(vhost).settings(self.queue_of(fault, number, queue))
        found = check_texts.difference(fault, hop, settings)
        return self.number(msgspec.structs.replace(verdict, name="differ", alternatives=(), differences=(found,)))

    def queue_of(self, fault: Refutation, number: int, queue: str) -> str:
        """Return the queue that a fault is about, in the verdict with that number on a delivery from ``queue``."""
        hops = self._verdicts.values[number].hops
        return hops[fault.place].queue if fault.place < len(hops) else queue

    def _flow(self, vhost: str) -> MessageFlow:
        explainer = self.explainer(vhost)
        assert explainer is not None, "it has given verdicts"
        return explainer.flow
