"""How many messages can have been in a queue with a length limit, by the publishes of the whole log.

A death of ``maxlen`` needs more messages in its queue than the limit. One message does not
tell how many others there were; so a first pass over all publishes counts, by second,
what each can have put into such queues (``simulator.replay.entrants``). The kernel then
asks for the number up to the moment of a death (``simulator.replay.lengths``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dlx.message import PublishRefusedError
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.routing import headers_looked_at
from dlx.topology import Topology
from simulator.replay.alike_keys import AlikeKeys
from simulator.replay.entrants import Entrant, Entrants
from simulator.replay.explain import Explainer
from simulator.replay.lengths import SECOND_US, Arrivals, QueueArrivals
from simulator.replay.row_codec import CONTENT, SIGNATURE, looked_at
from simulator.replay.signatures import Signatures
from simulator.replay.states import Row

REMEMBERED_MAX = 200_000
"""Kinds of publishes that are remembered."""

Ints = npt.NDArray[np.int64]
NUMBER = "publishes"
SIZE = "size_bytes"
PUBLISHES = pa.schema(
    [
        (SIGNATURE, pa.string()),
        (CONTENT, pa.string()),
        *((name, pa.int64()) for name in ("time_us", NUMBER, SIZE)),
    ]
)
"""What the pass takes of publishes, of one or of several of the same second that are alike.

``SIZE`` is the length of their payloads, as far as the log has it.
"""
ARRIVALS = pa.schema(
    [
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("second", pa.int64()),
        *((name, pa.float64()) for name in ("at_once", "later", "bytes_at_once", "bytes_later")),
    ]
)
"""What it makes of them: the messages, and their bytes, that came into a queue in one second or may come in later."""


class ArrivalsCounter:
    """Counts what publishes can have put into queues with a length limit."""

    def __init__(self, topologies: Mapping[str | None, Topology], rules: Release) -> None:
        self._topologies = topologies
        self._rules = rules
        self._explainers: dict[str, tuple[Explainer, Entrants] | None] = {}
        self._keys: dict[str, AlikeKeys] = {}
        self._signatures = Signatures(self._number_of_key_of)
        self._known: dict[Any, int] = {}
        self._numbers: dict[tuple[str, tuple[Entrant, ...]], int] = {}
        self._entering: list[tuple[str, tuple[Entrant, ...]]] = []

    def count(self, publishes: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``ARRIVALS`` for a batch of ``PUBLISHES``."""
        encoded = publishes.column(SIGNATURE).dictionary_encode()
        numbers = self._signatures.numbers(encoded.dictionary.to_pylist())[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        contents = publishes.column(CONTENT).dictionary_encode()
        places = contents.indices.to_numpy(zero_copy_only=False)
        kinds, kind = np.unique(np.stack([numbers, places]), axis=1, return_inverse=True)
        texts = contents.dictionary.to_pylist()
        several = [self._number(number, texts[content]) for number, content in kinds.T.tolist()]
        entering = np.array(several, np.int64)[kind.ravel()]
        seconds = publishes.column("time_us").to_numpy() // SECOND_US
        of_each = publishes.column(NUMBER).to_numpy()
        sizes = publishes.column(SIZE).fill_null(0).to_numpy(zero_copy_only=False)
        found = []
        for each in np.unique(entering).tolist():
            rows = np.flatnonzero(entering == each)
            vhost, entrants = self._entering[each]
            found += _by_second(vhost, entrants, seconds[rows], of_each[rows], sizes[rows])
        self._forget()
        return pa.RecordBatch.from_pylist(found, schema=ARRIVALS)

    def _number(self, number: int, content: str) -> int:
        """Return the number of what a publish can put into queues: those alike in all that matters have the same."""
        row = self._signatures.example_of(number)
        both = self._of(row.vhost)
        if both is None or not both[1].limited:
            return self._numbered(row.vhost, ())
        headers = looked_at(content, both[0].headers_looked_at)
        key = self._signatures.kind(number), repr(headers)
        if key not in self._known:
            self._known[key] = self._numbered(row.vhost, self._entrants(self._signatures.row(number), headers, *both))
        return self._known[key]

    def _numbered(self, vhost: str, entrants: tuple[Entrant, ...]) -> int:
        number = self._numbers.setdefault((vhost, entrants), len(self._entering))
        if number == len(self._entering):
            self._entering.append((vhost, entrants))
        return number

    def _entrants(
        self, row: Row, headers: Mapping[str, Any], explainer: Explainer, entrants: Entrants
    ) -> tuple[Entrant, ...]:
        try:
            roots = explainer.entries(row, headers)
        except PublishRefusedError:
            roots = ()
        return entrants.of(roots, delayed=explainer.may_delay(row.visible.exchange))

    def _number_of_key_of(self, vhost: str) -> Callable[[str], int | None] | None:
        both = self._of(vhost)
        if both is None:
            return None
        if vhost not in self._keys:
            self._keys[vhost] = AlikeKeys(both[0].flow)
        return self._keys[vhost].number

    def _forget(self) -> None:
        """Keep memory bounded on logs in which little repeats."""
        if len(self._known) > REMEMBERED_MAX:
            self._known.clear()
        self._signatures.forget()

    def _of(self, vhost: str) -> tuple[Explainer, Entrants] | None:
        if vhost not in self._explainers:
            topology = self._topologies.get(vhost, self._topologies.get(None))
            explainer = None if topology is None else Explainer(topology, self._rules)
            self._explainers[vhost] = None if explainer is None else (explainer, Entrants(explainer.flow))
        return self._explainers[vhost]


def _by_second(
    vhost: str, entrants: Iterable[Entrant], seconds: Ints, numbers: Ints, sizes: Ints
) -> list[dict[str, object]]:
    several, place = np.unique(seconds, return_inverse=True)
    counts, size = np.bincount(place, weights=numbers), np.bincount(place, weights=sizes)
    return [
        {
            "vhost": vhost,
            "queue": entrant.queue,
            "second": second,
            "at_once": _times(count, entrant.at_once),
            "later": _times(count, entrant.later),
            "bytes_at_once": _times(total, entrant.at_once),
            "bytes_later": _times(total, entrant.later),
        }
        for entrant in entrants
        for second, count, total in zip(several.tolist(), counts.tolist(), size.tolist(), strict=True)
    ]


def _times(count: float, copies: float) -> float:
    return count * copies if count and copies else 0.0


def collected(counted: pa.Table) -> Arrivals:
    """Return the arrivals from all rows of ``ARRIVALS``, whichever batches they come from."""
    names = ("at_once", "later", "bytes_at_once", "bytes_later")
    sums = counted.group_by(["vhost", "queue", "second"]).aggregate([(name, "sum") for name in names])
    by_queue: defaultdict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for row in sums.sort_by("second").to_pylist():
        by_queue[row["vhost"], row["queue"]].append([row["second"], *(row[f"{name}_sum"] for name in names)])
    found: dict[tuple[str, str], QueueArrivals] = {}
    for key, rows in by_queue.items():
        seconds, *several = np.array(rows).T
        found[key] = QueueArrivals(
            seconds.astype(np.int64), *(np.concatenate(([0.0], np.cumsum(each))) for each in several)
        )
    return found


def may_matter(topologies: Mapping[str | None, Topology], rules: Release) -> bool:
    """Tell whether any queue of the definitions may drop messages because it is full."""
    return any(Entrants(MessageFlow(topology, rules)).limited for topology in topologies.values())


def limits_bytes(topologies: Mapping[str | None, Topology], rules: Release) -> bool:
    """Tell whether any of these queues has a limit in bytes; if not, payloads need not be read."""
    flows = [MessageFlow(topology, rules) for topology in topologies.values()]
    limited = (flow.settings(queue) for flow in flows for queue in Entrants(flow).limited)
    return any(settings.max_length_bytes is not None for settings in limited)


def names_looked_at(topologies: Mapping[str | None, Topology]) -> bool:
    """Tell whether routing depends on user headers in any virtual host; if not, contents need not be read."""
    return any(headers_looked_at(topology) for topology in topologies.values())
