"""SOURCE and ``--over``: definitions from a file, standard input or a running server, and how each fails."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import simulator
from simulator.cli.main import main
from tests.live.servers import LiveServer

Capture = pytest.CaptureFixture[str]

PASSWORD = "p:w/é"
DEFINITIONS = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "exchanges": [{"name": "dlx", "vhost": "shop", "type": "fanout"}],
    "queues": [
        {"name": "orders", "vhost": "shop", "arguments": {"x-message-ttl": 500}},
        {"name": "rest", "vhost": "shop"},
    ],
    "bindings": [{"vhost": "shop", "source": "dlx", "destination": "rest", "destination_type": "queue"}],
    "policies": [{"vhost": "shop", "name": "limits", "pattern": "^orders$", "definition": {"max-length": 5}}],
    "users": [
        {"name": "guest", "password": "guest", "tags": ["administrator"]},
        {"name": "admin", "password": PASSWORD, "tags": ["administrator"]},
        {"name": "watch", "password": PASSWORD, "tags": ["monitoring"]},
    ],
}


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    """The management URL of a server in this process."""
    with simulator.serve("4.3", definitions=DEFINITIONS, management_port=0) as server:
        yield str(server.management_url)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Any], str]:
    def written(document: Any) -> str:
        path = tmp_path / "changes.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    return written


def login(url: str, user: str, password: str = PASSWORD) -> str:
    return url.replace("://", f"://{user}:{quote(password, safe='')}@")


def queues(capsys: Capture, *args: str) -> dict[str, Any]:
    """What ``dlx settings`` says of the queues, by name."""
    assert main(["settings", *args, "--json"]) == 0
    return {each["queue"]: each for each in json.loads(capsys.readouterr().out)["queues"]}


def failing(capsys: Capture, status: int, *args: str) -> str:
    """What is said on standard error where ``dlx settings`` ends with that status, without any password."""
    assert main(["settings", *args]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert PASSWORD not in err
    assert quote(PASSWORD, safe="") not in err
    assert "secret" not in err
    return err


def test_a_running_server_is_asked(running: str, capsys: Capture) -> None:
    found = queues(capsys, running)
    assert set(found) == {"orders", "rest"}
    assert found["orders"]["settings"]["max-length"]["origin"] == {"kind": "policy", "name": "limits"}


@pytest.mark.parametrize("page", ["", "api", "api/", "api/definitions", "#/queues"])
def test_the_url_may_come_from_a_browser_and_name_a_user(page: str, running: str, capsys: Capture) -> None:
    assert set(queues(capsys, login(running, "admin") + page)) == {"orders", "rest"}


def test_the_url_may_name_one_virtual_host(running: str, capsys: Capture) -> None:
    admin = login(running, "admin")
    found = queues(capsys, f"{admin}api/definitions/shop")
    assert {each["vhost"] for each in found.values()} == {"shop"}
    assert queues(capsys, f"{admin}api/definitions/%2F/") == {}
    assert main(["lint", f"{admin}api/definitions/shop"]) == 1
    out = capsys.readouterr().out
    assert f"{running}api/definitions/shop: 1 error, 1 note in 2 queues under 4.3" in out
    assert "the server has no virtual host 'none'" in failing(capsys, 69, f"{admin}api/definitions/none")


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(json.dumps(DEFINITIONS).encode()))
    monkeypatch.setattr("sys.stdin", piped)
    assert set(queues(capsys, "-")) == {"orders", "rest"}


def test_standard_input_that_is_no_json_is_65_with_its_place(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"queues":\n [}')))
    assert "standard input: line 2, column 3: not JSON" in failing(capsys, 65, "-")


def test_a_wrong_field_is_65_and_named(file: Callable[[Any], str], running: str, capsys: Capture) -> None:
    path = file({"queues": [{"name": 7, "vhost": "shop"}]})
    said = failing(capsys, 65, path, "--over", running)
    assert f"{path}: queues[0].name: expected a string, got 7" in said


def test_over_a_server_an_object_replaces_its_like_and_the_rest_stays(
    file: Callable[[Any], str], running: str, capsys: Capture
) -> None:
    policy = {"name": "limits", "pattern": "^orders$", "definition": {"dead-letter-exchange": "dlx"}}
    path = file({"vhosts": [], "queues": [{"name": "new", "vhost": "shop"}], "policies": [{**policy, "vhost": "shop"}]})
    found = queues(capsys, path, "--over", running)
    assert set(found) == {"orders", "rest", "new"}
    assert found["orders"]["settings"]["dead-letter-exchange"]["value"] == "dlx"
    assert found["orders"]["settings"]["message-ttl"]["value"] == 500
    assert "max-length" not in found["orders"]["settings"]


def test_the_export_of_one_virtual_host_goes_over_that_one(
    file: Callable[[Any], str], running: str, capsys: Capture
) -> None:
    path = file({"original_vhost_name": "shop", "queues": [{"name": "orders", "arguments": {"x-message-ttl": 900}}]})
    found = queues(capsys, path, "--over", running)
    assert {name: each["vhost"] for name, each in found.items()} == {"orders": "shop", "rest": "shop"}
    assert found["orders"]["settings"]["message-ttl"]["value"] == 900


@pytest.mark.parametrize("named", [{"original_vhost_name": "shop"}, {}])
def test_one_virtual_host_may_be_below(
    named: dict[str, str], file: Callable[[Any], str], running: str, capsys: Capture
) -> None:
    path = file({**named, "queues": [{"name": "orders", "arguments": {"x-message-ttl": 900}}]})
    found = queues(capsys, path, "--over", f"{running}api/definitions/shop")
    assert {name: each["vhost"] for name, each in found.items()} == {"orders": "shop", "rest": "shop"}
    assert found["orders"]["settings"]["message-ttl"]["value"] == 900
    assert found["orders"]["settings"]["max-length"]["value"] == 5


def test_what_is_for_other_virtual_hosts_does_not_go_over_one(
    file: Callable[[Any], str], running: str, capsys: Capture
) -> None:
    path = file({"vhosts": [], "queues": [{"name": "orders", "vhost": "/"}]})
    said = failing(capsys, 65, path, "--over", f"{running}api/definitions/shop")
    assert f"the export of virtual host 'shop', and {path} is for '/'" in said
    assert "or --over the export of the whole server" in said


def test_standard_input_is_only_one_of_the_two(capsys: Capture) -> None:
    assert "both standard input" in failing(capsys, 64, "-", "--over", "-")
    assert main(["lint", "-", "-"]) == 64
    assert "standard input is there several times" in capsys.readouterr().err


def test_an_export_that_does_not_say_for_which_virtual_host_is_65(
    file: Callable[[Any], str], running: str, capsys: Capture
) -> None:
    path = file({"queues": [{"name": "orders"}]})
    assert f"{path}: original_vhost_name: missing; expected" in failing(capsys, 65, path, "--over", running)


def test_a_refused_user_is_69_and_named(running: str, capsys: Capture) -> None:
    said = failing(capsys, 69, login(running, "admin", "secret"))
    assert f"{running}api/definitions: the server refuses the user 'admin'" in said


@pytest.mark.parametrize("release", ["3.8", "4.3"])
@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
def test_who_is_no_administrator_is_answered_from_the_parts(release: str, tag: str, capsys: Capture) -> None:
    permissions = {"user": "op", "vhost": "shop", "configure": "", "write": "", "read": ""}
    op = {"name": "op", "password": PASSWORD, "tags": [tag]}
    lowered = {"pattern": "rest", "definition": {"max-length": 3}, "apply-to": "queues", "priority": 0}
    of_operator = {"vhost": "shop", "component": "operator_policy", "name": "low", "value": lowered}
    more = {"users": [*DEFINITIONS["users"], op], "permissions": [permissions], "parameters": [of_operator]}
    with simulator.serve(release, definitions={**DEFINITIONS, **more}, management_port=0) as server:
        url = str(server.management_url)
        for path in ("", "api/definitions/shop"):
            exported = queues(capsys, login(url, "admin") + path)
            assert main(["settings", login(url, "op") + path, "--json"]) == 0
            out, err = capsys.readouterr()
            assert {each["queue"]: each["settings"] for each in json.loads(out)["queues"]} == {
                name: each["settings"] for name, each in exported.items()
            }
            assert "the user 'op' is no administrator, so this was not seen: users, permissions" in err
            assert ("such as shovels" in err) == (tag != "policymaker")
        assert exported["rest"]["settings"]["max-length"]["value"] == 3
        none = failing(capsys, 69, login(url, "op") + "api/definitions/%2F")
        assert "the server refuses the user 'op': " in none
        assert "permissions in the virtual host" in none
        assert main(["settings", login(url, "op"), "--json"]) == 0
        which = "the virtual host '/'" if tag == "monitoring" else "virtual hosts that the user has no permissions for"
        assert which in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_69(capsys: Capture) -> None:
    said = failing(capsys, 69, "http://u:secret@127.0.0.1:1/")
    assert "http://127.0.0.1:1/api/definitions: no answer: " in said


def test_a_server_of_something_else_is_69(running: str, capsys: Capture) -> None:
    assert "404 instead of definitions" in failing(capsys, 69, f"{login(running, 'admin')}other")


@pytest.mark.parametrize(("status", "said"), [(500, "'é': 500"), (200, "'é': not JSON")])
def test_a_server_that_fails_for_one_virtual_host_is_69_and_the_way_round_is_told(
    status: int, said: str, capsys: Capture
) -> None:
    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"queues": [], "explanation":')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        err = failing(capsys, 69, f"{url}api/definitions/%C3%A9")
        server.shutdown()
        thread.join()
    assert f"the server failed to write the definitions of virtual host {said}" in err
    assert f"give the URL of the whole server, {url}" in err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://u:secret@localhost/", "amqp is not the scheme of a management API"),
        ("http://u:secret/x@localhost/", "write special characters in user and password as %XX"),
        ("http://u:secret#x@localhost/", "write special characters in user and password as %XX"),
        ("http://u:1/secret@localhost/", "an @ after the host"),
        ("http://rabbit.example/", "no user for rabbit.example: the default is guest"),
    ],
)
def test_a_wrong_url_is_64(url: str, said: str, file: Callable[[Any], str], capsys: Capture) -> None:
    assert said in failing(capsys, 64, url)
    assert said in failing(capsys, 64, file(DEFINITIONS), "--over", url)


def test_over_takes_a_file(file: Callable[[Any], str], tmp_path: Path, capsys: Capture) -> None:
    below = tmp_path / "below.json"
    below.write_text(json.dumps(DEFINITIONS), encoding="utf-8")
    policy = {"vhost": "shop", "name": "limits", "pattern": "^orders$", "definition": {"max-length": 3}}
    found = queues(capsys, file({"vhosts": [], "policies": [policy]}), "--over", str(below))
    assert found["orders"]["settings"]["max-length"]["value"] == 3
    assert found["orders"]["settings"]["message-ttl"]["value"] == 500


def test_a_real_server_and_its_export_say_the_same(
    live_server: LiveServer, file: Callable[[Any], str], capsys: Capture
) -> None:
    vhost = f"dlx-source-{uuid.uuid4().hex[:8]}"
    live_server.api("PUT", f"vhosts/{vhost}")
    try:
        live_server.api(
            "PUT", f"permissions/{vhost}/{live_server.user}", dict.fromkeys(("configure", "write", "read"), ".*")
        )
        live_server.api("PUT", f"queues/{vhost}/orders", {"durable": True, "arguments": {"x-message-ttl": 500}})
        live_server.api("PUT", f"policies/{vhost}/p", {"pattern": "^orders$", "definition": {"max-length": 7}})
        url = live_server.management_url
        found = queues(capsys, url, "--vhost", vhost)
        assert found["orders"]["settings"]["max-length"]["value"] == 7
        exported = queues(capsys, file(live_server.api("GET", "definitions")), "--vhost", vhost)
        for each in (*found["orders"]["findings"], *exported["orders"]["findings"]):
            del each["place"]  # a line of the file, or of the server's answer
        assert exported == found
        policy = {"vhost": vhost, "name": "p", "pattern": "^orders$", "definition": {"max-length": 3}}
        over = queues(capsys, file({"vhosts": [], "policies": [policy]}), "--over", url, "--vhost", vhost)
        assert over["orders"]["settings"]["max-length"]["value"] == 3
        assert over["orders"]["settings"]["message-ttl"]["value"] == 500
        one = url.rstrip("/") + f"/api/definitions/{vhost}"
        assert {name: each["vhost"] for name, each in queues(capsys, one).items()} == {"orders": vhost}
        assert "the server has no virtual host" in failing(capsys, 69, f"{one}-none")
        live_server.api("PUT", f"users/{vhost}", {"password": "night", "tags": "monitoring"})
        live_server.api("PUT", f"permissions/{vhost}/{vhost}", dict.fromkeys(("configure", "write", "read"), ""))
        parts = urlsplit(one)
        monitoring = parts._replace(netloc=f"{vhost}:night@{parts.hostname}:{parts.port}").geturl()
        assert queues(capsys, monitoring)["orders"]["settings"] == found["orders"]["settings"]
    finally:
        live_server.api("DELETE", f"users/{vhost}")
        live_server.api("DELETE", f"vhosts/{vhost}")


def test_notes_stay_over_another_source(file: Callable[[Any], str], tmp_path: Path, capsys: Capture) -> None:
    above = tmp_path / "app.yaml"
    above.write_text(
        "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nmetadata: {name: new}\n"
        "spec: {name: new, vhost: shop, rabbitmqClusterReference: {name: one}}\n"
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\n",
        encoding="utf-8",
    )
    assert main(["lint", str(above), "--over", file(DEFINITIONS), "--fail-on", "lost"]) in (0, 1)
    assert "Deployment 'app'" in capsys.readouterr().err


def test_standard_input_is_below_one_source_only(file: Callable[[Any], str], capsys: Capture) -> None:
    path = file(DEFINITIONS)
    assert main(["lint", path, path, "--over", "-"]) == 64
    assert "standard input can be read once" in capsys.readouterr().err
