"""Files beside a scenario: what a system reads from a file of its own may stand there as ``{"file": NAME}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.cli.command_parts import DataError

# Where each system may name a file.
_PLACES: Mapping[str, Sequence[Sequence[str]]] = {
    "activemq": (("broker", "activemq_xml"),),
    "ibm_mq": (("rules_table",),),
}


def with_files(system: str, scenario: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Return the scenario with the contents of the files that it names.

    Args:
        system: whose scenario it is.
        scenario: as it was read.
        beside: its file; names are relative to the folder of that.

    Raises:
        DataError: a file cannot be read.
    """
    for place in _PLACES.get(system, ()):
        scenario = _filled(scenario, place, beside, ".".join(place))
    return scenario


def _filled(value: Any, place: Sequence[str], beside: Path, where: str) -> Any:
    if place:
        name, *deeper = place
        if not isinstance(value, dict) or name not in value:
            return value
        return {**value, name: _filled(value[name], deeper, beside, where)}
    if not isinstance(value, dict):
        return value
    if set(value) != {"file"}:
        raise DataError(f'{beside}: {where}: expected a text, or {{"file": NAME}} with a file beside the scenario')
    if not isinstance(value["file"], str):
        raise DataError(f"{beside}: {where}.file: expected the name of a file beside the scenario")
    path = beside.parent / value["file"]
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{beside}: {where}.file: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got the byte {error.object[error.start]:#04x}"
        raise DataError(f"{beside}: {where}.file: {path}: {problem}") from error
