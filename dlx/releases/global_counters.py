"""The rows about what a node counts of all its messages: its global counters."""

from __future__ import annotations

from dlx.releases.rows import changed, since


class GlobalCounterRows:
    """The global counters of a node."""

    dead_letters_counted: bool = since(
        "3.10", True, before=False,
        meaning="The node counts dead letters by reason, queue type and dead-letter strategy (global counters).",
        evidence="live; rabbit_global_counters.erl",
    )
    counted_protocols: frozenset[str] = changed(
        {"3.9": frozenset({"amqp091"}), "4.0": frozenset({"amqp091", "amqp10"})}, before=frozenset(),
        meaning="The protocols whose messages the node counts from its start; a plugin's protocol comes with it.",
        evidence="live; rabbit_global_counters.erl boot_step (3.9.0, 3.10.8, 3.13.7, 4.0.5, 4.1.8)",
    )
    alarms_in_metrics: bool = since(
        "3.10", True, before=False, undecided=("3.9",),
        meaning="The metrics for Prometheus show whether there is a memory or disk alarm.",
        evidence="live",
    )
