"""The recorded transcripts: one file for each subject, and in it for each scenario what each release answered.

A file is a list of ``{"name": ..., "script": [REPR, ...], "seen": [{"releases": [...], "transcript": [...]}]}``.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from tests import real_servers
from tests.differential.differences import same
from tests.differential.operations import Scenario
from tests.differential.transcript import Transcript

RECORDED = Path(__file__).parent / "recorded"
WIDTH = 120
LONGEST = 1000  # of an operation

Recording = dict[str, Transcript]  # by release


def script_of(scenario: Scenario) -> list[str]:
    """The operations as they stand in a recording."""
    return [_shortened(repr(operation)) for operation in scenario.operations]


def _shortened(text: str) -> str:
    digest = zlib.crc32(text.encode(errors="surrogateescape"))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters, {digest:08x})"


def read() -> dict[str, tuple[list[str], Recording]]:
    """Script and recording of every scenario that has one."""
    found = {}
    for path in sorted(RECORDED.glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8")):
            by_release = {release: seen["transcript"] for seen in entry["seen"] for release in seen["releases"]}
            found[entry["name"]] = (entry["script"], by_release)
    return found


def save(scenarios: list[Scenario], new: dict[str, Recording]) -> None:
    """Put new transcripts over the old ones; what no scenario has any more disappears."""
    old = read()
    files: dict[str, list[Any]] = {}
    for scenario in scenarios:
        script, before = old.get(scenario.name, ([], {}))
        kept = before if script == script_of(scenario) else {}
        by_release = {r: t for r, t in (kept | new.get(scenario.name, {})).items() if r in scenario.releases}
        if by_release:
            entry = {"name": scenario.name, "script": script_of(scenario), "seen": _grouped(by_release)}
            files.setdefault(scenario.name.partition("/")[0], []).append(entry)
    RECORDED.mkdir(exist_ok=True)
    for path in RECORDED.glob("*.json"):
        if path.stem not in files:
            path.unlink()
    for subject, entries in files.items():
        _write(RECORDED / f"{subject}.json", entries)


def _grouped(recording: Recording) -> list[dict[str, Any]]:
    """Releases with the same transcript together."""
    groups: list[dict[str, Any]] = []
    for release in sorted(recording, key=real_servers.RECORDED.index):
        equal = next((group for group in groups if same(group["transcript"], recording[release])), None)
        if equal is None:
            groups.append({"releases": [release], "transcript": recording[release]})
        else:
            equal["releases"].append(release)
    return groups


def _write(path: Path, value: Any) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(_pretty(value) + "\n", encoding="utf-8")
    os.replace(beside, path)


def _pretty(value: Any, indent: int = 0) -> str:
    """JSON with everything on one line that fits on one, and an event always."""
    line = json.dumps(value)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list) or not value or "event" in value:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(key)}: {_pretty(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + _pretty(item, indent + 1) for item in value) + "\n" + " " * indent + "]"
