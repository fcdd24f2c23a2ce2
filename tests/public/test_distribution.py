"""The wheel: its name, what is in it, and that it runs where nothing but the base requirements is installed."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import dlx

ROOT = Path(__file__).parents[2]
SOURCES = ("dlx", "simulator", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", ".", cwd=tree)
    (built,) = (tree / "dist").iterdir()
    return built


def test_the_name_is_one_that_the_public_index_does_not_have(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        told = message_from_bytes(packed.read(metadata))
    assert (told["Name"], told["Version"]) == ("dlx-simulator", dlx.__version__)
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert set(told.get_all("Provides-Extra", [])) == set(config["options.extras_require"])


def test_everything_in_the_packages_is_in_the_wheel(wheel: Path) -> None:
    """All but caches: modules, ``py.typed``, what the report and Spark need, and tables."""
    there = {
        str(file.relative_to(ROOT))
        for package in ("dlx", "simulator")
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as packed:
        assert {name for name in packed.namelist() if ".dist-info/" not in name} == there
    assert {Path(name).suffix for name in there} == {".py", ".typed", ".css", ".js", ".properties", ".toml"}


def test_a_fresh_environment_runs_it(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    bin = tmp_path / "fresh" / "bin"
    run(bin / "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    assert run(bin / "dlx", "--version", cwd=tmp_path) == f"dlx, version {dlx.__version__}\n"
    assert "Operate a server:" in run(bin / "dlx", "--help", cwd=tmp_path)
    code = "import dlx; print(dlx.death_history({'x-death': [{'queue': 'orders', 'reason': 'rejected', 'count': 3}]}))"
    assert run(bin / "python", "-c", code, cwd=tmp_path) == "orders rejected x3\n"
