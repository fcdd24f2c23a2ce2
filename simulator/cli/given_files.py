"""Paths that a command reads from. A URL in place of one is refused with the command that makes a file of it."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

import click
import msgspec

from dlx.value_kinds import value_kind
from simulator.cli.command_parts import DataError
from simulator.json_reading import NestedTooDeeplyError, read_json, where_broken

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Return whether the text is a URL and not a path."""
    return _URL.match(text) is not None


class GivenFile(click.Path):
    """A path to read from.

    Args:
        instead: says how to get such a file from a running server.
    """

    def __init__(self, instead: str = "") -> None:
        super().__init__(path_type=Path)
        self.instead = instead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails with a usage error if ``value`` is a URL."""
        if isinstance(value, str) and is_url(value):
            self.fail(f"{value} is a URL, and a file is needed here. {self.instead}".rstrip(), param, ctx)
        return super().convert(value, param, ctx)


DEFINITIONS = GivenFile(
    "Export the definitions first: `rabbitmqctl export_definitions definitions.json`, or "
    "`curl -u USER:PASSWORD -o definitions.json http://HOST:15672/api/definitions`."
)
LOG = GivenFile("Record a log first: `dlx capture --url amqp://USER:PASSWORD@HOST/VHOST --out log.parquet`.")
COUNTERS = GivenFile("Record it with the log first: `dlx capture --metrics-url http://HOST:15692/metrics ...`.")
SCENARIO = GivenFile("Download it first.")

# Reads the JSON files that a command is given.


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
