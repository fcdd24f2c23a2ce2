"""The characters of error texts: what a client sent comes back as each release holds it.

The answers are those of servers of 3.10.8, 4.0.5, 4.3.6 and 3.13.7; 3.12 does as 3.13.
"""

from __future__ import annotations

import struct

import pytest

from simulator.server.amqp.methods import NAMES
from tests.server.peer import Peer, message, method

NOT_FOUND = b"NOT_FOUND - no queue '%s' in vhost '/'"
INTERNAL_ERROR = ("connection.close", 541, b"INTERNAL_ERROR")
Closed = tuple[str, int, bytes]


class RawPeer(Peer):
    """A client that is told what comes back in bytes: some error texts are not UTF-8."""

    def hears(self) -> bytes:  # type: ignore[override]
        out, self._out = self._out, b""
        return out


def told(release: str, sent: bytes) -> Closed:
    """How the channel or connection of a client ends: by which method, with which code and text."""
    heard = RawPeer.connected(release).says(sent)
    *index, code, length = struct.unpack_from(">HHHB", heard, 7)
    return NAMES[tuple(index)], code, heard[14 : 14 + length]


def passively(release: str, name: str) -> Closed:
    """What a client hears that asks for a queue which is not there."""
    return told(release, method(1, "queue.declare", queue=name, passive=True))


def published(release: str, expiration: str) -> Closed:
    return told(release, message(1, "q", properties={"expiration": expiration}))


@pytest.mark.parametrize(
    ("release", "name", "shown"),
    [
        ("3.11", "é", b"\xc3\xa9"),
        ("3.12", "é", b"\xe9"),
        ("3.13", "é", b"\xe9"),
        ("4.0", "é", b"\xc3\xa9"),
        ("3.11", "€", b"\xe2\x82\xac"),
        ("4.0", "€", b"\xe2\x82\xac"),
    ],
)
def test_a_name_in_an_error_text(release: str, name: str, shown: bytes) -> None:
    assert passively(release, name) == ("channel.close", 404, NOT_FOUND % shown)


@pytest.mark.parametrize("release", ["3.12", "3.13"])
def test_what_latin_1_does_not_have_ends_the_connection(release: str) -> None:
    assert passively(release, "€") == INTERNAL_ERROR
    assert published(release, "€") == INTERNAL_ERROR
    assert told(release, method(1, "exchange.declare", exchange="e", type="€")) == INTERNAL_ERROR


@pytest.mark.parametrize(
    ("release", "euro"), [("3.10", b"226,130,172"), ("3.11", b"226,130,172"), ("3.13", b"8364"), ("4.0", b"8364")]
)
def test_a_string_that_cannot_be_printed_is_a_list_of_its_characters(release: str, euro: bytes) -> None:
    name, code, text = told(release, method(1, "queue.declare", queue="q", arguments={"x-queue-type": "€"}))
    assert (name, code) == ("channel.close", 406)
    assert text.endswith(b",116,121,112,101,32,39,%s,39]" % euro)


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        ("3.10", b"'5\xc3\xa9': {leftover_string,\"\xc3\xa9\"}"),
        ("3.13", b"'5\xe9': {leftover_string,\"\xc3\xa9\"}"),
        ("4.0", b"'5\xc3\xa9': {leftover_string,\"\xc3\x83\xc2\xa9\"}"),
    ],
)
def test_what_is_left_of_an_expiration_is_shown_byte_by_byte(release: str, shown: bytes) -> None:
    expected = ("channel.close", 406, b"PRECONDITION_FAILED - invalid expiration " + shown)
    assert published(release, "5é") == expected


@pytest.mark.parametrize(
    ("release", "name", "text"),
    [
        ("3.10", "n" * 229 + "ééé", b"NOT_FOUND - no queue '" + b"n" * 229 + b"\xc3..."),
        ("3.13", "é" * 120, NOT_FOUND % (b"\xe9" * 120)),
        ("3.13", "n" * 226 + "é" * 10, b"NOT_FOUND - no queue '" + b"n" * 226 + b"\xe9" * 4 + b"..."),
        ("4.0", "n" * 216 + "é", NOT_FOUND % (b"n" * 216 + b"\xc3\xa9")),
        ("4.0", "n" * 230 + "é", b"NOT_FOUND - no queue '" + b"n" * 230 + b"..."),
    ],
)
def test_a_long_text_is_cut(release: str, name: str, text: bytes) -> None:
    assert passively(release, name) == ("channel.close", 404, text)


@pytest.mark.parametrize("release", ["4.0", "4.3"])
@pytest.mark.parametrize("name", ["é" * 120, "n" * 218 + "é", "n" * 229 + "ééé"])
def test_a_text_of_too_many_bytes_for_its_characters_ends_the_connection(release: str, name: str) -> None:
    assert passively(release, name) == INTERNAL_ERROR
