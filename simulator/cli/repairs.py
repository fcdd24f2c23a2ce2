"""Shows what may be behind the deliveries of a replay that are not as predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from simulator.replay.repair.told import Repair, Repairs, ShownRow

SHOWN = 20
"""Hypotheses that are printed; JSON has all."""


def show_repairs(console: Console, repairs: Repairs, *, explain: bool) -> None:
    """Print the hypotheses, most deliveries first; with ``explain``, the rows around an example of each."""
    if not repairs.found and not repairs.unexplained:
        return
    lines = ["What may be behind them, most deliveries first:"]
    for repair in repairs.found[:SHOWN]:
        lines += _described(repair)
        lines += [_row(row) for row in repair.rows] if explain else []
    lines += _rest(repairs, explain=explain)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _described(repair: Repair) -> list[str]:
    first, *others = repair.likely
    lines = [f"{repair.deliveries:>8,}  {'either: ' if others else ''}{first.text}"]
    lines += [f"{'':8}  or: {other.text}" for other in others]
    return [*lines, f"{'':8}  The trace cannot tell which."] if others else lines


def _row(row: ShownRow) -> str:
    deaths = f"; deaths: {row.deaths}" if row.deaths else ""
    place = f"{row.file}:{row.line}"
    return f"{'':8}    {row.role + ':':13}{place} {row.moment} {row.where}, by {row.address}{deaths}"


def _rest(repairs: Repairs, *, explain: bool) -> list[str]:
    lines = []
    if len(repairs.found) > SHOWN:
        lines.append(f"{len(repairs.found) - SHOWN:>8,}  more such explanations; --json has all of them.")
    if repairs.unexplained:
        lines.append(f"{repairs.unexplained:>8,}  deliveries that nothing tried explains.")
    if repairs.left_out:
        lines.append(f"{repairs.left_out:>8,}  messages were not looked at: too many, or with too many rows.")
    if repairs.found and not explain:
        lines.append("With --explain, each shows the rows around its first example.")
    return lines
