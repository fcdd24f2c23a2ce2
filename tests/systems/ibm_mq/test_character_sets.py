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
        (1047, "[]^¨Ý", "adbd5fbbba"),
        (37, "[]^¨Ý", "babbb0bdad"),
        (273, "ÄÖÜß¤", "4ae05aa19f"),
        (1141, "ÄÖÜß€", "4ae05aa19f"),
        (1142, "ÆØÅ€", "7b7c5b5a"),
        (1143, "ÄÖÅ€É", "7b7c5b5ae0"),
        (1144, "àèò€", "c0d06a9f"),
        (1145, "Ññ€", "7b6a9f"),
        (1146, "£€$", "5b9f4a"),
        (1147, "éèç€", "c0d0e09f"),
        (1148, "[]€", "4a5a9f"),
        (1149, "Þþð€", "4ac0799f"),
    ],
)
def test_texts_in_a_character_set(ccsid: int, text: str, data: str) -> None:
    codec = codec_of(ccsid)
    assert (codec.encode(text)[0].hex(), codec.decode(bytes.fromhex(data))[0]) == (data, text)


@pytest.mark.parametrize("ccsid", [912, 920, 923, 5348, 943, 1386, 954, 33722, 813, 277, 1047, 1146])
def test_a_header_in_it_reads_back(ccsid: int) -> None:
    header = Mqdlh(reason=2053, dest_q_name="ORDERS", format="MQSTR")
    data = write_mqdlh(header, encoding=BIG_ENDIAN, coded_char_set_id=ccsid)
    assert read_mqdlh(data, encoding=BIG_ENDIAN, coded_char_set_id=ccsid) == header


@pytest.mark.parametrize(
    ("ccsid", "why"),
    [
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


@pytest.mark.parametrize("ccsid", [273, 277, 278, 280, 284, 285, 297, 871, 1047, *range(1141, 1150)])
def test_an_ebcdic_has_every_byte_once_and_names_of_queues_where_500_has_them(ccsid: int) -> None:
    codec = codec_of(ccsid)
    characters = codec.decode(bytes(range(256)))[0]
    assert codec.encode(characters)[0] == bytes(range(256))
    name = "SYSTEM.DEAD_LETTER/Q%0123456789abcxyz"
    assert codec.encode(name)[0] == name.encode("cp500")


def test_text_that_an_ebcdic_cannot_hold_is_refused_by_its_ccsid() -> None:
    with pytest.raises(MqdlhError, match="DestQName: expected text that CCSID 1047 can hold, got '€'"):
        write_mqdlh(Mqdlh(reason=0, dest_q_name="€"), encoding=BIG_ENDIAN, coded_char_set_id=1047)
