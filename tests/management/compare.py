"""Compare the simulator's management API with real servers', or record what those answer.

python -m tests.management.compare http://127.0.0.1:15672/ ...        # prints the differences
python -m tests.management.compare --record http://127.0.0.1:15672/   # writes recorded/RELEASE.json

``--only=NAME``, repeatable, takes these scenarios and leaves the recordings of others as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.management.calls import Call
from tests.management.client import Real, Simulated
from tests.management.comparison import Session, run
from tests.management.scenarios import SCENARIOS

RECORDED = Path(__file__).parent / "recorded"


def differences(calls: list[Call], found: list[Any], wanted: list[Any]) -> list[str]:
    """What differs, call by call."""
    return [
        f"{call.method} {call.path} {json.dumps(call.body, ensure_ascii=False) if call.body is not None else ''}\n"
        f"  server:    {json.dumps(right, ensure_ascii=False, sort_keys=True)}\n"
        f"  simulator: {json.dumps(ours, ensure_ascii=False, sort_keys=True)}"
        for call, ours, right in zip(calls, found, wanted, strict=True)
        if ours != right
    ]


def release_of(caller: Real) -> str:
    """The release of a server, such as ``4.3``."""
    version: str = caller("GET", "/api/overview").json["rabbitmq_version"]
    return ".".join(version.split(".")[:2])


def record(caller: Real, chosen: Mapping[str, list[Call]]) -> Path:
    """Write down what a server answers to the chosen scenarios."""
    path = RECORDED / f"{release_of(caller)}.json"
    found = json.loads(path.read_bytes()) if path.exists() else {}
    with Session(caller) as session:
        found |= {name: session.run(calls, settle=True) for name, calls in chosen.items()}
    answers = {name: found[name] for name in SCENARIOS if name in found}
    lines = (f" {json.dumps(name)}: [\n{_lines(found)}\n ]" for name, found in answers.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def _lines(answers: list[Any]) -> str:
    return ",\n".join(f"  {json.dumps(answer, ensure_ascii=False)}" for answer in answers)


def main(arguments: list[str]) -> int:
    """Returns how many calls differ."""
    count = 0
    only = [argument.removeprefix("--only=") for argument in arguments if argument.startswith("--only=")]
    chosen = {name: SCENARIOS[name] for name in only or SCENARIOS}
    for url in [argument for argument in arguments if not argument.startswith("-")]:
        caller = Real(url)
        if "--record" in arguments:
            print(record(caller, chosen))
            continue
        release = release_of(caller)
        with Session(caller) as session:
            answers = {name: session.run(calls, settle=True) for name, calls in chosen.items()}
        for name, calls in chosen.items():
            for difference in differences(calls, run(calls, Simulated(release)), answers[name]):
                count += 1
                print(f"{release}, {name}: {difference}")
    return count


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
