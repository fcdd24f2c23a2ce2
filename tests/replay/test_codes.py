"""Digits stand for texts that repeat, and a replay gives the same whichever texts have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest

from dlx.releases import release
from simulator.capture import open_log
from simulator.replay.codes import Texts, decoded
from simulator.replay.definitions import topologies
from simulator.replay.kernel import Kernel
from simulator.replay.local import arranged_table
from simulator.replay.row_codec import CONTENT, SIGNATURE
from tests.replay.logs import EXAMPLES, example_definitions

DEFINITIONS = example_definitions("4.3")


def encoded(rows: pa.Table, texts: Texts, wanted: Callable[[int], bool]) -> Iterator[pa.RecordBatch]:
    """The rows with digits for texts, in those that are wanted."""
    for name, known in texts.items():
        values = rows.column(name).to_pylist()
        written = [str(known.index(text)) if wanted(row) and text in known else text for row, text in enumerate(values)]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(written, pa.string()))
    return iter(rows.to_batches(max_chunksize=1_000))


def frequent(rows: pa.Table, name: str) -> Sequence[str]:
    return [each["values"] for each in rows.column(name).value_counts().to_pylist() if each["counts"] > 1]


@pytest.mark.parametrize("wanted", [lambda row: True, lambda row: row % 3 == 0], ids=["all", "some"])
def test_digits_change_nothing(wanted: Callable[[int], bool]) -> None:
    rows = arranged_table(open_log(EXAMPLES / "captured-4.3" / "trace.log.gz"))
    texts = {name: frequent(rows, name) for name in (SIGNATURE, CONTENT)}
    assert all(texts.values())

    def replayed(batches: Iterator[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(list(Kernel(topologies(DEFINITIONS), release("3.10"), None).replay(batches)))

    given = (decoded(batch, texts) for batch in encoded(rows, texts, wanted))
    assert replayed(given).equals(replayed(iter(rows.to_batches(max_chunksize=1_000))))
