"""Plays scenarios to real brokers, each with an ``activemq.xml`` of its own; one process of Java for all of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

Line = dict[str, Any]


class Player:
    """The process. ``command`` starts it."""

    def __init__(self, command: Path) -> None:
        self._java = subprocess.Popen(
            [command, "play-all"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def play(self, xml: str, steps: Iterable[Mapping[str, Any]]) -> list[Line]:
        """Start a broker of this configuration, play the steps to it, stop it. Return what came of them.

        The first line says whether the broker ``started``, or how it ``refused``.
        """
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.write(as_text([{"do": "broker", "xml": xml}, *steps, {"do": "end"}]))
        self._java.stdin.flush()
        lines: list[Line] = []
        for text in self._java.stdout:
            line = json.loads(text)
            if "ended" in line:
                return lines
            lines.append(line)
        raise EOFError(f"the player ended; it had told {lines}")

    def close(self) -> None:
        """End the process."""
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.close()
        self._java.wait(timeout=30)
        self._java.stdout.close()


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
