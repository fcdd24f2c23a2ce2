"""What the tests of Zaqar share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.systems.zaqar import live


@pytest.fixture(scope="session")
def zaqar_server() -> Iterator[live.Server]:
    """A running Zaqar on redis; skipped where there is none."""
    try:
        server = live.Server()
    except live.NoServer as error:
        pytest.skip(str(error))
    yield server
    server.close()
