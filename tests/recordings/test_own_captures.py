"""What the simulator records of itself replays as it happened, and is what a real server recorded.

The captured examples are the judge: the same workload, with the same seed, on real RabbitMQ 3.10 and 4.3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.replay.rows.topologies import exporting_release
from tests.long import some_in_ci
from tests.recordings.recording import UNSTEADY, Recording, fates, forms, record
from tests.replay.logs import EXAMPLES, deliveries, example_definitions, example_records

pytestmark = pytest.mark.slow

CAPTURED = ["3.10", "4.3"]
REASONS = {"rejected", "expired", "maxlen", "delivery_limit"}


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The workload on a release, played once for all tests."""
    return record(request.param, tmp_path_factory.mktemp("loop"))


def on(*releases: Any) -> pytest.MarkDecorator:
    """Run the test with the recording of each of these releases."""
    return pytest.mark.parametrize("recording", releases, indirect=True)


@on(*some_in_ci(RELEASES, ["3.8", *CAPTURED]))
def test_every_delivery_agrees_in_both_formats(recording: Recording) -> None:
    verdicts = {}
    for form in ("json", "text"):
        rows = deliveries(recording.log(form), recording.definitions, recording.release)
        assert [row for row in rows if row["verdict"] != "agree"] == []
        assert {hop["reason"] for row in rows for hop in row["hops"]} == REASONS
        verdicts[form] = [(row["lineage"], row["queue"], row["hops"], row["new_hops"]) for row in rows]
    assert verdicts["text"] == verdicts["json"]
    assert len(verdicts["json"]) > 2000


@on(*CAPTURED)
def test_every_message_fares_as_on_the_real_server(recording: Recording) -> None:
    real, simulated = fates(example_records(recording.release)), fates(recording.records)
    assert simulated.keys() == real.keys()
    assert {name: fate for name, fate in simulated.items() if fate != real[name]} == {}


@on(*CAPTURED)
def test_records_have_the_form_of_the_real_servers(recording: Recording) -> None:
    real, simulated = forms(example_records(recording.release)), forms(recording.records)
    assert simulated == real


@on(*CAPTURED)
def test_the_exported_definitions_are_the_real_servers(recording: Recording) -> None:
    assert exporting_release(recording.definitions) == exporting_release(example_definitions(recording.release))
    assert exported(recording.folder) == exported(EXAMPLES / f"captured-{recording.release}")


def exported(folder: Path) -> dict[str, Any]:
    """Definitions whose lists are sorted: their order means nothing."""
    document = json.loads((folder / "definitions.json").read_text(encoding="utf-8"))
    return {
        name: sorted(part, key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(part, list) else part
        for name, part in document.items()
    }


@on(*some_in_ci(CAPTURED, ["3.10"]))
def test_another_release_differs_in_the_same_ways(recording: Recording) -> None:
    name = recording.release
    rules = next(other for other in CAPTURED if other != name)
    real = deliveries(EXAMPLES / f"captured-{name}" / "trace.log.gz", example_definitions(name), rules)
    simulated = deliveries(recording.log("json"), recording.definitions, rules)
    assert differences(simulated) ^ differences(real) == set()
    assert causes(simulated) == causes(real)


def differences(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Which messages differ in which field."""
    return {
        (row["lineage"], row["queue"], row["verdict"], difference["field"])
        for row in rows
        if row["queue"].partition(".")[0] not in UNSTEADY
        for difference in row["differences"]
    }


def causes(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """The fields that differ, each with the rows of the release table that it comes from."""
    return {(found["field"], *found["behaviours"]) for row in rows for found in row["differences"]}
