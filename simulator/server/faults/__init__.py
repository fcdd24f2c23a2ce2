"""Faults on request: what goes wrong for clients of a simulated server, so that their reaction can be seen."""
