"""Takes out of the rows of a capture what others must not read, and keeps what a replay needs.

Each value gets a hash in its place. Equal values have equal hashes in one run, so that rows still go together; each run
has a key of its own, which is kept nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from simulator.capture.schema import Observation, to_batch
from simulator.json_values import canonical_json

if TYPE_CHECKING:
    import pyarrow as pa

REDACTED = "redacted:"
"""How the values of redacted headers begin."""
_PROPERTIES_KEPT = frozenset({"delivery_mode", "priority", "content_type", "content_encoding", "timestamp"})
_DEATH_KEPT = frozenset({"count", "exchange", "queue", "reason", "routing-keys", "time", "original-expiration"})
_CONTENT = "content:"
_decode = msgspec.json.Decoder().decode


class Redaction:
    """The redaction of one run."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def row(self, row: Observation) -> Observation:
        """Return a row without its payload, with hashes for identities, users, addresses and values of headers."""
        is_content = row.message_id is None and row.message.startswith(_CONTENT)
        return msgspec.structs.replace(
            row,
            connection=self._hash(row.connection),
            user=self._hash(row.user),
            message=_CONTENT + self._hash(row.message) if is_content else self._hash(row.message),
            message_id=None if row.message_id is None else self._hash(row.message_id),
            properties=self._fields(row.properties, _PROPERTIES_KEPT),
            headers=self._fields(row.headers, frozenset()),
            x_death=None if row.x_death is None else self._deaths(row.x_death),
            payload=b"",
        )

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with its rows redacted."""
        return to_batch([self.row(Observation(**row)) for row in batch.to_pylist()])

    def _hash(self, text: str) -> str:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=10).hexdigest()

    def _fields(self, table: str, kept: frozenset[str]) -> str:
        fields = _decode(table)
        return canonical_json({name: each if name in kept else self._value(each) for name, each in fields.items()})

    def _value(self, value: Any) -> Any:
        """Return the hash of a value; in tables and arrays, which streams drop, of each of their values."""
        if isinstance(value, dict):
            return {name: self._value(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in value]
        return REDACTED + self._hash(canonical_json(value))

    def _deaths(self, x_death: str) -> str:
        """Return a history of deaths without what only clients write into one."""
        deaths = _decode(x_death)
        if not isinstance(deaths, list):
            return canonical_json(self._value(deaths))
        return canonical_json([
            {name: each if name in _DEATH_KEPT else self._value(each) for name, each in death.items()}
            if isinstance(death, dict)
            else self._value(death)
            for death in deaths
        ])  # fmt: skip


def has_redacted_headers(captures: Iterable[str]) -> bool:
    """Return whether one of these captures has a header whose value is redacted."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for capture in captures:
        with pq.ParquetFile(capture) as file:
            for batch in file.iter_batches(columns=["headers"]):
                if pc.any(pc.match_substring(batch.column("headers"), f'"{REDACTED}')).as_py():
                    return True
    return False
