"""RabbitMQ's error texts stand in ``dlx`` once: each has a caller, and the broker spells none itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlx import amqp_errors
from dlx.message import PublishRefusedError, sender_selected_keys

ROOT = Path(__file__).parent.parent.parent
FUNCTIONS = sorted(
    node.name
    for node in ast.parse(Path(amqp_errors.__file__).read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
)


def _sources(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        yield from (path for path in sorted((ROOT / room).rglob("*.py")) if path != Path(amqp_errors.__file__))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.fixture(scope="module")
def used() -> set[str]:
    return {name for path in _sources("dlx", "simulator") for name in _names(ast.parse(path.read_text("utf-8")))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_error_has_a_caller(name: str, used: set[str]) -> None:
    assert name in used, f"dlx.amqp_errors.{name} is called nowhere: does its text stand somewhere else?"


def test_the_broker_spells_no_error_itself() -> None:
    spelled = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _sources("simulator/broker")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Refusal"
    ]
    assert spelled == [], "its text belongs into dlx/amqp_errors.py"


def test_a_refused_publish_is_a_refusal_with_the_type_on_the_wire() -> None:
    with pytest.raises(PublishRefusedError) as refused:
        sender_selected_keys({"CC": 1.5}, "CC")
    assert isinstance(refused.value, amqp_errors.Refusal)
    assert refused.value.text == 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",double}'
