"""The recorded cases, and the simulated servers that they are played on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import simulator
from tests.plugins.player import Played, Player, Step

RECORDED = Path(__file__).parent / "recorded"
FILES = tuple(sorted(path.stem for path in RECORDED.glob("*.json")))
PLUGINS = (
    "delayed",
    "consistent-hash",
    "random",
    "recent-history",
    "sharding",
    "shovel",
    "jms-topic",
    "federation",
    "event",
)
"""What the recorded servers had enabled."""

_PLUGINS: dict[str, tuple[str, ...]] = {"plain": (), "after-disable": ("random", "shovel", "federation", "event")}
"""Other plugins of a phase. A server from which x-random's plugin is taken goes on routing by it."""


BETWEEN_S = 10
"""How long it took until a server was started again, or had its plugins disabled, at least."""


class Seen(msgspec.Struct):
    """What some releases answered alike: to each step; ``ms`` by release and step, since the first publish."""

    releases: list[str]
    answers: list[Any]
    ms: dict[str, dict[str, int | list[int]]] = {}


class Case(msgspec.Struct):
    """A recorded case.

    Attributes:
        phase: ``plain`` without a plugin; ``after-restart`` and ``after-disable`` go on with what their ``before``
            left, when the server has started again, with the plugins or without; the others do not matter here.
        vhost: the virtual host, where the case does not have one of its own.
        note: what a reader should know.
    """

    name: str
    steps: list[Step]
    seen: list[Seen]
    phase: str = ""
    vhost: str | None = None
    note: str = ""

    def answers(self, release: str) -> Seen | None:
        """Return what the release answered."""
        return next((seen for seen in self.seen if release in seen.releases), None)


class _File(msgspec.Struct):
    plugin: str
    servers: dict[str, dict[str, str]]
    cases: list[Case]


@cache
def read(file: str) -> list[Case]:
    """Return the cases of a file."""
    return msgspec.convert(json.loads((RECORDED / f"{file}.json").read_bytes()), _File).cases


class Run(NamedTuple):
    """A case as a release answered it, and as it was played."""

    case: Case
    release: str
    recorded: Seen
    played: Played


def play(file: str, release: str, only: str = "") -> Iterator[Run]:
    """Play the cases of a file that the release answered, and whose name has ``only``."""
    with ExitStack() as stack:
        servers: dict[str, simulator.Server] = {}
        for number, case in enumerate(read(file)):
            recorded = case.answers(release)
            if recorded is None or only.lower() not in case.name.lower():
                continue
            plugins = _PLUGINS.get(case.phase, PLUGINS)
            which = case.phase.partition("-")[2] or ("plain" if case.phase == "plain" else "")
            if which not in servers:
                servers[which] = stack.enter_context(_served(release, plugins))
            elif case.phase.startswith("after-"):
                servers[which].clock.advance(seconds=BETWEEN_S)
                state = servers[which].snapshot()
                servers[which] = stack.enter_context(_served(release, plugins, state))
            played = Player(servers[which], number, case.vhost).play(case.steps)
            if played.failed:
                del servers[which]
            yield Run(case, release, recorded, played)


def _served(release: str, plugins: tuple[str, ...], snapshot: bytes | None = None) -> simulator.Server:
    return simulator.serve(release, snapshot=snapshot, plugins=plugins, management_port=0)
