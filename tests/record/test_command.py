"""`dlx record -- COMMAND`: its environment, its exit code, how it ends, and what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simulator.record.recording import read_recording

PATIENCE_S = 240

LOSES = """
import os, sys, pika
connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.queue_declare("work", arguments={"x-dead-letter-exchange": "nowhere"})
channel.basic_publish("", "work", b"x")
method, _, _ = channel.basic_get("work")
channel.basic_reject(method.delivery_tag, requeue=False)
print("the application ran", flush=True)
"""
# It declares, says so, and waits to be ended.
WAITS = f"""{LOSES}
import pathlib, time
part = pathlib.Path(sys.argv[1] + ".part")
part.write_text(str(os.getpid()))
part.rename(sys.argv[1])
time.sleep(600)
"""


def start(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `dlx record` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "simulator.cli.main", "record", *map(str, words)], cwd=cwd, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})},
    )  # fmt: skip


def record(*words: str | Path, cwd: Path) -> tuple[int, str, str]:
    """Run `dlx record` to its end; return its exit code and both outputs."""
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def python(code: str, *words: str | Path) -> list[str | Path]:
    return ["--", sys.executable, "-c", code, *words]


def test_the_loss_of_an_application_is_found(tmp_path: Path) -> None:
    code, out, err = record(*python(LOSES), cwd=tmp_path)
    assert code == 0
    assert "the application ran" in out
    assert "DLX001 missing-dlx" in out
    assert "1 message published, 1 connection" in err
    (lost,) = read_recording(tmp_path / "dlx-recording").lost
    assert (lost.queue, lost.event, lost.reason) == ("work", "dropped", "rejected")


def test_it_ends_with_the_exit_code_of_the_command(tmp_path: Path) -> None:
    code, _, err = record(*python(f"{LOSES}\nsys.exit(7)"), cwd=tmp_path)
    assert code == 7
    assert "ended with 7" in err
    assert read_recording(tmp_path / "dlx-recording").exit_code == 7


def test_findings_can_fail_it(tmp_path: Path) -> None:
    assert record("--fail-on", "lost", *python(LOSES), cwd=tmp_path)[0] == 1
    harmless = 'import os, pika; pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])).close()'
    assert record("--fail-on", "lost", *python(harmless), cwd=tmp_path)[0] == 0


def test_json_is_all_that_standard_output_has(tmp_path: Path) -> None:
    code, out, err = record("--json", *python(LOSES), cwd=tmp_path)
    assert code == 0
    assert json.loads(out)["reports" if "reports" in json.loads(out) else "findings"]
    assert "the application ran" in err


def test_the_environment_has_what_applications_read(tmp_path: Path) -> None:
    code = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    found = tmp_path / "env.json"
    own = ("--env", "DSN={amqp_url}/orders", "--env", "RABBITMQ_HOST=broker.test")
    assert record(*own, *python(code, found), cwd=tmp_path)[0] == 0
    environment = json.loads(found.read_text())
    url = environment["AMQP_URL"]
    port = url.rpartition(":")[2].partition("/")[0]
    assert url == f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    # Spring does not decode a virtual host in its addresses.
    assert environment["SPRING_RABBITMQ_ADDRESSES"] == f"127.0.0.1:{port}"
    for name in ("RABBITMQ_URL", "CLOUDAMQP_URL", "CELERY_BROKER_URL"):
        assert environment[name] == url
    assert (environment["RABBITMQ_PORT"], environment["SPRING_RABBITMQ_PORT"]) == (port, port)
    assert (environment["RABBITMQ_USER"], environment["RABBITMQ_PASSWORD"]) == ("guest", "guest")
    assert (environment["RABBITMQ_VHOST"], environment["SPRING_RABBITMQ_VIRTUAL_HOST"]) == ("/", "/")
    assert environment["DSN"] == f"{url}/orders"
    assert environment["RABBITMQ_HOST"] == "broker.test"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_keeps_the_recording(tmp_path: Path, number: signal.Signals) -> None:
    ready = tmp_path / "ready"
    process = start(*python(WAITS, ready), cwd=tmp_path)
    _wait_for(ready)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert [lost.queue for lost in read_recording(tmp_path / "dlx-recording").lost] == ["work"]


def test_for_ends_the_command(tmp_path: Path) -> None:
    began_s = time.monotonic()
    code, _, _ = record("--for", "2s", *python(WAITS, tmp_path / "ready"), cwd=tmp_path)
    assert code == 0
    assert time.monotonic() - began_s >= 2
    assert read_recording(tmp_path / "dlx-recording").ended_us is not None


def test_ctrl_c_on_a_terminal_lets_the_command_end_in_its_own_way(tmp_path: Path) -> None:
    ready, done = tmp_path / "ready", tmp_path / "done"
    ends = WAITS.replace(
        "time.sleep(600)",
        """
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)
    pathlib.Path(sys.argv[2]).touch()
""",
    )
    words = [sys.executable, "-m", "simulator.cli.main", "record", *map(str, python(ends, ready, done))]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, words)
    _wait_for(ready)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # the terminal is gone with the command
        while os.read(terminal, 1024):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert done.exists()


def test_a_second_signal_kills_a_command_that_does_not_end(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    stubborn = WAITS.replace(
        "import pathlib", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport pathlib"
    )
    process = start(*python(stubborn, ready), cwd=tmp_path)
    _wait_for(ready)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    said = iter(process.stderr.readline, "")
    assert any("press Ctrl-C again to kill it" in line for line in said)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGKILL


def test_two_recordings_do_not_share_a_folder(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = start(*python(WAITS, ready), cwd=tmp_path)
    _wait_for(ready)
    code, _, err = record(*python(LOSES), cwd=tmp_path)
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert code == 65
    assert "another recording writes this folder now" in err


def test_a_killed_recorder_leaves_a_folder_that_can_be_read(tmp_path: Path) -> None:
    ready, folder = tmp_path / "ready", tmp_path / "dlx-recording"
    process = start(*python(WAITS, ready), cwd=tmp_path)
    _wait_for(ready)
    deadline_s = time.monotonic() + PATIENCE_S
    while (
        not (read_recording(folder).lost and (folder / "trace.jsonl").stat().st_size) and time.monotonic() < deadline_s
    ):
        time.sleep(0.1)  # it is written every two seconds
    process.kill()
    os.kill(int(ready.read_text()), signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    recording = read_recording(folder)
    assert recording.ended_us is None
    assert [lost.queue for lost in recording.lost] == ["work"]
    assert len((folder / "trace.jsonl").read_text().splitlines()) == 2


def test_an_earlier_recording_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    assert record("--out", "mine", *python(LOSES), cwd=tmp_path)[0] == 0
    assert record("--out", "mine", *python(LOSES), cwd=tmp_path)[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("keep me")
    code, _, err = record("--out", "other", *python(LOSES), cwd=tmp_path)
    assert code == 65
    assert "other: expected a new or empty folder, or that of an earlier recording" in err
    assert (other / "letter.txt").read_text() == "keep me"
    mine = tmp_path / "own"
    mine.mkdir()
    (mine / "recording.json").write_text('{"mine": 1}')
    code, _, err = record("--out", "own", *python(LOSES), cwd=tmp_path)
    assert (code, (mine / "recording.json").read_text()) == (65, '{"mine": 1}')
    assert record("--out", "mine", "--", "no-such-program", cwd=tmp_path)[0] == 127
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert record("--out", "mine", "--port", str(port), *python(LOSES), cwd=tmp_path)[0] == 69
    assert record("--out", "mine", "--url", "http://guest@localhost:1/", cwd=tmp_path)[0] == 69
    assert read_recording(tmp_path / "mine").lost


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-program"], 127, "cannot run no-such-program: No such file"),
        (["--env", "A={amqp}", "--", "true"], 64, "there is no {amqp}; there is {amqp_url}"),
        (["--env", "A", "--", "true"], 64, "expected NAME=TEMPLATE"),
        (["--for", "soon", "--", "true"], 64, "write 30s, 10m or 1h"),
        (["--rate", "60", "--", "true"], 64, "only with --clock virtual"),
    ],
)  # fmt: skip
def test_wrong_usage_says_what_would_be_right(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    found, _, err = record(*words, cwd=tmp_path)
    assert (found, said in err) == (code, True), err


def test_virtual_time_runs_as_fast_as_asked(tmp_path: Path) -> None:
    waits_an_hour = LOSES.replace('"nowhere"}', '"nowhere", "x-message-ttl": 3_600_000}')
    waits_an_hour = waits_an_hour.replace("method, _, _ = ", "__import__('time').sleep(2)\nsys.exit(0)\n")
    code, _, err = record("--clock", "virtual", "--rate", "7200", *python(waits_an_hour), cwd=tmp_path)
    assert code == 0, err
    (lost,) = read_recording(tmp_path / "dlx-recording").lost
    assert lost.reason == "expired"


@pytest.mark.slow
def test_sixteen_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(16)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda folder: record(*python(LOSES), cwd=folder)[0], folders))
    assert codes == [0] * 16
    for folder in folders:
        assert [lost.times for lost in read_recording(folder / "dlx-recording").lost] == [1]


def _wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not path.exists() or (not path.stat().st_size and "getpid" in path.name):
        assert time.monotonic() < deadline_s, f"{path} is not there"
        time.sleep(0.05)
