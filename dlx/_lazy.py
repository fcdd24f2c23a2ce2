"""Packages whose names are loaded on first use, so that importing the package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType


def lazy(
    package: str,
    homes: Mapping[str, Sequence[str]],
    load: Callable[[str], ModuleType] = import_module,
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` for a package.

        if TYPE_CHECKING:
            from dlx.deaths import Death as Death
        else:
            __all__, __getattr__, __dir__ = lazy(__name__, {"dlx.deaths": ("Death",)})

    Type checkers see the imports only (``as Death`` says that others may import the name from here): a module's
    ``__getattr__`` would make every misspelt name an ``Any``.

    Args:
        package: the package's name, ``__name__``.
        homes: each module, in full, with the names that the package takes from it.
        load: imports a module by its name.
    """
    home_of = {name: module for module, names in homes.items() for name in names}
    there = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Kept, so that only the first use pays.
        value = there[name] = getattr(load(home_of[name]), name)
        return value

    def names() -> list[str]:
        return sorted({*there, *home_of})

    return list(home_of), get, names
