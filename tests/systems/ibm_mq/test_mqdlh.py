"""The dead-letter header as bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.ibm_mq.mqdlh import (
    BIG_ENDIAN,
    LENGTH,
    LITTLE_ENDIAN,
    DeadMessage,
    Mqdlh,
    MqdlhError,
    header_of,
    read_mqdlh,
    without_header,
    write_mqdlh,
)

HEADER = Mqdlh(
    reason=2053,
    dest_q_name="ORDERS",
    dest_q_mgr_name="QM1",
    encoding=273,
    coded_char_set_id=1208,
    format="MQSTR",
    put_appl_type=6,
    put_appl_name="amqrmppa",
    put_date="20261121",
    put_time="20150000",
)
# As z/OS writes it: EBCDIC, and the most significant byte first.
BIG = (
    "c4d3c840 00000001 00000805"
    f"d6d9c4c5d9e2{'40' * 42} d8d4f1{'40' * 45}"
    "00000222 000004b8 d4d8e2e3d9404040"
    f"00000006 819498a2979981{'40' * 21}"
    "f2f0f2f6f1f1f2f1 f2f0f1f5f0f0f0f0"
).replace(" ", "")
LITTLE = (
    f"{b'DLH '.hex()} 01000000 05080000"
    f"{b'ORDERS'.hex()}{'20' * 42} {b'QM1'.hex()}{'20' * 45}"
    f"11010000 b8040000 {b'MQSTR   '.hex()}"
    f"06000000 {b'amqrmppa'.hex()}{'20' * 20}"
    f"{b'20261121'.hex()} {b'20150000'.hex()}"
).replace(" ", "")
NUMBERS = st.integers(-(2**31), 2**31 - 1)
ENCODINGS = st.sampled_from([BIG_ENDIAN, LITTLE_ENDIAN])
CCSIDS = st.sampled_from([819, 1208, 37, 500, 850])


def texts(length: int) -> st.SearchStrategy[str]:
    return st.text("AZaz09./_% '", max_size=length).map(lambda text: text.rstrip(" "))


def headers() -> st.SearchStrategy[Mqdlh]:
    return st.builds(
        Mqdlh,
        reason=NUMBERS,
        dest_q_name=texts(48),
        dest_q_mgr_name=texts(48),
        encoding=NUMBERS,
        coded_char_set_id=NUMBERS,
        format=texts(8),
        put_appl_type=NUMBERS,
        put_appl_name=texts(28),
        put_date=texts(8),
        put_time=texts(8),
    )


@given(headers(), ENCODINGS, CCSIDS, st.binary())
def test_what_is_written_reads_back(header: Mqdlh, encoding: int, ccsid: int, body: bytes) -> None:
    data = write_mqdlh(header, encoding=encoding, coded_char_set_id=ccsid)
    assert len(data) == LENGTH
    assert read_mqdlh(data + body, encoding=encoding, coded_char_set_id=ccsid) == header


@given(st.binary(max_size=200), st.integers(0, 1000), st.integers(-1, 70_000))
def test_any_bytes_are_a_header_or_an_error(data: bytes, encoding: int, ccsid: int) -> None:
    with contextlib.suppress(MqdlhError):
        header = read_mqdlh(data, encoding=encoding, coded_char_set_id=ccsid)
        assert len(write_mqdlh(header, encoding=encoding, coded_char_set_id=ccsid)) == LENGTH


def test_little_endian_bytes() -> None:
    assert write_mqdlh(HEADER, encoding=LITTLE_ENDIAN, coded_char_set_id=819).hex() == LITTLE
    assert read_mqdlh(bytes.fromhex(LITTLE), encoding=LITTLE_ENDIAN, coded_char_set_id=819) == HEADER


def test_big_endian_bytes_in_ebcdic() -> None:
    header = read_mqdlh(bytes.fromhex(BIG), encoding=BIG_ENDIAN, coded_char_set_id=500)
    assert header.reason == 2053
    assert (header.dest_q_name, header.dest_q_mgr_name, header.format) == ("ORDERS", "QM1", "MQSTR")
    assert (header.encoding, header.coded_char_set_id) == (546, 1208)
    assert (header.put_date, header.put_time) == ("20261121", "20150000")
    assert write_mqdlh(header, encoding=BIG_ENDIAN, coded_char_set_id=500).hex() == BIG


@pytest.mark.parametrize(
    ("data", "encoding", "ccsid", "problem"),
    [
        (LITTLE[:-2], LITTLE_ENDIAN, 819, "expected the 172 bytes of an MQDLH, got 171"),
        (LITTLE, BIG_ENDIAN, 819, "Version at offset 4: expected 1 in encoding 273, got 16777216"),
        (LITTLE, LITTLE_ENDIAN, 500, r"StrucId at offset 0: expected 'DLH ' in CCSID 500, got b'DLH '"),
        (LITTLE.replace("444c4820", "444c4821"), LITTLE_ENDIAN, 819, "StrucId at offset 0"),
        (LITTLE, 0, 819, r"expected an encoding such as 273 \(big endian\) or 546, got 0"),
        (LITTLE, LITTLE_ENDIAN, 99, "CCSID 99: no codec for it"),
        (LITTLE.replace("4f5244", "ff5244"), LITTLE_ENDIAN, 1208, "DestQName: expected text in utf-8"),
    ],
)
def test_bytes_that_are_no_header(data: str, encoding: int, ccsid: int, problem: str) -> None:
    with pytest.raises(MqdlhError, match=problem):
        read_mqdlh(bytes.fromhex(data), encoding=encoding, coded_char_set_id=ccsid)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (Mqdlh(reason=1, dest_q_name="Q" * 49), "DestQName: expected at most 48 bytes, got 49"),
        (Mqdlh(reason=1, dest_q_name="Q", format="€"), "Format: expected text that iso8859-1 can hold, got '€'"),
        (Mqdlh(reason=2**31, dest_q_name="Q"), "expected numbers of 32 bits"),
    ],
)
def test_values_that_fit_no_header(header: Mqdlh, problem: str) -> None:
    with pytest.raises(MqdlhError, match=problem):
        write_mqdlh(header, encoding=LITTLE_ENDIAN, coded_char_set_id=819)


def test_a_message_without_its_header_is_as_it_was_sent() -> None:
    message = DeadMessage(data=bytes.fromhex(BIG) + b"body", encoding=BIG_ENDIAN, coded_char_set_id=500, msg_id="1")
    sent = without_header(message, header_of(message))
    assert (sent.data, sent.format, sent.encoding, sent.coded_char_set_id) == (b"body", "MQSTR", 546, 1208)
    assert sent.msg_id == "1"
