"""The data source ``rabbitmq_definitions``: an export of definitions as a row for each object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from dlx.releases import DEFAULT, Release, release, release_and_remark
from simulator.capture.sources import names_of
from simulator.definitions import read_definitions
from simulator.spark_sources.definitions_rows import COLUMNS, definitions_rows
from simulator.spark_sources.source_options import check_options, files_of

NAME = "rabbitmq_definitions"


class DefinitionsSource(DataSource):
    """Reads what ``rabbitmqctl export_definitions`` and ``GET /api/definitions`` write.

    The option ``release`` names the RabbitMQ whose rules say which policy and which setting applies
    (the newest by default), ``vhost`` the virtual host of an export that does not name its own.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return NAME

    def schema(self) -> str:
        """Return the columns in Spark's DDL, each with its description as comment."""
        return ", ".join(f"`{name}` {kind} COMMENT '{_quoted(about)}'" for name, kind, about in COLUMNS)

    def reader(self, schema: StructType) -> DefinitionsReader:
        """Return the reader of the given files. Raises ``SourceOptionError``, ``UnknownReleaseError``."""
        check_options(NAME, self.options, ("release", "vhost"))
        rules, _ = release_and_remark(self.options.get("release", DEFAULT))
        return DefinitionsReader(files_of(NAME, self.options), rules, self.options.get("vhost"))


class DefinitionsReader(DataSourceReader):
    """Reads one file in each task."""

    def __init__(self, files: list[str], rules: Release, vhost: str | None) -> None:
        self._names = names_of(files)
        self._rules = rules.name  # which workers look up; the rules themselves are large
        self._vhost = vhost

    def partitions(self) -> list[InputPartition]:
        """Return the files."""
        return [InputPartition(str(path)) for path in self._names]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield a row for each object of one file. Raises ``DefinitionsError``, which names the file and the place."""
        definitions = read_definitions(partition.value, self._vhost)
        yield from definitions_rows(definitions, release(self._rules), self._names[partition.value])


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")
