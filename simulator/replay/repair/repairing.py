"""Repairs a replayed log, from its rows and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from dlx.releases import release
from dlx.routing import headers_looked_at
from simulator.definitions import Definitions
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.graph import with_stand_ins
from simulator.replay.repair.repairs import repaired
from simulator.replay.repair.sequences import Gathered, gather
from simulator.replay.repair.told import Repairs


class Repairing:
    """Repairs one log.

    Args:
        definitions: the definitions that the log was replayed with.
        rules: the release whose rules applied.
    """

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._topologies = topologies(definitions)
        self._rules = release(rules)
        self._captured_on = exporting_release(definitions)

    def gather(self, replayed: Iterable[pa.RecordBatch]) -> Gathered:
        """Return the sequences of replayed batches (``sequences.COLUMNS``)."""
        names = {vhost: headers_looked_at(with_stand_ins(each)) for vhost, each in self._topologies.items()}
        by_release = self._captured_on is not None and self._captured_on != self._rules
        return gather(replayed, names, by_release=by_release)

    def repaired(self, gathered: Gathered) -> Repairs:
        """Return what may be behind the deliveries of sequences that are not as predicted."""
        return repaired(gathered.sequences, self._topologies, self._rules, gathered.left_out)
