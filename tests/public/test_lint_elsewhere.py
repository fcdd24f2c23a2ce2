"""Lint in other repositories: the GitHub Action, and the hook of pre-commit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github/actions/dlx-lint"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
STEPS = {step.get("name", step.get("id")): step for step in ACTION["runs"]["steps"]}
EXAMPLES = ROOT / "tests/analysis/lint_examples"
PACKAGE = ("dlx", "simulator", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


class Runner:
    """A runner of GitHub, as far as the steps of the action can tell."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.temp, self.output = folder / "work", folder / "temp", folder / "output"
        self.workspace.mkdir()
        self.temp.mkdir()
        self.output.touch()

    def file(self, name: str, example: str) -> str:
        """Put a definitions file into the workspace, and return its name there."""
        path = self.workspace / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(EXAMPLES / example, path)
        return name

    def run(self, step: str, given: dict[str, str], **extra: str) -> subprocess.CompletedProcess[str]:
        """Run the commands of a step, as ``shell: bash`` does."""
        named = {name: part.get("default", "") for name, part in ACTION["inputs"].items()} | given
        environment = {name: _filled(value, named) for name, value in STEPS[step]["env"].items()}
        places = {"RUNNER_TEMP": str(self.temp), "GITHUB_OUTPUT": str(self.output), "GITHUB_ACTION_PATH": str(FOLDER)}
        path = {"PATH": os.environ["PATH"]}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
            cwd=self.workspace,
            env={**path, **environment, **places, **extra},
            capture_output=True,
            text=True,
            check=False,
        )

    def installed(self) -> None:
        """Put the dlx of this tree where the step before installs it."""
        program = self.temp / "dlx-lint/bin/dlx"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m simulator.cli.main "$@"\n')
        program.chmod(0o755)

    def sarif(self) -> list[str]:
        """The files that the results are about, in the file that is the action's output."""
        (_, path) = self.output.read_text().strip().split("=", 1)
        (run,) = json.loads(Path(path).read_text())["runs"]
        return [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]


def _filled(value: str, inputs: dict[str, str]) -> str:
    """The value with the inputs in their places; of other steps, nothing is known."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    made = Runner(tmp_path)
    made.installed()
    return made


def test_clean_definitions_pass(runner: Runner) -> None:
    ran = runner.run("Lint", {"source": runner.file("definitions.json", "missing-dlx.near.json")})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert runner.sarif() == []


def test_findings_are_annotated_and_fail_the_step(runner: Runner) -> None:
    name = runner.file("broker/my definitions.json", "missing-dlx.json")
    ran = runner.run("Lint", {"source": name})
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith(f"::error file={name},line=8,title=DLX001 missing-dlx::")
    assert runner.sarif() == ["broker/my%20definitions.json"]


def test_several_sources_stand_one_a_line(runner: Runner) -> None:
    names = [runner.file("a b.json", "missing-dlx.json"), runner.file("c.json", "self-dlx.json")]
    ran = runner.run("Lint", {"source": "\n".join([*names, ""])})
    assert ran.returncode == 1
    assert runner.sarif() == ["a%20b.json", "c.json"]


@pytest.mark.parametrize(
    ("given", "status"),
    [({}, 1), ({"fail-on": "warning"}, 0), ({"fail-on": "lost"}, 0), ({"release": "3.8"}, 1), ({"release": "2.0"}, 64)],
)
def test_the_inputs_are_options_of_lint(given: dict[str, str], status: int, runner: Runner) -> None:
    name = runner.file("definitions.json", "unbounded-dead-letter-queue.json")  # which has a note, and no more
    assert runner.run("Lint", {"source": name, **given}).returncode == status


def test_the_baseline_leaves_out_what_is_known(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    name = runner.file("definitions.json", "missing-dlx.json")
    assert main(["lint", str(runner.workspace / name), "--format", "json"]) == 1
    (runner.workspace / "baseline.json").write_text(capsys.readouterr().out)
    ran = runner.run("Lint", {"source": name, "baseline": "baseline.json"})
    assert (ran.returncode, ran.stdout) == (0, "")
    assert runner.sarif() == []


def test_a_file_that_cannot_be_read_fails_the_step_and_is_named_once(runner: Runner) -> None:
    name = runner.file("definitions.json", "missing-dlx.json")
    ran = runner.run("Lint", {"source": f"nonsuch.json\n{name}"})
    assert ran.returncode == 65
    assert ran.stderr.count("nonsuch.json: No such file or directory") == 1
    assert runner.sarif() == [name]


def test_the_source_is_no_option(runner: Runner) -> None:
    ran = runner.run("Lint", {"source": "--help"})
    assert ran.returncode == 65
    assert "--help: No such file" in ran.stderr
    assert runner.output.read_text() == ""


def test_the_action_names_what_there_is() -> None:
    assert set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"]))) == set(ACTION["inputs"])
    ids = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.(\w+)\.", json.dumps(ACTION))) <= ids
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"] if "run" in step)
    assert (FOLDER / "../../.." / "setup.cfg").resolve() == ROOT / "setup.cfg"
    assert "$GITHUB_ACTION_PATH/../../.." in STEPS["Install dlx"]["run"]


def test_the_options_in_the_action_are_those_of_lint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--help"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    used = set(re.findall(r"--[a-z][a-z-]*", STEPS["Lint"]["run"]))
    assert used == {"--release", "--fail-on", "--baseline", "--format"}
    assert used <= known


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    (step,) = (each for each in jobs["action"]["steps"] if each.get("uses", "").startswith("./"))
    assert ROOT / step["uses"] == FOLDER
    assert set(step["with"]) <= set(ACTION["inputs"])
    sources = step["with"]["source"].split()
    assert sources
    assert main(["lint", *(str(ROOT / each) for each in sources), "--fail-on", step["with"]["fail-on"]]) == 0


@pytest.mark.slow
def test_the_action_installs_dlx_from_its_own_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(FOLDER, checkout / FOLDER.relative_to(ROOT))
    for name in PACKAGE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, checkout)
    runner = Runner(tmp_path)
    action = str(checkout / FOLDER.relative_to(ROOT))
    ran = runner.run("Install dlx", {}, PYTHON=sys.executable, GITHUB_ACTION_PATH=action)
    assert ran.returncode == 0, ran.stderr
    ran = runner.run("Lint", {"source": runner.file("definitions.json", "missing-dlx.json")})
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("::error file=definitions.json,")


@pytest.mark.parametrize(
    ("path", "linted"),
    [
        ("definitions.json", True),
        ("broker/definitions-eu.json", True),
        ("my-definitions.json", False),
        ("definitions.yaml", False),
        ("definitions/readme.json", False),
    ],
)
def test_the_hook_is_for_definitions(path: str, linted: bool) -> None:
    assert (re.search(HOOK["files"], path) is not None) == linted


def test_the_hook_takes_the_names_of_several_files(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    """Pre-commit calls the entry with its arguments and then the names; all of them at once, if it is serial."""
    program, command, *args = shlex.split(HOOK["entry"])
    assert (HOOK["id"], HOOK["language"], HOOK["require_serial"]) == ("dlx-lint", "python", True)
    assert (program, args) == ("dlx", [])
    assert command in COMMANDS
    files = [
        runner.file("definitions.json", "missing-dlx.near.json"),
        runner.file("definitions-2.json", "missing-dlx.json"),
    ]
    names = [str(runner.workspace / file) for file in files]
    assert main([command, "--fail-on", "lost", *names]) == 1
    said = capsys.readouterr().out
    assert all(f"{name}: " in said for name in names)
    assert main([command, names[0]]) == 0
