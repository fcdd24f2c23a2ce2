"""The reader of recorded traces: what it knows, and that it notices what is different."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.systems.zaqar import vectors

FILES = sorted((Path(__file__).parent / "vectors").glob("*.json"))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_are_recordings() -> None:
    assert len(FILES) >= 16


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_are_recognised(path: Path) -> None:
    assert vectors.recognises(read(path))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        "trace",
        {"trace": []},
        {"results": []},
        {"results": [1]},
        {"trace": [{"path": "/v2/queues", "note": "no answer"}]},
        {"trace": [{"event": "delivered", "queue": "a"}]},
        {"results": [{"scenario": "a", "steps": [{"raw": [{"queue": "a"}]}]}]},
    ],
)
def test_other_documents_are_not(document: Any) -> None:
    assert not vectors.recognises(document)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_number_that_is_another_is_noticed(path: Path) -> None:
    document = read(path)
    places = [place for place in _numbers(document, ()) if _is_outcome(place)]
    for place in places[:: max(1, len(places) // 8)]:
        changed = copy.deepcopy(document)
        _at(changed, place[:-1])[place[-1]] += 7
        with pytest.raises(AssertionError, match="recorded"):
            vectors.check(changed, path.stem)


def test_a_claim_that_is_another_is_noticed() -> None:
    document = read(FILES[0])
    state = next(event["state"] for event in document["trace"] if event.get("state", {}).get("claim") == "<claim:2>")
    state["claim"] = "<claim:1>"
    with pytest.raises(AssertionError, match="recorded"):
        vectors.check(document, "another claim")


def _is_outcome(place: tuple[Any, ...]) -> bool:
    """Of the MongoDB driver the requests are read off from the times; its counts are outcomes alone."""
    if place[0] == "results":
        return place[-1] == "c.c" or "claim" in place
    return place[0] == "trace" and "t_s" not in place and "request" not in place


def _numbers(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(one, (*place, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value
