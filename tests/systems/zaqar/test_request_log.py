"""Logs of requests to Zaqar: those of a running server break no rule, and what cannot be is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.systems.zaqar.request_log import Checked, LoggedRequest, check_log
from tests.systems.zaqar.live import Recorder, Server
from tests.systems.zaqar.random_scenarios import drawn

VECTORS = Path(__file__).parent / "vectors"
RECORDED = [path for path in sorted(VECTORS.rglob("*.json")) if "trace" in json.loads(path.read_text(encoding="utf-8"))]
FIELDS = LoggedRequest.__struct_fields__
RULE = {"_max_claim_count": 1, "_dead_letter_queue": "dead"}


def requests(document: dict[str, Any]) -> list[dict[str, Any]]:
    asked = [event for event in document["trace"] if "method" in event]
    return [{field: event.get(field) for field in FIELDS} for event in asked]


def checked(log: list[dict[str, Any]]) -> Checked:
    return check_log(LoggedRequest(**each) for each in log)


def handed(queue: str, age: int = 0, t_s: float = 2) -> dict[str, Any]:
    messages = [{"id": "m", "ttl": 300, "age": age, "body": 1}]
    return {
        "method": "POST", "path": f"/v2/queues/{queue}/claims?limit=1", "status": 201,
        "request": None, "response": {"messages": messages}, "t_s": t_s,
    }  # fmt: skip


LOG: list[dict[str, Any]] = [
    {"method": "PUT", "path": "/v2/queues/dead", "status": 201, "request": {}, "t_s": 0},
    {"method": "PUT", "path": "/v2/queues/other", "status": 201, "request": None, "t_s": 0},
    {"method": "PUT", "path": "/v2/queues/jobs", "status": 201, "request": RULE, "t_s": 0},
    {
        "method": "POST", "path": "/v2/queues/jobs/messages", "status": 201, "t_s": 1,
        "request": {"messages": [{"body": 1, "ttl": 300}]},
        "response": {"resources": ["/v2/queues/jobs/messages/m"]},
    },
]  # fmt: skip


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_a_running_server_did_breaks_no_rule(path: Path) -> None:
    assert checked(requests(json.loads(path.read_text(encoding="utf-8")))).found == []


@pytest.mark.live
@pytest.mark.parametrize("seed", range(100, 130))
def test_nor_does_what_it_does_with_random_requests(seed: int, zaqar_server: Server) -> None:
    found = checked(requests(Recorder(zaqar_server.send, zaqar_server.redis).record(drawn(seed))))
    assert found.found == []
    assert found.requests > 0


def test_a_message_that_is_claimed_and_moved_is_right() -> None:
    found = checked([*LOG, handed("jobs"), handed("dead", age=100, t_s=101)])
    assert found.found == []
    assert dict(found.looked_at) == {"counts": 1, "destinations": 2, "ages": 2}


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        ([handed("jobs"), handed("jobs")], "handed out 2 times; _max_claim_count of jobs is 1"),
        ([handed("other")], "handed out in other; it was posted to jobs, and its dead letters go to dead"),
        ([handed("jobs", age=60, t_s=2)], "its age is 60 s; it was posted 1 s before"),
    ],
)
def test_what_cannot_be_is_found(last: list[dict[str, Any]], problem: str) -> None:
    (found,) = checked([*LOG, *last]).found
    assert (found.line, found.message, found.problem) == (len(LOG) + len(last), "m", problem)


def test_what_the_log_does_not_show_is_not_checked() -> None:
    found = checked([handed("jobs"), handed("jobs")])
    assert found.found == []
    assert dict(found.not_checked) == {
        "counts: the log does not show how jobs was created": 2,
        "destinations and ages: the message was posted before the log": 2,
    }
    without = [{**each, "t_s": None} for each in [*LOG, handed("jobs")]]
    assert dict(checked(without).not_checked) == {"ages: the log has no times": 1}


def test_a_maximum_that_is_raised_counts_from_then_on() -> None:
    change = [{"op": "add", "path": "/metadata/_max_claim_count", "value": 2}]
    raised = {"method": "PATCH", "path": "/v2/queues/jobs", "status": 200, "request": change, "t_s": 1}
    assert checked([*LOG, handed("jobs"), raised, handed("jobs")]).found == []
    assert len(checked([*LOG, handed("jobs"), raised, handed("jobs"), handed("jobs")]).found) == 1


def written(folder: Path, log: list[dict[str, Any]]) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in log), encoding="utf-8")
    return path


def test_dlx_replay_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = copy.deepcopy([*LOG, handed("jobs"), handed("jobs")])
    path = written(tmp_path, log)
    assert main(["replay", str(path), "--form", "zaqar"]) == 1
    out = capsys.readouterr().out
    assert f"{path}: line 6: message m: handed out 2 times; _max_claim_count of jobs is 1\n" in out
    assert f"{path}: 6 requests; checked 2 ages, 2 counts, 2 destinations; impossible: 1\n" in out
    assert main(["replay", str(written(tmp_path, log[:-1])), "--form", "zaqar", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["found"], report["looked_at"]["counts"]) == ([], 1)


def test_dlx_replay_refuses_a_line_that_is_no_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(written(tmp_path, [{"method": "GET"}])), "--form", "zaqar"]) == 65
    assert "line 1: the field path is missing; expected an object with method" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"path": "/v2/queues/new", "method": "PUT", "request": [1]}, "request: expected an object, got a list"),
        ({"response": "no"}, "response: expected an object, got a string"),
        ({"response": {"messages": 5}}, "response: expected a list, got a whole number, at messages"),
        ({"response": {"messages": [{"age": 1}]}}, "response: the field id is missing, at messages[0]"),
        (
            {"response": {"messages": [{"id": "m", "age": "1"}]}},
            "response: expected a whole number or a number, got a string, at messages[0].age",
        ),
        (
            {"path": "/v2/queues/jobs/messages", "response": {"resources": [{}]}},
            "response: expected a string, got an object, at resources[0]",
        ),
    ],
)
def test_dlx_replay_refuses_a_line_that_no_zaqar_wrote(
    tmp_path: Path, wrong: dict[str, Any], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    lines = ["", *map(json.dumps, [*LOG, handed("jobs") | wrong])]  # a blank line is one, too
    path.write_text("\n".join(lines), encoding="utf-8")
    assert main(["replay", str(path), "--form", "zaqar"]) == 65
    assert f"Error: {path}: line 6: {problem}" in capsys.readouterr().err


def test_a_log_of_another_api_is_told_to_be_unchecked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = [{**each, "path": each["path"].removeprefix("/v2")} for each in [*LOG, handed("jobs")]]
    assert main(["replay", str(written(tmp_path, log)), "--form", "zaqar"]) == 0
    out = capsys.readouterr().out
    assert "checked nothing" in out
    assert "Not checked: requests whose path does not begin with /v2/ (5 times)" in out


def test_options_of_one_form_are_refused_for_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, LOG)
    assert main(["replay", str(path), "--form", "zaqar", "--coverage", "--definitions", "d.json"]) == 64
    assert "--definitions, --coverage: not for --form zaqar" in capsys.readouterr().err
    assert main(["replay", str(path)]) == 64
    assert "--definitions" in capsys.readouterr().err
