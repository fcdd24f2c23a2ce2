"""Methods and properties in bytes, held to two other codecs: pika's and pamqp's."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pamqp.frame
import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import header as pamqp_header

from simulator.server.amqp.frames import METHOD, frame
from simulator.server.amqp.methods import (
    NAMES,
    decode_fields,
    decode_properties,
    decode_publish,
    encode_method,
    encode_properties,
)
from simulator.server.amqp.protocol_errors import CannotDecodeError, MalformedError, NotUtf8Error

# Where pika's names are not the protocol's.
RENAMED = {"global": "global_qos"}
MISREAD_BY_PIKA = ("connection.update-secret",)
UNKNOWN_TO_PAMQP = ("access.request", "access.request-ok", "basic.recover-async")


def pika_class(name: str) -> Any:
    index = next(index for index, known in NAMES.items() if known == name)
    return pika.spec.methods[index[0] << 16 | index[1]]


def example(name: str, kind: str) -> Any:
    """A value for a field, by the type that pika's constructor default and name suggest."""
    values = {"arguments": {"x": 1}, "server_properties": {"x": "y"}, "client_properties": {"x": True}}
    if name in values:
        return values[name]
    return {"str": "text", "int": 7, "bool": True}[kind]


@pytest.mark.parametrize("name", [name for name in NAMES.values() if name not in MISREAD_BY_PIKA])
def test_pika_and_we_read_each_other(name: str) -> None:
    empty = decode_fields(name, encode_method(name))
    given_fields = {
        field: example(field, "str" if isinstance(value, (str, bytes)) else type(value).__name__)
        for field, value in empty.items()
    }
    payload = encode_method(name, given_fields)
    theirs = pika_class(name).__new__(pika_class(name))
    theirs.decode(payload[4:])
    for field, value in given_fields.items():
        shown = getattr(theirs, RENAMED.get(field, field))
        assert (shown.decode() if isinstance(shown, bytes) else shown) == value, field
    assert payload[4:] == b"".join(theirs.encode())


@pytest.mark.parametrize("name", [name for name in NAMES.values() if name not in UNKNOWN_TO_PAMQP])
def test_pamqp_reads_what_we_write(name: str) -> None:
    payload = encode_method(name)
    read, channel, theirs = pamqp.frame.unmarshal(frame(METHOD, 3, payload))
    assert (read, channel, theirs.name.lower()) == (8 + len(payload), 3, name.replace("-", ""))
    for field, value in decode_fields(name, payload).items():
        if field in theirs.__annotations__:
            assert getattr(theirs, field) == (value.decode() if isinstance(value, bytes) else value), field


@pytest.mark.parametrize("name", NAMES.values())
def test_a_frame_that_is_too_short_or_too_long_is_refused(name: str) -> None:
    payload = encode_method(name)
    with pytest.raises(CannotDecodeError):
        decode_fields(name, payload + b"\0")
    if len(payload) > 4:
        with pytest.raises(CannotDecodeError):
            decode_fields(name, payload[:-1])


def test_names_must_be_utf_8_but_in_a_publish() -> None:
    declare = encode_method("queue.declare", {"queue": "q\udcff"})
    with pytest.raises(NotUtf8Error):
        decode_fields("queue.declare", declare)
    publish = encode_method("basic.publish", {"routing_key": "q\udcff"})
    assert encode_method("basic.publish", decode_fields("basic.publish", publish)) == publish


def test_surrogates_pass_where_the_release_lets_them() -> None:
    declare = encode_method("queue.declare", {"queue": "q\udced\udca0\udc80"})
    assert encode_method("queue.declare", decode_fields("queue.declare", declare, surrogates=True)) == declare
    with pytest.raises(NotUtf8Error):
        decode_fields("queue.declare", declare)


def test_a_frame_is_what_pika_says_it_is() -> None:
    ours = frame(METHOD, 3, encode_method("basic.qos", {"prefetch_count": 9}))
    assert ours == pika.frame.Method(3, pika.spec.Basic.Qos(prefetch_count=9)).marshal()


# Properties

short = st.text(max_size=60)
properties = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"), short
        ),
        **dict.fromkeys(("type", "user_id", "app_id", "cluster_id"), short),
        "headers": st.dictionaries(short, st.booleans() | short | st.integers(-(2**31), 2**31 - 1)),
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**40),
    },
)


@given(properties)
def test_properties_come_back_and_pika_reads_them_alike(sent: dict[str, Any]) -> None:
    data = encode_properties(sent)
    assert decode_properties(data) == sent
    theirs = pika.spec.BasicProperties()
    theirs.decode(data)
    assert {name: value for name, value in vars(theirs).items() if value is not None} == sent


@given(properties.filter(lambda sent: all(sent.values()) and "timestamp" not in sent))
def test_pamqp_reads_our_content_header(sent: dict[str, Any]) -> None:
    theirs = pamqp_header.ContentHeader()
    theirs.unmarshal(struct.pack(">HHQ", 60, 0, 5) + encode_properties(sent))
    assert theirs.body_size == 5
    for name in ("content_type", "headers", "delivery_mode", "priority", "message_id", "app_id"):
        assert getattr(theirs.properties, name) == sent.get(name)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x00", b"\x80\x00\x05ab", b"\0\0x", b"\x20\0\0\0\0\x03\x01aQ"])
def test_properties_that_are_none(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_properties(data)


def read_or_refused(read: Callable[[bytes], dict[str, Any]], payload: bytes) -> dict[str, Any] | None:
    """The fields but the ticket, which RabbitMQ does not look at; ``None``: they cannot be read."""
    try:
        return {name: value for name, value in read(payload).items() if name != "ticket"}
    except CannotDecodeError:
        return None


@given(st.binary(max_size=4), st.binary(max_size=4), st.integers(0, 255), st.integers(0, 16), st.binary(max_size=1))
def test_a_publish_is_read_as_any_method(exchange: bytes, key: bytes, bits: int, cut: int, beyond: bytes) -> None:
    """Also where it is cut short, too long, or not UTF-8."""
    names = (bytes([len(name)]) + name for name in (exchange, key))
    payload = struct.pack(">HHH", 60, 40, 0) + b"".join(names) + bytes([bits])
    payload = payload[: max(len(payload) - cut, 4)] + beyond
    assert read_or_refused(decode_publish, payload) == read_or_refused(partial(decode_fields, "basic.publish"), payload)
