"""Where the command, pytest and Hypothesis enter: a project with a package ``simulator`` of its own is told so."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# As pytest loads it from its entry point, whatever is installed here.
PYTEST = ("-p", "dlx.pytest_plugin", "-p", "no:cacheprovider")
TEST = "def test_a(dlx_broker): assert dlx_broker.amqp_url"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package ``simulator`` and a test."""
    package = tmp_path / "simulator"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "orders.py").write_text("")
    (tmp_path / "test_a.py").write_text(TEST)
    return tmp_path


def run(
    folder: Path, *arguments: str, first: Path | None = None, autoload: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python in a project; its folder is on the path, or behind ``first``."""
    path = os.pathsep.join(map(str, [*filter(None, [first]), folder, ROOT]))
    environment = os.environ | {
        "PYTHONPATH": path,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "" if autoload else "1",
        "PYTHONSAFEPATH": "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), ("--dlx-broker", "4.3")], ids=["plain", "options"])
def test_pytest_says_which_package_is_in_the_way(project: Path, options: tuple[str, ...]) -> None:
    done = run(project, "-m", "pytest", *PYTEST, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"'import simulator' finds {project / 'simulator' / '__init__.py'}" in done.stderr
    assert "Rename the other package" in done.stderr
    assert "pytest -p no:dlx" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_other_way_round_the_header_says_so(project: Path) -> None:
    done = run(project, "-m", "pytest", *PYTEST, first=ROOT)
    assert f"dlx: its package simulator hides {project / 'simulator'}; rename that package" in done.stdout
    assert done.returncode == 0, done.stdout


def test_a_project_without_such_a_package_hears_nothing(project: Path) -> None:
    (project / "simulator").rename(project / "orders")
    done = run(project, "-m", "pytest", *PYTEST)
    assert done.returncode == 0, done.stdout
    assert "hides" not in done.stdout


def test_the_plugin_may_be_named_though_its_entry_point_loads_it(project: Path) -> None:
    (project / "simulator").rename(project / "orders")
    installed = project / "installed-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\ndlx = dlx.pytest_plugin\n")
    done = run(project, "-m", "pytest", *PYTEST, autoload=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_says_which_package_is_in_the_way(project: Path) -> None:
    done = run(project, "-c", "import sys; from dlx.entry_points import main; sys.exit(main())")
    assert (done.returncode, done.stdout) == (69, "")
    assert f"'import simulator' finds {project / 'simulator' / '__init__.py'}" in done.stderr
    assert "Traceback" not in done.stderr


def test_hypothesis_works_and_warns(project: Path) -> None:
    done = run(project, "-c", "from dlx.entry_points import register; register(); import hypothesis")
    assert done.returncode == 0, done.stderr
    assert f"'import simulator' finds {project / 'simulator' / '__init__.py'}" in done.stderr
    assert "Hypothesis cannot draw the types of dlx" in done.stderr


def test_every_entry_point_is_in_dlx() -> None:
    """So that it is found before any package ``simulator`` is."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    points = [line.partition("=")[2].strip() for lines in config["options.entry_points"].values() for line in
              filter(None, lines.splitlines())]  # fmt: skip
    assert len(points) == 3
    for point in points:
        module, _, function = point.partition(":")
        assert module.startswith("dlx."), point
        assert not function or callable(getattr(import_module(module), function))
