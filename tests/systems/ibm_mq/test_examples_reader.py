"""The reader of worked examples: it knows its own documents, and fails where the handler does something else."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.systems.ibm_mq.vectors import check, recognises

DOCUMENT = json.loads((Path(__file__).parent / "vectors" / "worked_examples.json").read_text(encoding="utf-8"))
FIRST = DOCUMENT["vectors"][0]


def changed(attempt: int, **fields: Any) -> dict[str, Any]:
    example = copy.deepcopy(FIRST)
    example["expected"][attempt].update(fields)
    return example


def test_a_document_of_several_examples_or_of_one() -> None:
    assert recognises(DOCUMENT)
    assert recognises(FIRST)
    check(FIRST, "one")


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        "rules_table",
        {"vectors": []},
        {"vectors": "several"},
        {"vectors": [FIRST, {"id": "other"}]},
        {**FIRST, "expected": None},
        {"system": "zaqar", "steps": [], "expected": []},
    ],
)
def test_other_documents(document: Any) -> None:
    assert not recognises(document)


@pytest.mark.parametrize(
    ("example", "said"),
    [
        (changed(1, t=61), "mq01: attempt 2, t: expected 61, seen 60"),
        (changed(0, rule=2), "mq01: attempt 1, rule: expected 2, seen 1"),
        (changed(0, put_to=["ORDERS", ""]), "attempt 1, put_to"),
        (changed(2, with_mqdlh=True), "attempt 3, with_mqdlh: expected True, seen False"),
        (changed(0, put_authority="context user alice"), "attempt 1, put_authority"),
        (changed(0, result="OK"), "attempt 1, result"),
        (changed(0, operator_message=True), "attempt 1, operator_message"),
        (changed(2, outcome="left on DLQ"), "attempt 3, outcome: expected 'left on DLQ', seen 'removed'"),
        (changed(2, outcome="IGNORE (assumed)"), "attempt 3, outcome"),
        ({**FIRST, "expected": FIRST["expected"][:2]}, "expected 2 attempts, seen 3"),
        ({**FIRST, "put_results": []}, "expected 3 attempts, seen 1"),
    ],
)
def test_a_difference_is_named(example: dict[str, Any], said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        check(example, "one")
