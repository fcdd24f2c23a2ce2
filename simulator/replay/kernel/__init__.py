"""The kernel: rows in, the same rows with verdicts out, each kind of message worked out once."""
