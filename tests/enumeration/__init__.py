"""All small topologies, enumerated completely: what becomes of messages in them, by the search and by an oracle."""
