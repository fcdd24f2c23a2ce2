"""Plays scenarios to real brokers, each with an ``activemq.xml`` of its own; one process of Java for all of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

Line = dict[str, Any]


class Player:
    """The process. ``command`` starts it."""

    def __init__(self, command: Path) -> None:
        self._java = subprocess.Popen(
            [command, "play"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def play(self, xml: str, steps: Iterable[Mapping[str, Any]], *, late_max_ms: int | None = None) -> list[Line]:
        """Start a broker of this configuration, play the steps to it, stop it. Return what came of them.

        The first line says whether the broker ``started``, or how it ``refused``. A step that begins more than
        ``late_max_ms`` after its ``at_ms`` is the last, and its line says how late it was (``late_ms``).
        """
        begin = {"do": "broker", "xml": xml, **({} if late_max_ms is None else {"late_max_ms": late_max_ms})}
        self._write([begin, *steps, {"do": "end"}])
        lines: list[Line] = []
        while "ended" not in (line := self._line()):
            lines.append(line)
        return lines

    def _write(self, steps: Iterable[Mapping[str, Any]]) -> None:
        assert self._java.stdin is not None
        self._java.stdin.write(as_text(steps))
        self._java.stdin.flush()

    def _line(self) -> Line:
        assert self._java.stdout is not None
        text = self._java.stdout.readline()
        if not text:
            raise EOFError("the player ended")
        line: Line = json.loads(text)
        return line

    @contextmanager
    def broker(self, xml: str) -> Iterator[None]:
        """Have a broker of this configuration, for clients of another kind."""
        self._write([{"do": "broker", "xml": xml}])
        started = self._line()
        assert "started" in started, started
        try:
            yield
        finally:
            self._write([{"do": "end"}])
            self._line()

    def close(self) -> None:
        """End the process."""
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.close()
        self._java.wait(timeout=30)
        self._java.stdout.close()


_TIMES = 3


def again_if_late(check: Callable[[Player, str], None]) -> Callable[[Player, str], None]:
    """Check again what differs: a machine that is busy changes the order of things, and a real difference stays."""

    @wraps(check)
    def checked(player: Player, name: str) -> None:
        for left in reversed(range(_TIMES)):
            try:
                return check(player, name)
            except AssertionError:
                if not left:
                    raise
        return None

    return checked


def as_text(steps: Iterable[Mapping[str, Any]]) -> str:
    """Return steps as the player reads them."""
    return "".join("\t".join(_fields(step)) + "\n" for step in steps)


def _fields(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from _fields(each, f"{prefix}{name}.")
        elif isinstance(each, list | tuple):
            yield from _fields({str(index): item for index, item in enumerate(each)}, f"{prefix}{name}.")
        elif prefix == "properties." and not isinstance(each, str):
            kind = {bool: "switches", int: "numbers", float: "decimals"}[type(each)]
            yield f"{kind}.{quote(name)}={each}"
        else:
            text = str(each).lower() if isinstance(each, bool) else str(each)
            yield f"{quote(prefix + name)}={quote(text)}"
