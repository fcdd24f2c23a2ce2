"""TLS of the server: its certificates, handshakes and why they fail, and what a client's certificate says.

Source: rabbit_ssl.erl, rabbit_cert_info.erl; live servers of 3.10 and 4.3.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import msgspec

HANDSHAKE_S = 5  # rabbit.ssl_handshake_timeout
GOODBYE_S = 5  # rabbit_net.erl SSL_CLOSE_TIMEOUT
VERSIONS = ("tlsv1.3", "tlsv1.2")
"""The versions of TLS that are spoken, as RabbitMQ names them."""
TLS_RECORD = b"\x16\x03"
"""A client that uses TLS begins so: with a record of its handshake."""
_log = logging.getLogger(__name__)


class TlsError(ValueError):
    """A certificate or key that cannot be used; the text names the file."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How a server uses TLS: the files are in PEM format.

    Attributes:
        cert: the server's certificate, and those between it and its CA; by default generated, with all other files.
        key: the private key of ``cert``, without a passphrase.
        ca: the certificates of the CAs that clients' certificates come from. Without it, clients show none.
        clients: whether AMQP clients show a certificate of ``ca``: ``none`` is RabbitMQ's ``verify_none``, ``optional``
            its ``verify_peer``, and ``required`` its ``verify_peer`` with ``fail_if_no_peer_cert``.
        login_from: offers the mechanism EXTERNAL, and says what of a client's certificate names the user, as RabbitMQ's
            ``ssl_cert_login_from``: ``distinguished_name`` or ``common_name``. By default it is not offered, as on a
            server: some clients (Kombu's) choose it wherever it is.
        port: where AMQP listens with TLS; 0 takes a free port.
        management_port: where the management API listens with TLS, 0 for a free port; by default it does not.
        client_cert, client_key: a certificate of ``ca`` for clients and its key, of those that were generated.

    Raises:
        ValueError: a field has a value that it cannot have.
    """

    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    clients: Literal["none", "optional", "required"] = "optional"
    login_from: Literal["distinguished_name", "common_name"] | None = None
    port: int = 0
    management_port: int | None = None
    client_cert: str | None = None
    client_key: str | None = None

    def __post_init__(self) -> None:
        _one_of("clients", self.clients, ("none", "optional", "required"))
        if self.login_from is not None:
            _one_of("login_from", self.login_from, ("distinguished_name", "common_name"))
        if (self.cert is None) != (self.key is None):
            given, lacks = ("cert", "key") if self.key is None else ("key", "cert")
            raise ValueError(f"{given} is given without {lacks}: give both, or neither to have them generated")
        if self.cert is None and self.ca is not None:
            raise ValueError("ca is given without cert and key: give all three, or none to have them generated")
        if self.cert is not None and self.ca is None and self.clients == "required":
            raise ValueError("clients='required' needs ca, the certificates of the CAs that clients' come from")
        if self.login_from is not None and (self.clients == "none" or (self.cert is not None and self.ca is None)):
            raise ValueError("login_from needs certificates of clients: give ca, and clients='optional' or 'required'")

    @property
    def asks_clients(self) -> bool:
        """Whether clients are asked for a certificate."""
        return self.ca is not None and self.clients != "none"

    def server_context(self, *, of_clients: bool) -> ssl.SSLContext:
        """Return the context of a listener; it asks for certificates of clients if ``of_clients``.

        Raises ``TlsError`` for a file that cannot be used, and ``OSError`` for one that cannot be read.
        """
        assert self.cert is not None
        assert self.key is not None
        context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _check_holds(self.cert, "CERTIFICATE", "a certificate")
        if "ENCRYPTED" in _check_holds(self.key, "PRIVATE KEY", "a private key"):
            raise TlsError(f"{self.key}: the key has a passphrase; write it without one (openssl pkey -in FILE)")
        try:
            context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as error:
            unfit = error.reason == "KEY_VALUES_MISMATCH"
            why = f"it is not the key of {self.cert}" if unfit else f"it cannot be used with {self.cert} ({error})"
            raise TlsError(f"{self.key}: {why}") from error
        if of_clients and self.asks_clients:
            assert self.ca is not None
            _trust(context, self.ca)
            context.verify_mode = ssl.CERT_REQUIRED if self.clients == "required" else ssl.CERT_OPTIONAL
        return context

    def client_context(self, *, certificate: bool = True) -> ssl.SSLContext:
        """Return a context for clients of this server: it trusts ``ca``, and shows ``client_cert`` where there is one.

        Raises ``TlsError`` without ``ca`` or for a file that cannot be used.
        """
        if self.ca is None:
            raise TlsError("no ca is given, so this does not know which CA clients have to trust")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, self.ca)
        if certificate and self.client_cert is not None:
            context.load_cert_chain(self.client_cert, self.client_key)
        return context


def _one_of(field: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{field} is one of {', '.join(map(repr, known))}, not {value!r}")


def _check_holds(file: str, label: str, meant: str) -> str:
    """Return the text of a PEM file. Raises ``TlsError`` if it has nothing with that label."""
    text = Path(file).read_text(encoding="latin-1")
    if not re.search(rf"-----BEGIN [A-Z0-9 ]*{label}-----", text):
        raise TlsError(f"{file}: expected {meant} in PEM format, which begins with -----BEGIN {label}-----")
    return text


def _trust(context: ssl.SSLContext, ca: str) -> None:
    _check_holds(ca, "CERTIFICATE", "certificates of CAs")
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise TlsError(f"{ca}: a certificate in it cannot be read ({error})") from error


# Handshakes


_BENEATH: ContextVar[asyncio.Transport] = ContextVar("_BENEATH")


class _ServerContext(ssl.SSLContext):
    """Has clients told why a handshake failed: asyncio drops the connection before it has sent the alert."""

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        wrapped = super().wrap_bio(incoming, outgoing, *args, **named)
        handshake, beneath = wrapped.do_handshake, _BENEATH.get()

        def do_handshake() -> None:
            try:
                handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
                raise
            except ssl.SSLError:
                beneath.write(outgoing.read())
                raise

        wrapped.do_handshake = do_handshake  # type: ignore[method-assign]
        return wrapped


class Secured(msgspec.Struct, frozen=True):
    """A connection after its handshake: the transport of the encrypted bytes, and the facts about its TLS."""

    beneath: asyncio.Transport
    facts: TlsFacts


class Handshakes:
    """Takes the clients of a TLS listener through their handshakes. ``log`` says of those that failed, why."""

    def __init__(self, tls: Tls, *, of_clients: bool) -> None:
        self._context = tls.server_context(of_clients=of_clients)
        self._login_from = tls.login_from
        self._transports: WeakSet[asyncio.Transport] = WeakSet()
        self._under_way: set[asyncio.Task[None]] = set()

    def protocol(self, serve: Callable[[Secured], asyncio.Protocol]) -> asyncio.Protocol:
        """Return the protocol of a new connection; ``serve`` makes the one that goes on after the handshake."""
        return _Handshake(self, serve)

    def begin(self, transport: asyncio.Transport, handshake: _Handshake) -> None:
        """Begin the handshake of a client that connected."""
        self._transports.add(transport)
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport, handshake))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _shake_hands(self, transport: asyncio.Transport, handshake: _Handshake) -> None:
        _BENEATH.set(transport)
        peer = _address(transport)
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                handshake,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except OSError as error:  # of which those of TLS are
            _log.log(*why_failed(error, peer))
            return
        if secure is not None and not secure.is_closing():  # None: dropped meanwhile
            handshake.hand_over(secure, Secured(transport, tls_facts(secure, self._login_from)))

    async def stop(self) -> None:
        """Drop all connections."""
        for transport in list(self._transports):
            transport.abort()
        if self._under_way:
            await asyncio.wait(self._under_way)


class _Handshake(asyncio.Protocol):
    """Keeps what a client sends with the end of its handshake, until the connection is handed over."""

    def __init__(self, handshakes: Handshakes, serve: Callable[[Secured], asyncio.Protocol]) -> None:
        self._handshakes, self._serve = handshakes, serve
        self._early = b""
        self._successor: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._handshakes.begin(transport, self)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def hand_over(self, transport: asyncio.Transport, secured: Secured) -> None:
        """Let the protocol of the application go on."""
        self._successor = self._serve(secured)
        transport.set_protocol(self._successor)
        self._successor.connection_made(transport)
        if self._early:
            self._successor.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._successor is not None:
            self._successor.connection_lost(exc)


def _address(transport: asyncio.Transport) -> str:
    host, port = transport.get_extra_info("peername", ("", 0))[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_NO_TLS = "it does not use TLS, and this port takes amqps:// and https:// alone"
_WHY = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "it offers only versions of TLS older than 1.2",
    "NO_SHARED_CIPHER": "it offers no cipher that this server has",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and this server requires one",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the server's certificate, because it does not know its CA",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses the server's certificate, which has expired or is not yet valid",
    "SSLV3_ALERT_BAD_CERTIFICATE": (
        "it refuses the server's certificate, most often because that is for another host name"
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "it refuses the server's certificate: it does not trust the CA, or that is for another host name"
    ),
}


def why_failed(error: OSError, peer: str) -> tuple[int, str]:
    """Say in plain words why the handshake of a client failed; before it, the level for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"this server refuses its certificate: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        why = _WHY.get(error.reason or "", str(error))
    elif isinstance(error, ConnectionAbortedError):
        why = f"it began none within {HANDSHAKE_S} s, or did not finish it"
    else:  # as port scans and health checks do
        return logging.INFO, f"TLS: {peer} closed the connection before the end of the handshake"
    return logging.WARNING, f"TLS: the handshake with {peer} failed: {why}"


# What is known of a connection


class TlsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS of a connection, in RabbitMQ's words.

    Attributes:
        protocol: such as ``tlsv1.3``.
        cipher, key_exchange, hash: such as ``aes_256_gcm``, ``ecdhe_rsa`` and ``aead``.
        issuer, subject, validity, serial: of the client's certificate; ``None`` if it shows none.
        user: the user that the client's certificate names, for EXTERNAL; ``None`` if it names none.
    """

    protocol: str
    cipher: str
    key_exchange: str
    hash: str
    issuer: str | None = None
    subject: str | None = None
    validity: str | None = None
    serial: str | None = None
    user: str | None = None


def tls_facts(transport: asyncio.Transport, login_from: str | None) -> TlsFacts:
    """Return what is known of a connection after its handshake."""
    secured: ssl.SSLObject = transport.get_extra_info("ssl_object")
    suite, *_ = secured.cipher() or ("",)
    key_exchange, cipher, mac = cipher_parts(suite)
    facts = TlsFacts(protocol=(secured.version() or "").lower(), cipher=cipher, key_exchange=key_exchange, hash=mac)
    shown: Mapping[str, Any] | None = secured.getpeercert()
    if not shown:
        return facts
    subject = distinguished_name(shown["subject"])
    names = ",".join(value for each in shown["subject"] for field, value in each if field == "commonName")
    return msgspec.structs.replace(
        facts,
        issuer=distinguished_name(shown["issuer"]),
        subject=subject,
        validity=f"{_time(shown['notBefore'])} - {_time(shown['notAfter'])}",
        serial=shown["serialNumber"],
        user={"distinguished_name": subject, "common_name": names or None}.get(login_from or ""),
    )


def cipher_parts(suite: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of a cipher suite that OpenSSL names, by Erlang's names."""
    if suite.startswith("TLS_"):  # of TLS 1.3: TLS_AES_256_GCM_SHA384
        return "any", suite.removeprefix("TLS_").rpartition("_")[0].lower(), "aead"
    *words, last = suite.lower().split("-")
    aead = bool({"gcm", "ccm", "ccm8", "poly1305", "chacha20"} & {*words, last})
    if last in ("poly1305", "ccm", "ccm8"):
        words.append(last)
    exchange = []
    while words and words[0] in ("ecdhe", "dhe", "rsa", "ecdsa", "psk", "dss"):
        exchange.append(words.pop(0))
    cipher = re.sub(r"(aes|camellia|aria)(\d)", r"\1_\2", "_".join(words))
    return "_".join(exchange) or "rsa", cipher if aead else f"{cipher}_cbc", "aead" if aead else last


_SHORT = {
    "surname": "SN",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "domainComponent": "DC",
    "streetAddress": "STREET",
    "userId": "UID",
}


def distinguished_name(names: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Write a name of a certificate as RabbitMQ does, such as ``CN=guest,OU=clients,O=dlx``: the last part first."""
    parts = ["+".join(f"{_SHORT.get(field, field.upper())}={_escaped(value)}" for field, value in one) for one in names]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    """Escape as RFC 4514 asks, and all that is not printable ASCII; RabbitMQ counts ``~`` among that."""
    text = re.sub(r'["+,;<>\\]', r"\\\g<0>", value)
    text = re.sub("[^ -}]", lambda found: "".join(f"\\{byte:02X}" for byte in found[0].encode()), text)
    if text[:1] in (" ", "#"):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(value) > 1 else text


def _time(text: str) -> str:
    """Return a time such as ``Jan  1 00:00:00 2030 GMT`` as ``2030-01-01T00:00:00Z``."""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
