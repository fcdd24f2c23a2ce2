"""Ask a real broker what it makes of the cases, and keep its answers: ``python -m tests.systems.activemq.live.record``.

With names of cases, only of those; with ``configurations``, which configurations a broker starts with, and with
``documents``, which whole files; with ``selectors``, what it makes of selectors.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.systems.activemq.live.cases import CASES, REFUSALS, configuration
from tests.systems.activemq.live.configurations import CONFIGURATIONS
from tests.systems.activemq.live.documents import DOCUMENTS
from tests.systems.activemq.live.player import Line, Player
from tests.systems.activemq.live.selectors import PROPERTIES, SELECTORS

RECORDED = Path(__file__).parents[1] / "recorded"
RECORDED_CONFIGURATIONS = Path(__file__).parents[1] / "recorded_configurations.json"
RECORDED_DOCUMENTS = Path(__file__).parents[1] / "recorded_documents.json"
RECORDED_SELECTORS = Path(__file__).parents[1] / "recorded_selectors.json"
ALL = CASES | REFUSALS
BROKER = Path(__file__).with_name("broker")


def file_of(name: str) -> Path:
    """Return where the answer to a case is kept."""
    return RECORDED / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".json")


def kept(name: str) -> dict[str, Any]:
    """Return a case as it was recorded."""
    document: dict[str, Any] = json.loads(file_of(name).read_text())
    return document


def keep(name: str, lines: list[Line]) -> None:
    """Write what the broker told."""
    case = ALL[name]
    fields = {"case": name, "broker": "ActiveMQ Classic 5.17.2", "xml": case.xml, "steps": case.steps, "lines": lines}
    rows = {field: json.dumps(value) for field, value in fields.items()}
    for field in ("steps", "lines"):
        rows[field] = "[\n    " + ",\n    ".join(json.dumps(each) for each in fields[field]) + "\n  ]"
    text = ",\n".join(f"  {json.dumps(field)}: {row}" for field, row in rows.items())
    file_of(name).write_text(f"{{\n{text}\n}}\n")


def keep_configurations(player: Player) -> None:
    """Write which configurations the broker started with, and what it said of the others."""
    said = {name: refusal(player, configuration(*given)) for name, given in CONFIGURATIONS.items()}
    RECORDED_CONFIGURATIONS.write_text(json.dumps(said, indent=2) + "\n")


def keep_documents(player: Player) -> None:
    """Write which whole files the broker started with, and what it said of the others."""
    said = {name: refusal(player, text) for name, text in DOCUMENTS.items()}
    RECORDED_DOCUMENTS.write_text(json.dumps(said, indent=2) + "\n")


def refusal(player: Player, xml: str) -> str | None:
    """Return the end of what the broker said where it refused a file."""
    refused = player.play(xml, [])[0].get("refused")
    return refused and re.sub(r"\S*/activemq\S*xml|@?[0-9a-f]{7,8}\b", "", " ".join(refused.split()))[-200:]


def verdicts(player: Player) -> dict[str, str]:
    """Return what the broker makes of each selector: ``true``, ``false``, ``refused`` or ``fails``."""
    asked = [{"do": "select", "selector": each, "properties": PROPERTIES} for each in SELECTORS]
    told = [line["selects"] for line in player.play(configuration(), asked) if "selects" in line]
    return dict(zip(SELECTORS, told, strict=True))


def main(names: list[str]) -> None:
    """Record the cases, or some of them."""
    RECORDED.mkdir(exist_ok=True)
    subprocess.run([BROKER, "prepare"], check=True)
    player = Player(BROKER)
    if names == ["configurations"]:
        keep_configurations(player)
        return player.close()
    if names == ["documents"]:
        keep_documents(player)
        return player.close()
    if names == ["selectors"]:
        RECORDED_SELECTORS.write_text(json.dumps(verdicts(player), indent=2) + "\n")
        return player.close()
    for name in names or ALL:
        keep(name, player.play(ALL[name].xml, ALL[name].steps))
        print(name)
    player.close()


if __name__ == "__main__":
    main(sys.argv[1:])
