"""What has state and time: captures, replay, the broker and the command line. Built on the rules in ``dlx``.

``simulator.serve(...)`` starts a RabbitMQ in this process; it is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.server import serve

__all__ = ["serve"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("simulator.server"), name)
    raise AttributeError(f"module 'simulator' has no attribute {name!r}")
