"""What a recorded log shows of each scenario, and what it should show but does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from examples.workload.scenarios import SCENARIOS


def x_death(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Queue and reason of each entry of a row's x-death, newest first."""
    deaths = (row["properties"].get("headers") or {}).get("x-death", [])
    return tuple((death["queue"], death["reason"]) for death in deaths)


def summarize(rows: list[dict[str, Any]], published: dict[str, int]) -> list[str]:
    """Print one line per scenario; returns what the log lacks or has too much."""
    findings = []
    print(f"{'scenario':14} {'published':>9} {'received':>9} {'paths':>6}  deaths")
    for name, _, expected in SCENARIOS:
        mine = [row for row in rows if row["properties"].get("app_id") == name]
        types = Counter(row["type"] for row in mine)
        paths = {x_death(row) for row in mine if row["type"] == "received"} - {()}
        reasons = Counter(reason for row in mine if row["type"] == "received" for _, reason in x_death(row)[:1])
        found = {reason for path in paths for _, reason in path}
        deaths = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())) or "-"
        print(f"{name:14} {types['published']:9} {types['received']:9} {len(paths):6}  {deaths}")
        if types["published"] != published[name]:
            findings.append(f"{name}: published {published[name]}, the log has {types['published']}")
        if found != expected:
            findings.append(f"{name}: deaths {sorted(found)}, expected {sorted(expected)}")
    types = Counter(row["type"] for row in rows)
    print(f"{'all':14} {types['published']:9} {types['received']:9}")
    return findings
