"""Frames: the envelope of everything that AMQP 0-9-1 sends."""

from __future__ import annotations

from struct import Struct

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
OVERHEAD = 8  # bytes of a frame without its payload

ENVELOPE = Struct(">BHL")
CONTENT_HEADER = Struct(">HHQ")
HEARTBEAT_FRAME = ENVELOPE.pack(HEARTBEAT, 0, 0) + bytes((END,))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode one frame."""
    return ENVELOPE.pack(kind, channel, len(payload)) + payload + b"\xce"
