"""What the rows with verdicts come to: totals, full queues, counters, untested settings, the headline."""
