"""JSON files on the command line: whatever is wrong with one, the error names it, and the exit code is 65."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.cli.main import main

DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize("command", [["simulate", "rabbitmq"], ["simulate", "zaqar"], ["compare"]])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"a":"\xff"}', "expected UTF-8, got the byte 0xff"),
        (DEEP, "nested more than 400 deep"),
        (b"", "line 1, column 1: not JSON: Input data was truncated"),
        (b'{\n "a": [\n  1,\n', "line 3, column 5: not JSON: Input data was truncated"),
        (b'{"a": 1,\n "b": [}', "line 2, column 8: not JSON: JSON is malformed: invalid character"),
        (b"[]", "expected an object"),
    ],
)
def test_a_file_that_does_not_fit_is_named(
    command: list[str], content: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(content)
    assert main([*command, str(path)]) == 65
    told = capsys.readouterr().err.replace("\n", " ")
    assert "scenario.json" in told
    assert says in told


def test_a_byte_order_mark_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(b'\xef\xbb\xbf{"definitions": {}, "steps": []}')
    assert main(["simulate", "rabbitmq", str(path)]) == 0, capsys.readouterr().err


def test_a_password_in_a_wrong_url_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--url", "http://guest:s3cret@localhost/", "--out", "out.parquet"]) == 64
    told = capsys.readouterr().err
    assert "s3cret" not in told
    assert "begins with 'http://'" in " ".join(told.split())
