"""A message on a dead-letter queue: what the handler reads of its MQMD, and its data."""

from __future__ import annotations

import msgspec

from simulator.systems.ibm_mq.character_sets import UTF_8
from simulator.systems.ibm_mq.mqdlh import FORMAT_DEAD, LENGTH, LITTLE_ENDIAN, Mqdlh, read_mqdlh


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


def without_header(message: DeadMessage, header: Mqdlh) -> DeadMessage:
    """Return the message as it was sent: without MQDLH, and with the MQMD fields that the MQDLH kept."""
    return msgspec.structs.replace(
        message,
        data=message.data[LENGTH:],
        format=header.format,
        encoding=header.encoding,
        coded_char_set_id=header.coded_char_set_id,
    )
