"""Checks of the project itself, not of what it answers."""
