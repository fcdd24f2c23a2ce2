"""Spark's ``spark.read.format(...)`` for captured logs and for definitions; ``register`` makes both known.

``rabbitmq_trace`` gives the rows of a capture, ``rabbitmq_definitions`` one row for each object. They need
nothing else of this project: the rows are Spark's, to be joined, counted, or given to ``simulator.replay.replay``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.spark_sources.data_sources import register as register
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__, {"simulator.spark_sources.data_sources": ("register",)}, load=importing("replay")
    )
