"""Histories as data, and the player that carries them out; it does no I/O."""
