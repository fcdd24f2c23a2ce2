"""The tables of a replay, held by Spark or by DuckDB in this process, and SQL that asks either.

Queries are written once, in Spark's SQL; for DuckDB, sqlglot translates them. Written so that both
understand it: no ``explode_outer``, no ``exists`` over arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from simulator.capture import CaptureError

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


# Finds rows that are there twice, in two logs: they would count twice, and agree with themselves.
#
# A log may be given under two names, or beside one that it was cut from. Rows are the same if the broker wrote them
# at the same time about the same: lines do not matter. Where one log ends and the next begins there may be equal rows
# of one moment, such as publishes of the same content; so two logs overlap if equal rows have several times, or are
# all of one.


_KEY = "time_us, event, vhost, node, connection, channel, exchange, queue, message"
_LOGS = """
    SELECT capture, file, count(*) AS rows, min(time_us) AS from_us, max(time_us) AS until_us
    FROM {captured} GROUP BY 1, 2 ORDER BY 1, 2"""
_COUNTED = f"""
    SELECT capture, file, time_us, hash, count(*) AS number
    FROM (
        SELECT capture, file, time_us, hash(CAST(struct({_KEY}) AS STRING)) AS hash
        FROM {{captured}} WHERE time_us BETWEEN %d AND %d
    )
    GROUP BY 1, 2, 3, 4"""
_SHARED = """
    SELECT one.capture, one.file, other.capture AS other_capture, other.file AS other_file,
        sum(least(one.number, other.number)) AS shared, count(DISTINCT time_us) AS times
    FROM {counted} one JOIN {counted} other USING (time_us, hash)
    WHERE one.capture > other.capture OR (one.capture = other.capture AND one.file > other.file)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


class _Log(NamedTuple):
    """One log in a capture: which capture, its name there, and what it holds."""

    capture: int
    file: str
    rows: int
    from_us: int
    until_us: int


def check_no_copies(captures: Sequence[tuple[str, str | None]], work: Path) -> int:
    """Raise ``CaptureError`` for a log that has rows of another one in these captures.

    Return how many rows of one moment two logs share, which may be the same rows or others.

    Each has its path, and how the user named it, ``None`` for one that was made of other logs. What memory cannot hold
    goes into ``work``.
    """
    with Database(work) as database:
        captured = _captured(database, [path for path, _ in captures])
        logs = [_Log(**row) for row in rows(_LOGS, captured=captured)]
        both = [
            (max(one.from_us, other.from_us), min(one.until_us, other.until_us))
            for one, other in combinations(logs, 2)
        ]  # fmt: skip
        both = [(start, end) for start, end in both if start <= end]
        if not both:
            return 0
        counted = select(_COUNTED % (min(start for start, _ in both), max(end for _, end in both)), captured=captured)
        held = {(log.capture, log.file): log.rows for log in logs}
        shared = rows(_SHARED, counted=counted)
        for row in shared:
            _check(row, held, [given for _, given in captures])
        return sum(int(row["shared"]) for row in shared)


def _captured(database: Database, paths: Sequence[str]) -> LocalTable:
    """Return the rows of all captures, each with the number of its capture."""
    parts = (f"SELECT {number} AS capture, * FROM {database.parquet([path])}" for number, path in enumerate(paths))
    return LocalTable(database, f"({' UNION ALL BY NAME '.join(parts)})")


def _check(row: Mapping[str, Any], held: Mapping[tuple[int, str], int], given: Sequence[str | None]) -> None:
    one, other = (row["capture"], row["file"]), (row["other_capture"], row["other_file"])
    if held[one] > held[other]:
        one, other = other, one
    shared, own = int(row["shared"]), held[one]
    if shared < own and row["times"] < 2:
        return
    name = _name(other, given)
    if shared == own == held[other]:
        problem = f"the same log as {name}: each of its rows would count twice; leave one out"
    elif shared == own:
        problem = f"part of {name}: each of its rows would count twice; leave it out"
    else:
        problem = f"{shared:,} of its {own:,} rows are in {name} as well, and would count twice; give each row once"
    raise CaptureError(_name(one, given), problem)


def _name(log: tuple[int, str], given: Sequence[str | None]) -> str:
    named, file = given[log[0]], log[1]
    return file if named is None else f"{named} (log '{file}')"
