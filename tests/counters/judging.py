"""Judges the books of a workload: do they balance, and is each residual named?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dlx.global_counters import CONFIRMED, Account, account_of
from simulator.replay.results.counters import sentences
from tests.counters.playing import Played


def problems(played: Played) -> Iterator[str]:
    """Yield what is wrong with the books."""
    for verdict in ("differ", "unexplained"):
        if played.verdicts.get(verdict):
            yield f"{played.verdicts[verdict]} deliveries {verdict}"
    for entry in played.balance.entries:
        said = list(sentences(entry, played.balance)) if entry.residual else []
        if entry.residual < 0 or entry.unexplained or (entry.residual and not said):
            yield f"{entry}: {said}"


def counted(played: Played) -> Counter[Account]:
    """Return what the broker counted of dead letters, confirmations among them; without zeros."""
    found = {account_of(series): count for series, count in played.readings.counted().items()}
    return Counter({account: count for account, count in found.items() if account is not None and count})


def line(played: Played) -> str:
    """The workload on one line."""
    books = played.balance
    deaths = sum(count for account, count in counted(played).items() if account.reason != CONFIRMED)
    found = sum(entry.reconstructed for entry in books.entries)
    return (
        f"counted {deaths}, reconstructed {found}, residual {deaths - found}"
        f" (lost {books.lost}, held {books.held}, unexplained {books.unexplained}), deliveries {dict(played.verdicts)}"
    )


def differences(played: Played, expected: Played) -> Iterator[str]:
    """Yield where the server and the simulator did not count the same."""
    found, wanted = counted(played), counted(expected)
    for account in sorted(found.keys() | wanted.keys()):
        if found[account] != wanted[account]:
            yield f"{account}: the server counted {found[account]}, the simulator {wanted[account]}"
