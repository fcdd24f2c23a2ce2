"""Files are there as a whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from simulator.files import beside, write_whole


def test_text_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_whole(target, "one")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "two \ud800")
    assert target.read_text() == "one"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_keeps_the_earlier_file(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("one")
    with suppress(KeyboardInterrupt), beside(target) as part:
        part.write_text("two")
        raise KeyboardInterrupt
    assert target.read_text() == "one"
    assert list(tmp_path.iterdir()) == [target]
