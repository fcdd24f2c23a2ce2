"""Draws that depend on the seed alone.

Hypothesis mixes into what it draws constants of the modules that happen to be loaded. So one seed
gave one script in one run and another in the next, and whoever was told ``--seed 17`` could not
see what had been found.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis.internal.conjecture.choice import choice_constraints_key, choice_permitted
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, GLOBAL_CONSTANTS, HypothesisProvider

BACKEND = "dlx-same-draws"


class SameDraws(HypothesisProvider):
    """Draws as Hypothesis does, constants only from its own list."""

    _permitted: ClassVar[dict[Any, tuple[Any, ...]]] = {}

    def _maybe_draw_constant(self, choice_type: Any, constraints: Any, *, p: float = 0.05) -> Any:
        assert self._random is not None
        if self._random.random() > p:
            return None
        key = choice_type, choice_constraints_key(choice_type, constraints)
        if key not in self._permitted:
            every = GLOBAL_CONSTANTS.set_for_type(choice_type)
            self._permitted[key] = tuple(each for each in every if choice_permitted(each, constraints))
        return self._random.choice(self._permitted[key]) if self._permitted[key] else None


AVAILABLE_PROVIDERS[BACKEND] = SameDraws
