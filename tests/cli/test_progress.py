"""Progress goes to terminals alone."""

from __future__ import annotations

import io
import sys

import pytest

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
