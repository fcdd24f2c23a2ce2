"""The rows of a capture on their way through a replay: their columns, their tables, and the words for verdicts."""
