"""The table of docs/evidence/performance.md, which `python -m benchmarks` rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import BEGIN, END, Figure, rows_of, with_figures

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "evidence" / "performance.md").read_text()
BY = "`benchmarks/startup.py`"


def table(document: str) -> list[Figure]:
    return rows_of(document.partition(BEGIN)[2].partition(END)[0])


def test_a_run_rewrites_what_it_measured_and_leaves_the_other_rows() -> None:
    before = table(DOCUMENT)
    again, new = Figure(before[2].what, "≥ 1", "7", BY), Figure("something new", "", "9", BY)
    written = with_figures(DOCUMENT, [again, new], "Last run: today.")
    assert table(written) == [*before[:2], again, *before[3:], new]
    assert "Last run: today." in written
    assert written.partition(BEGIN)[0] == DOCUMENT.partition(BEGIN)[0]
    assert written.partition(END)[2] == DOCUMENT.partition(END)[2]


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="must stand between"):
        with_figures(DOCUMENT.replace(END, ""), [], "")


def test_each_row_names_a_benchmark_that_exists() -> None:
    for row in table(DOCUMENT):
        assert (ROOT / row.command.strip("`").split()[0]).is_file(), row
