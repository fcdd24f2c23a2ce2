"""The functions that Spark runs on each partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from uuid import UUID, uuid4

import pyarrow as pa

from dlx.releases import release
from simulator.capture.codes import Codes
from simulator.definitions import Definitions, parse_definitions
from simulator.replay.arrivals import ArrivalsCounter
from simulator.replay.assumptions import Assumptions
from simulator.replay.codes import Texts, decoded, texts_of
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.kernel import Kernel
from simulator.replay.lengths import Arrivals


class ReplayStep:
    """Replays the batches of a partition. Small to ship: it takes the definitions as JSON.

    ``codes``: the batches have these, and not the texts that they stand for, which are written here, once, and
    go along; as for ``ArrivalsStep``.
    """

    def __init__(
        self,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        arrivals: Arrivals,
        codes: Codes | None,
        *,
        details: bool,
    ) -> None:
        self._definitions = definitions.to_json()
        self._details = details
        self._rules = rules
        self._assumptions = assumptions
        self._arrivals = arrivals
        self._texts = None if codes is None else texts_of(codes)
        self._id = uuid4()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernel = _idle.pop(self._id, None) or self._kernel()
        yield from kernel.replay(_in_texts(batches, self._texts))
        _idle.clear()
        _idle[self._id] = kernel

    def _kernel(self) -> Kernel:
        definitions = parse_definitions(self._definitions, "definitions")
        hosts, captured_on = topologies(definitions), exporting_release(definitions)
        return Kernel(
            hosts, release(self._rules), captured_on, self._assumptions, self._arrivals, details=self._details
        )


_idle: dict[UUID, Kernel] = {}
"""The kernel of this worker, by the step that made it, while no partition is replayed: the next one goes on with it."""


class ArrivalsStep:
    """Counts what the publishes of a partition can have put into queues with a length limit."""

    def __init__(self, definitions: Definitions, rules: str, codes: Codes | None) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules
        self._texts = None if codes is None else texts_of(codes)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definitions = parse_definitions(self._definitions, "definitions")
        counter = ArrivalsCounter(topologies(definitions), release(self._rules))
        return map(counter.count, _in_texts(batches, self._texts))


def _in_texts(batches: Iterator[pa.RecordBatch], texts: Texts | None) -> Iterator[pa.RecordBatch]:
    return batches if texts is None else map(partial(decoded, texts=texts), batches)
