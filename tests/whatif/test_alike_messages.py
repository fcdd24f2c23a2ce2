"""Messages that are looked at together get what each would get that is looked at by itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.tables import select
from simulator.replay.whatif import row_numbers
from simulator.replay.whatif.asked import Asked
from simulator.replay.whatif.local import what_if_files
from simulator.replay.whatif.page import page
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.what_if import side_of
from simulator.testing.strategies import definitions_document
from tests.long import some_in_ci
from tests.whatif.asking import one_by_one
from tests.whatif.test_alike_plays import has, random_topology, settings
from tests.whatif.test_second_side import UNCOUPLED, definitions

SAME_MOMENTS = "SELECT * REPLACE (time_us DIV 2000000 * 2000000 AS time_us) FROM {log}"
TWO_FILES = "SELECT * REPLACE (if(line % 3 = 0, 'a', 'b') AS file) FROM {log}"
NO_CONNECTIONS = "SELECT * REPLACE (if(line % 2 = 0, '', 'all') AS connection) FROM {log}"


NO_LOG = {75}
"""Seeds of topologies in which no message gets anywhere."""


def told(asked: Asked) -> tuple[Any, ...]:
    """All that people get, but what was assumed of one side and is the same for the other."""
    rows = sorted(map(repr, asked.frame().to_dict("records")))
    ways = sorted((repr(way), *of_way) for way, of_way in asked.tally.ways.items())
    lives = sorted(asked.lives)
    return (
        msgspec.json.encode(asked.answer),
        rows,
        ways,
        lives,
        page(asked.answer, asked.tally, asked.lives, ("1", "2")),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", some_in_ci([seed for seed in range(100) if seed not in NO_LOG], {1, 5, 6, 9, 13, 14, 17, 21})
)
def test_together_they_get_what_each_gets_by_itself(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = random.Random(seed)
    release = given.choice(("3.8", "3.10", "4.0", "4.3"))
    against, unseen = given.choice((release, release, "4.3", "3.10")), given.choice(("ack", "repeat"))
    topology = random_topology(given)
    own = Definitions(definitions_document(topology, release), "definitions.json")
    texts = [text for text in settings(topology, given) if not text.endswith("=") or has(own, text)]
    other = with_settings(own, [read_setting(each, own) for each in texts])
    faults = given.choice((0, 0, 50))
    generate(Wish(own.to_json(), 800, release, seed, given.choice(("low", "high")), faults), tmp_path)
    monkeypatch.setattr("simulator.replay.tables.BATCH_ROWS", given.choice((50, 400, 10_000)))
    if given.random() < 0.3:
        monkeypatch.setattr(row_numbers, "KNOWN_MAX", 40)  # what is known is forgotten all the time
    sides = side_of(own, release), side_of(other, against)
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        for change in (UNCOUPLED, SAME_MOMENTS, TWO_FILES, NO_CONNECTIONS):
            if given.random() < 0.4:
                log = select(change, log=log)
        together = what_if_files(log, *sides, unseen=unseen, examples=True)
        with one_by_one():
            singly = what_if_files(log, *sides, unseen=unseen, examples=True)
    assert told(together) == told(singly)
    assert not singly.alike


@pytest.mark.parametrize("against", ["4.3", "3.13"])
def test_most_messages_by_themselves_are_looked_at_together(against: str, tmp_path: Path) -> None:
    generate(Wish(definitions().to_json(), 1_000, "4.3", 1), tmp_path)
    with Database(tmp_path) as database:
        log = select(UNCOUPLED, log=database.parquet(sorted(tmp_path.glob("log-*.parquet"))))
        asked = what_if_files(log, side_of(definitions(), "4.3"), side_of(definitions(), against))
    together = sum(len(each.fates.messages) for each in asked.alike)
    assert asked.answer.messages == together + len(asked.singles)
    assert together > 0.8 * asked.answer.messages
