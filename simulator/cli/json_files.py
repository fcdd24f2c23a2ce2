"""Reads the JSON files that a command is given."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import msgspec

from dlx.value_kinds import value_kind
from simulator.cli.command_parts import DataError
from simulator.json_reading import NestedTooDeeplyError, read_json, where_broken


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    data = b""
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
        document = read_json(data)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except NestedTooDeeplyError as error:
        raise DataError(f"{path}: {error}") from error
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {where_broken(data, error)}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"{path}: expected an object, got {value_kind(document)}")
    return document
