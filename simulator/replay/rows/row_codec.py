"""The three strings that encode a row of a capture in a replay: each is written and read in this file alone.

- The *lineage* says whose row it is: the virtual host and the message's identity, a line
  each. Either may hold line breaks; so it is split by the length of the virtual host.
- The *signature* is what the rules look at, on six lines: the event; virtual host, queue,
  exchange and expiration as a JSON array; the routing keys as one; the broker's headers;
  ``x-death``, or nothing; the queues that a publish was routed to, in order, or nothing.
  JSON escapes line breaks, so no line holds one.
- The *content* is what no rule changes, on two lines: properties and user headers as JSON.

Spark and DuckDB write them by the SQL below, ``replay_table`` in Python. Their JSON may differ
in how it escapes a character; what is read back is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

LINEAGE = "lineage"
SIGNATURE = "signature"
CONTENT = "content"
"""The columns that hold them."""
LINEAGE_SQL = "concat(vhost, '\\n', message)"
SIGNATURE_SQL = """concat_ws('\\n', event, to_json(array(vhost, queue, exchange, expiration)), to_json(routing_keys),
    broker_headers, coalesce(x_death, ''), coalesce(to_json(array_sort(routed_queues)), ''))"""
CONTENT_SQL = "concat_ws('\\n', properties, headers)"
"""What the captured columns make them, in Spark's SQL."""
MESSAGE_SQL = f"substring({LINEAGE}, length(vhost) + 2)"
"""The message's identity again, of rows with a lineage and their ``vhost``, in Spark's SQL."""

_encode = msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(tuple[str, str | None, str, str | None]).decode
_strings = msgspec.json.Decoder(tuple[str, ...]).decode
# A number as brokers write it: the expiration of the message itself, which ends the second line, or of a death.
_OWN_EXPIRATION = re.compile(r'[^\n]*\n[^\n]*,"([1-9][0-9]{0,10})"\]\n')
_EXPIRATION_OF_DEATH = re.compile(r'(?<="original-expiration":")[1-9][0-9]{0,10}(?=")')
_JSON_STRINGS = r'\["(?:[^"\\]|\\.)*"(?:,"(?:[^"\\]|\\.)*")*\]'
_STRINGS = re.compile(_JSON_STRINGS)
_CC = re.compile(f'(?<="CC":){_JSON_STRINGS}')
_KEYS_OF_DEATH = re.compile(f'(?<="routing-keys":){_JSON_STRINGS}')


class Signature(msgspec.Struct, frozen=True):
    """The part of a row that the rules look at, by the names of the capture's columns.

    ``broker_headers`` and ``x_death`` are the capture's canonical JSON. ``routed_queues`` are in
    order: brokers write them in any.
    """

    event: str
    vhost: str
    queue: str | None
    exchange: str
    expiration: str | None
    routing_keys: tuple[str, ...]
    broker_headers: str
    x_death: str | None
    routed_queues: tuple[str, ...] | None = None


def read_signature(text: str) -> Signature:
    """Read a signature back."""
    event, names, keys, broker_headers, x_death, routed = text.split("\n")
    routed_queues = _strings(routed) if routed else None
    return Signature(event, *_names(names), _strings(keys), broker_headers, x_death or None, routed_queues)


def read_vhost(signature: str) -> str:
    """Read the virtual host from a signature."""
    return _names(signature.split("\n", 2)[1])[0]


def write_signature(signature: Signature) -> str:
    """Write a signature."""
    return _written(*(getattr(signature, name) for name in Signature.__struct_fields__))


def write_signatures(batch: pa.RecordBatch) -> list[str]:
    """Write the signature of each row of a captured batch."""
    return list(map(_written, *_columns(batch, *Signature.__struct_fields__)))


def _written(
    event: str,
    vhost: str,
    queue: str | None,
    exchange: str,
    expiration: str | None,
    routing_keys: Sequence[str],
    broker_headers: str,
    x_death: str | None,
    routed_queues: Sequence[str] | None,
) -> str:
    names = _encode((vhost, queue, exchange, expiration)).decode()
    routed = "" if routed_queues is None else _encode(sorted(routed_queues)).decode()
    return f"{event}\n{names}\n{_encode(routing_keys).decode()}\n{broker_headers}\n{x_death or ''}\n{routed}"


def without_expirations(signature: str) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the signature without the milliseconds of its expirations, those of the message, and those of its deaths.

    An expiration that is not a positive integer stays where it is.
    """
    own = _OWN_EXPIRATION.match(signature)
    if own is not None:
        signature = signature[: own.start(1)] + signature[own.end(1) :]
    of_deaths: tuple[str, ...] = ()
    if '"original-expiration"' in signature:
        of_deaths = tuple(_EXPIRATION_OF_DEATH.findall(signature))
        signature = _EXPIRATION_OF_DEATH.sub("", signature)
    return signature, None if own is None else own[1], of_deaths


def without_keys(signature: str, number: Callable[[str], int | None]) -> tuple[str, tuple[str, ...]]:
    """Return the signature with the numbers of its routing keys for these, and the keys that have one.

    That holds for the keys of the message, and for those in ``CC`` and in the entries of ``x-death``.
    """
    keys: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        return "<" + " ".join(map(of_key, _strings(found[0]))) + ">"  # no JSON, so no row has it

    def of_key(key: str) -> str:
        known = number(key)
        if known is None:
            return _encode(key).decode()
        keys.append(key)
        return str(known)

    event, names, own, broker_headers, x_death, routed = signature.split("\n")
    lines = (
        event,
        names,
        _STRINGS.sub(numbered, own),
        _CC.sub(numbered, broker_headers),
        _KEYS_OF_DEATH.sub(numbered, x_death),
        routed,
    )
    return "\n".join(lines), tuple(keys)


def read_content(text: str) -> tuple[str, str]:
    """Read the content back: properties and user headers, each as JSON."""
    properties, headers = text.split("\n")
    return properties, headers


def write_content(properties: str, headers: str) -> str:
    """Write the content of a row from its properties and user headers as JSON."""
    return f"{properties}\n{headers}"


def looked_at(content: str, names: frozenset[str]) -> dict[str, Any]:
    """Return the user headers with these names, from the content of a row."""
    if not names:
        return {}
    headers = msgspec.json.decode(read_content(content)[1])
    return {name: headers[name] for name in names if name in headers}


def write_lineage(vhost: str, message: str) -> str:
    """Write whose row it is."""
    return f"{vhost}\n{message}"


def read_message(lineage: str, vhost: str) -> str:
    """Read the identity of the message whose row it is."""
    return lineage[len(vhost) + 1 :]


def read_messages(lineages: pa.Array, vhosts: pa.Array) -> list[str]:
    """Read the identities of the messages whose rows they are."""
    import pyarrow.compute as pc  # which a reader of single rows does not need

    if pc.count_distinct(vhosts).as_py() == 1:
        sliced: list[str] = pc.utf8_slice_codeunits(lineages, len(vhosts[0].as_py()) + 1).to_pylist()
        return sliced
    return list(map(read_message, lineages.to_pylist(), vhosts.to_pylist()))


def _columns(batch: pa.RecordBatch, *names: str) -> list[list[Any]]:
    return [batch.column(name).to_pylist() for name in names]
