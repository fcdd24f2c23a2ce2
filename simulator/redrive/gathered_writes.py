"""A connection that gathers frames and writes them at once: a message is three, and its acknowledgement one more."""

from __future__ import annotations

from typing import Any

from pika.adapters.select_connection import SelectConnection


class GatheringConnection(SelectConnection):  # type: ignore[misc]  # pika has no types
    """pika's connection, with one write for all frames of a turn of its loop, instead of one for each."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._gathered: list[bytes] = []
        super().__init__(*arguments, **named)

    def _adapter_emit_data(self, data: bytes) -> None:
        if not self._gathered:
            self._adapter_call_later(0, self._write)
        self._gathered.append(data)

    def _write(self) -> None:
        data, self._gathered = b"".join(self._gathered), []
        if data and not self.is_closed:
            super()._adapter_emit_data(data)

    def _adapter_disconnect_stream(self) -> None:
        self._write()
        super()._adapter_disconnect_stream()
