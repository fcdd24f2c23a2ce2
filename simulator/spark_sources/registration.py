"""Makes the data sources known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from simulator.spark_sources.definitions_source import DefinitionsSource
from simulator.spark_sources.trace_source import TraceSource


def register(spark: SparkSession) -> None:
    """Make ``rabbitmq_trace`` and ``rabbitmq_definitions`` known to ``spark.read.format`` of this session.

    On a cluster whose workers lack this package, ``simulator.replay.ship`` sends it there.
    """
    for source in (TraceSource, DefinitionsSource):
        spark.dataSource.register(source)
