"""The search for the ways that lead from a publish to what a trace shows."""
