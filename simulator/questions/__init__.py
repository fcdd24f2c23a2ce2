"""Questions about a topology: what can become of its messages, where they are lost, and which setting does it."""
