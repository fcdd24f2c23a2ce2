"""Random topologies and traffic on real servers, recorded and replayed (``tests.live.replay_fuzz``)."""
