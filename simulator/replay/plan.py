"""The Spark plan: a DataFrame of captured rows in, the same rows with verdicts out.

Rows are brought together by message, sorted within their partition, and handed to
the kernel as Arrow batches of seven columns; Python compares numbers and looks at few
of the rows. Without RDDs, collects and groups per key, the plan runs locally, on a
cluster and over Spark Connect.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import dlx
import simulator
from dlx.releases import DEFAULT, release
from simulator.capture.codes import CODED, Codes
from simulator.definitions import Definitions
from simulator.replay.arrivals import ARRIVALS, collected
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.codes import coded_rows
from simulator.replay.definitions import topologies
from simulator.replay.kernel_input import ORDER, kernel_rows, publishes
from simulator.replay.lengths import NO_ARRIVALS, Arrivals
from simulator.replay.row_codec import LINEAGE, MESSAGE_SQL
from simulator.replay.schema import OUTPUT
from simulator.replay.spark_step import ArrivalsStep, ReplayStep

_HASH = "hash"


def replay(
    captured: DataFrame,
    definitions: Definitions,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    codes: Codes | None = None,
) -> DataFrame:
    """Replay captured rows (``simulator.capture.SCHEMA``) under the rules of a release.

    The result has every row, its columns are ``simulator.replay.schema.OUTPUT``,
    plus ``message``; deliveries have a verdict, publishes only where the broker routed
    them elsewhere. Raises ``UnknownReleaseError``.

    ``codes`` are those of the captures (``simulator.capture.codes.read_codes``), if all of ``captured`` has them,
    and rows are as they were read: what was changed since is not seen.

    If messages died of a length limit, a first pass over the publishes runs at once, before
    the plan is returned: it counts what can have been in the queues.
    """
    step = replay_step(captured, definitions, rules, assumptions, codes)
    rows = kernel_rows(captured) if codes is None else coded_rows(captured)
    replayed = arranged(rows).mapInArrow(step, from_arrow_schema(OUTPUT))
    return replayed.withColumn("message", F.expr(MESSAGE_SQL)).drop(LINEAGE)


def replay_step(
    captured: DataFrame,
    definitions: Definitions,
    rules: str,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    codes: Codes | None = None,
    *,
    details: bool = True,
) -> ReplayStep:
    """Return what replays the partitions of ``arranged`` rows; see ``replay`` for the arguments, and the first pass."""
    arrivals = _arrivals(captured, definitions, rules, codes)
    return ReplayStep(definitions, release(rules).name, assumptions, arrivals, codes, details=details)


def _arrivals(captured: DataFrame, definitions: Definitions, rules: str, codes: Codes | None) -> Arrivals:
    """Return what can have come into queues with a length limit, if any message was dropped for that."""
    published = publishes(captured, topologies(definitions), release(rules), codes)
    if published is None:
        return NO_ARRIVALS
    counted = published.mapInArrow(ArrivalsStep(definitions, rules, codes), from_arrow_schema(ARRIVALS))
    numbers = ("at_once", "later", "bytes_at_once", "bytes_later")
    summed = counted.groupBy("vhost", "queue", "second").agg(*(F.sum(name).alias(name) for name in numbers))
    return collected(summed.toArrow())


def arranged(rows: DataFrame) -> DataFrame:
    """Return rows of the kernel, those of a message together and in order, the messages in any order.

    Hashes first: Spark compares integers faster than texts that begin alike. The rest tells messages of equal hashes.
    """
    hashed = rows.withColumn(_HASH, F.xxhash64(LINEAGE))
    return hashed.repartition(_HASH).sortWithinPartitions(_HASH, *ORDER).drop(_HASH)


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


def scan(spark: SparkSession, paths: list[str], *, coded: bool = False) -> DataFrame:
    """Read captured Parquet files as a DataFrame with only the columns that a replay needs.

    ``coded``: with their codes, which all of them have.
    """
    wanted: list[Any] = ["time_us", "file", "line", "event", "vhost", "exchange", "queue", "routing_keys"]
    wanted += [
        "message",
        "message_id",
        "expiration",
        "properties",
        "headers",
        "broker_headers",
        "x_death",
        "x_death_times",
        "redelivered",
        "routed_queues",
        "payload",
    ]
    if coded:
        wanted += CODED
    return spark.read.parquet(*paths).select(*wanted)
