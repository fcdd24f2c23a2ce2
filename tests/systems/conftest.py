"""Recorded traces of other systems: the project's own, or those of a folder that is given.

    pytest tests/systems --vectors DIR

runs the traces in DIR, and nothing else. What system a trace is of is read from its
content: each system's ``vectors.py`` says whether it recognises a document, and checks it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.systems.activemq.live.side_by_side import Checks, asked_for, begun, why_not

HERE = Path(__file__).parent
TRACE = "a_trace"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vectors",
        metavar="DIR",
        type=Path,
        help="a folder of recorded traces (*.json) to run instead of the project's own tests of other systems",
    )


def readers() -> list[ModuleType]:
    """The systems that have recorded traces."""
    found = sorted(path.parent.name for path in HERE.glob("*/vectors.py"))
    return [importlib.import_module(f"tests.systems.{name}.vectors") for name in found]


def documents(folder: Path | None) -> list[Path]:
    """The traces to run. Raises ``pytest.UsageError`` for a folder without any."""
    if folder is None:
        return sorted(HERE.glob("*/vectors/**/*.json"))
    found = sorted(folder.rglob("*.json"))
    if not found:
        raise pytest.UsageError(f"--vectors {folder}: there are no *.json files in it; expected recorded traces")
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if TRACE in metafunc.fixturenames:
        folder = metafunc.config.getoption("--vectors")
        base = HERE if folder is None else folder
        found = documents(folder)
        metafunc.parametrize(TRACE, found, ids=[str(path.relative_to(base).with_suffix("")) for path in found])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --vectors, its traces alone; else those last that wait for ActiveMQ, which is asked from the start on."""
    if config.getoption("--vectors") is None:
        items.sort(key=lambda item: bool(asked_for([item])))
        return
    others = [item for item in items if TRACE not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session", autouse=True)
def activemq_checks(request: pytest.FixtureRequest) -> Iterator[Checks]:
    """What becomes of the tests that wait for ActiveMQ, by their ids; empty where none asks or no broker starts."""
    tests = asked_for(request.session.items)
    if not tests or why_not():
        yield {}
        return
    with begun(tests) as checks:
        yield checks


def reader_of(path: Path) -> tuple[ModuleType, Any]:
    """Who reads a document, and the document. Fails the test where nobody does, or more than one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        pytest.fail(f"{path}: not JSON: {error}", pytrace=False)
    known = [reader for reader in readers() if reader.recognises(document)]
    if len(known) != 1:
        names = ", ".join(reader.__name__ for reader in known) or "nobody"
        pytest.fail(f"{path}: a recorded trace of one system is expected; recognised by {names}", pytrace=False)
    return known[0], document
