"""Repairs: what may be behind the deliveries of a log that the rules and the definitions do not explain."""
