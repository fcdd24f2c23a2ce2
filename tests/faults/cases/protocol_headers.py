"""What a stranger says at the port: other protocols, other versions, nothing."""

from __future__ import annotations

from tests.faults.cases.registry import add


def _greeting(name: str, octets: bytes) -> None:
    add(f"port: {name}", lambda wire: wire.send(octets))


_greeting("AMQP 0-8", b"AMQP\x01\x01\x08\x00")
_greeting("AMQP 0-9", b"AMQP\x01\x01\x00\x09")
_greeting("AMQP 0-10", b"AMQP\x01\x01\x00\x0a")
_greeting("AMQP 0-9-2", b"AMQP\x00\x00\x09\x02")
_greeting("AMQP 0-10-0", b"AMQP\x00\x00\x0a\x00")
_greeting("AMQP 0-8-0", b"AMQP\x00\x00\x08\x00")
_greeting("AMQP 1.0 without SASL", b"AMQP\x00\x01\x00\x00")
_greeting("AMQP 1.0 with TLS", b"AMQP\x02\x01\x00\x00")
_greeting("AMQP 9-9-9-9", b"AMQP\x09\x09\x09\x09")
_greeting("amqp in small letters", b"amqp\x00\x00\x09\x01")
_greeting("TLS 1.2 client hello", bytes.fromhex("1603010200010001fc0303") + bytes(506))
_greeting("HTTP GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
_greeting("HTTP POST", b"POST /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
_greeting("SSH", b"SSH-2.0-OpenSSH_9.2\r\n")
_greeting("eight zero octets", bytes(8))
_greeting("nothing at all", b"")
_greeting("half a protocol header", b"AMQP")
_greeting("seven octets that are no header", b"garbage")
