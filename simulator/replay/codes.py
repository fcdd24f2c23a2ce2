"""Digits for the signatures and contents that many rows have: Spark moves few bytes of a log that repeats itself.

A look at some rows finds what repeats. On the way through Spark to Python a few digits stand for it; all else
travels as the text that it is. So what the look finds decides about the time, and about nothing else.
Rows are recognized by the codes in their capture (``simulator.capture.codes``), or else by their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from simulator.capture.codes import CODED, CONTENT_CODE, SIGNATURE_CODE
from simulator.replay.row_codec import CONTENT, CONTENT_SQL, LINEAGE, LINEAGE_SQL, SIGNATURE, SIGNATURE_SQL
from simulator.replay.tables import select

LOOKED_AT_ROWS = 50_000
TEXTS_MAX = 10_000
"""Texts of one kind that have digits, the most frequent ones."""
_CODE = {SIGNATURE: SIGNATURE_CODE, CONTENT: CONTENT_CODE}
_SQL = {SIGNATURE: SIGNATURE_SQL, CONTENT: CONTENT_SQL}
_REPEATED = f"""
    SELECT {{key}} AS key, any_value({{text}}) AS text, count(*) AS times
    FROM (SELECT * FROM {{{{captured}}}} LIMIT {LOOKED_AT_ROWS}) WHERE {{key}} IS NOT NULL
    GROUP BY ALL HAVING times > 1 ORDER BY times DESC LIMIT {TEXTS_MAX}"""
_ROWS = f"""
    SELECT time_us, file, line, x_death_times, {LINEAGE_SQL} AS {LINEAGE},
        coalesce(signatures.digits, {SIGNATURE_SQL}) AS {SIGNATURE},
        coalesce(contents.digits, {CONTENT_SQL}) AS {CONTENT}
    FROM {{{{captured}}}}
    LEFT JOIN {{{{signatures}}}} AS signatures ON {{of_signature}} = signatures.key
    LEFT JOIN {{{{contents}}}} AS contents ON {{of_content}} = contents.key"""

Texts = Mapping[str, Sequence[str]]
"""The texts that digits stand for, by column; those of the number n are the nth."""


def coded_rows(captured: DataFrame) -> tuple[DataFrame, Texts]:
    """Return the columns of ``schema.INPUT``, in any order, with digits for texts that repeat, and these."""
    keys = {name: _key(captured, name) for name in _CODE}
    found = {name: _repeated(captured, name, key) for name, key in keys.items()}
    query = _ROWS.format(of_signature=keys[SIGNATURE], of_content=keys[CONTENT])
    signatures, contents = (_digits(captured, found[name]) for name in (SIGNATURE, CONTENT))
    rows = select(query, captured=captured, signatures=signatures, contents=contents)
    return rows, {name: tuple(each.column("text").to_pylist()) for name, each in found.items()}


def decoded(batch: pa.RecordBatch, texts: Texts) -> pa.RecordBatch:
    """Return the batch with texts instead of digits, as arrays with dictionaries."""
    for name, known in texts.items():
        given = batch.column(name).dictionary_encode()
        read = pa.array(
            [text if "\n" in text else known[int(text)] for text in given.dictionary.to_pylist()], pa.string()
        )
        once = read.dictionary_encode()  # rows of the look may have had digits where others have the text
        column = pa.DictionaryArray.from_arrays(once.indices.take(given.indices), once.dictionary)
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _key(captured: DataFrame, name: str) -> str:
    """Return what rows with the same text have in common, in SQL."""
    code = _CODE[name]
    return code if code in captured.columns else f"struct({', '.join(CODED[code])})"


def _repeated(captured: DataFrame, name: str, key: str) -> pa.Table:
    """Return the keys and texts that several of some rows have."""
    found: pa.Table = select(_REPEATED.format(key=key, text=_SQL[name]), captured=captured).toArrow()
    return found


def _digits(captured: DataFrame, found: pa.Table) -> DataFrame:
    """Return the table of keys and their digits, small enough for each worker to have it."""
    digits = pa.array(map(str, range(found.num_rows)), pa.string(), size=found.num_rows)
    table = found.select(["key"]).append_column("digits", digits)
    return F.broadcast(captured.sparkSession.createDataFrame(table))
