"""Character sets by their CCSIDs: which can be read, and what the others are told."""

from __future__ import annotations

import pytest

from simulator.systems.ibm_mq.character_sets import UnknownCharacterSetError, codec_of
from simulator.systems.ibm_mq.mqdlh import BIG_ENDIAN, Mqdlh, MqdlhError, read_mqdlh, write_mqdlh


@pytest.mark.parametrize(
    ("ccsid", "text", "data"),
    [
        (819, "é", "e9"),
        (1208, "é", "c3a9"),
        (37, "A", "c1"),
        (500, "A", "c1"),
        (850, "é", "82"),
        (912, "ő", "f5"),
        (813, "α", "e1"),
        (920, "ş", "fe"),
        (923, "€", "a4"),
        (5348, "€", "80"),
        (943, "あ", "82a0"),
        (1386, "中", "d6d0"),
        (954, "あ", "a4a2"),
        (33722, "あ", "a4a2"),
    ],
)
def test_texts_in_a_character_set(ccsid: int, text: str, data: str) -> None:
    assert text.encode(codec_of(ccsid)).hex() == data


@pytest.mark.parametrize("ccsid", [912, 920, 923, 5348, 943, 1386, 954, 33722, 813])
def test_a_header_in_it_reads_back(ccsid: int) -> None:
    header = Mqdlh(reason=2053, dest_q_name="ORDERS", format="MQSTR")
    data = write_mqdlh(header, encoding=BIG_ENDIAN, coded_char_set_id=ccsid)
    assert read_mqdlh(data, encoding=BIG_ENDIAN, coded_char_set_id=ccsid) == header


@pytest.mark.parametrize(
    ("ccsid", "why"),
    [
        (1047, "Python has no codec for this EBCDIC; 37 and 500 agree with it in the characters of names of queues"),
        (1146, "Python has no codec for this EBCDIC"),
        (0, "MQCCSI_Q_MGR means the character set of the queue manager; give its number"),
        (-1, "MQCCSI_EMBEDDED says that the data names its character set"),
        (-2, "MQCCSI_INHERIT means the character set of the structure before it"),
        (
            99,
            r"no codec for it; there are codecs for 819 \(Latin-1\), 1208 \(UTF-8\), 37 and 500 \(EBCDIC\)",
        ),
    ],
)
def test_one_that_cannot_be_read_says_why(ccsid: int, why: str) -> None:
    with pytest.raises(UnknownCharacterSetError, match=f"CCSID {ccsid}: {why}"):
        codec_of(ccsid)
    with pytest.raises(MqdlhError, match=f"CCSID {ccsid}: {why}"):
        write_mqdlh(Mqdlh(reason=0, dest_q_name="Q"), encoding=BIG_ENDIAN, coded_char_set_id=ccsid)
