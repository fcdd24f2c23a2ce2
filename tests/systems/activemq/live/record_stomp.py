"""Ask a real broker what it makes of talks in STOMP, and keep its answers.

``python -m tests.systems.activemq.live.record_stomp``, with names of talks for only those. Of the stack trace in the
body of an ERROR the first line is kept, and of several heart-beats in a row the first.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import randrange
from typing import Any

from tests.systems.activemq.live.player import Player
from tests.systems.activemq.live.side_by_side import BROKER
from tests.systems.activemq.live.stomp_cases import TALKS, as_recorded
from tests.systems.activemq.live.stomp_player import QUIET_S, Answer, Server, Talk

RECORDED_STOMP = Path(__file__).parents[1] / "recorded_stomp.json"
AT_ONCE = 5


def recorded() -> dict[str, Any]:
    """Return what is kept, by the names of the talks."""
    found: dict[str, Any] = json.loads(RECORDED_STOMP.read_text()) if RECORDED_STOMP.exists() else {}
    return found


def asked(player: Player, name: str, quiet_s: float = QUIET_S) -> list[list[Answer]]:
    """Return what a real broker answers, after each step, when nothing more has come for so long."""
    talk = TALKS[name]
    port = free_port()
    with player.broker(talk.xml.replace("{port}", str(port))):
        answers = Talk(Server(port), quiet_s).play(talk.steps)
    return [[_kept(answer) for answer in after] for after in answers]


def free_port() -> int:
    """Return a port that is free, and not one of those that the system gives away meanwhile."""
    while True:
        port = randrange(15_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _kept(answer: Answer) -> Answer:
    return {**answer, "body": answer["body"].partition("\n")[0]} if answer.get("frame") == "ERROR" else answer


def keep(found: dict[str, Any]) -> None:
    """Write the answers, a frame a line."""
    texts = []
    for name, given in found.items():
        steps = ",\n      ".join(json.dumps(step, ensure_ascii=False) for step in given["steps"])
        answers = ",\n      ".join(
            "[" + ",\n       ".join(json.dumps(each, ensure_ascii=False, sort_keys=True) for each in after) + "]"
            for after in given["answers"]
        )
        texts.append(f'  {json.dumps(name)}: {{\n    "steps": [\n      {steps}],\n    "answers": [\n      {answers}]}}')
    RECORDED_STOMP.write_text("{\n" + ",\n".join(texts) + "\n}\n")


def main(names: list[str]) -> None:
    """Record the talks, or some of them."""
    subprocess.run([BROKER, "prepare"], check=True)
    found = recorded()
    names = names or [*TALKS]
    players: SimpleQueue[Player] = SimpleQueue()
    for _ in range(AT_ONCE):
        players.put(Player(BROKER))

    def ask(name: str) -> list[list[Answer]]:
        player = players.get()
        try:
            return asked(player, name)
        finally:
            players.put(player)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, answers in zip(names, pool.map(ask, names), strict=True):
            found[name] = {"steps": [as_recorded(step) for step in TALKS[name].steps], "answers": answers}
            print(name, flush=True)
            keep({name: found[name] for name in TALKS if name in found})
    while not players.empty():
        players.get().close()


if __name__ == "__main__":
    main(sys.argv[1:])
