"""Milliseconds of a history as the whole seconds that some systems take."""

from __future__ import annotations


def whole_seconds(ms: int, least: int = 0, most: int | None = None) -> int:
    """The milliseconds as seconds: rounded up, and within the limits of the system."""
    seconds = max(-(-ms // 1_000), least)
    return seconds if most is None else min(seconds, most)


def note_rounded(field: str, ms: int, seconds: int) -> list[str]:
    """What is to be noted, if the seconds are not what the history says."""
    return [] if ms == seconds * 1_000 else [f"{field}: {seconds} s, and not {ms} ms"]
