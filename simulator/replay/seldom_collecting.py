"""How often Python looks for garbage while a log is read of which most is remembered."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_GC_THRESHOLDS = (50_000, 10, 10)


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Let Python seldom look for garbage: what is worked out of messages is remembered, and hardly any of it goes."""
    before = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
