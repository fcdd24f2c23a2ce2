"""A message that comes to nothing in which the sides differ is played once: the answer is as if it was played twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.rows.tables import select
from simulator.whatif.both_sides import Playbacks
from simulator.whatif.differences import differing_queues
from simulator.whatif.local import what_if_files
from simulator.whatif.page import page
from simulator.whatif.playback import Playback, Unseen
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import prepared, side_of

RELEASE = "4.3"
FOLDER = Path(__file__).parents[2] / "examples" / f"captured-{RELEASE}"


UNCOUPLED = "SELECT * FROM {log} WHERE message NOT IN (SELECT message FROM {log} WHERE expiration IS NOT NULL)"
LIMITS = ("x-max-length", "x-max-length-bytes")


def definitions() -> Definitions:
    """The definitions without limits on length, which would couple most messages."""
    document = read_definitions(FOLDER / "definitions.json").document
    queues = [
        {**each, "arguments": {key: value for key, value in each["arguments"].items() if key not in LIMITS}}
        for each in document["queues"]
    ]
    return Definitions({**document, "queues": queues, "policies": []}, "definitions.json")


def answered(folder: Path, other: Definitions, unseen: Unseen) -> tuple[Any, ...]:
    """All that people get."""
    with Database(folder) as database:
        log = select(UNCOUPLED, log=database.parquet(sorted(folder.glob("log-*.parquet"))))
        asked = what_if_files(
            log, side_of(definitions(), RELEASE), side_of(other, RELEASE), unseen=unseen, examples=True
        )
    html = page(asked.answer, asked.tally, asked.lives, ("one", "other"))
    rows = asked.frame().to_dict("records")
    return msgspec.json.encode(asked.answer), sorted(map(repr, rows)), html


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "unseen", "seed"),
    [
        ("queue:payments.wait.3.x-message-ttl=20000", "ack", 1),
        ("queue:shipments.work.x-dead-letter-routing-key=nowhere", "repeat", 2),
    ],
)
def test_the_answer_is_as_if_every_message_was_played_under_both_sides(
    setting: str, unseen: Unseen, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = with_settings(definitions(), [read_setting(setting, definitions())])
    generate(Wish(msgspec.json.encode(definitions().document), 2_000, RELEASE, seed, "high"), tmp_path)
    played = []

    def play(run: Playback, stories: Any, plain: Any = Playback.play) -> Any:
        played.append(run)
        return plain(run, stories)

    monkeypatch.setattr(Playback, "play", play)
    skipping, some = answered(tmp_path, other, unseen), len(played)
    monkeypatch.setattr(Playbacks, "at_once", lambda *_: None)
    twice = answered(tmp_path, other, unseen)
    assert skipping == twice
    assert some < 0.9 * (len(played) - some)  # else it would say nothing


def differing(other: Definitions, against: str = RELEASE) -> frozenset[tuple[str, str]] | None:
    sides = side_of(definitions(), RELEASE), side_of(other, against)
    return differing_queues(*(prepared(side).flows for side in sides))


def test_only_the_queue_with_another_setting_differs() -> None:
    setting = read_setting("queue:payments.wait.3.x-message-ttl=20000", definitions())
    assert differing(with_settings(definitions(), [setting])) == {("dlx-workload", "payments.wait.3")}


def test_another_release_or_another_binding_may_matter_anywhere() -> None:
    document = dict(definitions().document)
    assert differing(definitions(), "3.10") is None
    assert differing(Definitions({**document, "bindings": document["bindings"][1:]}, "other.json")) is None
