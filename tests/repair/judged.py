"""Judges what a repair says of a planted fault: where the true cause stands among the hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from time import process_time
from typing import Any, Literal
from unittest.mock import patch

import msgspec

from dlx.releases import RELEASES, release
from simulator.capture.schema import to_batches
from simulator.replay.engines.local import repair_table
from simulator.replay.repair.hypotheses import OtherBinding, OtherExchange, OtherSetting, Part
from simulator.replay.repair.repair_log import Repairer
from simulator.replay.repair.repair_report import Likely, Repairs
from tests.repair.planted import FAULTS, Planted, Truth, drawn_topologies, planted

Standing = Literal["first", "first of several", "among the likely", "not named"]
STANDINGS: tuple[Standing, ...] = ("first", "first of several", "among the likely", "not named")
"""``first``: nothing else costs as little; ``first of several``: nothing costs less."""
BATCH = 48
"""Topologies that are drawn at once, for one release."""


class Judged(msgspec.Struct, frozen=True):
    """A planted fault, what was said of it, and where the truth stands; ``ms`` are the times by sequence."""

    planted: Planted
    repairs: Repairs
    standing: Standing
    ms: tuple[float, ...]


def judged(fault: Planted) -> Judged | None:
    """Repair the log and judge the answer; ``None`` where the fault leaves nothing unexplained."""
    with _timed() as ms:
        repairs = repair_table(to_batches(fault.rows), fault.definitions, fault.release.name)
    if not repairs.found and not repairs.unexplained:
        return None
    return Judged(fault, repairs, standing(repairs, fault.truth), tuple(ms))


def all_judged(faults: int, seed: int, releases: Sequence[str] = RELEASES) -> Iterator[Judged]:
    """Plant that many faults that leave something unexplained, as many of each kind, and judge each."""
    wanted = Counter({fault: -(-faults // len(FAULTS)) for fault in FAULTS})
    for batch in count():
        rules = release(releases[batch % len(releases)])
        for at, topology in enumerate(drawn_topologies(rules, seed * 10_000 + batch, BATCH)):
            fault = FAULTS[at % len(FAULTS)]
            if wanted[fault] > 0:
                made = planted(fault, (seed * 10_000 + batch) * BATCH + at, topology, rules)
                found = None if made is None else judged(made)
                if found is not None:
                    wanted[fault] -= 1
                    yield found
        if not any(wanted.values()):
            return


@contextmanager
def _timed() -> Iterator[list[float]]:
    """Measure the processor time of each sequence, in ms."""
    ms: list[float] = []
    suggestions = Repairer.suggestions

    def timed(self: Repairer, *arguments: Any) -> Any:
        start = process_time()
        found = suggestions(self, *arguments)
        ms.append(1_000 * (process_time() - start))
        return found

    with patch.object(Repairer, "suggestions", timed):
        yield ms


def standing(repairs: Repairs, truth: Truth) -> Standing:
    """Say where the truth stands, in the repair in which it stands best."""
    found = [_standing(repair.likely, truth) for repair in repairs.found]
    return min(found, key=STANDINGS.index, default="not named")


def _standing(likely: Sequence[Likely], truth: Truth) -> Standing:
    right = [each.cost for each in likely if is_right(each, truth)]
    if not right:
        return "not named"
    if min(right) > likely[0].cost:
        return "among the likely"
    return "first" if sum(each.cost == likely[0].cost for each in likely) == 1 else "first of several"


def is_right(likely: Likely, truth: Truth) -> bool:
    """Say whether the hypothesis is what was planted."""
    if likely.kind not in truth.kinds or (truth.queue is not None and likely.queue != truth.queue):
        return False
    if truth.header is not None and truth.header not in likely.headers:
        return False
    return truth.part is None or any(_same(truth.part, part) for part in likely.changes)


def _same(true: Part, part: Part) -> bool:
    match true, part:
        case OtherSetting(), OtherSetting():
            return (true.queue, true.key) == (part.queue, part.key) and (not true.exact or true.value == part.value)
        case OtherBinding(), OtherBinding():
            return (true.exchange, true.queue) == (part.exchange, part.queue)
        case OtherExchange(), OtherExchange():
            return true.name == part.name
    return False
