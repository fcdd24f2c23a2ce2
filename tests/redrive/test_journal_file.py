"""Which files a redrive takes for its journal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simulator.redrive.journal import JournalError, RedriveJournal, RedriveRequest

ASKED = RedriveRequest(server="http://localhost:15672", vhost="/", queue="dead", to="origin", headers="strip")
FIRST = msgspec.json.encode(ASKED)


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"{}", b"my notes\nand more", FIRST[:-9] + b"?"])
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"notes\.txt:1: "):
        RedriveJournal(path, ASKED)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", FIRST[:1], FIRST[:30], FIRST, FIRST + b"\n", FIRST + b'\n["se'])
def test_a_journal_torn_anywhere_goes_on(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "moved.jsonl"
    path.write_bytes(content)
    with RedriveJournal(path, ASKED):
        pass
    assert path.read_bytes() == FIRST + b"\n"
