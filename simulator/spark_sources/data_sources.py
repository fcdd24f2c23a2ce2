"""The data sources ``rabbitmq_trace`` and ``rabbitmq_definitions``, and what makes them known to a Spark session."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dlx.nearest_names import suggestion
from dlx.releases import DEFAULT, Release, release, release_and_remark
from simulator.capture import COLUMNS, SCHEMA, NothingReadable, open_log
from simulator.capture.capture_errors import Broken, refuse
from simulator.capture.sources import names_of
from simulator.definitions import read_definitions
from simulator.spark_sources.definitions_rows import COLUMNS as DEFINITIONS_COLUMNS
from simulator.spark_sources.definitions_rows import definitions_rows

TRACE, DEFINITIONS = "rabbitmq_trace", "rabbitmq_definitions"


def register(spark: SparkSession) -> None:
    """Make ``rabbitmq_trace`` and ``rabbitmq_definitions`` known to ``spark.read.format`` of this session.

    On a cluster whose workers lack this package, ``simulator.replay.ship`` sends it there.
    """
    for source in (TraceSource, DefinitionsSource):
        spark.dataSource.register(source)


# Logs of the tracing plugin, and captures, as rows of a capture.


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
        return TRACE

    def schema(self) -> StructType:
        """Return the columns of a capture, each with its description as comment."""
        schema: StructType = from_arrow_schema(SCHEMA)
        for field, (*_, description) in zip(schema.fields, COLUMNS, strict=True):
            field.metadata = {"comment": description}
        return schema

    def reader(self, schema: StructType) -> TraceReader:
        """Return the reader of the given files. Raises ``SourceOptionError``, ``CaptureError``."""
        check_options(TRACE, self.options, ("mode",))
        mode = self.options.get("mode", MODES[0]).upper()
        if mode not in MODES:
            raise SourceOptionError(f"{TRACE}: mode: expected {' or '.join(MODES)}, got {mode!r}")
        return TraceReader(files_of(TRACE, self.options), drop_broken=mode == "DROPMALFORMED")


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


# An export of definitions as a row for each object.


class DefinitionsSource(DataSource):
    """Reads what ``rabbitmqctl export_definitions`` and ``GET /api/definitions`` write.

    The option ``release`` names the RabbitMQ whose rules say which policy and which setting applies
    (the newest by default), ``vhost`` the virtual host of an export that does not name its own.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return DEFINITIONS

    def schema(self) -> str:
        """Return the columns in Spark's DDL, each with its description as comment."""
        return ", ".join(f"`{name}` {kind} COMMENT '{_quoted(about)}'" for name, kind, about in DEFINITIONS_COLUMNS)

    def reader(self, schema: StructType) -> DefinitionsReader:
        """Return the reader of the given files. Raises ``SourceOptionError``, ``UnknownReleaseError``."""
        check_options(DEFINITIONS, self.options, ("release", "vhost"))
        rules, _ = release_and_remark(self.options.get("release", DEFAULT))
        return DefinitionsReader(files_of(DEFINITIONS, self.options), rules, self.options.get("vhost"))


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


# What was asked of a data source: its options, and the files that its paths name.


class SourceOptionError(ValueError):
    """Raised for an option that is missing, unknown or wrong. ``str()`` says what would be right."""


def check_options(source: str, options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse options that the source does not have. Raises ``SourceOptionError``."""
    for name in options:
        if name not in {"path", "paths", *known}:
            raise SourceOptionError(f"{source}: no option {name!r}; {suggestion(name, known)}")


def files_of(source: str, options: Mapping[str, str]) -> list[str]:
    """Return the files that ``load`` was given, in order: files, folders (the files in them) and patterns.

    The paths are absolute, since workers have a working folder of their own. Files whose names begin
    with ``.`` or ``_`` are left out of folders, as Spark's own sources do.

    Raises:
        SourceOptionError: no path, one that is not of a file system, or one that leads to no file.
    """
    given = [options["path"]] if "path" in options else []
    given += msgspec.json.decode(options.get("paths", "[]"), type=list[str])
    if not given:
        raise SourceOptionError(f"{source}: no path; give files, folders or patterns to load(...)")
    return list(dict.fromkeys(file for path in given for file in _files(source, path)))


def _files(source: str, path: str) -> list[str]:
    local = path.removeprefix("file://")
    if "://" in local:
        raise SourceOptionError(f"{source}: {path}: expected a path that every worker sees as a file, got a URL")
    found = [local] if Path(local).exists() else sorted(glob.glob(local, recursive=True))
    files = [file for each in found for file in _in_folder(Path(each))]
    if not files:
        raise SourceOptionError(f"{source}: {path}: no such file, and none matches this pattern or is in this folder")
    return files


def _in_folder(path: Path) -> list[str]:
    if not path.is_dir():
        return [str(path.absolute())]
    return sorted(str(file.absolute()) for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
