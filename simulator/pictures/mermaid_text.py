"""Escapes text for Mermaid's diagrams."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r'[#;:%"<>&|`\x00-\x1f\x7f-\x9f\u2028\u2029]')


def quoted(text: str) -> str:
    """Escape text so that Mermaid shows it unchanged."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text) or " "
