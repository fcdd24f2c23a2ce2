"""The cases, one module per group of rules; each module has a list ``CASES``."""

from __future__ import annotations

import importlib
import pkgutil

from tests.vectors.build import Case


def load() -> dict[str, list[Case]]:
    """All cases by group, the module's name.

    Raises ValueError if two cases have one name.
    """
    groups: dict[str, list[Case]] = {}
    names: set[str] = set()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        groups[module.name] = importlib.import_module(f"{__name__}.{module.name}").CASES
        for case in groups[module.name]:
            if case.name in names:
                raise ValueError(f"two cases are named {case.name!r}")
            names.add(case.name)
    return groups
