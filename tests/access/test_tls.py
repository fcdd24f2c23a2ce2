"""TLS: what a client trusts and shows, and what it says where that does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

import simulator
from simulator.capture import CaptureUnavailable, NothingReadable
from simulator.capture.access import TLS, Access, AccessError, complete, logs_in_by_certificate, why_tls_ended
from simulator.capture.connected import amqp_parameters, connected
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import capture, read_metrics
from simulator.capture.management_api import call
from simulator.cli.main import main
from simulator.redrive.server import queue_on, ready_in, server_at
from tests.access.tls_proxy import Certificates, tls_before

CASES = str(Path(__file__).with_name("cases.yml"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a CA that has signed nothing."""
    return Certificates(tmp_path_factory.mktemp("other")).ca


class Ports:
    """A simulated server: its own ports, and those with TLS in front of them."""

    def __init__(self, server: simulator.Server, amqps: int, https: int) -> None:
        self.amqp = int(server.amqp_url.rsplit(":", 1)[1].strip("/"))
        self.amqps, self.https = amqps, https
        self.http_url = str(server.management_url)
        self.amqps_url = f"amqps://guest:guest@127.0.0.1:{amqps}/"
        self.https_url = f"https://guest:guest@127.0.0.1:{https}/"


@pytest.fixture(scope="module")
def serving() -> Iterator[simulator.Server]:
    definitions = {"queues": [{"name": "dead", "vhost": "/", "durable": True, "arguments": {}}]}
    with simulator.serve("4.3", definitions=definitions, management_port=0, clock="wall") as server:
        yield server


@pytest.fixture(scope="module")
def ports(serving: simulator.Server, certificates: Certificates) -> Iterator[Ports]:
    context = certificates.server("127.0.0.1")
    amqp, http = (int(url.rsplit(":", 1)[1].strip("/")) for url in (serving.amqp_url, str(serving.management_url)))
    with tls_before(amqp, context) as amqps, tls_before(http, context) as https:
        yield Ports(serving, amqps, https)


@pytest.fixture(scope="module")
def asking(serving: simulator.Server, certificates: Certificates) -> Iterator[Ports]:
    """The same, where clients have to show a certificate."""
    context = certificates.server("127.0.0.1", asks_clients=True)
    amqp, http = (int(url.rsplit(":", 1)[1].strip("/")) for url in (serving.amqp_url, str(serving.management_url)))
    with tls_before(amqp, context) as amqps, tls_before(http, context) as https:
        yield Ports(serving, amqps, https)


# It works


def test_a_ca_is_for_all_commands(ports: Ports, certificates: Certificates, tmp_path: Path, capsys: Capture) -> None:
    trusts = ["--tls-ca", str(certificates.ca)]
    for command in (
        ["lint", ports.https_url],
        ["inspect", ports.amqps_url, "dead", "--management-url", ports.https_url],
        ["inspect", ports.https_url, "dead"],
        ["redrive", ports.amqps_url, "dead", "--management-url", f"https://127.0.0.1:{ports.https}"],
        ["plan", ports.https_url, ports.https_url],
        ["test", CASES, "--broker", f"{ports.amqps_url}|{ports.https_url}"],
    ):
        assert main([*command, *trusts]) == 0, capsys.readouterr().err
    command = ["capture", "--url", ports.amqps_url, "--management-url", ports.https_url, "--seconds", "0.1"]
    command += ["--metrics-url", f"{ports.https_url}metrics", "--out", str(tmp_path / "x.jsonl")]
    assert main([*command, *trusts]) == 65
    assert "nothing was published" in capsys.readouterr().err


def test_functions_take_certificates(ports: Ports, certificates: Certificates, tmp_path: Path) -> None:
    tls = TLS(ca=certificates.ca)
    server = server_at(ports.amqps_url, ports.https_url, tls=tls)
    assert queue_on(server, "dead").release.name == "4.3"
    assert ready_in(server, "dead") == 0
    with pytest.raises(NothingReadable):
        capture(
            ports.amqps_url, tmp_path / "x.jsonl", management_url=ports.https_url,
            metrics_urls=[f"{ports.https_url}metrics"], tls=tls, until=CaptureLimits(seconds=0.1),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["DLX_TLS_CA", "SSL_CERT_FILE"])
def test_the_environment_names_a_ca(
    name: str, ports: Ports, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(certificates.ca))
    assert call(ports.https_url, "overview")["rabbitmq_version"] == "4.3.6"
    with connected(ports.amqps_url) as (connection, _):
        assert connection.is_open


def test_the_url_names_a_ca_as_those_of_rabbitmq_do(ports: Ports, certificates: Certificates) -> None:
    with connected(f"{ports.amqps_url}?heartbeat=5&cacertfile={certificates.ca}") as (connection, _):
        assert connection.is_open


def test_a_client_shows_its_certificate(
    asking: Ports, certificates: Certificates, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificates.client()
    command = ["inspect", asking.amqps_url, "dead", "--management-url", asking.https_url]
    command += ["--tls-ca", str(certificates.ca)]
    assert main([*command, "--tls-cert", str(cert), "--tls-key", str(key)]) == 0
    both = cert.with_name("both.pem")
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    monkeypatch.setenv("DLX_TLS_CERT", str(both))
    assert main(command) == 0
    monkeypatch.delenv("DLX_TLS_CERT")
    capsys.readouterr()
    assert main(command) == 69
    assert "client certificate" in capsys.readouterr().err
    assert main(["capture", "--url", asking.amqps_url, "--tls-ca", str(certificates.ca), "--out", "x.jsonl"]) == 69
    assert "client certificate" in capsys.readouterr().err


def test_a_certificate_is_the_login_where_the_url_names_no_user(certificates: Certificates) -> None:
    cert, key = certificates.client()
    tls = TLS(ca=certificates.ca, cert=cert, key=key)
    url = complete("amqps://h.example/", Access(tls=tls))
    assert logs_in_by_certificate(url)
    assert amqp_parameters(url).credentials.TYPE == "EXTERNAL"
    named = complete("amqps://alice:secret@h.example/", Access(tls=tls))
    assert isinstance(amqp_parameters(named).credentials, pika.PlainCredentials)
    with pytest.raises(AccessError, match=r"^no user for h.example"):
        complete("https://h.example/", Access(tls=tls))


def test_a_broker_without_that_login_is_69(
    asking: Ports, certificates: Certificates, tmp_path: Path, capsys: Capture
) -> None:
    cert, key = certificates.client()
    shown = ["--tls-ca", str(certificates.ca), "--tls-cert", str(cert), "--tls-key", str(key)]
    url = f"amqps://127.0.0.1:{asking.amqps}/"
    assert main(["capture", "--url", url, "--out", str(tmp_path / "x.jsonl"), *shown]) == 69
    assert "the broker offers no login by EXTERNAL: name a user in the URL" in capsys.readouterr().err
    assert main(["test", CASES, "--broker", f"{url}|{asking.https_url}", *shown]) == 69
    assert "name it in the URL, beside the client certificate" in capsys.readouterr().err


# It does not


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "it may want a client certificate: --tls-cert"),
        ("TLSV1_ALERT_UNKNOWN_CA", "the server does not trust the client certificate"),
        ("WRONG_VERSION_NUMBER", "what listens there does not speak TLS"),
    ],
)
def test_reasons_are_told_in_words(reason: str, said: str) -> None:
    assert said in why_tls_ended(reason)


def test_a_ca_that_does_not_fit_is_69(ports: Ports, other_ca: Path, tmp_path: Path, capsys: Capture) -> None:
    said = "no TLS: the server's certificate is not signed by a CA that is trusted here"
    out = str(tmp_path / "x.parquet")
    for command in (
        ["lint", ports.https_url],
        ["inspect", ports.amqps_url, "dead", "--management-url", ports.https_url],
        ["capture", "--url", ports.amqps_url, "--out", out],
        ["capture", "--url", ports.amqps_url, "--out", out, "--metrics-url", ports.https_url],
        ["capture", "--url", ports.amqps_url, "--out", out, "--management-url", ports.https_url],
        ["test", CASES, "--broker", f"{ports.amqps_url}|{ports.https_url}"],
    ):
        for trusts in ([], ["--tls-ca", str(other_ca)]):
            assert main([*command, *trusts]) == 69, command
            told = capsys.readouterr().err
            assert said in told
            assert "name the file of its CA with --tls-ca (DLX_TLS_CA)" in told  # the variable is for pytest
            assert "expected the management URL" not in told


def test_a_certificate_for_another_host_is_69(ports: Ports, certificates: Certificates, capsys: Capture) -> None:
    trusts = ["--tls-ca", str(certificates.ca)]
    said = "the server's certificate is for another host: Hostname mismatch, certificate is not valid for 'localhost'"
    for command in (
        ["lint", f"https://localhost:{ports.https}"],
        ["inspect", f"amqps://localhost:{ports.amqps}/", "dead", "--management-url", ports.http_url],
    ):
        assert main([*command, *trusts]) == 69
        assert said in capsys.readouterr().err


def test_http_for_a_port_with_tls_is_69_and_the_other_way_round(
    ports: Ports, certificates: Certificates, tmp_path: Path, capsys: Capture
) -> None:
    trusts = ["--tls-ca", str(certificates.ca)]
    assert main(["lint", f"http://guest:guest@127.0.0.1:{ports.https}"]) == 69
    assert f"if the port has TLS, write https://127.0.0.1:{ports.https}" in capsys.readouterr().err
    assert main(["lint", ports.http_url.replace("http:", "https:"), *trusts]) == 69
    assert "no TLS: what listens there does not speak TLS" in capsys.readouterr().err
    assert main(["lint", f"https://guest:guest@127.0.0.1:{ports.amqps}", *trusts]) == 69
    told = capsys.readouterr().err
    assert "no HTTP: it is a port of AMQP; the management API is usually at 15672" in told
    assert "client certificate" not in told
    out = ["--out", str(tmp_path / "x.jsonl")]
    assert main(["capture", "--url", f"amqps://127.0.0.1:{ports.amqp}/", *out, *trusts]) == 69
    assert "no TLS: what listens there does not speak TLS" in capsys.readouterr().err
    assert main(["capture", "--url", f"amqp://127.0.0.1:{ports.amqps}/?stack_timeout=3", *out]) == 69
    assert "or 5671 for amqps" in capsys.readouterr().err


def test_a_server_that_does_not_trust_the_client_is_69(
    asking: Ports, certificates: Certificates, tmp_path: Path, capsys: Capture
) -> None:
    cert, key = Certificates(tmp_path / "theirs").client()
    shown = ["--tls-ca", str(certificates.ca), "--tls-cert", str(cert), "--tls-key", str(key)]
    assert main(["lint", asking.https_url, *shown]) == 69
    assert "client certificate" in capsys.readouterr().err


def test_files_that_do_not_fit_are_64(certificates: Certificates, tmp_path: Path, capsys: Capture) -> None:
    cert, key = certificates.client()
    _, other_key = Certificates(tmp_path / "theirs").client()
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    wrong = {
        ("--tls-ca", str(text)): f"the CA's file, {text}: not a file in PEM",
        ("--tls-cert", str(text)): f"the client certificate, {text}: not a file in PEM",
        ("--tls-cert", str(cert), "--tls-key", str(other_key)): "the key is not that of the certificate",
        ("--tls-key", str(key)): "is the key of a certificate that is not given: give --tls-cert (DLX_TLS_CERT)",
        ("--tls-cert", str(cert)): f"{cert} has no private key: give --tls-key (DLX_TLS_KEY)",
        ("--tls-ca", "/nowhere"): "'/nowhere' does not exist",
    }
    for options, said in wrong.items():
        assert main(["lint", "https://u:secret@127.0.0.1:1/", *options]) == 64
        err = capsys.readouterr().err
        assert said in err
        assert "secret" not in err


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as to

    cert, key = certificates.client()
    locked = tmp_path / "locked.pem"
    loaded = to.load_pem_private_key(key.read_bytes(), None)
    sealed = to.BestAvailableEncryption(b"secret")
    locked.write_bytes(loaded.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, sealed))
    with pytest.raises(AccessError, match="the key has a passphrase"):
        server_at("amqps://h.example/", tls=TLS(cert=cert, key=locked))


def test_functions_say_it_in_the_errors_they_have(ports: Ports, other_ca: Path) -> None:
    with pytest.raises(CaptureUnavailable, match="not signed by a CA that is trusted here"):
        queue_on(server_at(ports.amqps_url, ports.https_url, tls=TLS(ca=other_ca)), "dead")
    with pytest.raises(CaptureUnavailable, match="not signed by a CA that is trusted here"):
        read_metrics(f"{ports.https_url}metrics")


def test_what_it_writes_names_no_certificate(ports: Ports, certificates: Certificates, capsys: Capture) -> None:
    assert main(["settings", ports.https_url, "--tls-ca", str(certificates.ca), "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["queues"]
    assert str(certificates.ca) not in out
