"""The entry point of pytest: loads ``simulator.testing.plugin``, or says which package ``simulator`` is in its way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dlx.entry_points import OURS, hidden_text, other_simulator

_FOUND = other_simulator()
_WITHOUT = "to run the tests without dlx's fixtures: pytest -p no:dlx"

if _FOUND is None:
    pytest_plugins = ("simulator.testing.plugin",)


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """End pytest with a usage error if another package hides ours; later, it would ask what ``--dlx-broker`` is.

    If this was loaded by ``-p dlx.pytest_plugin``, the entry point is not to load it again, which pytest refuses.
    """
    if pluginmanager.has_plugin(__name__):
        pluginmanager.set_blocked("dlx")
    if _FOUND is not None:
        print(f"ERROR: {hidden_text(_FOUND)}; {_WITHOUT}", file=sys.stderr)
        raise SystemExit(pytest.ExitCode.USAGE_ERROR)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say that ours hides a package ``simulator`` of the project, which is not on the path before the tests are."""
    places = (config.rootpath, config.rootpath / "src", config.invocation_params.dir)
    hidden = next((init for place in places if (init := _package_in(place)).is_file()), None)
    if hidden is None or hidden.resolve() == OURS.resolve():
        return []
    return [f"dlx: its package simulator hides {hidden.parent}; rename that package; {_WITHOUT}"]


def _package_in(place: Path) -> Path:
    return place / "simulator" / "__init__.py"
