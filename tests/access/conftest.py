"""No test here sees the user's own passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = ("DLX_URL", "DLX_PASSWORD_FILE", "DLX_TLS_CA", "DLX_TLS_CERT", "DLX_TLS_KEY", "SSL_CERT_FILE")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without netrc, in an environment without variables of ours."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder
