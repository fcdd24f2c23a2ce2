"""What real servers were recorded to do, the simulators do."""

from __future__ import annotations

from pathlib import Path

from tests.systems.conftest import reader_of


def test_the_simulator_does_what_was_recorded(a_trace: Path) -> None:
    reader, document = reader_of(a_trace)
    reader.check(document, a_trace.stem)
