"""Reports of 10,000 rows, very many of them not as predicted, stay below 2,000,000 bytes: 1.81 MB are plotly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.generate import Wish, generate
from tests.replay.logs import EXAMPLES

BYTES_MAX = 2_000_000
EXPORT = EXAMPLES / "captured-4.3" / "definitions.json"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["replay"], ["whatif", "--against-release", "3.10"]], ids=["replay", "whatif"])
def test_a_report_on_ten_thousand_rows_is_small(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(Wish(EXPORT.read_bytes(), 10_000, diversity="high", faults=1_000), tmp_path)
    name, *more = command
    log = [str(tmp_path / "log-00000.parquet"), "--definitions", str(EXPORT), "--release", "4.3"]
    main([name, *log, *more, "--out", str(tmp_path / "out")])
    capsys.readouterr()
    page = tmp_path / "out" / "report.html"
    assert page.stat().st_size < BYTES_MAX
    if name == "replay":
        text = page.read_text(encoding="utf-8")
        assert re.search(r"The page holds [\d,]+ messages of [\d,]+: first those lost", text)
        assert "For any other, use dlx explain LOG --message ID." in text
