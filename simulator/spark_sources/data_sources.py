"""The data source ``rabbitmq_trace``: logs of the tracing plugin, and captures, as rows of a capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from simulator.capture import COLUMNS, SCHEMA, NothingReadable, open_log
from simulator.capture.capture_errors import Broken, refuse
from simulator.capture.sources import names_of
from simulator.spark_sources.source_options import SourceOptionError, check_options, files_of

NAME = "rabbitmq_trace"
MODES = ("FAILFAST", "DROPMALFORMED")


class Log(InputPartition):
    """One log, which one task reads: its path, and its name in the column ``file``."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path)
        self.path = path
        self.name = name


class TraceSource(DataSource):
    """Reads what ``dlx convert`` reads, each file by its content: JSON or text logs, gzip-compressed or not, captures.

    The option ``mode`` says what becomes of a record that cannot be read: ``FAILFAST`` (the default)
    raises an error with the file and the line, ``DROPMALFORMED`` leaves it out.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of a capture, each with its description as comment."""
        schema: StructType = from_arrow_schema(SCHEMA)
        for field, (*_, description) in zip(schema.fields, COLUMNS, strict=True):
            field.metadata = {"comment": description}
        return schema

    def reader(self, schema: StructType) -> TraceReader:
        """Return the reader of the given files. Raises ``SourceOptionError``, ``CaptureError``."""
        check_options(NAME, self.options, ("mode",))
        mode = self.options.get("mode", MODES[0]).upper()
        if mode not in MODES:
            raise SourceOptionError(f"{NAME}: mode: expected {' or '.join(MODES)}, got {mode!r}")
        return TraceReader(files_of(NAME, self.options), drop_broken=mode == "DROPMALFORMED")


class TraceReader(DataSourceReader):
    """Reads one log in each task."""

    def __init__(self, files: Sequence[str], *, drop_broken: bool) -> None:
        self._names = names_of(files)
        self._drop_broken = drop_broken

    def partitions(self) -> list[InputPartition]:
        """Return the logs."""
        return [Log(str(path), name) for path, name in self._names.items()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one log; none of an empty one. Raises ``CaptureError``."""
        assert isinstance(partition, Log)
        path = partition.path

        def on_broken(broken: Broken) -> None:
            if not self._drop_broken:
                refuse(msgspec.structs.replace(broken, file=path))

        with suppress(NothingReadable):
            yield from open_log(path, on_broken=on_broken, file=partition.name)
