"""Names logs in the column ``file``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from simulator.capture.capture_errors import CaptureError

AnyPath = str | os.PathLike[str]


def names_of(paths: Sequence[AnyPath]) -> dict[AnyPath, str]:
    """Name each log by the shortest end of its path that no other log shares.

    Raises:
        CaptureError: a log is given twice.
    """
    resolved = [Path(path).resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise CaptureError(os.fspath(path), "given twice")
    names = {}
    for path, full in zip(paths, resolved, strict=True):
        size = 1
        while sum(other.parts[-size:] == full.parts[-size:] for other in resolved) > 1:
            size += 1
        names[path] = "/".join(full.parts[-size:])
    return names
