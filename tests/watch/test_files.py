"""Files as a watch finds them: half a line, a rotated one, Parquet, broken lines; and states that do not fit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simulator.capture import convert, open_log
from simulator.capture.capture_errors import CaptureError
from simulator.capture.journal import CaptureFile
from simulator.capture.schema import Observation
from simulator.replay.results.summary import MatchesNothingError
from simulator.replay.watch.state import WatchState
from simulator.replay.watch.watcher import WatchOptions
from tests.replay.logs import Log, definitions_of, write_log
from tests.watch.logs import log_of, replayed, said, watcher, wish_for

NAME = "what-if 4.3"
WISH = wish_for(NAME, settle_s=0)


def test_a_line_without_an_end_is_waited_for(tmp_path: Path) -> None:
    log, growing = log_of(NAME), tmp_path / "trace.log"
    first = log.index(b"\n") + 1
    growing.write_bytes(log[: first + 20])
    each, state = watcher(growing, WISH, tmp_path / "state")
    with state:
        assert not each.step(0).broken
        assert (each.status(0).rows, list(each.unfinished.values())) == (1, [20])
        with growing.open("ab") as stream:
            stream.write(log[first + 20 :])
        each.step(1)
        assert not each.unfinished
    assert said(tmp_path / "state") == replayed(growing, WISH)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda log: log[: len(log) // 2], r"trace\.log: has shrunk from 283,215 to 141,607 bytes: .* rotated"),
        (lambda log: b" " + log, r"trace\.log: begins with other bytes than before: .* rotated"),
    ],
)
def test_a_file_that_is_another_now_is_told_with_its_name(change: object, told: str, tmp_path: Path) -> None:
    growing = tmp_path / "trace.log"
    growing.write_bytes(log_of(NAME))
    each, state = watcher(growing, WISH, tmp_path / "state")
    with state:
        each.step(0)
        growing.write_bytes(change(log_of(NAME)))  # type: ignore[operator]
        with pytest.raises(CaptureError, match=told):
            each.step(1)


def test_a_broken_line_is_told_with_its_number_and_passed_over(tmp_path: Path) -> None:
    growing = tmp_path / "trace.log"
    lines = log_of(NAME).splitlines(keepends=True)
    growing.write_bytes(b"".join(lines[:5]))
    each, state = watcher(growing, WISH, tmp_path / "state")
    with state:
        each.step(0)
        with growing.open("ab") as stream:
            stream.write(lines[5] + b'{"type": 7}\n' + b"".join(lines[6:]))
        (broken,) = each.step(1).broken
    assert (broken.file, broken.line) == ("trace.log", 7)
    assert len(said(tmp_path / "state")) == 389


def test_a_directory_of_parts_is_read_as_they_come(tmp_path: Path) -> None:
    """Parquet once it is whole, and the lines that `dlx capture` writes; a part that comes late holds earlier rows."""
    log, parts = log_of(NAME).splitlines(keepends=True), tmp_path / "parts"
    parts.mkdir()
    each, state = watcher(parts, WISH, tmp_path / "state")
    text = tmp_path / "trace.log"
    text.write_bytes(b"".join(log))
    rows = [row for batch in open_log(text) for row in batch.to_pylist()]
    with state:
        journal = CaptureFile(parts / "late.jsonl")
        for row in rows[400:]:
            journal.append(msgspec.convert(row, Observation))
        journal.close()
        while each.step(0).more:
            pass
        text.write_bytes(b"".join(log[:400]))
        convert([text], parts / "early.parquet")
        whole = (parts / "early.parquet").read_bytes()
        (parts / "early.parquet").write_bytes(whole[:1000])
        assert not each.step(1).lines
        (parts / "early.parquet").write_bytes(whole)
        while each.step(1).more:
            pass
        assert each.status(1).corrections
    text.write_bytes(b"".join(log))
    assert said(tmp_path / "state") == replayed(text, WISH)


def test_what_cannot_be_read_on_is_refused(tmp_path: Path) -> None:
    growing = tmp_path / "trace.log.json"
    growing.write_bytes(b"\x1f\x8b not a line")
    each, state = watcher(growing, WISH, tmp_path / "state")
    with state, pytest.raises(CaptureError, match=r"trace\.log\.json: compressed, so it cannot be read as it grows"):
        each.step(0)


def test_too_many_open_messages_are_an_error(tmp_path: Path) -> None:
    growing = tmp_path / "trace.log"
    growing.write_bytes(log_of(NAME))
    each, state = watcher(growing, wish_for(NAME, settle_s=0, open_max=100), tmp_path / "state")
    with state, pytest.raises(CaptureError, match="240 messages are not finished, the limit is 100"):
        each.step(0)


def test_messages_are_forgotten_sooner_if_too_many_are_open(tmp_path: Path) -> None:
    log = Log()
    for number in range(200):  # a row a second
        log.publish("", "work", message_id=f"m{number}").deliver("work", "", ["work"], message_id=f"m{number}")
    growing = write_log(tmp_path / "trace.log", log.records)
    wish = WatchOptions(definitions=definitions_of({"work": {}}), rules="4.3", open_max=80)
    each, state = watcher(growing, wish, tmp_path / "state")
    with state:
        for now in range(5, 9):
            each.step(now)
        assert each.status(9).open_messages <= 80
        assert each.status(9).agree == 200


def test_definitions_that_do_not_fit_are_refused_also_after_a_kill(tmp_path: Path) -> None:
    growing, folder = tmp_path / "trace.log", tmp_path / "state"
    growing.write_bytes(log_of(NAME))
    each, state = watcher(growing, wish_for("4.3"), folder)  # definitions of another virtual host
    with state:
        each.step(0)  # killed before anybody asked whether they fit
    each, state = watcher(growing, wish_for("4.3"), folder)
    with state, pytest.raises(MatchesNothingError, match="the log has 'dlx-what-if'"):
        each.check_match()
    assert not list(folder.iterdir())


def test_a_state_goes_on_only_with_what_it_was_made_for_and_in_one_watch(tmp_path: Path) -> None:
    with WatchState(tmp_path, "one") as state:
        state.fit()
        state.commit([])
        with pytest.raises(CaptureError, match="in use by another"):
            WatchState(tmp_path, "one")
    with pytest.raises(CaptureError, match="made with other definitions, release or options"):
        WatchState(tmp_path, "another")
    (tmp_path / "state.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(CaptureError, match="not the state of a `dlx watch`"):
        WatchState(tmp_path, "one")


@pytest.mark.parametrize(("first", "second"), [(slice(0, 40), slice(20, 60)), (slice(0, 40), slice(0, 40))])
def test_files_that_overlap_are_refused(tmp_path: Path, first: slice, second: slice) -> None:
    """Also if the second one comes while the first is watched, as a replay refuses them."""
    lines = log_of(NAME).splitlines(keepends=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "first.log").write_bytes(b"".join(lines[first]))
    each, state = watcher(tmp_path / "logs", WISH, tmp_path / "state")
    with state:
        each.step(0)
        (tmp_path / "logs" / "second.log").write_bytes(b"".join(lines[second]))
        with pytest.raises(CaptureError, match=r"second\.log: has rows that are in first\.log as well"):
            each.step(1)


def test_files_that_follow_each_other_are_not(tmp_path: Path) -> None:
    lines = log_of(NAME).splitlines(keepends=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "first.log").write_bytes(b"".join(lines[:40]))
    (tmp_path / "logs" / "second.log").write_bytes(b"".join(lines[40:80]))
    each, state = watcher(tmp_path / "logs", WISH, tmp_path / "state")
    with state:
        each.step(0)
        assert each.status(0).rows == 80
