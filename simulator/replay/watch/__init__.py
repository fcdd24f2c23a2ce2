"""Watches captures that grow: the replay's verdicts, as rows come, each exactly once."""
