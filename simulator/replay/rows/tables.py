"""The tables of a replay, held by Spark or by DuckDB in this process, and SQL that asks either.

Queries are written once, in Spark's SQL; for DuckDB, sqlglot translates them. Written so that both
understand it: no ``explode_outer``, no ``exists`` over arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame


MEMORY = "400MB"
"""What DuckDB keeps in memory of tables that it sorts and groups; the rest goes to disk."""
BATCH_ROWS = 10_000


class LocalTable:
    """A table in a ``Database``: anything that may stand behind ``FROM``, in DuckDB's SQL."""

    def __init__(self, database: Database, source: str) -> None:
        self.database = database
        self._source = source

    def __str__(self) -> str:
        """Return what stands behind ``FROM``."""
        return self._source

    @property
    def columns(self) -> list[str]:
        """Return the names of its columns, as a DataFrame does."""
        return self.database.connection.sql(f"FROM {self}").columns

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its rows."""
        yield from self._query().to_arrow_reader(BATCH_ROWS)

    def to_list(self) -> list[dict[str, Any]]:
        """Return its rows as dictionaries."""
        found = self._query().to_arrow_table()
        listed: list[dict[str, Any]] = found.cast(_schema_in_spark(found.schema)).to_pylist()
        return listed

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield its rows as dictionaries, a few at a time."""
        import pyarrow as pa

        for batch in self.batches():
            yield from pa.Table.from_batches([batch]).cast(_schema_in_spark(batch.schema)).to_pylist()

    def _query(self) -> duckdb.DuckDBPyRelation:
        # A cursor of its own: another query may run meanwhile.
        return self.database.connection.cursor().sql(f"FROM {self}")

    def write(self, file: Path) -> None:
        """Write its rows into a Parquet file."""
        self.database.connection.cursor().execute(f"COPY (FROM {self}) TO {quoted(file)} (FORMAT parquet)")


class Database:
    """DuckDB in this process, with bounded memory; what exceeds it goes into ``work``. A context manager."""

    def __init__(self, work: Path) -> None:
        import duckdb

        settings: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": str(work / "sorting"), "threads": 2}
        self.connection: duckdb.DuckDBPyConnection = duckdb.connect(config=settings)
        # Another hash than Spark's, but as wide.
        self.connection.execute("CREATE MACRO xxhash64(value) AS CAST(hash(value) >> 1 AS BIGINT)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def arrow(self, name: str, table: pa.Table) -> LocalTable:
        """Return a table that is in memory, by that name."""
        self.connection.register(f"given_{name}", table)
        self.connection.execute(f"CREATE TABLE {name} AS FROM given_{name}")  # cursors do not see what is registered
        return LocalTable(self, name)

    def parquet(self, files: Sequence[str | Path], *, numbered: bool = False) -> LocalTable:
        """Return the table in Parquet files of the same columns; ``numbered``: each row has a ``file_row_number``."""
        names = ", ".join(quoted(_no_pattern(str(file))) for file in files)
        also = ", file_row_number = true" if numbered else ""
        return LocalTable(self, f"read_parquet([{names}], union_by_name = true{also})")


Table = TypeVar("Table", "DataFrame", LocalTable)


def select(query: str, **tables: Table) -> Table:
    """Return what a query in Spark's SQL selects from tables of one engine, which stand in it as ``{name}``."""
    one = next(iter(tables.values()))
    if isinstance(one, LocalTable):
        marked = translated(query.format(**{name: _mark(name) for name in tables}))
        for name, table in tables.items():
            marked = marked.replace(_mark(name), str(table))
        return LocalTable(one.database, f"({marked})")
    # Spark makes a view of each table and drops it again, and then no longer persists the table. What it makes of a
    # filter does not touch the table itself.
    given: dict[str, Any] = {name: table.filter("true") for name, table in tables.items()}
    return one.sparkSession.sql(query, **given)


def rows(query: str, **tables: Table) -> list[dict[str, Any]]:
    """Return the rows that a query selects, which should be few."""
    found = select(query, **tables)
    if isinstance(found, LocalTable):
        return found.to_list()
    listed: list[dict[str, Any]] = found.toArrow().to_pylist()
    return listed


@lru_cache(maxsize=1_000)
def translated(query: str) -> str:
    """Return a query in Spark's SQL as DuckDB understands it."""
    import sqlglot

    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def text(value: str) -> str:
    """Return a string as a literal of Spark's SQL in a query for ``select``."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
    return f"'{escaped}'"


def _schema_in_spark(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(list(map(_as_in_spark, schema)))


def _as_in_spark(field: pa.Field) -> pa.Field:
    """Return a column with sums, which DuckDB makes wider, as the integers that they are in Spark."""
    import pyarrow as pa

    return field.with_type(pa.int64()) if pa.types.is_decimal(field.type) else field


def _mark(name: str) -> str:
    return f"table_{name}_of_the_replay"


def quoted(file: str | Path) -> str:
    """Return a name as a literal of DuckDB's SQL."""
    return "'" + str(file).replace("'", "''") + "'"


def _no_pattern(file: str) -> str:
    """Return a file name as a pattern that only that file matches."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in file)
