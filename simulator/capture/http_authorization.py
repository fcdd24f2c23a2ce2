"""Says to an HTTP server who asks."""

from __future__ import annotations

import base64


def authorization(user: str, password: str) -> dict[str, str]:
    """Return the header of a request by that user (Basic)."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
