"""The function that Spark runs on each partition."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dlx.releases import release
from simulator.definitions import Definitions, parse_definitions
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.kernel import Kernel


class ReplayStep:
    """Replays the batches of a partition. Small to ship: it takes the definitions as JSON."""

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definitions = parse_definitions(self._definitions, "definitions")
        kernel = Kernel(topologies(definitions), release(self._rules), exporting_release(definitions))
        return kernel.replay(batches)
