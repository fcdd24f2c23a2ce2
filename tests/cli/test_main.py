"""``dlx`` itself: what it imports, and the exit codes a script can rely on."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from simulator.cli import main as dlx_main

ROOT = Path(__file__).parents[2]
Install = Callable[[BaseException], None]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make ``dlx fail`` a command that raises the given error."""

    def install(error: BaseException) -> None:
        @click.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(dlx_main, "COMMANDS", {"fail": (f"{__name__}:fail", "Fails.")})
        monkeypatch.setattr(importlib, "import_module", lambda _: type("M", (), {"fail": fail}))
        monkeypatch.delenv("DLX_DEBUG", raising=False)

    return install


def test_help_names_every_command_and_imports_none() -> None:
    code = (
        "import sys; from simulator.cli.main import main; status = main(['--help']);"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'pika', 'simulator.cli.replay'} & set(sys.modules);"
        "sys.exit(status or ', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in dlx_main.COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(dlx_main.COMMANDS))
def test_every_command_is_where_the_table_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dlx_main.main([name, "--help"]) == 0
    assert f"dlx {name}" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["nonsense"], ["--nonsense"]])
def test_wrong_usage_is_64(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dlx_main.main(args) == 64
    assert "nonsense" in capsys.readouterr().err


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert dlx_main.main(["lnt", "definitions.json"]) == 64
    assert "there is no command 'lnt'; did you mean 'lint'?" in capsys.readouterr().err


def test_an_unexpected_error_is_70_with_a_hint(failing: Install, capsys: pytest.CaptureFixture[str]) -> None:
    failing(RuntimeError("first\nsecond"))
    assert dlx_main.main(["fail"]) == 70
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "RuntimeError: first second" in err
    assert "DLX_DEBUG=1" in err


def test_a_traceback_is_kept_on_demand(failing: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("x"))
    monkeypatch.setenv("DLX_DEBUG", "1")
    with pytest.raises(RuntimeError):
        dlx_main.main(["fail"])


def test_a_missing_library_is_69(failing: Install, capsys: pytest.CaptureFixture[str]) -> None:
    failing(ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql"))
    assert dlx_main.main(["fail"]) == 69
    assert "this needs pyspark: pip install '.[spark]' in a checkout of dlx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (click.ClickException("plain"), 65),
        (click.FileError("f.json", "no such file"), 65),
        (click.BadParameter("no"), 64),
        (KeyboardInterrupt(), 130),
        (click.exceptions.Exit(1), 1),
    ],
)
def test_exit_codes(error: BaseException, status: int, failing: Install) -> None:
    failing(error)
    assert dlx_main.main(["fail"]) == status


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"set -o pipefail; (sleep 0.1; exec {sys.executable} -m simulator.cli.main --help) | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_table_whose_reader_has_gone_is_no_finding() -> None:
    """``dlx replay ... | head``: what rich prints ends as what click prints does."""
    code = "import sys; from simulator.cli.main import main; sys.exit(main(['settings', *sys.argv[1:]]))"
    command = [sys.executable, "-c", code, str(ROOT / "examples" / "captured-4.3" / "definitions.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said
    assert process.returncode == dlx_main.EXIT_PIPE
