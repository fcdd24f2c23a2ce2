"""``dlx fuzz``: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.cli.main import main

BROKEN = Path("examples/topologies/broken")
SOUND = Path("examples/topologies/sound")
LIMIT = str(BROKEN / "default-delivery-limit.json")
PLAIN = str(SOUND / "plain-dead-letter-queue.json")
HISTORY = [
    {"do": "publish", "exchange": "shop", "routing_key": "order"},
    {"do": "crash", "queue": "orders", "times": 21},
]


def dlx(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["fuzz", *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_broken_property_is_1_and_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = dlx(capsys, LIMIT)
    assert status == 1
    assert out.startswith("lossless is broken: a message that died in 'orders' (delivery_limit) was dropped")
    assert "the consumer of 'orders' crashes with its delivery, 21 times" in out
    assert "trial.crash(queue='orders', times=21)" in out
    assert "q1-xlost: dropped delivery_limit" in out
    assert f"dlx fuzz {LIMIT} --property lossless --release 4.3 --history" in out


def test_an_internal_exchange_that_the_export_leaves_out_is_guessed_at(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = dlx(capsys, "examples/captured-4.3/definitions.json", "--seconds", "0.5")
    assert status in {0, 1}, err  # whatever half a second finds, it was not refused
    assert "lossless" in out or "No loss found" in out
    left_out = "exchange 'logs.internal' in virtual host 'dlx-workload'"
    assert f"note: not known: how {left_out} routes, which the export leaves out: here as a fanout exchange" in err


def test_a_property_that_holds_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = dlx(capsys, PLAIN, "--seconds", "0.5")
    assert status == 0
    assert out.startswith("No loss found: every routed message was acknowledged or is still in a queue. The search")


def test_in_releases_without_a_limit_the_property_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert dlx(capsys, LIMIT, "--release", "3.13", "--seconds", "0.5")[0] == 0


def test_json_has_the_history(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = dlx(capsys, LIMIT, "--json", "--seed", "7")
    report: dict[str, Any] = json.loads(out)
    assert status == 1
    assert (report["property"], report["held"], report["seed"]) == ("lossless", False, 7)
    assert report["history"][-1] == {"do": "crash", "queue": "orders", "times": 21}
    status, out, _ = dlx(capsys, PLAIN, "--json", "--seconds", "0.5", "--property", "settles")
    report = json.loads(out)
    assert (status, report["property"], report["held"], report["history"]) == (0, "settles", True, [])


@pytest.mark.parametrize("form", ["text", "file", "report"])
def test_a_history_is_played_again(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    given = json.dumps({"history": HISTORY} if form == "report" else HISTORY)
    if form != "text":
        (tmp_path / "history.json").write_text(given)
        given = str(tmp_path / "history.json")
    status, out, _ = dlx(capsys, LIMIT, "--history", given, "--json")
    assert (status, json.loads(out)["history"]) == (1, HISTORY)
    status, out, _ = dlx(capsys, PLAIN, "--history", given)
    assert (status, "This history does not break 'lossless'." in out) == (0, True)


def test_only_what_publishers_publish_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    covered = str(BROKEN / "key-not-covered.json")
    assert dlx(capsys, covered)[0] == 1
    assert dlx(capsys, covered, "--publish", "shop", "order.paid", "--seconds", "0.5")[0] == 0


def test_a_publish_goes_to_the_virtual_hosts_that_route_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    queue = {"name": "orders", "vhost": "shop", "durable": True, "auto_delete": False,
             "arguments": {"x-message-ttl": 1000}}  # fmt: skip
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}, {"name": "shop"}], "queues": [queue]}))
    assert dlx(capsys, str(file), "--publish", "", "orders")[0] == 1


def test_a_recorded_history_is_played_for_its_property_and_release(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = dlx(capsys, LIMIT, "--property", "lossless", "--release", "4.0", "--json")[1]
    file = tmp_path / "finding.json"
    file.write_text(report)
    again = json.loads(dlx(capsys, LIMIT, "--history", str(file), "--json")[1])
    assert (again["release"], again["held"]) == ("4.0", False)
    assert json.loads(dlx(capsys, LIMIT, "--history", str(file), "--release", "3.10", "--json")[1])["held"]


def test_topic_permissions_do_not_matter(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = json.loads(Path(PLAIN).read_text())
    document["topic_permissions"] = [
        {"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": ".*", "read": ".*"}
    ]
    document["users"] = [{"name": "guest", "password_hash": "", "tags": ["administrator"]}]
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    assert dlx(capsys, str(file), "--seconds", "0.5")[0] == 0


def test_the_same_seed_finds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    again = [dlx(capsys, LIMIT, "--json", "--seed", "3")[1] for _ in range(2)]
    assert again[0] == again[1]


def test_a_topology_without_queues_is_said_to_have_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"queues": [], "vhosts": [{"name": "/"}]}')
    status, out, _ = dlx(capsys, str(tmp_path / "empty.json"), "--seconds", "1")
    assert status == 0
    assert "nothing was published" in out


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["missing.json"], 65, "missing.json"),
        ([LIMIT, "--property", "lossles"], 64, "'lossless', 'arrives', 'settles'"),
        ([LIMIT, "--steps", "0"], 64, "--steps"),
        ([LIMIT, "--release", "5"], 64, f"known are {', '.join(RELEASES)}; the nearest is 4.3"),
        ([LIMIT, "--history", "[{"], 65, "expected a list of steps"),
        ([LIMIT, "--history", '[{"do": "crash"}]'], 65, "missing required field `queue`"),
        ([LIMIT, "--history", "gone.json"], 65, "gone.json"),
        ([LIMIT, "--history", "[" * 100_000], 65, "nested too deeply"),
        ([LIMIT, "--history", '[{"do": "repeat", "steps": [], "times": 1000000000}]'], 65, "without steps"),
        ([LIMIT, "--history", '[{"do": "crash", "queue": "ordres"}]'], 65, "did you mean 'orders'"),
        ([LIMIT, "--history", '[{"do": "clear-policy", "name": "nope"}]'], 65, "refuses a step"),
        ([LIMIT, "--publish", "nope", "key"], 64, "no exchange 'nope'"),
        ([LIMIT, "--publish", "", "ordres"], 64, "did you mean 'orders'"),
        ([LIMIT, "--publish", "amq.fanout", "key"], 64, "no queue receives it"),
        ([LIMIT, "--seconds", "nan"], 64, "--seconds"),
        ([], 64, "SOURCE"),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], args: list[str], status: int, said: str) -> None:
    ended, out, err = dlx(capsys, *args)
    assert (ended, out) == (status, "")
    assert said in err


def test_definitions_that_rabbitmq_refuses_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    arguments = {"x-message-ttl": "soon"}
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    status, _, err = dlx(capsys, str(file))
    assert status == 0
    assert "refuses queue 'q': invalid arg 'x-message-ttl'" in err
    assert "(here without the refused part)" in err


@pytest.mark.slow
def test_the_printed_test_fails_as_long_as_the_property_is_broken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, out, _ = dlx(capsys, str(BROKEN / "full-dead-letter-queue.json"))
    code = out.split("As a test:\n\n")[1].split("\n\nAs a picture")[0]
    test = tmp_path / "test_printed.py"
    test.write_text("\n".join(line.removeprefix("    ") for line in code.splitlines()) + "\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), "--rootdir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "PropertyBroken: lossless is broken: a message that died in 'orders.dead' (maxlen) was dropped" in ran.stdout


def limited(tmp_path: Path, **arguments: Any) -> str:
    queue = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    return str(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "steps", "note"),
    [
        ({"x-max-length": 30_000}, [{"times": 30_001}], ""),
        ({"x-max-length": 40_000_000}, [{"times": 40_000_001}], "40,000,001 actions, and was not played"),
        ({"x-max-length-bytes": 1_000_000_000}, [{"times": 60, "body_bytes": 16_666_667}], ""),
        ({"x-queue-type": "quorum", "x-delivery-limit": 25_000}, [{}, {"do": "crash", "times": 25_001}], ""),
    ],
)
def test_large_limits_are_gone_beyond(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, limit: dict[str, Any], steps: list[dict[str, Any]], note: str
) -> None:
    status, out, _ = dlx(capsys, limited(tmp_path, **limit), "--json")
    report = json.loads(out)
    assert status == 1
    assert len(report["history"]) == len(steps)
    assert all(step.items() >= expected.items() for step, expected in zip(report["history"], steps, strict=True))
    assert note in report["note"]


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    # Nothing can be lost, and filling the queue takes so many messages that the search goes on at random.
    endless = limited(tmp_path, **{"x-max-length-bytes": 10**13, "x-overflow": "reject-publish"})
    command = [sys.executable, "-m", "simulator.cli.main", "fuzz", endless, "--seconds", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(3)  # the command's own start: no virtual clock moves it
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "interrupted" in err


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}


def written(folder: Path, *queues: dict[str, Any], **sections: Any) -> str:
    file = folder / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": queues, **sections}))
    return str(file)


def three_faults(folder: Path) -> str:
    return written(
        folder,
        queue("bills", dead_letter_exchange="biils"),
        queue("late", message_ttl=1_000),
        queue("mails"),
        queue("mails.dead"),
        exchanges=[{"name": "dlx", "vhost": "/", "type": "fanout", "durable": True, "auto_delete": False,
                    "internal": False, "arguments": {}}],
        bindings=[{"source": "dlx", "vhost": "/", "destination": "mails.dead", "destination_type": "queue",
                   "routing_key": "", "arguments": {}}],
        policies=[{"vhost": "/", "name": "mail", "pattern": "^mails$", "apply-to": "queues", "priority": 0,
                   "definition": {"dead-letter-exchange": "dlx"}}],
    )  # fmt: skip


def test_all_findings_are_told_each_cause_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = dlx(capsys, three_faults(tmp_path), "--all", "--json")
    report = json.loads(out)
    assert status == 1
    assert {(each["queue"], each["reason"]) for each in report["findings"]} == {
        ("bills", "rejected"),
        ("late", "expired"),
    }
    assert report["history"] == report["findings"][0]["history"]
    assert all(each["sentences"] and each["history"] for each in report["findings"])


def test_a_finding_names_its_setting_and_what_that_hides(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy = {"vhost": "/", "name": "right", "pattern": "^bills$", "apply-to": "queues", "priority": 0,
              "definition": {"dead-letter-exchange": "amq.fanout"}}  # fmt: skip
    file = written(tmp_path, queue("bills", dead_letter_exchange="biils"), policies=[policy])
    _, out, _ = dlx(capsys, file)
    assert "dead-letter-exchange by argument" in out
    assert "it hides amq.fanout by policy right" in out
    setting = json.loads(dlx(capsys, file, "--json")[1])["findings"][0]["setting"]
    assert setting == {"key": "dead-letter-exchange", "value": "biils", "origin": "argument",
                       "hidden": [{"value": "amq.fanout", "origin": "policy right"}]}  # fmt: skip


def test_the_rule_of_a_full_queue_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(dlx(capsys, str(BROKEN / "full-dead-letter-queue.json"), "--json")[1])
    assert report["findings"][0]["because"].endswith("(overflow by argument)")
    assert not report["complete"]  # it ended with the finding


def test_what_consumers_discard_is_assumed_away_or_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = three_faults(tmp_path)
    plain = json.loads(dlx(capsys, file, "--all", "--json")[1])
    assert "no consumer rejects for good in 'late', which has no dead-letter exchange" in plain["assumed"]
    counted = json.loads(dlx(capsys, file, "--all", "--json", "--discards")[1])
    assert counted["assumed"] == []
    found = {(each["queue"], each["reason"]) for each in counted["findings"]}
    assert found == {("bills", "rejected"), ("late", "expired"), ("late", "rejected")}  # mails.dead is for parking


def test_a_complete_search_ends_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    _, out, _ = dlx(capsys, PLAIN, "--seconds", "600")
    assert time.monotonic() - start < 300
    assert "The search is complete: it tried every way that a message can go." in out
    assert "Assumed: no consumer rejects for good in 'orders.dead'" in out


def test_each_finding_has_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "loss.svg"
    report = json.loads(dlx(capsys, three_faults(tmp_path), "--all", "--json", "--picture", str(picture))[1])
    assert [each["picture"] for each in report["findings"]] == [str(picture), str(tmp_path / "loss-2.svg")]
    assert all(Path(each["picture"]).read_text().startswith("<svg") for each in report["findings"])


def test_a_picture_in_a_folder_that_is_not_there_is_bad_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, err = dlx(capsys, LIMIT, "--picture", str(tmp_path / "none" / "loss.svg"))
    assert status == 65
    assert f"loss.svg: cannot be written: there is no folder {tmp_path / 'none'}" in err


def test_definitions_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(LIMIT).read_bytes())))
    status, out, _ = dlx(capsys, "-")
    assert status == 1
    assert "Again:" not in out  # there is no file to name
