"""``dlx whatif``: what it prints for people and for machines, its files, its exit codes, and how it fails."""

from __future__ import annotations

import gzip
import html
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from simulator.cli.main import main
from tests.replay.test_report import figures

Capture = pytest.CaptureFixture[str]

RECORDED = Path(__file__).parents[1] / "whatif" / "recorded" / "4.3"
OWN = RECORDED / "own"
ASKED = ["whatif", str(OWN / "trace.log.gz"), "--definitions", str(OWN / "definitions.json"), "--release", "4.3",
         "--left", str(OWN / "left.parquet")]  # fmt: skip
OTHER = Path(__file__).parents[2] / "examples" / "captured-4.3" / "definitions.json"
LOSES = ["--set", "queue:jobs.x-dead-letter-routing-key=nowhere"]
FIELDS = {"messages", "reproduced", "before", "after", "changed", "assumed", "delay_ms", "causes", "over_represented"}


def asked(capsys: Capture, *options: str, status: int) -> dict[str, Any]:
    assert main([*ASKED, *options, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_machines_get_both_sides_and_the_causes(capsys: Capture) -> None:
    found = asked(capsys, *LOSES, status=1)
    assert set(found) >= FIELDS
    assert (found["messages"], found["reproduced"], found["changed"], found["assumed"]) == (240, 240, 48, 0)
    assert found["before"]["lost"] == {}
    assert found["after"]["lost"] == {"jobs": {"rejected": 48}}
    assert found["causes"] == [
        {"behaviour or setting": "x-dead-letter-routing-key of queue 'jobs': none → \"nowhere\"", "messages": 48}
    ]
    assert set(found["delay_ms"]["before"]) == {"p50", "p95", "max"}
    assert found["sentence"].startswith(f"{found['question']}: 48 messages would be lost that were not")


AT_LEAST_ONCE = [
    "--set",
    "queue:jobs.x-dead-letter-strategy=at-least-once",
    "--set",
    "queue:jobs.x-overflow=reject-publish",
]
SENTENCES = [
    ([], "the same settings: the same ends; as fast as before"),
    (
        ["--set", "queue:jobs.wait.x-message-ttl=60000"],
        "jobs.wait.x-message-ttl 150 → 60000: the same ends; 95 % take up to 2 min 2 s instead of 2 s 130 ms",
    ),
    (
        [*LOSES, "--set", "queue:jobs.x-delivery-limit=", "--against-release", "4.0"],
        '4.0 instead of 4.3, jobs.x-delivery-limit 4 → none, jobs.x-dead-letter-routing-key none → "nowhere":'
        " 48 messages would be lost that were not (lost in 'jobs' (rejected) instead of acknowledged in 'jobs');"
        " 95 % take up to 925 ms instead of 2 s 130 ms",
    ),
    (
        [*LOSES, *AT_LEAST_ONCE],
        'jobs.x-dead-letter-routing-key none → "nowhere", jobs.x-dead-letter-strategy none → "at-least-once",'
        " jobs.x-overflow none → \"reject-publish\": 48 messages would be held that were not (held in 'jobs' instead"
        " of acknowledged in 'jobs'); 95 % take up to 920 ms instead of 2 s 130 ms",
    ),
    (
        AT_LEAST_ONCE[:2],
        "jobs.x-dead-letter-strategy none → \"at-least-once\": the same ends; as fast as before; 'jobs' asks for"
        " at-least-once dead-lettering without overflow reject-publish: at-most-once happens",
    ),
    (
        ["--against", str(RECORDED / "policy-added" / "definitions.json")],
        "policy 'impatient' added: 64 messages would end elsewhere (waits in 'dead' instead of acknowledged in"
        " 'burst'); half take up to 207 ms instead of 682 ms",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), SENTENCES)
def test_question_and_answer_are_one_sentence_first_of_all(
    options: list[str], sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    main([*ASKED, *options, "--out", str(tmp_path), "--explain-plan"])
    assert capsys.readouterr().out.startswith(f"{sentence}.\n")
    assert json.loads((tmp_path / "summary.json").read_text())["sentence"] == sentence
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert f"<h1>{sentence}</h1>" in page


def test_a_log_that_is_not_reproduced_has_no_answer(tmp_path: Path, capsys: Capture) -> None:
    with gzip.open(OWN / "trace.log.gz") as log:
        deliveries = [row for row in log if b'"received"' in row]
    (tmp_path / "part.log").write_bytes(b"".join(deliveries))
    definitions = ["--definitions", str(OWN / "definitions.json"), "--release", "4.3"]
    assert main(["whatif", str(tmp_path / "part.log"), *definitions, *LOSES]) == 1
    assert "no answer (the original settings reproduce none of " in capsys.readouterr().out.partition("\n")[0]


def test_nothing_changes_exits_with_0(capsys: Capture) -> None:
    assert asked(capsys, status=0)["changed"] == 0


def test_people_read_losses_first_then_why_then_how_sure_it_is(capsys: Capture) -> None:
    assert main([*ASKED, *LOSES]) == 1
    out = capsys.readouterr().out
    parts = [
        "48 messages would be lost that were not (lost in 'jobs' (rejected)",
        "48 of 240 messages would end differently.",
        "Copies that end elsewhere",
        "How they end differently, losses first:",
        "Because of:",
        "reproduces 240 of 240 messages (100.00 %)",
    ]
    assert [out.index(part) for part in parts] == sorted(out.index(part) for part in parts)


def test_fail_on_lost_is_content_with_changes_that_lose_nothing(capsys: Capture) -> None:
    other = str(RECORDED / "length-limit" / "definitions.json")
    assert main([*ASKED, "--against", other, "--fail-on", "lost"]) == 0
    assert main([*ASKED, "--against", other]) == 1
    assert main([*ASKED, *LOSES, "--fail-on", "lost"]) == 1
    capsys.readouterr()


def test_the_plan_says_what_is_played_together_and_why(capsys: Capture) -> None:
    assert main([*ASKED, "--set", "queue:burst.x-max-length=20", "--explain-plan"]) == 1
    out = capsys.readouterr().out
    assert "80 messages together: 'burst' has a length limit" in out
    assert "160 messages one by one: nothing couples them" in out


def test_files_have_a_row_per_message_and_side(tmp_path: Path, capsys: Capture) -> None:
    assert main([*ASKED, *LOSES, "--out", str(tmp_path / "out")]) == 1
    capsys.readouterr()
    rows = pq.read_table(tmp_path / "out" / "messages.parquet").to_pylist()
    assert len(rows) == 480
    changed = [row for row in rows if row["side"] == "after" and row["changed"]]
    assert len(changed) == 48
    assert changed[0]["lost"] == [{"queue": "jobs", "reason": "rejected", "copies": 1}]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["changed"] == 48


def test_the_report_leads_with_losses_and_shows_a_life_of_each_kind(tmp_path: Path, capsys: Capture) -> None:
    assert main([*ASKED, *LOSES, "--out", str(tmp_path)]) == 1
    capsys.readouterr()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    body = page[page.index("<body>") : page.index("<script")]
    parts = [
        "48 messages would be lost that were not (lost in &#x27;jobs&#x27; (rejected)",
        "48 of 240 messages would end differently",
        "the life of jobs-",
        "because of",
        "How sure this is",
    ]
    assert [body.index(part) for part in parts] == sorted(body.index(part) for part in parts)
    assert body.count("<svg") == 2 * body.count("the life of ")
    assert {*figures(page)} == {"ends", "delays"}


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--set", "queue:job.x-message-ttl=1"], 64, "there is no queue 'job'; did you mean 'jobs'"),
        (["--set", "queue:jobs.x-message-ttl=-1"], 65, "x-message-ttl"),
        (["--set", f"queue:jobs.x-delivery-limit={2**80}"], 65, "--set: "),
        (["--against", "missing.json"], 65, "missing.json"),
        (["--against", str(OTHER)], 65, "export the definitions of the virtual host that was traced"),
    ],
)
def test_bad_input_is_told(options: list[str], status: int, said: str, capsys: Capture) -> None:
    assert main([*ASKED, *options]) == status
    assert said in capsys.readouterr().err


TYPED = [
    ("4.3", "quorum", "two", "takes it anyway, and the limit is 20 by server default"),
    ("4.3", "quorum", "2.5", "takes it anyway, and the limit is 20 by server default"),
    ("4.0", "quorum", "2.5", "takes it anyway, and the limit is 2 by argument"),
    ("4.0", "quorum", "true", "takes it anyway, and there is no limit"),
    ("3.8", "classic", "two", "takes it and ignores it: classic queues have none"),
]


@pytest.mark.parametrize(("against", "kind", "value", "said"), TYPED)
def test_a_limit_that_the_server_takes_and_does_not_go_by_is_told(
    against: str, kind: str, value: str, said: str, capsys: Capture
) -> None:
    typed = ["--set", f"queue:jobs.x-queue-type={kind}", "--set", f"queue:jobs.x-delivery-limit={value}"]
    assert main([*ASKED, *typed, "--against-release", against]) in (0, 1)
    (note,) = (line for line in capsys.readouterr().err.splitlines() if "x-delivery-limit" in line)
    assert note.startswith("note: --set queue:jobs.x-delivery-limit=")
    assert note.endswith(said)


def test_a_limit_that_the_server_refuses_is_refused_in_its_words(capsys: Capture) -> None:
    typed = ["--set", "queue:jobs.x-queue-type=classic", "--set", "queue:jobs.x-delivery-limit=two"]
    assert main([*ASKED, *typed]) == 65
    told = capsys.readouterr().err
    assert "RabbitMQ 4.3 refuses queue 'jobs'" in told
    assert "invalid arg 'x-delivery-limit' for queue 'jobs' in vhost" in told
    assert "of queue type rabbit_classic_queue" in told


def test_a_log_that_is_missing_is_told(capsys: Capture) -> None:
    assert main(["whatif", "missing.log", "--definitions", str(OWN / "definitions.json")]) == 65
    assert "missing.log: no such file" in capsys.readouterr().err


def test_what_was_left_is_found_whatever_its_file_is_called_now(tmp_path: Path, capsys: Capture) -> None:
    renamed = tmp_path / "trace.log.gz"  # as the log is called
    renamed.write_bytes((OWN / "left.parquet").read_bytes())
    assert main([*ASKED[:-1], str(renamed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["before"] == asked(capsys, status=0)["before"]


def test_what_was_left_cannot_be_part_of_the_log(capsys: Capture) -> None:
    assert main([*ASKED[:-1], str(OWN / "trace.log.gz")]) == 65
    assert "trace.log.gz: a file of this name is in the log and in --left" in capsys.readouterr().err


def test_a_queue_that_keeps_nothing_is_a_question_of_who_waits(capsys: Capture) -> None:
    told = asked(capsys, "--set", "queue:jobs.x-message-ttl=0", status=1)["unchecked"]
    assert "whether a consumer waits when a message comes into 'jobs', which keeps none: here none does" in told


def test_an_invisible_rejection_is_a_question(capsys: Capture) -> None:
    said = "from which the log has no delivery (--left FILE shows what is there)"
    assert not any(said in each for each in asked(capsys, status=0)["unchecked"])
    assert main([*ASKED[:-2], "--json"]) == 0
    unchecked = json.loads(capsys.readouterr().out)["unchecked"]
    assert any("'dead'" in each and said in each for each in unchecked)


def test_publishes_to_an_exchange_that_the_other_side_lacks_are_lost(tmp_path: Path, capsys: Capture) -> None:
    document = json.loads((OWN / "definitions.json").read_text())
    document["exchanges"] = []
    document["bindings"] = [each for each in document["bindings"] if not each["source"]]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    found = asked(capsys, "--against", str(other), "--fail-on", "lost", status=1)
    assert found["after"]["unroutable"] == 240


def test_a_log_of_which_another_has_a_part_is_refused(tmp_path: Path, capsys: Capture) -> None:
    with gzip.open(OWN / "trace.log.gz") as log:
        (tmp_path / "part.log").write_bytes(b"".join(log.readlines()[:100]))
    assert main([*ASKED, str(tmp_path / "part.log"), "--json"]) == 65
    assert "part.log: part of trace.log.gz" in capsys.readouterr().err


def test_a_log_that_is_given_twice_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "copy.log.gz").write_bytes((OWN / "trace.log.gz").read_bytes())
    assert main([*ASKED, str(tmp_path / "copy.log.gz")]) == 65
    assert "the same log as" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["whatif", "replay"])
def test_a_folder_that_cannot_be_made_is_told(command: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    question = [command, *ASKED[1:-2]]
    assert main([*question, "--out", str(tmp_path / "file" / "out")]) == 65
    assert "cannot be written" in capsys.readouterr().err
