"""Ends a command that runs until it is told to."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def until_interrupted() -> Iterator[Event]:
    """Yield an event that Ctrl-C and SIGTERM set, so that what runs can be finished; a second signal interrupts."""
    stopped = Event()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
