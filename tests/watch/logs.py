"""Logs that grow, and what a replay says of the whole of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.replay.engines.local import replay_table
from simulator.replay.watch.state import VERDICTS, WatchState
from simulator.replay.watch.watcher import Watcher, WatchOptions, verdict_line

ROOT = Path(__file__).parents[2]
CAPTURED = {
    "3.10": ROOT / "examples" / "captured-3.10",
    "4.3": ROOT / "examples" / "captured-4.3",
    "what-if 4.3": ROOT / "tests" / "whatif" / "recorded" / "4.3" / "own",
}


def log_of(name: str) -> bytes:
    """Return the log of a checked-in capture, unpacked."""
    return gzip.decompress((CAPTURED[name] / "trace.log.gz").read_bytes())


def wish_for(name: str, **options: float) -> WatchOptions:
    definitions = read_definitions(CAPTURED[name] / "definitions.json")
    return WatchOptions(definitions=definitions, rules=name.split()[-1], **options)


def replayed(log: Path, wish: WatchOptions) -> list[bytes]:
    """Return the lines that a watch of the log has to come to, sorted."""
    table = replay_table(list(open_log(log)), wish.definitions, wish.rules, wish.assumptions)
    return sorted(verdict_line(row) for row in table.to_pylist() if row["verdict"])


def said(folder: Path) -> list[bytes]:
    """Return the lines that a watch has written, sorted; those that a correction replaces are left out."""
    found: dict[tuple[str, str, str, int], bytes] = {}
    for line in (folder / VERDICTS).read_bytes().splitlines(keepends=True):
        row = msgspec.json.decode(line)
        key = row["vhost"], row["message"], row["file"], row["line"]
        assert (key in found) == row.pop("corrects", False), f"said twice: {key}"
        found[key] = msgspec.json.encode(row) + b"\n"
    return sorted(line for line in found.values() if msgspec.json.decode(line)["verdict"])


def watcher(sources: Path, wish: WatchOptions, folder: Path) -> tuple[Watcher, WatchState]:
    state = WatchState(folder, "test")
    return Watcher([sources], wish, state), state
