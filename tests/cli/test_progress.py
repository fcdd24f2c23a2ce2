"""Progress goes to terminals alone."""

from __future__ import annotations

import io
import sys

import pytest

from simulator.cli import progress as showing
from simulator.cli.progress import progress


class Terminal(io.StringIO):
    """What says that it is a terminal, and keeps what is written."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_printed_where_stderr_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("reading") as show:
        show("reading some.log", 3)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_what_is_done_and_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("reading") as show:
        show("reading [red].log", 12_345)
    assert "reading [red].log: 12,345 rows" in terminal.getvalue()


def test_where_there_is_no_terminal_lines_say_how_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 4.0, 6.0, 6.0, 6.0))
    monkeypatch.setattr(showing.time, "monotonic", lambda: next(clock))
    with progress("reading", "messages", lines=True) as show:
        show("dead", 400, 5_000)
        show("dead", 1_000, 5_000)
    assert capsys.readouterr() == ("", "dead: 1,000 messages of 5,000 (20 %), about 24 s left\n")
