"""The style of a message's timeline, which the live page and the reports share."""

from __future__ import annotations

from importlib import resources


def timeline_css() -> str:
    """Return the style of a list of the class ``life``, whose items have a time (``when``) and a paragraph."""
    return resources.files(__package__).joinpath("timeline.css").read_text(encoding="utf-8")
