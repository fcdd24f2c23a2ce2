"""What needs real servers here is marked so."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count ``test_live.py`` as live, before ``-m`` chooses."""
    for item in items:
        if item.path.name == "test_live.py" and item.path.parent.name == "differential":
            item.add_marker(pytest.mark.live)
