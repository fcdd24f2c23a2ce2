"""Reads the JSON files that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dlx.value_kinds import value_kind
from simulator.cli.command_parts import DataError


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"{path}: expected an object, got {value_kind(document)}")
    return document
