"""Says in words what a log has exercised."""

from __future__ import annotations

from simulator.replay.coverage.totals import Coverage, QueueCoverage


def headline(coverage: Coverage) -> str:
    """Return the counts in one sentence, without a full stop."""
    deaths = f"{coverage.deaths_exercised} of {coverage.deaths_of} deaths that the queues allow"
    return f"This log exercised {coverage.exercised} of {coverage.of} rules that a trace can show, and {deaths}"


def rules_untried(coverage: Coverage) -> str:
    """Return what was not looked at, as a sentence after another; empty if everything was."""
    if not coverage.rows_untried:
        return ""
    return " Release rows were tried on a part of the distinct deliveries alone: more of them may be exercised."


def queue_line(queue: QueueCoverage) -> tuple[str, str]:
    """Return the deaths that were seen in a queue, and those that were not."""
    missing = f"no trace can show one: {queue.never_shown}" if queue.never_shown else ", ".join(queue.missing)
    return ", ".join(queue.exercised), missing
