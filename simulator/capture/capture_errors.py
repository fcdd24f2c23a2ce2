"""What can be wrong with a capture: the whole of it, or one record."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec


class CaptureError(Exception):
    """A capture that cannot be read or made. ``str()`` names the file and what would be right."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """One record that could not be read: where it starts, why, and its bytes."""

    file: str
    line: int
    reason: str
    raw: bytes

    def to_json(self) -> bytes:
        """One line for a file of rejected records; bytes that are not UTF-8 go in as ``raw_base64``."""
        row: dict[str, object] = {"file": self.file, "line": self.line, "reason": self.reason}
        try:
            row["raw"] = self.raw.decode()
        except UnicodeDecodeError:
            row["raw_base64"] = base64.b64encode(self.raw).decode()
        return msgspec.json.encode(row) + b"\n"


OnBroken = Callable[[Broken], None]


def refuse(broken: Broken) -> None:
    """Raise :class:`CaptureError` for a broken record: what readers do unless told otherwise."""
    raise CaptureError(broken.file, f"line {broken.line}: {broken.reason}")


class NothingReadable(CaptureError):
    """A log without any record, or with none that can be read."""


class CaptureUnavailable(CaptureError):
    """A server that does not answer, refuses, or went away."""
