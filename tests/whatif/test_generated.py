"""Random traffic: played again under its own settings, a log comes out as it is, for all but a few messages."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simulator.definitions import read_definitions
from simulator.generate import Wish, generate
from simulator.generate.traffic import Diversity
from simulator.replay import Database
from simulator.whatif.local import what_if_files
from simulator.whatif.sides import side_of

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "diversity", "seed"), [("4.3", "low", 1), ("4.3", "high", 2), ("3.10", "low", 3), ("3.10", "high", 4)]
)
def test_random_traffic_comes_out_as_it_is(release: str, diversity: Diversity, seed: int, tmp_path: Path) -> None:
    definitions = read_definitions(EXAMPLES / f"captured-{release}" / "definitions.json")
    generate(Wish(msgspec.json.encode(definitions.document), 8_000, release, seed, diversity), tmp_path)
    side = side_of(definitions, release)
    with Database(tmp_path) as database:
        answer = what_if_files(database.parquet([*tmp_path.glob("log-*.parquet")]), side, side).answer
    assert answer.reproduced >= 0.995 * answer.messages
    assert answer.changed == 0
