"""Errors of captures: of a whole one, or of one record."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec


class CaptureError(Exception):
    """Raised for a capture that cannot be read or made. ``str()`` names the file and what would be right."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be read: where it starts, why, and its bytes."""

    file: str
    line: int
    reason: str
    raw: bytes

    def to_json(self) -> bytes:
        """Return one line for a file of rejected records; bytes that are not UTF-8 go in as ``raw_base64``."""
        row: dict[str, object] = {"file": self.file, "line": self.line, "reason": self.reason}
        try:
            row["raw"] = self.raw.decode()
        except UnicodeDecodeError:
            row["raw_base64"] = base64.b64encode(self.raw).decode()
        return msgspec.json.encode(row) + b"\n"


OnBroken = Callable[[Broken], None]


def refuse(broken: Broken) -> None:
    """Raise :class:`CaptureError` for a broken record, as readers do by default."""
    raise CaptureError(broken.file, f"line {broken.line}: {broken.reason}")


class NothingReadable(CaptureError):
    """Raised for a log without any record, or without a readable one."""


class CaptureUnavailable(CaptureError):
    """Raised for a server that does not answer, refuses, or went away."""
