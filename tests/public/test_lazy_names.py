"""The packages whose names are loaded on first use: what they say they have, they have."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import dlx
import simulator

FACES = (
    "dlx",
    "simulator",
    "simulator.capture",
    "simulator.replay",
    "simulator.testing",
    "simulator.testing.strategies",
)
faces = pytest.mark.parametrize("face", FACES)


def fresh(face: str, expression: str) -> set[str]:
    """What an expression of names has right after the import, when none of them was used."""
    code = f"import {face} as face; print(*{expression})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return set(done.stdout.split())


@faces
def test_dir_shows_the_names_before_they_are_used(face: str) -> None:
    assert set(import_module(face).__all__) <= fresh(face, "dir(face)")


@faces
def test_every_name_is_there(face: str) -> None:
    package = import_module(face)
    for name in package.__all__:
        assert getattr(package, name) is not None


@faces
def test_no_name_is_hidden_by_a_module(face: str) -> None:
    """Importing a module sets it in its package, in place of a name that is loaded on first use."""
    package = import_module(face)
    (folder,) = package.__path__
    modules = {Path(each.path).stem for each in os.scandir(folder)}
    assert modules.isdisjoint(_homes(package)[1])


@faces
def test_an_unknown_name_is_an_attribute_error(face: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{face}' has no attribute 'nothing'"):
        _ = import_module(face).nothing


@faces
def test_errors_that_its_names_raise_can_be_imported(face: str) -> None:
    """From the same package, or from one of the two roots."""
    known = {*dir(builtins), *import_module(face).__all__, *dlx.__all__, *simulator.__all__}
    for name in import_module(face).__all__:
        for text in _docstrings(getattr(import_module(face), name)):
            assert set(re.findall(r"\b[A-Z][A-Za-z]+(?:Error|Refusal|Broken)\b", text)) <= known, name


def _docstrings(value: object) -> Iterator[str]:
    """Of a function, or of a class and its public methods."""
    if inspect.isfunction(value) or inspect.isclass(value):
        yield inspect.getdoc(value) or ""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                yield inspect.getdoc(member) or ""


@faces
def test_type_checkers_see_the_names_that_are_loaded(face: str) -> None:
    package = import_module(face)
    for_checkers, at_run_time = _homes(package)
    assert at_run_time == for_checkers
    assert set(for_checkers) <= set(package.__all__)


def _homes(package: ModuleType) -> tuple[dict[str, str], dict[str, str]]:
    """The module of each name: as imported for type checkers, and as given to ``lazy``."""
    tree = ast.parse(inspect.getsource(package))
    (branch,) = (each for each in tree.body if isinstance(each, ast.If))
    imports = [each for each in branch.body if isinstance(each, ast.ImportFrom)]
    (given,) = (each for each in ast.walk(branch) if isinstance(each, ast.Dict))
    homes = ast.literal_eval(given)
    return (
        {alias.name: str(each.module) for each in imports for alias in each.names},
        {name: module for module, names in homes.items() for name in names},
    )
