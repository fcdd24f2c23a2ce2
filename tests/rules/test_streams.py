"""What a stream does with an x-death header that a client published. Seen on servers of 3.10.8, 4.0.5 and 4.3.6."""

from __future__ import annotations

import pytest

from dlx import published, release
from dlx.death_headers import delivered_headers
from dlx.streams import read_from_stream


@pytest.mark.parametrize("name", ["3.10", "4.0", "4.3"])
def test_the_header_of_a_client_is_gone_when_the_stream_is_read(name: str) -> None:
    headers = {"x-death": [{"queue": "q", "reason": "rejected", "count": 3}], "x-other": "kept"}
    message = published("", "s", headers=headers, release=release(name))
    assert delivered_headers(read_from_stream(message, release(name)), release(name)) == {"x-other": "kept"}
