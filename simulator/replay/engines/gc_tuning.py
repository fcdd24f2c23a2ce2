"""How often Python looks for garbage while a log is read of which most is remembered."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_GC_THRESHOLDS = (50_000, 10, 10)


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Let Python seldom look for garbage: results about messages are kept, and hardly any of them is dropped.

    Earlier objects are not scanned meanwhile, unless the caller has frozen them already.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()  # and count from zero: by chance a look at everything was due at once
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
