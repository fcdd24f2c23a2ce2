"""RabbitMQ's error texts stand in ``dlx`` once: each has a caller, and neither broker nor server spells one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlx import amqp_errors, operator_errors
from dlx.message import PublishRefusedError, sender_selected_keys

ROOT = Path(__file__).parent.parent.parent
HOMES = {Path(module.__file__) for module in (amqp_errors, operator_errors)}
OWN_TEXTS = ("protocol_errors.py", "striking.py")
"""They print the bytes of frames, and what a tester asked for."""
FUNCTIONS = sorted(
    (home.stem, node.name)
    for home in HOMES
    for node in ast.parse(home.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
)


def _sources(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        yield from (path for path in sorted((ROOT / room).rglob("*.py")) if path not in HOMES)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.fixture(scope="module")
def used() -> set[str]:
    return {name for path in _sources("dlx", "simulator") for name in _names(ast.parse(path.read_text("utf-8")))}


@pytest.mark.parametrize(("home", "name"), FUNCTIONS)
def test_every_error_has_a_caller(home: str, name: str, used: set[str]) -> None:
    assert name in used, f"dlx.{home}.{name} is called nowhere: does its text stand somewhere else?"


def test_broker_and_server_spell_no_error_themselves() -> None:
    spelled = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _sources("simulator/broker", "simulator/server")
        if path.name not in OWN_TEXTS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Refusal", "OperatorError")
    ]
    assert spelled == [], "its text belongs into dlx/amqp_errors.py or dlx/operator_errors.py"


def _sentences(home: Path) -> set[str]:
    """Return the texts of a module that begin with a word and go on; values stand between the parts of others."""
    tree = ast.parse(home.read_text(encoding="utf-8"))
    explained = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = {ast.get_docstring(node, clean=False) for node in explained}
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text.strip() for text in texts if text[:1].isalpha() and len(text.split()) > 2} - docstrings


def test_every_text_stands_once() -> None:
    texts = {text: home for home in HOMES for text in _sentences(home)}
    assert "no previously declared queue" in texts
    sources = {path: path.read_text("utf-8") for path in (*HOMES, *_sources("dlx", "simulator"))}
    again = [
        f"{path.relative_to(ROOT)}: {text}"
        for path, source in sources.items()
        for text, home in texts.items()
        if path != home and text in source
    ]
    assert again == []


def test_a_refused_publish_is_a_refusal_with_the_type_on_the_wire() -> None:
    with pytest.raises(PublishRefusedError) as refused:
        sender_selected_keys({"CC": 1.5}, "CC")
    assert isinstance(refused.value, amqp_errors.Refusal)
    assert refused.value.text == 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",double}'
