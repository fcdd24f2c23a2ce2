"""Codes in captures stand for the values that were written, or are not read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from simulator.capture import codes as codes_module
from simulator.capture import convert, read_capture, write_capture
from simulator.capture.codes import CODED, FOOTER_KEY, read_codes
from simulator.capture.schema import SCHEMA
from tests.replay.logs import EXAMPLES

TRACES = [EXAMPLES / f"captured-{name}" / "trace.log.gz" for name in ("3.10", "4.3")]


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.parquet" for number, _ in enumerate(TRACES)]
    for trace, path in zip(TRACES, paths, strict=True):
        convert([trace], path)
    return paths


def changed(path: Path, name: str, value: str) -> None:
    """Give all rows another value, and write the file with all that its footer says."""
    table, footer = pq.read_table(path), pq.read_metadata(path).metadata
    values = pa.array([value] * table.num_rows, pa.string())
    table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({FOOTER_KEY: footer[FOOTER_KEY]})


def test_each_row_has_codes_for_its_values(captures: list[Path]) -> None:
    codes = read_codes(captures)
    assert codes is not None
    for path in captures:
        for row in pq.read_table(path).to_pylist():
            for column, names in CODED.items():
                assert codes[column][row[column]] == [row[name] for name in names]


def test_what_repeats_has_one_code_in_all_files(captures: list[Path]) -> None:
    codes = read_codes(captures)
    assert codes is not None
    apart = [read_codes([path]) for path in captures]
    for column, values in codes.items():
        assert len(values) == len({repr(each) for each in values.values()})
        assert len(values) < sum(len(each[column]) for each in apart if each is not None)


def test_a_file_that_another_tool_changed_has_no_codes(captures: list[Path]) -> None:
    changed(captures[0], "exchange", "elsewhere")
    assert FOOTER_KEY in pq.read_metadata(captures[0]).metadata
    assert read_codes(captures) is None
    assert read_codes(captures[1:]) is not None


def test_a_capture_of_an_older_version_has_no_codes(captures: list[Path], tmp_path: Path) -> None:
    older = tmp_path / "older.parquet"
    pq.write_table(pa.Table.from_batches(read_capture(captures[0])), older)
    assert read_codes([older]) is None
    assert read_codes([older, captures[1]]) is None


def test_a_log_that_hardly_repeats_itself_has_no_codes(
    captures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes_module, "BYTES_MAX", 10_000)
    with write_capture(tmp_path / "diverse.parquet") as writer:
        for batch in read_capture(captures[0]):
            writer.write(batch)
    assert read_codes([tmp_path / "diverse.parquet"]) is None
    assert list(read_capture(tmp_path / "diverse.parquet")) == list(read_capture(captures[0]))


def test_files_that_share_too_little_are_read_without_codes(
    captures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes_module, "ALL_BYTES_MAX", size_of(read_codes([captures[0]])))
    assert read_codes([captures[0], captures[0]]) is not None
    assert read_codes(captures) is None


def size_of(codes: codes_module.Codes | None) -> int:
    """The bytes of the values, as they are counted."""
    assert codes is not None
    return sum(len(msgspec.msgpack.encode(each)) for values in codes.values() for each in values.values())


def test_one_code_for_other_values_in_another_file_means_nothing(
    captures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1_000_000))
    monkeypatch.setattr(codes_module, "_code", lambda _: next(numbers))
    files = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    for capture, file in zip(captures, files, strict=True):
        numbers = iter(range(1_000_000))
        with write_capture(file) as writer:
            for batch in read_capture(capture):
                writer.write(batch)
    assert all(read_codes([file]) is not None for file in files)
    assert read_codes(files) is None


def test_two_values_with_one_code_leave_the_file_without(
    captures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes_module, "_code", len)
    with write_capture(tmp_path / "alike.parquet") as writer:
        for batch in read_capture(captures[0]):
            writer.write(batch)
    assert read_codes([tmp_path / "alike.parquet"]) is None


def test_who_reads_a_capture_does_not_see_the_codes(captures: list[Path]) -> None:
    batch = next(iter(read_capture(captures[0])))
    assert batch.schema.equals(SCHEMA)
    again = captures[0].with_name("again.parquet")
    convert([captures[0]], again)
    assert pc.all(pc.equal(*(pq.read_table(path).column("signature_code") for path in (captures[0], again)))).as_py()
