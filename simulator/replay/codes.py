"""Codes on their way through Spark: few bytes a row stand for the texts that the kernel reads.

A capture may have codes for what its rows share (``simulator.capture.codes``). Spark then reads, sorts and moves
integers, and Python puts the texts in their place again, each once for a batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from simulator.capture.codes import CONTENT_CODE, SIGNATURE_CODE, Codes
from simulator.replay.bodies import BODY, body_sql
from simulator.replay.row_codec import (
    CONTENT,
    LINEAGE,
    LINEAGE_SQL,
    SIGNATURE,
    Signature,
    write_content,
    write_signature,
)
from simulator.replay.tables import Table, select

_ROWS = f"""
    SELECT time_us, file, line, x_death_times, redelivered, {{body}} AS {BODY}, {LINEAGE_SQL} AS {LINEAGE},
        {SIGNATURE_CODE} AS {SIGNATURE}, {CONTENT_CODE} AS {CONTENT}
    FROM {{{{captured}}}}"""

Texts = Mapping[str, Mapping[int, str]]
"""The texts that codes stand for, by column of the kernel's rows."""


def texts_of(codes: Codes) -> Texts:
    """Return the texts of the kernel's rows for the values in a capture."""
    return {
        SIGNATURE: {code: write_signature(Signature(*values)) for code, values in codes[SIGNATURE_CODE].items()},
        CONTENT: {code: write_content(*values) for code, values in codes[CONTENT_CODE].items()},
    }


def coded_rows(captured: Table) -> Table:
    """Return the columns of ``schema.INPUT``, in any order, with codes instead of texts."""
    return select(_ROWS.format(body=body_sql(captured.columns)), captured=captured)


def decoded(batch: pa.RecordBatch, texts: Texts) -> pa.RecordBatch:
    """Return the batch with texts instead of codes, as arrays with dictionaries; what is text already stays."""
    for name, known in texts.items():
        if pa.types.is_string(batch.schema.field(name).type):
            continue
        codes = batch.column(name).dictionary_encode()
        written = pa.array([known[code] for code in codes.dictionary.to_pylist()], pa.string())
        column = pa.DictionaryArray.from_arrays(codes.indices, written)
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch
