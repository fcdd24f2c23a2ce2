"""The ready messages of a queue: which is next, what limits and time take away; one file for each queue type."""
