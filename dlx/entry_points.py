"""Where the command ``dlx`` and Hypothesis enter, by setup.cfg; pytest enters at ``dlx.pytest_plugin``.

Their work is done in the package ``simulator``. Where a project has a package of that name, Python may find that one
instead, and no code of ours in ``simulator`` can say so. Hence these modules, which know only ``dlx``, look first.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

OURS = Path(__file__).parents[1] / "simulator" / "__init__.py"
EXIT_UNAVAILABLE = 69


def other_simulator() -> str | None:
    """Return where the package ``simulator`` is that Python finds instead of ours; ``None`` if it finds ours."""
    spec = find_spec("simulator")
    if spec is None:
        return None
    found = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return None if found == str(OURS) or Path(found).resolve() == OURS.resolve() else found


def hidden_text(found: str) -> str:
    """Say that another package hides ours, and what to do about it."""
    return (
        f"dlx cannot run here: 'import simulator' finds {found}, and dlx needs its own package of that name"
        f" ({OURS.parent}). Rename the other package or take it off Python's path"
    )


def main() -> int:
    """Run the command ``dlx`` and return its exit code."""
    if found := other_simulator():
        print(f"{hidden_text(found)}.", file=sys.stderr)
        return EXIT_UNAVAILABLE
    from simulator.cli.main import main as run

    return run()


def register() -> None:
    """Tell Hypothesis how to draw the values of ``dlx``. Where ``simulator`` is another package, only warn."""
    if found := other_simulator():
        warnings.warn(f"{hidden_text(found)}. Hypothesis cannot draw the types of dlx.", stacklevel=2)
        return
    from simulator.testing._hypothesis import register as register_types

    register_types()
