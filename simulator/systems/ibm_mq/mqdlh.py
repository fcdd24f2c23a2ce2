"""The dead-letter header (MQDLH), as a value and as its 172 bytes, and the message that it stands in front of.

Numbers have the byte order, and texts the character set, that the MQMD of the message
names with ``Encoding`` and ``CodedCharSetId``.

Source: IBM MQ's documentation of MQDLH and of machine encodings.
"""

from __future__ import annotations

import struct
from codecs import CodecInfo

import msgspec

from simulator.systems.ibm_mq.character_sets import UTF_8, UnknownCharacterSetError, codec_of

STRUC_ID = "DLH "
VERSION = 1
LENGTH = 172
FORMAT_DEAD = "MQDEAD"
# MQMD.Encoding of whole machines, and its part for integers.
BIG_ENDIAN, LITTLE_ENDIAN = 273, 546
_INTEGERS, _NORMAL, _REVERSED = 0xF, 1, 2
_LAYOUT = "4sii48s48sii8si28s8s8s"


class MqdlhError(ValueError):
    """Bytes that are not an MQDLH, or a value that fits none."""


class Mqdlh(msgspec.Struct, frozen=True, kw_only=True):
    """A dead-letter header; texts are without their trailing blanks.

    Attributes:
        reason: why the message is dead: MQRC_* or MQFB_*.
        dest_q_name: the queue it was for.
        dest_q_mgr_name: the queue manager it was for.
        encoding: the numbers in the body: MQMD.Encoding of the message as it was sent.
        coded_char_set_id: the character set of the body, likewise.
        format: the format of the body, likewise.
        put_appl_type: what put it on the dead-letter queue: MQAT_*.
        put_appl_name: its name.
        put_date: when, UTC, as ``YYYYMMDD``.
        put_time: when, UTC, as ``HHMMSSTH``.
    """

    reason: int
    dest_q_name: str
    dest_q_mgr_name: str = ""
    encoding: int = LITTLE_ENDIAN
    coded_char_set_id: int = UTF_8
    format: str = ""
    put_appl_type: int = 0
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""


def read_mqdlh(data: bytes, *, encoding: int, coded_char_set_id: int) -> Mqdlh:
    """Read the header that ``data`` begins with; what follows it is the body.

    ``encoding`` and ``coded_char_set_id``: those of the MQMD. Raises ``MqdlhError`` for data that is
    too short, does not begin with ``DLH``, or has another version than 1.
    """
    if len(data) < LENGTH:
        raise MqdlhError(f"expected the {LENGTH} bytes of an MQDLH, got {len(data)}")
    order, codec = _order(encoding), _codec(coded_char_set_id)
    struc_id, version, reason, queue, manager, body_encoding, ccsid, form, type_, name, date, time = struct.unpack_from(
        order + _LAYOUT, data
    )
    if struc_id != codec.encode(STRUC_ID)[0]:
        raise MqdlhError(f"StrucId at offset 0: expected {STRUC_ID!r} in CCSID {coded_char_set_id}, got {struc_id!r}")
    if version != VERSION:
        raise MqdlhError(f"Version at offset 4: expected {VERSION} in encoding {encoding}, got {version}")
    return Mqdlh(
        reason=reason,
        dest_q_name=_text(queue, codec, "DestQName"),
        dest_q_mgr_name=_text(manager, codec, "DestQMgrName"),
        encoding=body_encoding,
        coded_char_set_id=ccsid,
        format=_text(form, codec, "Format"),
        put_appl_type=type_,
        put_appl_name=_text(name, codec, "PutApplName"),
        put_date=_text(date, codec, "PutDate"),
        put_time=_text(time, codec, "PutTime"),
    )


def write_mqdlh(header: Mqdlh, *, encoding: int, coded_char_set_id: int) -> bytes:
    """Write a header as its 172 bytes.

    Raises ``MqdlhError`` for a text that is too long, or a number beyond 32 bits.
    """
    order, codec = _order(encoding), _codec(coded_char_set_id)
    try:
        return struct.pack(
            order + _LAYOUT,
            codec.encode(STRUC_ID)[0],
            VERSION,
            header.reason,
            _padded(header.dest_q_name, 48, codec, "DestQName"),
            _padded(header.dest_q_mgr_name, 48, codec, "DestQMgrName"),
            header.encoding,
            header.coded_char_set_id,
            _padded(header.format, 8, codec, "Format"),
            header.put_appl_type,
            _padded(header.put_appl_name, 28, codec, "PutApplName"),
            _padded(header.put_date, 8, codec, "PutDate"),
            _padded(header.put_time, 8, codec, "PutTime"),
        )
    except struct.error as error:
        raise MqdlhError(f"expected numbers of 32 bits: {error}") from None


def _order(encoding: int) -> str:
    integers = encoding & _INTEGERS
    if integers not in (_NORMAL, _REVERSED):
        raise MqdlhError(f"expected an encoding such as {BIG_ENDIAN} (big endian) or {LITTLE_ENDIAN}, got {encoding}")
    return ">" if integers == _NORMAL else "<"


def _codec(coded_char_set_id: int) -> CodecInfo:
    try:
        return codec_of(coded_char_set_id)
    except UnknownCharacterSetError as error:
        raise MqdlhError(str(error)) from error


def _text(data: bytes, codec: CodecInfo, field: str) -> str:
    try:
        return codec.decode(data)[0].rstrip(" \0")
    except UnicodeDecodeError:
        raise MqdlhError(f"{field}: expected text in {codec.name}, got {data!r}") from None


def _padded(text: str, length: int, codec: CodecInfo, field: str) -> bytes:
    try:
        data = codec.encode(text)[0]
    except UnicodeEncodeError:
        raise MqdlhError(f"{field}: expected text that {codec.name} can hold, got {text!r}") from None
    if len(data) > length:
        raise MqdlhError(f"{field}: expected at most {length} bytes, got {len(data)}")
    return data + codec.encode(" ")[0] * (length - len(data))


class DeadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message with its MQMD; texts are without their trailing blanks.

    Attributes:
        data: the MQDLH and the body, or the body only.
        format: what ``data`` begins with; ``MQDEAD``: an MQDLH.
        encoding: byte order of the numbers at its beginning: MQENC_*.
        coded_char_set_id: character set of the texts there.
        priority: 0 to 9.
    """

    data: bytes
    format: str = FORMAT_DEAD
    encoding: int = LITTLE_ENDIAN
    coded_char_set_id: int = UTF_8
    msg_id: str = ""
    correl_id: str = ""
    msg_type: int = 8
    persistence: int = 0
    priority: int = 0
    feedback: int = 0
    put_appl_type: int = 0
    put_appl_name: str = ""
    user_identifier: str = ""
    appl_identity_data: str = ""
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """What the handler knows a message by; messages that share it share their attempts."""
        return self.msg_id, self.correl_id


def header_of(message: DeadMessage) -> Mqdlh:
    """Read the MQDLH of a message. Raises ``MqdlhError`` if the data does not begin with one."""
    return read_mqdlh(message.data, encoding=message.encoding, coded_char_set_id=message.coded_char_set_id)


def with_header(message: DeadMessage, *, reason: int, queue: str, queue_manager: str) -> DeadMessage:
    """Return a message as it stands on a dead-letter queue: behind an MQDLH that says why, and where it was."""
    header = Mqdlh(
        reason=reason,
        dest_q_name=queue,
        dest_q_mgr_name=queue_manager,
        encoding=message.encoding,
        coded_char_set_id=message.coded_char_set_id,
        format=message.format,
    )
    data = write_mqdlh(header, encoding=message.encoding, coded_char_set_id=message.coded_char_set_id)
    return msgspec.structs.replace(message, data=data + message.data, format=FORMAT_DEAD)


def without_header(message: DeadMessage, header: Mqdlh) -> DeadMessage:
    """Return the message as it was sent: without MQDLH, and with the MQMD fields that the MQDLH kept."""
    return msgspec.structs.replace(
        message,
        data=message.data[LENGTH:],
        format=header.format,
        encoding=header.encoding,
        coded_char_set_id=header.coded_char_set_id,
    )
