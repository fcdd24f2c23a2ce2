"""The runner, on a few tests of a small module: what it calls caught, what survived, and what it refuses to judge."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import witness

ROOT = Path(__file__).parent.parent.parent
RULES = """\
def double(number):
    return 2 * number


def half(number):
    return number / 2


def unused(number):
    return number
"""
TESTS = {
    "test_double.py": """\
        from dlx.sums import double


        def test_double():
            assert double(2) == 4
        """,
    "test_half.py": """\
        import subprocess
        import sys


        def test_half_as_a_command():
            shown = subprocess.check_output([sys.executable, "-c", "import dlx.sums; print(dlx.sums.half(4))"], cwd="/")
            assert shown == b"2.0\\n"
        """,
}
SUMS = "dlx/sums.py"
DOUBLE, HALF = "tests/test_double.py", "tests/test_half.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The packages, with one more module and tests of that only."""
    for package in ("dlx", "simulator"):  # whole, as pytest and Hypothesis load plugins from them
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("tests", "tests/mutants"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / SUMS).write_text(RULES)
    for name, text in TESTS.items():
        (tmp_path / "tests" / name).write_text(textwrap.dedent(text))
    shutil.copy(Path(witness.__file__), tmp_path / "tests" / "mutants")
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\npythonpath = .\n")
    return tmp_path


def fault(name: str, text: str, put: str, tests: str = DOUBLE, **more: bool) -> dict[str, Any]:
    """A fault in that module."""
    return {"name": name, "wrong": "W.", "file": SUMS, "text": text, "put": put, "tests": [tests], **more}


def run(tree: Path, *faults: dict[str, Any], timeout_s: int = 60, words: tuple[str, ...] = ()) -> Any:
    """Run the command over these faults."""
    folder = tree / "list"
    folder.mkdir()
    tables = ["\n".join(f"{key} = {json.dumps(value)}" for key, value in each.items()) for each in faults]
    (folder / "one.toml").write_text("\n[[fault]]\n".join(['title = "Faults"', *tables]))
    command = [sys.executable, "-m", "tests.mutants", "--root", str(tree), "--list", str(folder), "--wide", HALF]
    command += ["--timeout", str(timeout_s), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


CAUGHT = fault("wrong-double", "2 * number", "3 * number")
BY_WIDE = fault("wrong-half", "number / 2", "number / 4")
SURVIVOR = fault("nobody-looks", "    return number\n", "    return None\n")


@pytest.mark.slow
def test_a_fault_is_caught_by_its_own_tests_or_the_wide_ones_also_in_subprocesses(tree: Path) -> None:
    done = run(tree, CAUGHT, BY_WIDE, words=("--json",))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(each["name"], each["by"]) for each in told["faults"]] == [
        ("wrong-double", f"{DOUBLE}::test_double"),
        ("wrong-half", f"{HALF}::test_half_as_a_command"),
    ]
    assert (told["total"], told["caught"], told["tests_without_fault"]) == (2, 2, 2)
    assert (tree / SUMS).read_text() == RULES, "the tree itself is never changed"


@pytest.mark.slow
def test_a_survivor_is_named_and_is_exit_1(tree: Path) -> None:
    done = run(tree, CAUGHT, SURVIVOR)
    assert done.returncode == 1, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "SURVIVED  nobody-looks",
        f"caught    wrong-double  by {DOUBLE}::test_double",
    ]
    assert "1 of 2 faults caught" in done.stderr


@pytest.mark.slow
def test_a_run_without_end_counts_only_where_it_is_said_so(tree: Path) -> None:
    loop = "\n    while True:\n        pass"
    stated = fault("endless", "    return 2 * number", loop[1:], hangs=True)
    unstated = fault("endless-too", "    return 2 * number", f"    number += 1{loop}")
    done = run(tree, stated, unstated, timeout_s=10)
    assert done.returncode == 1, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"HUNG      endless-too  by {DOUBLE}::test_double",
        f"hangs     endless  by {DOUBLE}::test_double",
    ]


@pytest.mark.slow
def test_a_fault_that_breaks_the_import_is_no_fault(tree: Path) -> None:
    done = run(tree, fault("no-python", "def double(number):", "def double(number"))
    assert done.returncode == 65
    assert "Error: fault no-python: no test could be run (pytest ended with 2)" in done.stderr


@pytest.mark.slow
def test_nothing_is_said_of_faults_in_a_tree_that_fails_without_them(tree: Path) -> None:
    (tree / DOUBLE).write_text("def test_wrong():\n    assert False\n")
    done = run(tree, CAUGHT)
    assert (done.returncode, done.stdout) == (65, "")
    assert f"the tree itself, without any fault, does not pass {DOUBLE}::test_wrong" in done.stderr


@pytest.mark.slow
def test_a_module_from_elsewhere_is_noticed(tree: Path) -> None:
    (tree / DOUBLE).write_text(
        "import sys\nimport types\n\n\n"
        "def test_elsewhere():\n"
        "    sys.modules['dlx.more'] = types.ModuleType('dlx.more')\n"
        "    sys.modules['dlx.more'].__file__ = '/elsewhere/dlx/more.py'\n"
    )
    done = run(tree, CAUGHT)
    assert done.returncode == 65
    assert "not the copy was imported, but /elsewhere/dlx/more.py" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("no-such-fault",), 64, "no fault 'no-such-fault'"),
        (("--jobs", "0"), 64, "--jobs"),
        (("wrong-double", "--write-docs"), 64, "--write-docs wants all faults, not some"),
    ],
)
def test_wrong_usage_is_refused(words: tuple[str, ...], code: int, says: str, tree: Path) -> None:
    done = run(tree, CAUGHT, words=words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
