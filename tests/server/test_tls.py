"""TLS of the server, to clients: what they see, what the management API says of them, and what the log says of those
that fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

import simulator
from simulator.server.amqp.connection import AMQP_1_0
from simulator.server.in_process import Server
from simulator.server.tls import Tls, TlsError, cipher_parts, distinguished_name
from tests.server.peer import ALL_CAPABILITIES, HELLO, message, method, names, read

trustme = pytest.importorskip("trustme")

GUEST = "CN=guest,OU=clients,O=dlx"
GUEST_LOGIN = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
SECONDS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with simulator.serve("4.3", tls=Tls(login_from="distinguished_name"), management_port=0) as server:
        yield server


def context(server: Server, *, certificate: bool = True, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    assert server.tls is not None
    made = server.tls.client_context(certificate=certificate)
    for name, version in versions.items():
        setattr(made, name, version)
    return made


def parameters(server: Server, using: ssl.SSLContext, **more: Any) -> pika.ConnectionParameters:
    at = urlsplit(server.amqps_url)
    return pika.ConnectionParameters("localhost", at.port, ssl_options=pika.SSLOptions(using, "localhost"), **more)


def api(server: Server, path: str, *, https: bool = True) -> Any:
    url = server.management_https_url if https else server.management_url
    request = urllib.request.Request(f"{url}api/{path}", headers=GUEST_LOGIN)
    with urllib.request.urlopen(request, context=context(server) if https else None, timeout=SECONDS) as answer:
        return json.load(answer)


@contextlib.contextmanager
def connected(server: Server, using: ssl.SSLContext, host: str = "localhost") -> Iterator[ssl.SSLSocket]:
    """A client's socket after the handshake, as the client sees it."""
    plain = socket.create_connection(("127.0.0.1", urlsplit(server.amqps_url).port), SECONDS)
    with plain, using.wrap_socket(plain, server_hostname=host) as secure:
        yield secure


def all_of(connection: socket.socket) -> bytes:
    """What comes until the end."""
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def logged(caplog: pytest.LogCaptureFixture, text: str) -> str:
    """The line of the log with that text, as soon as there is one."""
    eventually(lambda: any(text in line for line in list(caplog.messages)))
    return next(line for line in caplog.messages if text in line)


# Clients that are served


def test_a_client_publishes_and_gets(server: Server) -> None:
    with pika.BlockingConnection(parameters(server, context(server))) as connection:
        channel = connection.channel()
        channel.queue_declare("large", exclusive=True)
        channel.basic_publish("", "large", b"x" * 3_000_000)
        assert channel.basic_get("large", auto_ack=True)[2] == b"x" * 3_000_000


@pytest.mark.parametrize(
    ("newest", "protocol", "key_exchange"),
    [(ssl.TLSVersion.TLSv1_3, "tlsv1.3", "any"), (ssl.TLSVersion.TLSv1_2, "tlsv1.2", "ecdhe_ecdsa")],
)
def test_what_the_management_api_says(server: Server, newest: ssl.TLSVersion, protocol: str, key_exchange: str) -> None:
    using = context(server, maximum_version=newest)
    with pika.BlockingConnection(parameters(server, using)):
        (shown,) = api(server, "connections")
    assert {name: shown[name] for name in shown if name.startswith(("ssl", "peer_cert"))} == {
        "peer_cert_issuer": "OU=CA,O=dlx",
        "peer_cert_serial_number": shown["peer_cert_serial_number"],
        "peer_cert_subject": GUEST,
        "peer_cert_validity": "2000-01-01T00:00:00Z - 2049-12-31T00:00:00Z",
        "ssl": True,
        "ssl_cipher": "aes_256_gcm",
        "ssl_hash": "aead",
        "ssl_key_exchange": key_exchange,
        "ssl_protocol": protocol,
    }
    assert re.fullmatch("[0-9A-F]{10,}", shown["peer_cert_serial_number"])


def test_a_client_without_certificate_has_none(server: Server) -> None:
    with pika.BlockingConnection(parameters(server, context(server, certificate=False))):
        (shown,) = api(server, "connections", https=False)
    assert shown["ssl"]
    assert {shown[f"peer_cert_{name}"] for name in ("issuer", "subject", "validity", "serial_number")} == {None}


def test_aio_pika(server: Server) -> None:
    aio_pika = pytest.importorskip("aio_pika")

    async def get() -> bytes:
        async with await aio_pika.connect(server.amqps_url, ssl_context=context(server)) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"job"), queue.name)
            found = await queue.get()
            return bytes(found.body)

    assert asyncio.run(get()) == b"job"


def test_what_comes_with_the_end_of_the_handshake_is_heard(server: Server) -> None:
    """The client's last flight and its greeting in one packet."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context(server).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", urlsplit(server.amqps_url).port), SECONDS) as plain:
        while True:
            try:
                secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        secure.write(HELLO)
        plain.sendall(outgoing.read())
        answer = b""
        while not answer:
            with contextlib.suppress(ssl.SSLWantReadError):
                answer = secure.read(65536)
            if not answer:
                incoming.write(plain.recv(65536))
    assert names(read(answer)) == ["connection.start"]


def test_the_listeners_that_are_shown(server: Server) -> None:
    for https in (True, False):
        overview = api(server, "overview", https=https)
        shown = {each["protocol"]: each for each in overview["listeners"]}
        ports = {protocol: each["port"] for protocol, each in shown.items()}
        assert ports == {
            "amqp": urlsplit(server.amqp_url).port,
            "amqp/ssl": urlsplit(server.amqps_url).port,
            "http": urlsplit(server.management_url).port,
            "https": urlsplit(server.management_https_url).port,
        }
        assert {protocol: each["tls"] for protocol, each in shown.items()} == {
            "amqp": False, "amqp/ssl": True, "http": False, "https": True,
        }  # fmt: skip
        assert server.tls is not None
        options = shown["amqp/ssl"]["socket_opts"]
        assert (options["cacertfile"], options["verify"]) == (server.tls.ca, "verify_peer")
        assert [context.get("ssl") for context in overview["contexts"]] == ["true", None]
    assert api(server, "health/checks/protocol-listener/amqps")["status"] == "ok"
    assert api(server, f"health/checks/port-listener/{ports['amqp/ssl']}")["status"] == "ok"


# EXTERNAL


def external(server: Server, using: ssl.SSLContext) -> list[tuple[int, str, dict[str, Any]]]:
    """Log in with the mechanism EXTERNAL; what the server answers."""
    with connected(server, using) as client:
        client.sendall(HELLO)
        offered = read(client.recv(65536))[0][2]["mechanisms"].decode().split()
        assert "EXTERNAL" in offered
        properties = {"capabilities": ALL_CAPABILITIES}
        client.sendall(method(0, "connection.start-ok", mechanism="EXTERNAL", client_properties=properties))
        return read(client.recv(65536))


@pytest.mark.parametrize("login_from", ["distinguished_name", "common_name"])
def test_a_certificate_names_the_user(login_from: Any) -> None:
    name = GUEST if login_from == "distinguished_name" else "guest"
    with simulator.serve(tls=Tls(login_from=login_from), users={name: "none"}, management_port=0) as server:
        login = pika.credentials.ExternalCredentials()
        with pika.BlockingConnection(parameters(server, context(server), credentials=login)) as connection:
            connection.channel()
            (client,) = server.run(lambda node: list(node.connections.values()))
            assert (client.user, client.auth_mechanism) == (name, "EXTERNAL")


def test_a_certificate_names_the_user_over_amqp_1_0() -> None:
    pytest.importorskip("proton")
    from simulator.server.amqp10.frames import Open, SaslInit
    from tests.amqp10.wire import WireClient

    with simulator.serve("4.3", tls=Tls(login_from="common_name"), users={"guest": "none"}) as server:
        client = WireClient(urlsplit(server.amqps_url).port or 0, tls=context(server))
        offered, outcome = client.log_in(SaslInit(mechanism="EXTERNAL"))
        assert "EXTERNAL" in [str(each) for each in offered.sasl_server_mechanisms.elements]
        assert outcome.code == 0
        client.socket.sendall(AMQP_1_0)
        client.take(8)
        client.send(Open(container_id="client", hostname="vhost:/"))
        assert isinstance(client.receive()[1], Open)
        assert [each.user for each in server.run(lambda node: list(node.connections.values()))] == ["guest"]
        client.close()

        nobody = WireClient(urlsplit(server.amqps_url).port or 0, tls=context(server, certificate=False))
        assert nobody.log_in(SaslInit(mechanism="EXTERNAL"))[1].code == 1
        nobody.close()


def test_a_user_who_is_unknown(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    ((_, name, fields),) = external(server, context(server))
    assert name == "connection.close"
    assert fields["reply_code"] == 403
    assert fields["reply_text"] == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
        "For details see the broker logfile."
    )
    assert f"there is no user '{GUEST}'" in logged(caplog, "EXTERNAL login refused")


def test_nobody_is_known_without_certificate(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    assert names(external(server, context(server, certificate=False))) == ["connection.close"]
    assert "the client shows no certificate" in logged(caplog, "EXTERNAL login refused")


def mechanisms(connection: socket.socket) -> list[str]:
    connection.sendall(HELLO)
    offered: bytes = read(connection.recv(65536))[0][2]["mechanisms"]
    return offered.decode().split()


def test_external_is_offered_to_clients_with_tls_where_it_is_wanted(server: Server) -> None:
    with connected(server, context(server, certificate=False)) as client:
        assert "EXTERNAL" in mechanisms(client)
    with socket.create_connection(("127.0.0.1", urlsplit(server.amqp_url).port), SECONDS) as plain:
        assert "EXTERNAL" not in mechanisms(plain)
    with simulator.serve(tls=True) as other, connected(other, context(other)) as client:
        assert "EXTERNAL" not in mechanisms(client)


# Clients that fail, and what the log says


@pytest.fixture(scope="module")
def folder(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of another CA: of a server and a client, some of which have expired."""
    folder, ca = tmp_path_factory.mktemp("certificates"), trustme.CA()
    past = {"not_after": datetime(2020, 1, 1, tzinfo=UTC)}
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name, more in (("server", {}), ("client", {}), ("expired", past)):
        issued = ca.issue_cert("localhost", "127.0.0.1", common_name=name, **more)
        issued.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    return folder


def test_a_client_that_uses_no_tls(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    for greeting in (HELLO, b"GET / HTTP/1.1\r\n\r\n"):
        caplog.clear()
        with socket.create_connection(("127.0.0.1", urlsplit(server.amqps_url).port), SECONDS) as plain:
            plain.sendall(greeting)
            with contextlib.suppress(ConnectionResetError):
                all_of(plain)
        assert "it does not use TLS" in logged(caplog, "TLS: the handshake with 127.0.0.1:")


def test_a_client_that_uses_tls_where_there_is_none(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    plain = socket.create_connection(("127.0.0.1", urlsplit(server.amqp_url).port), SECONDS)
    with plain, pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
        context(server).wrap_socket(plain, server_hostname="localhost")
    assert f"-> 127.0.0.1:{urlsplit(server.amqp_url).port}" in logged(caplog, "the client uses TLS, and this port")
    plain = socket.create_connection(("127.0.0.1", urlsplit(server.management_url).port), SECONDS)
    with plain, pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
        context(server).wrap_socket(plain, server_hostname="localhost")
    assert logged(caplog, "uses TLS, and this port takes http://").startswith("client 127.0.0.1:")


def test_a_client_that_does_not_trust_the_server(
    server: Server, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with pytest.raises(ssl.SSLCertVerificationError), connected(server, stranger):
        pass
    assert "it does not know its CA" in logged(caplog, "TLS: the handshake")
    caplog.clear()
    mismatch = pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch")
    with mismatch, connected(server, context(server), "example.org"):
        pass
    assert "for another host name" in logged(caplog, "TLS: the handshake")


def test_a_server_whose_certificate_has_expired(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = str(folder / "expired.pem")
    with simulator.serve(tls=Tls(cert=file, key=file)) as server:
        client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"), connected(server, client):
            pass
        assert "has expired" in logged(caplog, "TLS: the handshake")


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
@pytest.mark.parametrize(
    ("shown", "alert", "says"),
    [
        ("client", "UNKNOWN_CA", "this server refuses its certificate: self-signed certificate in certificate chain"),
        ("expired", "CERTIFICATE_EXPIRED", "this server refuses its certificate: certificate has expired"),
    ],
)
def test_a_client_whose_certificate_is_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, newest: ssl.TLSVersion, shown: str, alert: str, says: str
) -> None:
    """It is told why, as by a server, and the next client is served."""
    file, ca = str(folder / "server.pem"), str(folder / "ca.pem")
    if shown == "client":
        other = trustme.CA()
        other.cert_pem.write_to_path(folder / "other.pem")
        ca = str(folder / "other.pem")
    with simulator.serve(tls=Tls(cert=file, key=file, ca=ca)) as server:
        client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        client.maximum_version = newest
        client.load_cert_chain(folder / f"{shown}.pem")
        with pytest.raises(ssl.SSLError, match=alert), connected(server, client) as connection:
            all_of(connection)
        assert says in logged(caplog, "TLS: the handshake")
        with connected(server, ssl.create_default_context(cafile=str(folder / "ca.pem"))) as connection:
            assert "PLAIN" in mechanisms(connection)


def test_a_client_that_has_to_show_a_certificate(caplog: pytest.LogCaptureFixture) -> None:
    with simulator.serve(tls=Tls(clients="required")) as server:
        required = pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED")
        with required, connected(server, context(server, certificate=False)) as connection:
            all_of(connection)
        assert "it shows no certificate, and this server requires one" in logged(caplog, "TLS: the handshake")
        with connected(server, context(server)) as connection:
            assert "PLAIN" in mechanisms(connection)


def test_a_client_that_is_not_asked_shows_no_certificate() -> None:
    unasked = simulator.serve(tls=Tls(clients="none"), management_port=0)
    with unasked as server, pika.BlockingConnection(parameters(server, context(server))):
        (shown,) = api(server, "connections")
        assert (shown["ssl"], shown["peer_cert_subject"]) == (True, None)


def test_a_client_of_tls_1_0(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    old = context(server)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"), connected(server, old):
        pass
    assert "only versions of TLS older than 1.2" in logged(caplog, "TLS: the handshake")


def test_a_client_that_only_connects(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    socket.create_connection(("127.0.0.1", urlsplit(server.amqps_url).port), SECONDS).close()
    logged(caplog, "closed the connection before the end of the handshake")
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


# The ends of connections


def opened(connection: ssl.SSLSocket) -> None:
    """Log in as guest, and open channel 1."""
    connection.sendall(HELLO)
    connection.recv(65536)
    for said in (
        method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest"),
        method(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0)
        + method(0, "connection.open", virtual_host="/"),
        method(1, "channel.open"),
    ):
        connection.sendall(said)
        connection.recv(65536)


def test_a_client_that_talks_on_after_both_said_goodbye(server: Server) -> None:
    with connected(server, context(server)) as connection:
        opened(connection)
        connection.sendall(method(7, "basic.get", queue="q"))
        assert names(read(connection.recv(65536))) == ["connection.close"]
        connection.sendall(method(0, "connection.close-ok") + method(2, "channel.open"))
        assert all_of(connection) == b""
    assert not server.run(lambda node: [each.name for each in node.connections.values() if each.state == "running"])


def test_a_bad_header_is_answered_and_the_connection_dropped(server: Server) -> None:
    with connected(server, context(server)) as connection:
        connection.sendall(b"AMQP\0\0\0\0")
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            assert connection.recv(8) == b"AMQP\x03\x01\0\0"
            all_of(connection)


def test_a_client_that_does_not_read_gets_no_more_and_is_reset() -> None:
    """Bytes that wait below TLS count as well."""
    slow = simulator.serve(tls=True, clock="wall", send_timeout_s=0.5)
    with slow as server, connected(server, context(server)) as connection:
        opened(connection)
        connection.sendall(method(1, "queue.declare", queue="q", durable=True))
        connection.recv(65536)
        connection.sendall(method(1, "basic.consume", queue="q", no_ack=True))
        connection.recv(65536)
        with pika.BlockingConnection(parameters(server, context(server))) as other:
            channel = other.channel()
            for _ in range(300):
                channel.basic_publish("", "q", b"x" * 100_000)
            assert channel.queue_declare("q", passive=True).method.message_count > 100
        eventually(lambda: not server.run(lambda node: node.connections))
        assert reset(connection)


def test_a_client_that_reads_again_gets_all(server: Server) -> None:
    body, count = b"x" * 100_000, 300
    with connected(server, context(server)) as connection:
        opened(connection)
        connection.sendall(method(1, "queue.declare", queue="all", exclusive=True))
        connection.recv(65536)
        connection.sendall(method(1, "basic.consume", queue="all", no_ack=True))
        connection.sendall(b"".join(message(1, "all", body) for _ in range(count)))
        received = 0
        while received < count * len(body):
            received += len(connection.recv(1 << 20))


def reset(connection: socket.socket) -> bool:
    """Whether the connection ends with a reset. An SSLSocket hides that: what is encrypted is read."""
    try:
        while socket.socket.recv(connection, 65536):
            pass
    except ConnectionResetError:
        return True
    return False


def test_stopping_drops_clients_at_any_stage(recwarn: pytest.WarningsRecorder) -> None:
    with contextlib.ExitStack() as clients:
        with simulator.serve(tls=True, management_port=0) as server:
            for url in (server.amqps_url, server.management_https_url):
                plain = socket.create_connection(("127.0.0.1", urlsplit(url).port), SECONDS)
                clients.enter_context(plain)  # its handshake has not begun
            opened(clients.enter_context(connected(server, context(server))))
            api(server, "overview")
            assert server.tls is not None
            assert server.tls.ca is not None
            files = Path(server.tls.ca).parent
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", urlsplit(server.amqps_url).port), SECONDS)
    assert not files.exists()
    assert not recwarn.list


# Names, and files that cannot be used


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", ("ecdhe_ecdsa", "aes_256_gcm", "aead")),
        ("ECDHE-RSA-CHACHA20-POLY1305", ("ecdhe_rsa", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES128-SHA", ("ecdhe_rsa", "aes_128_cbc", "sha")),
        ("AES256-SHA256", ("rsa", "aes_256_cbc", "sha256")),
    ],
)
def test_erlangs_names_of_ciphers(suite: str, parts: tuple[str, str, str]) -> None:
    assert cipher_parts(suite) == parts


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('tests, of "TLS"', '\\ tests\\, of \\"TLS\\"'[2:]),
        (" a", "\\ a"), ("a ", "a\\ "), ("#1", "\\#1"), (" ", "\\ "), ("é~", "\\C3\\A9\\7E"), ("x=y", "x=y"),
    ],
)  # fmt: skip
def test_names_are_escaped(value: str, written: str) -> None:
    parts = ((("organizationName", "dlx"),), (("commonName", value), ("userId", "7")))
    assert distinguished_name(parts) == f"CN={written}+UID=7,O=dlx"


def test_files_that_cannot_be_used(folder: Path) -> None:
    server, client, ca = (str(folder / f"{name}.pem") for name in ("server", "client", "ca"))
    empty = folder / "empty.pem"
    empty.write_text("nothing")
    for given, says in (
        ({"cert": server, "key": client}, f"{client}: it is not the key of {server}"),
        ({"cert": str(empty), "key": client}, f"{empty}: expected a certificate in PEM format"),
        ({"cert": server, "key": ca}, f"{ca}: expected a private key in PEM format"),
        ({"cert": server, "key": server, "ca": str(empty)}, f"{empty}: expected certificates of CAs in PEM format"),
    ):
        with pytest.raises(TlsError, match=f"^{re.escape(says)}"):
            simulator.serve(tls=Tls(**given))
    with pytest.raises(FileNotFoundError):
        simulator.serve(tls=Tls(cert="none.pem", key="none.pem"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cert": "a"}, "cert is given without key"),
        ({"key": "a"}, "key is given without cert"),
        ({"ca": "a"}, "ca is given without cert and key"),
        ({"cert": "a", "key": "a", "clients": "required"}, "clients='required' needs ca"),
        ({"clients": "some"}, "clients is one of 'none', 'optional', 'required', not 'some'"),
        ({"clients": "none", "login_from": "common_name"}, "login_from needs certificates of clients"),
        ({"cert": "a", "key": "a", "login_from": "common_name"}, "login_from needs certificates of clients"),
        ({"login_from": "name"}, "login_from is one of 'distinguished_name', 'common_name', not 'name'"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tls(**given)


# The command


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    ports = [f"--{name}=0" for name in ("port", "management-port", "tls-port", "management-tls-port")]
    command = [sys.executable, "-m", "simulator.cli.main", "serve", *ports, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()
    finally:
        process.kill()
        process.communicate()


def test_the_command(folder: Path) -> None:
    file = str(folder / "server.pem")
    with serving("--tls-cert", file, "--tls-key", file, "--tls-only") as (process, urls):
        assert [urlsplit(url).scheme for url in urls] == ["amqps", "https"]
        client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        with socket.create_connection(("127.0.0.1", urlsplit(urls[0]).port), SECONDS) as plain:
            plain.sendall(HELLO)
            with contextlib.suppress(ConnectionResetError):
                all_of(plain)
        assert process.stderr is not None
        expected = r"TLS: the handshake with 127\.0\.0\.1:\d+ failed: it does not use TLS, .*\n"
        assert re.fullmatch(expected, process.stderr.readline())
        request = urllib.request.Request(f"{urls[1]}api/whoami", headers=GUEST_LOGIN)
        with urllib.request.urlopen(request, context=client, timeout=SECONDS) as answer:
            assert json.load(answer)["name"] == "guest"
    with serving("--tls-cert", file, "--tls-key", file, "--tls-ca", str(folder / "ca.pem")) as (_, urls):
        assert [urlsplit(url).scheme for url in urls] == ["amqp", "amqps", "http", "https"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tls-cert", "CERT"], "--tls-cert: this needs --tls-key as well"),
        (["--tls-only"], "--tls-only: this needs --tls-cert and --tls-key as well"),
        (
            ["--tls-cert", "CERT", "--tls-key", "CERT", "--tls-clients", "required"],
            "--tls-clients required needs --tls-ca",
        ),
    ],
)
def test_options_that_lack_another(folder: Path, options: list[str], says: str) -> None:
    given = [str(folder / "server.pem") if option == "CERT" else option for option in options]
    done = subprocess.run(
        [sys.executable, "-m", "simulator.cli.main", "serve", *given], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 64
    assert says in done.stderr
