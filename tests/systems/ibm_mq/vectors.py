"""Worked examples of the dead-letter queue handler, turned into scenarios and compared.

A document is one example, or several below ``vectors``: a rules table, one message, the
outcomes of the puts in order, and what each attempt is expected to do. Its clock is ideal:
attempts are exactly RETRYINT apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.systems.ibm_mq import simulate

_FIELDS = {"rules_table": str, "message": dict, "put_results": list, "expected": list}


def recognises(document: Any) -> bool:
    """Whether the document holds examples of this form, and nothing else."""
    examples = _examples(document)
    return bool(examples) and all(_is_example(example) for example in examples)


def check(document: Any, name: str) -> None:
    """Run the examples. Raises ``AssertionError`` that names the example, the attempt and the field."""
    for example in _examples(document):
        label = f"{name} {example.get('id', '')}".strip()
        seen = [recorded(visit) for visit in simulate(scenario(example))["visits"]]
        expected = example["expected"]
        assert len(seen) == len(expected), f"{label}: expected {len(expected)} attempts, seen {len(seen)}: {seen}"
        for index, (wanted, got) in enumerate(zip(expected, seen, strict=True)):
            for field, value in wanted.items():
                found = got.get(field)
                difference = f"attempt {index + 1}, {field}: expected {value!r}, seen {found!r}"
                assert _same(field, value, found), f"{label}: {difference}"


def _same(field: str, expected: Any, seen: Any) -> bool:
    if field == "outcome":
        return _kind(expected) == _kind(seen)
    if field == "operator_message":
        return bool(expected) == bool(seen)  # where nothing was put, nothing is said of it
    return bool(expected == seen)


def scenario(example: Mapping[str, Any]) -> dict[str, Any]:
    """An example as a scenario."""
    return {
        "rules_table": example["rules_table"],
        "messages": [example["message"]],
        "put_results": example["put_results"],
    }


def recorded(visit: Mapping[str, Any]) -> dict[str, Any]:
    """A visit of the trace as an example tells it."""
    fields = ("rule", "action", "put_to", "with_mqdlh", "put_authority", "result", "operator_message", "outcome")
    return {"t": visit["time_ms"] / 1000, **{field: visit[field] for field in fields if field in visit}} | (
        {"outcome": "assumed"} if visit["rule"] is None else {}
    )


def _examples(document: Any) -> list[Any]:
    if not isinstance(document, dict):
        return []
    examples = document.get("vectors", [document])
    return examples if isinstance(examples, list) else []


def _is_example(example: Any) -> bool:
    return isinstance(example, dict) and all(isinstance(example.get(name), kind) for name, kind in _FIELDS.items())


def _kind(outcome: Any) -> str:
    """What the words for an outcome come down to."""
    words = {"assumed": "assumed", "remov": "removed", "discard": "removed", "backed out": "backed out"}
    text = str(outcome).lower()
    kept = "ignored" if any(word in text for word in ("ignore", "left", "stays")) else text
    return next((kind for word, kind in words.items() if word in text), kept)
