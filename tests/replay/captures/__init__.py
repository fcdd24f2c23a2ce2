"""Captures of real servers that exercise what the workload of ``examples/`` does not; ``record`` made them."""
