"""Records what a running Zaqar does in the scenarios, so that it is known where there is none.

    tests/systems/zaqar/server run python -m tests.systems.zaqar.record

writes ``vectors/recorded`` and ``wire.json``. It takes a minute: some scenarios wait.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.systems.zaqar import wire_cases
from tests.systems.zaqar.live import Recorder, Server
from tests.systems.zaqar.scenarios import SCENARIOS, SLOW

FOLDER = Path(__file__).parent / "vectors" / "recorded"
WIRE = Path(__file__).parent / "wire.json"


def main() -> None:
    """Play all scenarios, and write a file for each."""
    server = Server()
    FOLDER.mkdir(exist_ok=True)
    for name, one in (SCENARIOS | SLOW).items():
        document = {"scenario": name, **Recorder(server.send, server.redis).record(one)}
        file = FOLDER / f"{name.replace(' ', '-').replace(',', '')}.json"
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(file.name)
    wire = {name: wire_cases.record(server.ask, case) for name, case in wire_cases.CASES.items()}
    WIRE.write_text(json.dumps(wire, indent=1) + "\n", encoding="utf-8")
    print(WIRE.name)
    server.close()


if __name__ == "__main__":
    main()
