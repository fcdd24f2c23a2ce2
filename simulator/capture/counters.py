"""The global counters of the nodes that a capture was taken from, read before and after it, in a JSON file beside it.

``simulator.capture.live`` reads them from a node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from dlx.global_counters import Series, account_of
from simulator.capture.capture_errors import CaptureError
from simulator.files import write_whole
from simulator.json_reading import read_json

FORMAT = "dlx global counters"
VERSION = 1
SUFFIX = ".counters.json"
_EXPECTED = "expected the file that `dlx capture --metrics-url` writes beside a capture"

_AT = re.compile(r"(.*) - at `\$\.?([^`]*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_PLAIN = {
    "int": "a whole number",
    "float": "a number with a fraction",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""Words for what msgspec calls the types of JSON."""
_Number = Annotated[int, msgspec.Meta(ge=0)]


class Count(msgspec.Struct, frozen=True):
    """One counter: its name without ``rabbitmq_global_`` and ``_total``, its labels, and how far it has counted."""

    name: str
    labels: dict[str, str]
    value: _Number

    @property
    def series(self) -> Series:
        """The counter's name and labels."""
        return Series(self.name, tuple(sorted(self.labels.items())))


class Reading(msgspec.Struct, frozen=True):
    """All counters of a node at one time: microseconds since 1970, by the clock of whoever read them."""

    time_us: int
    counters: tuple[Count, ...]

    def by_series(self) -> dict[Series, int]:
        """Return how far each has counted."""
        return {count.series: count.value for count in self.counters}


class NodeReadings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node had counted before a capture and after it; ``release`` is a version such as ``4.0.5``."""

    node: str
    release: str
    before: Reading
    after: Reading

    def counted(self) -> dict[Series, int]:
        """Return by how much each counter has risen. Raises ``ValueError`` if one fell, as in a restart."""
        before, risen = self.before.by_series(), {}
        for series, value in self.after.by_series().items():
            risen[series] = value - before.pop(series, 0)
            if risen[series] < 0:
                raise ValueError(_restarted(self.node, series))
        for series in before:
            raise ValueError(_restarted(self.node, series))
        return risen


def _restarted(node: str, series: Series) -> str:
    return f"node {node} was restarted during the capture, for {series} fell: what it counted in between is not known"


class CounterReadings(msgspec.Struct, frozen=True, kw_only=True):
    """The counters that belong to a capture.

    Attributes:
        nodes: what each node had counted.
        vhost: the virtual host that was captured. The counters are of all virtual hosts.
        cut: why the capture lacks some of what its nodes counted, in words.
    """

    nodes: Annotated[tuple[NodeReadings, ...], msgspec.Meta(min_length=1)]
    vhost: str
    cut: tuple[str, ...] = ()
    format: str = FORMAT
    version: int = VERSION

    def counted(self) -> dict[Series, int]:
        """Return by how much each counter has risen, on all nodes together. Raises ``ValueError`` if one fell."""
        total: dict[Series, int] = {}
        for node in self.nodes:
            for series, count in node.counted().items():
                total[series] = total.get(series, 0) + count
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.node for node in self.nodes)


def reading(time_us: int, counted: Mapping[Series, int]) -> Reading:
    """Return counters as a reading, in the order of their names."""
    rows = sorted(counted.items())
    return Reading(time_us, tuple(Count(series.name, dict(series.labels), value) for series, value in rows))


def path_beside(capture: str | os.PathLike[str]) -> Path:
    """Return the place of the counters of a capture: ``log.counters.json`` beside ``log.parquet``."""
    return Path(capture).with_suffix(SUFFIX)


def write_counters(path: str | os.PathLike[str], readings: CounterReadings) -> None:
    """Write the file as a whole or not at all. Raises ``CaptureError``."""
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(readings), indent=1) + b"\n")
    except OSError as error:
        raise CaptureError(os.fspath(path), f"cannot write: {error.strerror}") from error


def read_counters(path: str | os.PathLike[str]) -> CounterReadings:
    """Read the file. Raises ``CaptureError``, which names the field and what would be right."""
    name = os.fspath(path)
    try:
        document = read_json(Path(path).read_bytes())
    except OSError as error:
        raise CaptureError(name, f"{error.strerror}; {_EXPECTED}") from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise CaptureError(name, f"not JSON ({error}); {_EXPECTED}") from error
    _check_kind(name, document)
    try:
        readings = msgspec.convert(document, CounterReadings)
        _check_nodes(name, readings)
        readings.counted()
    except msgspec.ValidationError as error:
        raise CaptureError(name, _reword(str(error))) from error
    except ValueError as error:
        raise CaptureError(name, str(error)) from error
    return readings


def _reword(text: str) -> str:
    """Return an error of msgspec in plain words, the field first."""
    found = _AT.fullmatch(text)
    problem, field = (found[1], found[2]) if found else (text, "")
    if missing := _MISSING.fullmatch(problem):
        return f"{'.'.join(part for part in (field, missing[1]) if part)}: is missing; {_EXPECTED}"
    for word, plain in _PLAIN.items():
        problem = problem.replace(f"`{word}`", plain)
    return f"{field}: {problem[0].lower()}{problem[1:]}" if field else problem


def _check_kind(name: str, document: object) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CaptureError(name, f"its format is not {FORMAT!r}; {_EXPECTED}")
    if document.get("version") != VERSION:
        raise CaptureError(name, f"version: expected {VERSION}, got {document.get('version')!r:.20}")


def _check_nodes(name: str, readings: CounterReadings) -> None:
    for index, node in enumerate(readings.nodes):
        if node.node in readings.names[:index]:
            raise CaptureError(name, f"nodes[{index}].node: {node.node!r} is there twice, and would count twice")
        if node.after.time_us < node.before.time_us:
            raise CaptureError(name, f"nodes[{index}].after.time_us: expected a time after before.time_us")
        for which, read in (("before", node.before), ("after", node.after)):
            if not any(account_of(count.series) for count in read.counters):
                where = f"nodes[{index}].{which}.counters"
                raise CaptureError(name, f"{where}: has no counters of dead letters; RabbitMQ 3.10 and later have them")
