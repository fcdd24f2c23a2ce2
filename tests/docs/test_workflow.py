"""What runs on GitHub and before a commit: the files are readable, and name what there is."""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import dlx
from dlx.releases import RELEASES

ROOT = Path(__file__).parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def commands() -> list[str]:
    jobs = read(".github/workflows/ci.yml")["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_the_workflow_runs_what_ci_runs() -> None:
    assert ".ci/run" in commands()
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_workflow_runs_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = {word for each in commands() for word in re.findall(r"^make ([a-z-]+)", each, re.M)}
    assert asked == {"test-fast"}
    assert asked <= targets


def test_a_tag_builds_tries_and_publishes() -> None:
    release = read(".github/workflows/release.yml")
    assert release[True] == {"push": {"tags": ["v[0-9]*"]}}  # YAML reads `on` as true
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    runs = "\n".join(step.get("run", "") for step in build["steps"])
    for topology in re.findall(r"examples/\S+\.json", runs):
        assert (ROOT / topology).is_file()
    links = re.findall(r"= (https://\S+)", (ROOT / "setup.cfg").read_text())
    assert [link for link in links if "https://github.com/OWNER/dlx" not in link] == []
    assert "s|https://github.com/OWNER/dlx|" in runs


def test_a_tag_publishes_the_image() -> None:
    image = read(".github/workflows/release.yml")["jobs"]["image"]
    assert image["needs"] == "build"
    assert image["permissions"] == {"contents": "read", "packages": "write"}
    runs = "\n".join(step.get("run", "") for step in image["steps"])
    (dockerfile,) = re.findall(r"--file (\S+)", runs)
    assert (ROOT / dockerfile).is_file()
    assert "ghcr.io/OWNER/dlx-serve:VERSION" in (ROOT / "docs/how-to/image.md").read_text()
    assert "ghcr.io/$GITHUB_REPOSITORY_OWNER/dlx-serve:${GITHUB_REF_NAME#v}" in runs


def test_the_changelog_has_this_version() -> None:
    assert f"## [{dlx.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("form", ["bug", "idea"])
def test_the_issue_forms_ask_something(form: str) -> None:
    body = read(f".github/ISSUE_TEMPLATE/{form}.yml")["body"]
    assert [field["id"] for field in body if not field["attributes"]["label"]] == []


def test_the_document_of_versions_names_those_there_are() -> None:
    text = (ROOT / "docs" / "reference" / "supported.md").read_text()
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    for python in re.findall(r":: (3\.\d+)$", config["metadata"]["classifiers"], re.M):
        assert python in text
    assert f"from {RELEASES[0]} to {RELEASES[-1]}" in text


def test_the_versions_of_python_are_those_of_the_package() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    said = re.findall(r":: (3\.\d+)$", config["metadata"]["classifiers"], re.M)
    assert read(".github/workflows/ci.yml")["jobs"]["fast"]["strategy"]["matrix"]["python"] == said
    assert config["options"]["python_requires"] == f">={said[0]}"


@pytest.mark.parametrize("hook", read(".pre-commit-config.yaml")["repos"][0]["hooks"], ids=lambda hook: hook["id"])
def test_a_hook_runs_from_the_virtual_environment(hook: dict[str, Any]) -> None:
    assert hook["language"] == "system"
    program = hook["entry"].split()[0]
    assert program.startswith(".venv/bin/")
    assert os.access(ROOT / program, os.X_OK)
    assert [
        path for path in ("dlx/deaths.py", "simulator/clock.py") if not re.search(hook.get("files", ""), path)
    ] == []


def test_nothing_is_fetched_for_a_hook() -> None:
    assert [repo["repo"] for repo in read(".pre-commit-config.yaml")["repos"]] == ["local"]
