"""The example at the end of each command's ``--help``."""

from __future__ import annotations


def example(*commands: str) -> str:
    """Return the section of a ``--help`` that shows the commands, one a line, as they are."""
    return "\n".join(["\b", "Example:", *(f"  {command}" for command in commands)])
