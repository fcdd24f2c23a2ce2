"""No command shows a password: not of a URL that works, of one that is refused, nor of one that is written wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

import simulator
from simulator.cli.main import main

pytest_plugins = ["pytester"]

PASSWORD = "Kq9zR4secret"
CASES = str(Path(__file__).with_name("cases.yml"))
DEFINITIONS = {
    "queues": [
        {
            "name": "work",
            "vhost": "/",
            "durable": True,
            "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        },
        {"name": "dead", "vhost": "/", "durable": True, "arguments": {}},
    ]
}


@pytest.fixture(scope="module")
def running() -> Iterator[simulator.Server]:
    with simulator.serve(
        "4.3", definitions=DEFINITIONS, users={"alice": PASSWORD}, management_port=0, clock="wall"
    ) as server:
        yield server


def let_one_die(server: simulator.Server) -> None:
    with pika.BlockingConnection(pika.URLParameters(with_login(server.amqp_url, PASSWORD))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "work", b"", pika.BasicProperties(message_id="m"))
        method, _, _ = channel.basic_get("work")
        channel.basic_reject(method.delivery_tag, requeue=False)


def with_login(url: str, password: str) -> str:
    return url.replace("://", f"://alice:{password}@")


def commands(amqp: str, management: str, out: Path) -> list[list[str]]:
    """Every command that takes the URL of a server, wherever it takes it."""
    new = out / "new.json"
    new.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": []}))
    capture = ["capture", "--out", str(out / "log.jsonl"), "--seconds", "0.2", "--url"]
    redrive = ["redrive", amqp, "dead", "--management-url", management]
    return [
        *([name, management] for name in ("lint", "settings", "graph")),
        ["lint", management, "--format", "sarif"],
        ["lint", management, "--format", "json"],
        ["settings", str(new), "--over", management, "--json"],
        ["explain", management, "--publish", "", "work"],
        ["fuzz", management, "--seconds", "1"],
        ["upgrade", management, "--from", "3.13", "--to", "4.3"],
        ["plan", management, str(new)],
        ["plan", management, str(new), "--script"],
        ["plan", management, str(new), "--json"],
        ["convert", management, "--to", "definitions", "--out", str(out / "export.json")],
        ["convert", management, "--to", "operator-yaml"],
        ["doctor", amqp, "dead", "--management-url", management],
        ["doctor", management, "dead", "--json"],
        ["inspect", amqp, "dead", "--management-url", management],
        ["inspect", amqp, "dead", "--management-url", management, "--json", "--out", str(out / "dead.parquet")],
        ["inspect", management, "dead"],
        redrive,
        [*redrive, "--json"],
        [*redrive, "--execute", "--journal", str(out / "journal.jsonl")],
        [*capture, amqp],
        [*capture, amqp, "--management-url", management],
        [*capture, amqp, "--metrics-url", f"{management}metrics", "--json"],
        ["test", CASES, "--broker", f"{amqp}|{management}", "--junit", str(out / "junit.xml")],
        ["test", CASES, "--broker", amqp, "--as-release", "4.3", "--report", str(out / "report.md")],
        # where a file is needed
        ["watch", amqp, "--definitions", str(new)],
        ["replay", amqp],
        ["serve", "--definitions", management],
        ["lint", str(new), "--definitely-not-an-option", management],
        ["settings", str(new), management],
        [management],
    ]


COUNT = 33
MISUSES = 7
"""The last of them, which do not come so far as to ask a server."""


@pytest.mark.parametrize("number", range(COUNT))
def test_no_output_has_a_password(
    number: int, running: simulator.Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    let_one_die(running)
    amqp, management = running.amqp_url, str(running.management_url)
    ends = {}
    for kind, (amqp_url, management_url) in {
        "works": (with_login(amqp, PASSWORD), with_login(management, PASSWORD)),
        "refused": (with_login(amqp, f"{PASSWORD}-no"), with_login(management, f"{PASSWORD}-no")),
        "management refused": (with_login(amqp, PASSWORD), with_login(management, f"{PASSWORD}-no")),
        "nobody there": (f"amqp://alice:{PASSWORD}@127.0.0.1:9/", f"http://alice:{PASSWORD}@127.0.0.1:9/"),
        "port": (f"amqp://alice:{PASSWORD}@localhost:x{PASSWORD}/", f"http://alice:{PASSWORD}@localhost:x{PASSWORD}/"),
        "slash": (f"amqp://alice:{PASSWORD}/x@localhost/", f"http://alice:{PASSWORD}/x@localhost/"),
        "no host": (f"amqp://alice:{PASSWORD}", f"http://alice:{PASSWORD}"),
        "another scheme": (f"ftp://alice:{PASSWORD}@localhost/", f"ftp://alice:{PASSWORD}@localhost/"),
    }.items():
        listed = commands(amqp_url, management_url, tmp_path)
        assert len(listed) == COUNT
        ends[kind] = main(listed[number])
        out, err = capfd.readouterr()
        assert PASSWORD not in out + err, kind
        assert ends[kind] != 70, err
        for path in tmp_path.rglob("*"):
            assert path.is_dir() or PASSWORD.encode() not in path.read_bytes(), f"{kind}: {path.name}"
    if number < COUNT - MISUSES:
        assert ends["works"] in (0, 1, 65), ends  # a capture of nothing is 65
        assert ends["refused"] == ends["nobody there"] == 69, ends
    assert ends["port"] in (64, 69)


def test_a_variable_is_not_shown_either(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for url in (f"amqp://u:{PASSWORD}@127.0.0.1:9/", f"amqp://u:{PASSWORD}", f"ftp://u:{PASSWORD}@h/"):
        monkeypatch.setenv("DLX_URL", url)
        for command in (["lint"], ["inspect", "dead"], ["redrive", "dead"], ["plan", CASES], ["capture", "--out", "x"]):
            assert main(command) in (64, 69)
            assert PASSWORD not in "".join(capfd.readouterr())


@pytest.mark.parametrize("options", [["-l"], ["--full-trace", "-l", "-vv"]])
def test_no_report_of_pytest_has_a_password(
    options: list[str], running: simulator.Server, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def site(dlx_broker, dlx_amqp_url):
            return dlx_broker

        def test_it(site, dlx_amqp_url, dlx_broker):
            server, url = dlx_broker.server, dlx_broker.amqp_url
            dlx_broker.publish("none", "key")

        def test_no_queue(dlx_broker, dlx_amqp_url):
            dlx_broker.get("none")

        def test_not_there(dlx_broker, dlx_amqp_url):
            dlx_broker.api("GET", "nothing")
        """)
    amqp, management = with_login(running.amqp_url, PASSWORD), with_login(str(running.management_url), PASSWORD)
    result = pytester.runpytest("--dlx-broker", f"{amqp}|{management}", *options)
    result.assert_outcomes(failed=3)
    assert PASSWORD not in result.stdout.str() + result.stderr.str()


def test_no_usage_error_of_pytest_has_a_password(running: simulator.Server, pytester: pytest.Pytester) -> None:
    refused = f"{with_login(running.amqp_url, PASSWORD + '-no')}|{running.management_url}"
    for broker in (refused, f"http://u:{PASSWORD}@h", f"amqp://u:{PASSWORD}", f"amqp://u:{PASSWORD}/x@h"):
        result = pytester.runpytest("--dlx-broker", broker)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert PASSWORD not in result.stdout.str() + result.stderr.str()
