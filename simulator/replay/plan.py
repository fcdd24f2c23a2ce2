"""The Spark plan: a DataFrame of captured rows in, the same rows with verdicts out.

Rows are brought together by message, sorted within their partition, and handed to
the kernel as Arrow batches of six columns; Python compares numbers and looks at few
of the rows. Without RDDs, collects and groups per key, the plan runs locally, on a
cluster and over Spark Connect.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import dlx
import simulator
from dlx.releases import DEFAULT, release
from simulator.definitions import Definitions
from simulator.replay.row_codec import (
    CONTENT,
    LINEAGE,
    SIGNATURE,
    content_column,
    lineage_column,
    message_column,
    signature_column,
)
from simulator.replay.schema import OUTPUT
from simulator.replay.spark_step import ReplayStep


def replay(captured: DataFrame, definitions: Definitions, rules: str = DEFAULT) -> DataFrame:
    """Replay captured rows (``simulator.capture.SCHEMA``) under the rules of a release.

    The result has every row, its columns are ``simulator.replay.schema.OUTPUT``,
    plus ``message``; deliveries have a verdict, publishes have none. Raises
    ``UnknownReleaseError``.
    """
    step = ReplayStep(definitions, release(rules).name)
    replayed = arranged(captured).mapInArrow(step, from_arrow_schema(OUTPUT))
    return replayed.withColumn("message", message_column()).drop(LINEAGE)


def arranged(captured: DataFrame) -> DataFrame:
    """Return the columns of ``schema.INPUT``, the rows of a message together and in order."""
    chosen = captured.select(
        lineage_column().alias(LINEAGE),
        "time_us",
        "file",
        "line",
        signature_column().alias(SIGNATURE),
        content_column().alias(CONTENT),
    )
    return chosen.repartition(LINEAGE).sortWithinPartitions(LINEAGE, "time_us", "file", "line")


def ship(spark: SparkSession) -> None:
    """Send this package to the session's workers, which need only its dependencies installed."""
    archive = Path(tempfile.mkdtemp(prefix="dlx-")) / "dlx_package.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for package in (dlx, simulator):
            root = Path(str(package.__file__)).parent
            for file in sorted(root.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    packed.write(file, file.relative_to(root.parent))
    spark.addArtifacts(str(archive), pyfile=True)


def scan(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Read captured Parquet files as a DataFrame with only the columns that a replay needs."""
    wanted: list[Any] = ["time_us", "file", "line", "event", "vhost", "exchange", "queue", "routing_keys"]
    wanted += ["message", "expiration", "properties", "headers", "broker_headers", "x_death"]
    return spark.read.parquet(*paths).select(*wanted)
