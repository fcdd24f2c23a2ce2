"""Pictures of topologies and messages, as text in the formats that draw them; no library is needed for any."""
