"""What replays take of captured rows, as queries: the kernel's rows, and the publishes that are counted before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from dlx.deaths import MAXLEN
from dlx.releases import Release
from dlx.topology import Topology
from simulator.capture.codes import CODED, CONTENT_CODE, SIGNATURE_CODE, Codes
from simulator.events import Event
from simulator.replay.checks.lengths import SECOND_US
from simulator.replay.kernel.arrivals import NUMBER, SIZE, limits_bytes, may_matter, names_looked_at
from simulator.replay.rows.bodies import BODY, body_sql
from simulator.replay.rows.row_codec import (
    CONTENT,
    CONTENT_SQL,
    LINEAGE,
    LINEAGE_SQL,
    SIGNATURE,
    SIGNATURE_SQL,
    Signature,
    write_content,
    write_signature,
)
from simulator.replay.rows.tables import Table, rows, select, text

ORDER = (LINEAGE, "time_us", "file", "line")
"""How the kernel takes its rows."""
_WRITTEN = f"{LINEAGE_SQL} AS {LINEAGE}, {SIGNATURE_SQL} AS {SIGNATURE}, {CONTENT_SQL} AS {CONTENT}"
_CODED = f"{LINEAGE_SQL} AS {LINEAGE}, {SIGNATURE_CODE} AS {SIGNATURE}, {CONTENT_CODE} AS {CONTENT}"
_ROWS = f"""
    SELECT time_us, file, line, x_death_times, redelivered, {{body}} AS {BODY}, {{texts}}{{beside}}
    FROM {{{{captured}}}}"""
_IN_ORDER = f"SELECT * FROM {{rows}} ORDER BY {', '.join(ORDER)}"
_DROPPED = f"SELECT 1 FROM {{captured}} WHERE x_death LIKE '%{MAXLEN}%' LIMIT 1"
_PUBLISHES = f"""
    SELECT {{signature}} AS {SIGNATURE}, {{content}} AS {CONTENT}, time_us,
        CAST(1 AS BIGINT) AS {NUMBER}, CAST({{size}} AS BIGINT) AS {SIZE}
    FROM {{{{captured}}}} WHERE event = '{Event.PUBLISHED.value}'"""
_CODED_PUBLISHES = f"""
    SELECT {{signature}} AS {SIGNATURE}, {{content}} AS {CONTENT}, min(time_us) AS time_us,
        count(*) AS {NUMBER}, CAST(sum({{size}}) AS BIGINT) AS {SIZE}
    FROM {{{{captured}}}} WHERE event = '{Event.PUBLISHED.value}'
    GROUP BY 1, 2, time_us DIV {SECOND_US}"""
_WITH_VERDICTS = f"""
    SELECT file, line, time_us, verdict, differences, unchecked, {_WRITTEN}
    FROM {{captured}}
    JOIN (
        SELECT vhost, message, file, line, time_us, verdict, differences, unchecked
        FROM {{replayed}} JOIN {{chosen}} USING (vhost, message)
    ) USING (vhost, message, file, line, time_us)"""


def kernel_rows(captured: Table, beside: Sequence[str] = (), *, coded: bool = False) -> Table:
    """Return the columns of ``schema.INPUT``, and these of the capture, in the order of the table.

    ``coded``: with the codes of the capture instead of the texts.
    """
    also, texts = "".join(f", {name}" for name in beside), _CODED if coded else _WRITTEN
    return select(_ROWS.format(body=body_sql(captured.columns), texts=texts, beside=also), captured=captured)


def in_order(rows: Table) -> Table:
    """Return rows of the kernel, or those with verdicts, in the order of ``ORDER``."""
    return select(_IN_ORDER, rows=rows)


def rows_with_verdicts(captured: Table, replayed: Table, chosen: Table) -> Table:
    """Return ``repair.sequences.COLUMNS`` of the chosen messages, in any order."""
    return select(_WITH_VERDICTS, captured=captured, replayed=replayed, chosen=chosen)


def publishes(
    captured: Table, topologies: Mapping[str | None, Topology], rules: Release, codes: Codes | None = None
) -> Table | None:
    """Return ``arrivals.PUBLISHES``, or ``None`` if no message was dropped because a queue was full.

    If the rows have ``codes``, these replace the texts. Publishes alike in them and in their second are one row.
    """
    if not may_matter(topologies, rules) or not _any_dropped(captured, codes):
        return None
    has_size = limits_bytes(topologies, rules) and "payload" in captured.columns
    size = "octet_length(payload)" if has_size else "0"
    no_content = text(write_content("{}", "{}"))
    if codes is None:
        content = CONTENT_SQL if names_looked_at(topologies) else no_content
        query = _PUBLISHES.format(signature=SIGNATURE_SQL, content=content, size=size)
    else:
        content = CONTENT_CODE if names_looked_at(topologies) else no_content
        query = _CODED_PUBLISHES.format(signature=SIGNATURE_CODE, content=content, size=size)
    return select(query, captured=captured)


def _any_dropped(captured: Table, codes: Codes | None) -> bool:
    if codes is None:
        return bool(rows(_DROPPED, captured=captured))
    place = CODED[SIGNATURE_CODE].index("x_death")
    return any(MAXLEN in (values[place] or "") for values in codes[SIGNATURE_CODE].values())


# Codes on their way through Spark: few bytes a row encode the texts that the kernel reads.
#
# A capture may have codes for what its rows share (``simulator.capture.codes``). Spark then reads, sorts and moves
# integers, and Python puts the texts in their place again, each once for a batch.


Texts = Mapping[str, Mapping[int, str]]
"""The texts of the codes, by column of the kernel's rows."""


def texts_of(codes: Codes) -> Texts:
    """Return the texts of the kernel's rows for the values in a capture."""
    return {
        SIGNATURE: {code: write_signature(Signature(*values)) for code, values in codes[SIGNATURE_CODE].items()},
        CONTENT: {code: write_content(*values) for code, values in codes[CONTENT_CODE].items()},
    }


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
