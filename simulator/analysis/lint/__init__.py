"""Lint: what a topology's definitions get wrong about dead letters, a rule for each thing."""
