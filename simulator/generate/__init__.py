"""Makes realistic captures of any size from a seed: a broker plays random traffic, and its trace is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.generate.log import AlteredRow as AlteredRow
    from simulator.generate.log import Wish as Wish
    from simulator.generate.log import generate as generate
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {"simulator.generate.log": ("AlteredRow", "Wish", "generate")},
        load=importing("capture"),
    )
