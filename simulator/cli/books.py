"""Shows what the broker counted beside what a replay found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from simulator.replay.balance import Balance


def show_balance(console: Console, balance: Balance) -> None:
    """Print the accounts, losses first, a sentence for each residual, and what was not checked."""
    from simulator.replay.balance_texts import remarks, sentences

    table = Table(title="Dead letters that the broker counted", title_justify="left")
    for name in ("died", "in", "strategy"):
        table.add_column(name)
    for name in ("counted", "found", "residual"):
        table.add_column(name, justify="right")
    for entry in balance.entries:
        numbers = (f"{number:,}" for number in (entry.counted, entry.reconstructed, entry.residual))
        table.add_row(entry.reason, f"{entry.queue_type} queues", entry.strategy.replace("_", " "), *numbers)
    console.print(table if balance.entries else "The broker counted no dead letters.")
    for entry in balance.entries:
        for sentence in sentences(entry, balance) if entry.residual else ():
            console.print(f"* {sentence}", soft_wrap=True, highlight=False, markup=False)
    console.print("Not checked:")
    for remark in remarks(balance):
        console.print(f"* {remark}", soft_wrap=True, highlight=False, markup=False)
