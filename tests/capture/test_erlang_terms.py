"""The parser of Erlang terms, against a printer with all of Erlang's freedom of spelling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capture.erlang_terms import Atom, TermError, parse_term

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\x1b": "\\e", "\r": "\\r"}


def printed(term: Any, draw: st.DrawFn) -> bytes:
    """Print a term, with white space and forms of binaries chosen at random."""
    space = draw(st.sampled_from([b"", b" ", b"\n               "]))
    comma = b"," + space
    if isinstance(term, Atom):
        return f"'{term}'".encode() if draw(st.booleans()) or not plain_atom(term) else term.encode()
    if isinstance(term, bytes):
        return binary(term, draw)
    if isinstance(term, list):
        return b"[" + space + comma.join(printed(item, draw) for item in term) + space + b"]"
    if isinstance(term, tuple):
        return b"{" + comma.join(printed(item, draw) for item in term) + b"}"
    return {None: b"undefined", True: b"true", False: b"false"}.get(term) or repr(term).encode()


def plain_atom(name: str) -> bool:
    return name.isascii() and name.isalnum() and name[0].islower() and name not in ("true", "false", "undefined")


def binary(value: bytes, draw: st.DrawFn) -> bytes:
    form = draw(st.sampled_from(["bytes", "latin", "utf8"]))
    if form == "utf8":
        try:
            text = value.decode()
        except UnicodeDecodeError:
            form = "bytes"
        else:
            escaped = "".join(ESCAPES.get(c, c) for c in text)
            if draw(st.booleans()):
                escaped = "".join(c if c.isascii() else f"\\x{{{ord(c):X}}}" for c in escaped)
            return b'<<"' + escaped.encode() + b'"/utf8>>'
    if form == "latin" and value:
        escaped_bytes = "".join(ESCAPES.get(c, c) for c in value.decode("latin-1")).encode("latin-1")
        return b'<<"' + escaped_bytes + b'">>'
    return b"<<" + b",".join(str(octet).encode() for octet in value) + b">>"


atoms = st.from_regex(r"[a-z][a-z0-9_@]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("true", "false", "undefined")
)
leaves = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: float(f"{x:.6e}")).filter(lambda x: "." in repr(x)),
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([None, True, False]),
    atoms.map(Atom),
)
terms = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple))


@st.composite
def spelled(draw: st.DrawFn) -> tuple[Any, bytes]:
    term = draw(terms)
    return term, printed(term, draw)


@given(spelled(), st.sampled_from([b"", b"\nPayload: \n", b" \n"]))
def test_what_was_printed_is_parsed(case: tuple[Any, bytes], rest: bytes) -> None:
    term, text = case
    assert parse_term(text + rest) == (term, len(text))


@given(st.binary(max_size=200))
def test_anything_else_is_an_error_and_nothing_worse(data: bytes) -> None:
    try:
        _, end = parse_term(data)
    except TermError as error:
        assert "expected" in str(error) or "nested" in str(error)  # noqa: PT017
    else:
        assert 0 < end <= len(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'<<"caf\xc3\xa9"/utf8>>', "café".encode()),
        (b'<<"caf\xe9"/utf8>>', "café".encode()),  # RabbitMQ 4.0
        (b'<<"caf\xc3\xa9">>', "café".encode()),  # RabbitMQ 3
        (b"<<226,152,131>>", "☃".encode()),
        (b'<<"a"\n   "b"/utf8>>', b"ab"),
        (b"<<>>", b""),
        (b"[]", []),
        (b"-1.5e-10", -1.5e-10),
        (b"'it\\'s'", "it's"),
        (b'"text"', "text"),
    ],
)
def test_forms_that_servers_write(text: bytes, value: object) -> None:
    assert parse_term(text) == (value, len(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "expected a term, got the end"),
        (b"[1,", "expected a term, got the end"),
        (b"[1 2]", "expected ',' or ']', got ' 2]'"),
        (b"<<256>>", "expected a byte or a string, got '256>>'"),
        (b"<<<<", "expected a byte or a string, got '<<'"),
        (b"[" * 500, "nested more than 200 deep"),
    ],
)
def test_errors_say_what_was_expected(text: bytes, problem: str) -> None:
    with pytest.raises(TermError) as caught:
        parse_term(text)
    assert str(caught.value) == problem
