"""The scenarios, one module per subject; each module has a list ``SCENARIOS``.

What is right is not written here: real servers are asked. ``record.py`` keeps what they answered.
"""

from __future__ import annotations

import importlib
import pkgutil

import msgspec

from tests.differential.operations import Scenario


def load() -> list[Scenario]:
    """All scenarios, named ``subject/name``.

    Raises ``ValueError`` if two have one name.
    """
    found: dict[str, Scenario] = {}
    for subject in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for scenario in importlib.import_module(f"{__name__}.{subject}").SCENARIOS:
            name = f"{subject}/{scenario.name}"
            if name in found:
                raise ValueError(f"two scenarios are named {name!r}")
            found[name] = msgspec.structs.replace(scenario, name=name)
    return list(found.values())
