"""The functions that Spark runs on each partition."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dlx.releases import release
from simulator.definitions import Definitions, parse_definitions
from simulator.replay.arrivals import ArrivalsCounter
from simulator.replay.assumptions import Assumptions
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.kernel import Kernel
from simulator.replay.lengths import Arrivals


class ReplayStep:
    """Replays the batches of a partition. Small to ship: it takes the definitions as JSON."""

    def __init__(self, definitions: Definitions, rules: str, assumptions: Assumptions, arrivals: Arrivals) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules
        self._assumptions = assumptions
        self._arrivals = arrivals

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definitions = parse_definitions(self._definitions, "definitions")
        hosts, captured_on = topologies(definitions), exporting_release(definitions)
        kernel = Kernel(hosts, release(self._rules), captured_on, self._assumptions, self._arrivals)
        return kernel.replay(batches)


class ArrivalsStep:
    """Counts what the publishes of a partition can have put into queues with a length limit."""

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definitions = parse_definitions(self._definitions, "definitions")
        counter = ArrivalsCounter(topologies(definitions), release(self._rules))
        return map(counter.count, batches)
