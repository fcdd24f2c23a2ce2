"""Where the user and the password of a URL come from."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import simulator
from simulator.capture.access import AccessError, complete, credentials, hidden
from simulator.cli.main import main
from simulator.redrive.server import server_at
from simulator.testing.brokers.servers import ask

PASSWORD = "Kq9/s3cret@?"
CASES = str(Path(__file__).with_name("cases.yml"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def running() -> Iterator[simulator.Server]:
    """A server whose only user is alice."""
    definitions = {"queues": [{"name": "dead", "vhost": "/", "durable": True, "arguments": {}}]}
    with simulator.serve(
        "4.3", definitions=definitions, users={"alice": PASSWORD}, management_port=0, clock="wall"
    ) as server:
        yield server


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\nanother line\n", encoding="utf-8")
    return str(path)


def write_netrc(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def of_alice(url: str) -> str:
    return url.replace("://", "://alice@")


def urls(server: simulator.Server) -> tuple[str, str]:
    """The AMQP URL and the management URL, both with the user alone."""
    return of_alice(server.amqp_url), of_alice(str(server.management_url))


# Where it comes from


@pytest.mark.parametrize("url", ["amqp://alice@h.example/", "amqps://h.example/v", "http://h.example:15672"])
def test_netrc_has_user_and_password_by_host(url: str, home: Path) -> None:
    write_netrc(
        home / ".netrc", f'machine other login x password y\nmachine h.example login alice password "{PASSWORD}"'
    )
    assert credentials(url) == ("alice", PASSWORD)
    assert complete(complete(url)) == complete(url)


def test_netrc_of_the_variable_comes_first_and_another_user_is_not_meant(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_netrc(home / ".netrc", "machine h.example login alice password wrong")
    write_netrc(tmp_path / "own", "machine h.example login bob password right\ndefault login alice password wrong")
    monkeypatch.setenv("NETRC", str(tmp_path / "own"))
    assert credentials("amqp://bob@h.example/") == ("bob", "right")
    with pytest.raises(AccessError, match=r"^no password for 'alice' at h.example: give .* or an entry in ~/"):
        complete("amqp://alice@h.example/")


def test_netrc_that_cannot_be_read_is_named_without_its_words(home: Path) -> None:
    write_netrc(home / ".netrc", f"machine h.example login alice pasword {PASSWORD}")
    with pytest.raises(AccessError) as caught:
        complete("amqp://h.example/")
    assert str(caught.value).startswith(f"{home}/.netrc, line 1: expected login, account or password")
    assert PASSWORD not in str(caught.value)
    write_netrc(home / ".netrc", f"machine h.example login alice password {PASSWORD}", mode=0o644)
    with pytest.raises(AccessError, match=r"^~/.netrc: others may read it; make it yours alone: chmod 600"):
        complete("amqp://h.example/")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.8.0.1"])
def test_guest_is_the_default_on_this_machine(host: str) -> None:
    assert credentials(f"amqp://{host}:5672/") == credentials(f"http://guest@{host}") == ("guest", "guest")


def test_elsewhere_there_is_no_default() -> None:
    with pytest.raises(AccessError, match=r"^no user for h.example: the default is guest, who may connect only from"):
        complete("amqp://h.example/")
    with pytest.raises(AccessError, match=r"^no password for 'guest' at h.example"):
        complete("https://guest@h.example/")
    with pytest.raises(AccessError, match=r"^no password for 'alice' at localhost"):
        complete("http://alice@localhost/")


def test_the_file_of_the_variable_has_the_password(
    running: simulator.Server, password_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLX_PASSWORD_FILE", password_file)
    assert credentials("amqp://alice@h.example/") == ("alice", PASSWORD)
    assert ask("|".join(urls(running))).user == "alice"
    assert credentials("amqp://bob:own@h.example/") == ("bob", "own")
    monkeypatch.setenv("DLX_PASSWORD_FILE", "/nowhere")
    with pytest.raises(AccessError, match=r"^the file of the password, /nowhere: No such file"):
        complete("amqp://alice@h.example/")


def test_a_management_url_without_a_user_has_that_of_the_amqp_url() -> None:
    server = server_at("amqp://alice:secret@h.example:1/", "http://m.example")
    assert server.management_url == "http://alice:secret@m.example"


@pytest.mark.parametrize("url", ["amqp://u:secret/x@h/", "amqp://u:secret", "http://u:1/secret@h/", "amqp://u:[secret"])
def test_a_url_that_is_written_wrongly_is_not_repeated(url: str) -> None:
    with pytest.raises(AccessError) as caught:
        complete(url)
    assert "secret" not in str(caught.value)
    assert "secret" not in hidden(url)


def test_a_url_is_shown_without_its_passwords() -> None:
    assert hidden("amqp://u:s@h:5672/v") == "amqp://u:...@h:5672/v"
    assert hidden("amqp://u:a@b|c@h/|http://u:p@h:15672/x") == "amqp://u:...@h/|http://u:...@h:15672/x"
    for plain in ("amqp://h:5672/", "http://[::1]:15672/", "amqp://u@h/", "orders.json", "http://h"):
        assert hidden(plain) == plain


# What commands make of it


def commands(server: simulator.Server) -> list[list[str]]:
    amqp, management = urls(server)
    return [
        ["lint", management],
        ["settings", management],
        ["inspect", amqp, "dead", "--management-url", str(server.management_url)],
        ["inspect", management, "dead"],
        ["redrive", amqp, "dead", "--management-url", management],
        ["plan", management, management],
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_password_file_is_for_all_commands(
    number: int, running: simulator.Server, password_file: str, capsys: Capture
) -> None:
    command = commands(running)[number]
    assert main([*command, "--password-file", password_file]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(command) == 64
    assert (
        "no password for 'alice' at 127.0.0.1: give --ask-password, --password-file (DLX_PASSWORD_FILE) or"
        in capsys.readouterr().err
    )


def test_capture_takes_it_for_all_its_urls(
    running: simulator.Server, password_file: str, tmp_path: Path, capsys: Capture
) -> None:
    amqp, management = urls(running)
    metrics = f"{running.management_url}metrics"
    command = ["capture", "--url", amqp, "--management-url", management, "--metrics-url", metrics, "--seconds", "0.1"]
    assert main([*command, "--out", str(tmp_path / "log.jsonl"), "--password-file", password_file]) == 65
    assert "nothing was published" in capsys.readouterr().err  # so all was reached


def test_cases_are_run_as_that_user(running: simulator.Server, password_file: str, capsys: Capture) -> None:
    both = "|".join(urls(running))
    assert main(["test", CASES, "--broker", both, "--password-file", password_file]) == 0
    assert main(["test", CASES, "--broker", both]) == 64
    assert "no password for 'alice'" in capsys.readouterr().err


def test_a_password_file_that_says_nothing_is_64(tmp_path: Path, running: simulator.Server, capsys: Capture) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert main(["lint", urls(running)[1], "--password-file", str(empty)]) == 64
    assert f"the file of the password, {empty}: its first line is empty" in capsys.readouterr().err
    assert main(["lint", urls(running)[1], "--password-file", str(empty), "--ask-password"]) == 64
    assert "leave one of them out" in capsys.readouterr().err


def in_process(*args: str, **how: object) -> list[str]:
    return [sys.executable, "-m", "simulator.cli.main", *args]


def test_the_terminal_is_asked_once_and_shows_nothing(running: simulator.Server) -> None:
    amqp, management = urls(running)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, in_process("inspect", amqp, "dead", "--management-url", management, "--ask-password"))
    said = b""
    try:
        while b"Password of 'alice' at 127.0.0.1: " not in said:
            said += os.read(terminal, 1024)
        os.write(terminal, PASSWORD.encode() + b"\n")
        while some := _read(terminal):
            said += some
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, said
    assert said.count(b"Password of") == 1
    assert PASSWORD.encode() not in said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1024)
    except OSError:  # the other end is closed
        return b""


def test_without_a_terminal_nobody_can_be_asked(running: simulator.Server) -> None:
    command = in_process("lint", urls(running)[1], "--ask-password")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False)
    assert done.returncode == 64
    assert b"--ask-password asks on a terminal, and there is none; use --password-file" in done.stderr


# DLX_URL


@pytest.fixture
def default_url(running: simulator.Server, password_file: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The management URL, in the variable."""
    monkeypatch.setenv("DLX_PASSWORD_FILE", password_file)
    url = urls(running)[1]
    monkeypatch.setenv("DLX_URL", url)
    return url


@pytest.mark.parametrize(
    "command",
    [["lint"], ["settings"], ["graph"], ["upgrade", "--from", "3.13", "--to", "4.3"], ["inspect", "dead"]],
    ids=lambda command: command[0],
)
def test_it_is_the_server_where_none_is_given(command: list[str], default_url: str, capsys: Capture) -> None:
    assert main(command) == 0, capsys.readouterr().err
    assert "dead" in capsys.readouterr().out


def test_plan_takes_it_for_the_first_of_two(default_url: str, tmp_path: Path, capsys: Capture) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": []}))
    main(["plan", str(new)])
    assert "queue 'dead'" in capsys.readouterr().out


def test_commands_of_amqp_take_it(
    default_url: str, running: simulator.Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setenv("DLX_URL", urls(running)[0])
    assert main(["redrive", "dead", "--management-url", str(running.management_url)]) == 0
    assert main(["inspect", "dead", "--management-url", str(running.management_url)]) == 0
    assert main(["capture", "--out", str(tmp_path / "x.parquet"), "--seconds", "0.1"]) == 65
    assert "no trace arrived" in capsys.readouterr().err


def test_an_amqp_url_names_the_server_and_a_virtual_host(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("DLX_URL", "amqp://u:secret@127.0.0.2/shop")
    assert main(["lint"]) == 69
    assert "http://127.0.0.2:15672/api/definitions/shop: no answer" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["ftp://u:secret@h/", "amqp://u:secret", "http://u:1/secret@h/", "http://u@h"])
def test_it_is_named_where_it_is_wrong(url: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("DLX_URL", url)
    assert main(["lint"]) == 64
    err = capsys.readouterr().err
    assert "DLX_URL: " in err
    assert "secret" not in err


def test_without_it_the_server_is_missing(capsys: Capture) -> None:
    for command, missing in {"lint": "SOURCE", "settings": "SOURCE", "plan x.json": "NEW"}.items():
        assert main(command.split()) == 64
        assert missing in capsys.readouterr().err
    for command in (["inspect", "amqp://localhost"], ["redrive", "dead"]):
        assert main(command) == 64
        assert "Missing argument 'QUEUE'" in capsys.readouterr().err
