"""The audit file of a redrive: what became of each message, when, and at whose hands, as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from simulator.files import write_whole
from simulator.redrive.journal import file_errors, read_journal
from simulator.redrive.ledger import Begun, Line


def audit_path(journal: Path) -> Path:
    """Return where the audit file of a journal is."""
    return journal.with_name(f"{journal.name}.audit.jsonl")


def write_audit(journal: Path) -> Path:
    """Write the audit file of a journal, whole, and return its path.

    Raises:
        JournalError: the journal cannot be read, or the audit file not written.
    """
    path = audit_path(journal)
    with file_errors(path):
        write_whole(path, b"".join(msgspec.json.encode(row) + b"\n" for row in audit(journal)))
    return path


def audit(journal: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each step that a person may ask about later, in the order in which they were taken."""
    by = ""
    sent: dict[str, list[Line]] = {}
    for _, line in read_journal(journal):
        if isinstance(line, Begun):
            yield from _unanswered(sent, by)
            sent.clear()
            by = line.by
        elif isinstance(line, Line) and line.step == "sent":
            sent.setdefault(line.fingerprint, []).append(line)
        elif isinstance(line, Line) and line.step in _OUTCOMES:
            before = sent[line.fingerprint].pop(0) if line.step in ("confirmed", "refused") else line
            yield _row(line, _OUTCOMES[line.step], before, by)
    yield from _unanswered(sent, by)


def _unanswered(sent: dict[str, list[Line]], by: str) -> Iterator[dict[str, Any]]:
    for lines in sent.values():
        yield from (
            _row(line, "may have been moved: the run ended before the broker confirmed it", line, by) for line in lines
        )


_OUTCOMES = {"stays": "stays", "confirmed": "moved", "refused": "stays"}


def _row(line: Line, outcome: str, planned: Line, by: str) -> dict[str, Any]:
    at = datetime.fromtimestamp(line.at_us / 1e6, UTC)
    row = {"at": at.isoformat(timespec="milliseconds"), "by": by, "message": line.id, "outcome": outcome}
    to = planned.note if planned.step == "sent" else ""
    why = line.note if line.step in ("stays", "refused") else ""
    told = {"to": to, "predicted": planned.fate, "why": why}
    return row | {name: value for name, value in told.items() if value}
