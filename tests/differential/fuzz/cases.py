"""Plays a script on a real server, then on the simulator by the server's own timing, and compares.

Nobody can say beforehand how long a server takes for a step, and with TTLs about that matters. So the simulator's
clock is moved, after each step, by what the server took for it. Where a deadline was so near that a few ms decide,
any of some slightly different timings may give the server's transcript.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis.strategies import DrawFn, SearchStrategy, composite, integers

from dlx.releases import release
from simulator.server import serve
from tests.differential.client import ServerSilentError
from tests.differential.differences import same
from tests.differential.fuzz import held, plugins, scripts
from tests.differential.fuzz.known import QUEUE_CRASHES, crashes_queues, known_case, known_difference
from tests.differential.fuzz.same_draws import BACKEND
from tests.differential.operations import Operation, Wait
from tests.differential.player import Player, Target
from tests.differential.transcript import Event, Transcript, confirms_last
from tests.live.servers import LiveServer

PACES = (1.0, 0.93, 1.03, 0.8)  # how fast the simulator's clock goes compared with the server's
ATTEMPTS = 3
KINDS = {
    "any": scripts.scripts,
    "held": held.scripts,
    "held for long": partial(held.scripts, patient=True),
    "plugins": plugins.scripts,  # for servers with the plugins
}
Script = tuple[Operation, ...]


class Outcome(Enum):
    """What came of a case."""

    SAME = "same"
    KNOWN = "known"  # differs only in what ``known`` lists
    UNDETERMINED = "undetermined"  # the server itself answers differently from run to run
    DIVERGES = "diverges"
    FAILED = "failed"  # one of the two did not answer at all


class Case(NamedTuple):
    """A script for a server, the seed that it was drawn from, and the kind of script (``KINDS``)."""

    release: str
    seed: int
    script: Script
    target: Target
    kind: str = "any"

    @classmethod
    def drawn(cls, number: int, server: LiveServer, kind: str = "any") -> Case:
        """The case of a seed for that server."""
        target = Target(server.amqp_url, server.management_url)
        return cls(server.release, number, script_of(number, server.release, kind), target, kind)

    def of(self, script: Script) -> Case:
        """The case with another script."""
        return self._replace(script=script)


class Judged(NamedTuple):
    """A case with its outcome: the server's last transcript, the simulator's answer to it, or the error.

    ``known`` names the known differences of such a case.
    """

    case: Case
    outcome: Outcome
    live: Sequence[list[Event]] = ()
    simulated: Sequence[list[Event]] = ()
    error: str = ""
    known: str = ""


def script_of(number: int, name: str, kind: str = "any") -> Script:
    """The script of a seed for the release of that name."""
    found: list[Script] = []

    @settings(
        max_examples=1, backend=BACKEND, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @seed(number)
    @given(_at_random(KINDS[kind](release(name))))
    def keep(script: Script) -> None:
        found.append(script)

    keep()
    return found[0]


@composite
def _at_random(draw: DrawFn, strategy: SearchStrategy[Script]) -> Script:
    """Not the simplest one, which Hypothesis tries first."""
    assume(draw(integers(0, 99)))
    return draw(strategy)


def play_live(script: Script, target: Target) -> tuple[Transcript, list[float]]:
    """The transcript of a real server, and how many ms it took for each operation."""
    transcript, times = [], [time.monotonic()]
    with Player(target) as player:
        for operation in script:
            transcript.append(_by_channel(operation, player.play(operation)))
            times.append(time.monotonic())
        transcript.append(player.rest())
    return transcript, [(end - begin) * 1000 for begin, end in pairwise(times)]


def play_simulated(script: Script, name: str, took_ms: Sequence[float], enabled: Sequence[str] = ()) -> Transcript:
    """The simulator's transcript, each operation as long as it is told."""
    with serve(name, management_port=0, plugins=enabled) as server:

        def advance(ms: int) -> None:
            server.clock.advance(milliseconds=ms)

        url = server.management_url or ""
        with Player(Target(server.amqp_url, url, advance, lambda: server.clock.now_us() / 1_000_000)) as player:
            transcript = [_lasting(player, *step) for step in zip(script, took_ms, strict=True)]
            return [*transcript, player.rest()]


def _lasting(player: Player, operation: Operation, ms: float) -> list[Event]:
    """Play an operation; what happens until so much time has passed since its beginning belongs to it."""
    seen = [] if isinstance(operation, Wait) else _by_channel(operation, player.play(operation))
    later = _by_channel(operation, player.play(Wait(round(ms))))
    return _by_channel(operation, confirms_last(seen + later))


def _by_channel(operation: Operation, events: list[Event]) -> list[Event]:
    """Sorted by channel: what arrives first of things on two channels is left open by a server."""
    at = getattr(operation, "channel", "")
    return sorted(({"on": at} | event for event in events), key=lambda event: str(event["on"]))


def judge(case: Case, attempts: int = ATTEMPTS) -> Judged:
    """The case with its outcome; other than the same needs that many attempts."""
    try:
        return _judged(case, attempts)
    except Exception as error:
        return Judged(case, Outcome.FAILED, error=repr(error))


def _judged(case: Case, attempts: int) -> Judged:
    runs: list[Transcript] = []
    for attempt in range(attempts):
        try:
            live, took_ms = play_live(case.script, case.target._replace(patience=1 + 2 * attempt))
        except (OSError, ServerSilentError):  # on a busy machine, a server hangs up or is silent for too long
            if attempt + 1 < attempts:
                continue
            if crashes_queues(case.script, release(case.release)):
                return Judged(case, Outcome.KNOWN, known=QUEUE_CRASHES.name)
            raise
        simulated = []
        for pace in PACES:
            enabled = plugins.BUNDLED if case.kind == "plugins" else ()
            simulated.append(play_simulated(case.script, case.release, [ms * pace for ms in took_ms], enabled))
            if same(live, simulated[-1]):
                return Judged(case, Outcome.SAME, live, simulated[-1])
            if known := known_difference(live, simulated[-1]):
                return Judged(case, Outcome.KNOWN, live, simulated[-1], known=known)
        runs.append(live)
    steady = all(same(run, runs[0]) for run in runs)
    known = known_case(case.script, release(case.release), live, simulated[0]) if steady else ""
    if known:
        return Judged(case, Outcome.KNOWN, live, simulated[0], known=known)
    return Judged(case, Outcome.DIVERGES if steady else Outcome.UNDETERMINED, live, simulated[0])
