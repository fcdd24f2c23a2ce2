"""What notebooks show of a replay's totals."""

from __future__ import annotations

from simulator.markup import element, join, table
from simulator.replay.summary import Summary
from simulator.replay.verdicts import VERDICTS


def summary_html(summary: Summary) -> str:
    """Return the totals as a table, below a sentence that says whether the rules explain the log."""
    explained = "The rules explain every delivery" if summary.explained else "The rules do not explain every delivery"
    open_ = sum(summary.unchecked.values())
    sentence = f"{explained}: {summary.agreement_percent:.2f} % agree." + (
        f" Not checked in full: {open_:,} deliveries." if open_ else ""
    )
    counts: dict[str, int] = {
        "messages": summary.messages,
        "deliveries": summary.deliveries,
        "dead letters reconstructed": summary.dead_letters,
        **{verdict: getattr(summary, verdict) for verdict in VERDICTS},
        "lost": summary.lost,
        "lost if they died": summary.may_be_lost,
        "publishes routed elsewhere": summary.misrouted,
        "broken lines": summary.broken_lines,
    }
    return join([element("p", sentence), table(("of the replay", "count"), counts.items())])
