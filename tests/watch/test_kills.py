"""A watch that is killed at any moment goes on with the same state: no verdict is missing, none is there twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from simulator.replay.watch.state import VERDICTS
from tests.watch.logs import CAPTURED, ROOT, log_of, replayed, said, watcher, wish_for

NAME = "4.3"
KILLS = 8
# It says where its metrics are once it is about to begin.
COMMAND = [sys.executable, "-m", "simulator.cli.main", "watch", "--release", NAME]
COMMAND += ["--settle", "0", "--forget-after", "1", "--prometheus", "0"]


@pytest.mark.slow
def test_kills_lose_no_verdict_and_double_none(tmp_path: Path) -> None:
    """The log grows by random slices meanwhile; each kill comes at a random moment of the work."""
    chance = random.Random(11)
    log, growing, folder = log_of(NAME), tmp_path / "trace.log", tmp_path / "state"
    definitions = CAPTURED[NAME] / "definitions.json"
    command = [*COMMAND, os.fspath(growing), "--definitions", os.fspath(definitions), "--state", os.fspath(folder)]
    cuts = [0, *sorted(chance.sample(range(1, len(log)), 4 * KILLS - 1)), len(log)]
    parts = [log[start:end] for start, end in pairwise(cuts)]
    growing.touch()
    lengths = {0}
    for kill in range(KILLS):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"metrics: ")  # it is about to begin
            for _ in range(4):
                _append(growing, parts.pop(0))
                time.sleep(chance.uniform(0, 0.45))
            if kill % 2:
                _wait_for_verdicts(folder / VERDICTS, beyond=max(lengths))
            process.kill()
        lengths.add((folder / VERDICTS).stat().st_size)
    _append(growing, b"".join(parts))
    done = subprocess.run([*command, "--once"], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert len(lengths) > KILLS / 4, "most kills came before there was work"
    assert said(folder) == replayed(growing, wish_for(NAME))


def test_what_was_appended_without_a_commit_is_cut_off(tmp_path: Path) -> None:
    growing = tmp_path / "trace.log"
    growing.write_bytes(log_of(NAME)[:100_000])
    _watched(growing, tmp_path / "state")
    before = said(tmp_path / "state")
    with (tmp_path / "state" / VERDICTS).open("ab") as stream:
        stream.write(b'{"half a li')
    _append(growing, log_of(NAME)[100_000:])
    _watched(growing, tmp_path / "state")
    assert said(tmp_path / "state") == replayed(growing, wish_for(NAME))
    assert before


def _wait_for_verdicts(path: Path, beyond: int) -> None:
    """Let it work until there are more than before, or there is nothing that it could tell."""
    until = time.monotonic() + 5
    while time.monotonic() < until and (not path.exists() or path.stat().st_size <= beyond):
        time.sleep(0.02)


def _watched(growing: Path, folder: Path) -> None:
    each, state = watcher(growing, wish_for(NAME, settle_s=0), folder)
    with state:
        while each.step(0).more:
            pass


def _append(growing: Path, part: bytes) -> None:
    with growing.open("ab") as stream:
        stream.write(part)
