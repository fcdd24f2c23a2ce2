"""Brokers under test: the simulator, a container, or a running server, all with one face."""
