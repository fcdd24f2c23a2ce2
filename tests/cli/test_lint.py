"""``dlx lint`` as a command: its exit codes, its sources, its baseline, and each format as machines read it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from simulator.analysis.lint.rule import RULES
from simulator.cli.main import main
from simulator.lint_reports import formats

Capture = pytest.CaptureFixture[str]

EXAMPLES = Path("tests/analysis/lint_examples")
ERROR = str(EXAMPLES / "missing-dlx.json")
CLEAN = str(EXAMPLES / "missing-dlx.near.json")
ACTIVEMQ_XML = Path("examples/activemq/activemq.xml").read_text(encoding="utf-8")
WARNING = str(EXAMPLES / "argument-hides-policy.json")
NOTE = str(EXAMPLES / "unbounded-dead-letter-queue.json")
FORMATS = ("text", "json", "sarif", "junit", "github")
FINDING = {"code", "name", "severity", "kind", "vhost", "object", "message", "because", "fix", "history", "place",
           "needs", "shape"}  # fmt: skip
# What a queue may be called, and what each format has to escape.
ODD = 'a,b:c%d\n::error::x</failure>"&\x01'
# A broker refuses these as a whole.
REFUSED = {
    "vhosts": [{"name": "/"}],
    "policies": [{"vhost": "/", "name": "bad", "pattern": "^orders$", "definition": {"max-length": -5}}],
}


def lint(capsys: Capture, *args: str, status: int | None = None) -> str:
    """What ``dlx lint`` prints."""
    found = main(["lint", *args])
    out, err = capsys.readouterr()
    assert status in (None, found), err
    return str(out)


def report(capsys: Capture, *args: str) -> Any:
    return json.loads(lint(capsys, *args, "--format", "json"))


def failing(capsys: Capture, status: int, *args: str) -> str:
    """What is said on standard error where ``dlx lint`` ends with that status and prints nothing."""
    assert main(["lint", *args]) == status
    out, err = capsys.readouterr()
    assert out == ""
    return " ".join(err.split())


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """Definitions, in a file of an odd name, with a queue of an odd name whose dead letters are lost."""
    path = tmp_path / "my, 50% of: exports.json"
    queue = {"name": ODD, "vhost": "/", "durable": True, "arguments": {"x-dead-letter-exchange": "nonsuch"}}
    path.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}), encoding="utf-8")
    return str(path)


# Exit codes


@pytest.mark.parametrize(
    ("source", "statuses"),
    [(ERROR, (1, 1, 1)), (WARNING, (1, 1, 0)), (NOTE, (1, 0, 0)), (CLEAN, (0, 0, 0))],
    ids=["error", "warning", "note", "clean"],
)
def test_the_exit_code_counts_what_it_is_told_to(source: str, statuses: tuple[int, ...], capsys: Capture) -> None:
    asked: list[tuple[str, ...]] = [(), ("--fail-on", "warning"), ("--fail-on", "lost")]
    assert tuple(main(["lint", source, *args]) for args in asked) == statuses


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((CLEAN, "--release", "5.0"), "no release '5.0'"),
        (("--explain", "missing-dxl"), "no rule 'missing-dxl'; did you mean 'missing-dlx'?"),
        ((CLEAN, "--format", "xml"), "'xml' is not one of"),
        ((), "Missing argument 'SOURCE...'. Give it, or the URL of a server in DLX_URL."),
    ],
    ids=["release", "rule", "format", "source"],
)
def test_wrong_usage_is_64(args: tuple[str, ...], problem: str, capsys: Capture) -> None:
    assert problem in failing(capsys, 64, *args)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"queues":\n [}', "line 2, column 3: not JSON"),
        ('{"queues": [{"name": 7, "vhost": "/"}]}', "queues[0].name: expected a string, got 7"),
        ('{"rooms": []}', "not a definitions export"),
    ],
)
def test_bad_definitions_are_65_with_file_and_place(text: str, problem: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(text)
    assert f"{path}: {problem}" in failing(capsys, 65, str(path))


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(ERROR).read_bytes())))
    found = report(capsys, "-")
    assert found["source"] == "standard input"
    assert [each["name"] for each in found["findings"]] == ["missing-dlx"]


@pytest.mark.parametrize("asked", ["DLX001", "dlx001", "missing-dlx"])
def test_a_rule_is_explained_without_a_source(asked: str, capsys: Capture) -> None:
    said = lint(capsys, "--explain", asked, status=0)
    assert said.startswith("DLX001 missing-dlx\n")
    assert all(f"\n{title}: " in said for title in ("Why", "Example", "Fix"))


# Several sources


def test_several_sources_have_a_report_each_and_the_worst_exit_code(capsys: Capture) -> None:
    assert main(["lint", CLEAN, ERROR, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"reports"}
    alone = [report(capsys, CLEAN), report(capsys, ERROR)]
    assert found["reports"] == alone
    assert main(["lint", CLEAN, CLEAN]) == 0


def test_a_source_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert main(["lint", str(broken), ERROR, "--format", "json"]) == 65
    out, err = capsys.readouterr()
    assert [each["source"] for each in json.loads(out)["reports"]] == [ERROR]
    assert str(broken) in err
    assert main(["lint", str(broken), str(broken), "--format", "json"]) == 65
    assert capsys.readouterr().out == ""


def test_the_other_formats_of_several_sources(capsys: Capture) -> None:
    text = lint(capsys, ERROR, WARNING)
    assert text == lint(capsys, ERROR) + "\n" + lint(capsys, WARNING)
    github = lint(capsys, ERROR, WARNING, "--format", "github")
    assert github == lint(capsys, ERROR, "--format", "github") + lint(capsys, WARNING, "--format", "github")
    suites = ElementTree.fromstring(lint(capsys, ERROR, WARNING, "--format", "junit"))
    assert suites.tag == "testsuites"
    assert [each.get("name") for each in suites] == [f"dlx lint {ERROR}", f"dlx lint {WARNING}"]
    # The code scanning of GitHub takes one run of each tool.
    (run,) = json.loads(lint(capsys, ERROR, WARNING, "--format", "sarif"))["runs"]
    assert {uri(each) for each in run["results"]} == {ERROR, WARNING}


# The baseline


def test_the_baseline_hides_what_is_known_and_says_how_much(tmp_path: Path, capsys: Capture) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(lint(capsys, ERROR, "--format", "json", status=1))
    said = lint(capsys, ERROR, "--baseline", str(baseline), status=0)
    assert f"{ERROR}: no findings in 2 queues under 4.3; 1 known from the baseline" in said
    found = report(capsys, ERROR, "--baseline", str(baseline))
    assert (found["findings"], found["known"]) == ([], 1)


def test_the_baseline_does_not_hide_what_is_new(tmp_path: Path, capsys: Capture) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(lint(capsys, ERROR, "--format", "json", status=1))
    found = report(capsys, WARNING, "--baseline", str(baseline))
    assert found["findings"] == report(capsys, WARNING)["findings"]
    assert found["known"] == 0


def test_a_baseline_of_several_sources_holds_for_each_by_its_name(tmp_path: Path, capsys: Capture) -> None:
    baseline = tmp_path / "baseline.json"
    copy = tmp_path / "copy.json"
    copy.write_bytes(Path(ERROR).read_bytes())
    baseline.write_text(lint(capsys, ERROR, CLEAN, "--format", "json", status=1))
    assert main(["lint", ERROR, CLEAN, "--baseline", str(baseline)]) == 0
    assert main(["lint", ERROR, "--baseline", str(baseline)]) == 0
    assert main(["lint", str(copy), "--baseline", str(baseline)]) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "baseline.json: "),
        ("[]", "baseline.json: expected an object"),
        ("{}", "baseline.json: findings: expected a list"),
        ('{"findings": [{"code": "DLX001"}]}', "baseline.json: findings[0].kind: expected a string"),
        ('{"reports": {}}', "baseline.json: reports: expected a list"),
        ('{"reports": [7]}', "baseline.json: reports[0].source: expected a string"),
        ('{"reports": [{"source": "a"}]}', "baseline.json: reports[0].findings: expected a list"),
        ('{"reports": [{"source": "a", "findings": [1]}]}', "baseline.json: reports[0].findings[0].code: expected"),
    ],
)
def test_a_broken_baseline_is_65_with_its_place(text: str, problem: str, tmp_path: Path, capsys: Capture) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(text)
    assert problem in failing(capsys, 65, CLEAN, "--baseline", str(baseline))


# Formats


@pytest.mark.parametrize("source", [ERROR, WARNING, NOTE])
def test_json_has_these_keys_and_no_others(source: str, capsys: Capture) -> None:
    found = report(capsys, source)
    assert set(found) == {"source", "release", "findings", "assumed", "unchecked", "queues", "known", "suppressed"}
    assert found["findings"]
    for each in found["findings"]:
        assert set(each) == FINDING
        assert set(each["fix"]) == {"safe", "text"}
        assert isinstance(each["fix"]["safe"], bool)
        assert each["place"] is None or set(each["place"]) == {"file", "line", "document"}
        assert RULES[each["code"]].name == each["name"]
        assert all("do" in step for step in each["history"])


def uri(result: dict[str, Any]) -> str:
    """The file that a SARIF result is about."""
    (location,) = result["locations"]
    return str(location["physicalLocation"]["artifactLocation"]["uri"])


def is_sarif(document: Any) -> None:
    """Assert what the standard, and the code scanning of GitHub, want of a log."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    for run in document["runs"]:
        rules = run["tool"]["driver"]["rules"]
        assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
        ids = [rule["id"] for rule in rules]
        assert len(set(ids)) == len(ids)
        for result in run["results"]:
            assert result["ruleId"] in ids
            assert result["level"] in ("error", "warning", "note")
            assert isinstance(result["message"]["text"], str)
            assert all(isinstance(print_, str) for print_ in result["partialFingerprints"].values())
            assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri(result))  # a relative reference of RFC 3986
            assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1


@pytest.mark.parametrize("source", [ERROR, WARNING, NOTE, CLEAN])
def test_sarif_is_valid_and_declares_silent_rules_too(source: str, capsys: Capture) -> None:
    document = json.loads(lint(capsys, source, "--format", "sarif"))
    is_sarif(document)
    (run,) = document["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(RULES)
    levels = [(each["code"], each["severity"]) for each in report(capsys, source)["findings"]]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == levels


def test_sarif_names_a_file_of_an_odd_name_by_a_uri(odd: str, capsys: Capture) -> None:
    document = json.loads(lint(capsys, odd, "--format", "sarif", status=1))
    is_sarif(document)
    assert {unquote(uri(each)) for each in document["runs"][0]["results"]} == {odd}


def test_the_fingerprints_of_results_differ(capsys: Capture) -> None:
    (run,) = json.loads(lint(capsys, ERROR, WARNING, NOTE, "--format", "sarif"))["runs"]
    prints = [(uri(each), each["partialFingerprints"]["object/v1"]) for each in run["results"]]
    assert len(set(prints)) == len(prints) > 2


@pytest.mark.parametrize(("source", "failed"), [(ERROR, {"missing-dlx"}), (NOTE, set()), (CLEAN, set())])
def test_junit_has_a_test_for_each_rule_and_fails_those_that_found_something(
    source: str, failed: set[str], capsys: Capture
) -> None:
    suite = ElementTree.fromstring(lint(capsys, source, "--format", "junit"))
    cases = suite.findall("testcase")
    assert suite.tag == "testsuite"
    assert [each.get("name") for each in cases] == [f"{rule.code} {rule.name}" for rule in RULES.values()]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(RULES)), str(len(failed)))
    failures = {str(each.get("name")).split()[1] for each in cases if each.find("failure") is not None}
    assert failures == failed


def test_junit_holds_any_name_of_a_queue(odd: str, capsys: Capture) -> None:
    suite = ElementTree.fromstring(lint(capsys, odd, "--format", "junit", status=1))
    assert suite.get("name") == f"dlx lint {odd}"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert ODD.replace("\x01", "\N{REPLACEMENT CHARACTER}") in str(failure.text)


def fix_of(finding: dict[str, Any]) -> str:
    return str(finding["fix"]["text"]) + " (not while messages are in it)" * (not finding["fix"]["safe"])


def test_junit_says_what_is_wrong_why_and_the_fix_on_lines_of_their_own(capsys: Capture) -> None:
    finding = next(each for each in report(capsys, ERROR)["findings"] if each["severity"] == "error")
    failures = ElementTree.fromstring(lint(capsys, ERROR, "--format", "junit")).findall("testcase/failure")
    told = "\n".join([finding["message"], f"Because: {finding['because']}.", f"Fix: {fix_of(finding)}."])
    assert told in "".join(str(each.text) for each in failures)


def test_github_lines_are_escaped(odd: str, capsys: Capture) -> None:
    lines = lint(capsys, odd, "--format", "github", status=1).splitlines()
    found = report(capsys, odd)["findings"]
    assert len(lines) == len(found)
    for line, finding in zip(lines, found, strict=True):
        level, properties, message = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line).groups()  # type: ignore[union-attr]
        assert level == {"error": "error", "warning": "warning", "note": "notice"}[finding["severity"]]
        named = dict(each.split("=", 1) for each in properties.split(","))
        assert unquote(named["file"]) == odd
        assert named["title"] == f"{finding['code']} {finding['name']}"
        told = [finding["message"], f"Because: {finding['because']}.", f"Fix: {fix_of(finding)}."]
        assert unquote(message) == "\n".join(told)


def test_github_says_nothing_where_there_is_nothing(capsys: Capture) -> None:
    assert lint(capsys, CLEAN, "--format", "github", status=0) == ""


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_whose_name_is_no_text_is_linted(form: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "d\udcff.json"
    path.write_bytes(Path(ERROR).read_bytes())
    assert "d\N{REPLACEMENT CHARACTER}.json" in unquote(lint(capsys, str(path), "--format", form, status=1))


def test_json_is_a_format_with_an_option_of_its_own(capsys: Capture) -> None:
    assert json.loads(lint(capsys, ERROR, "--json")) == json.loads(lint(capsys, ERROR, "--format", "json"))


# What people are told: the likeliest first, equal ones once


def written(path: Path, queues: list[dict[str, Any]], **sections: Any) -> str:
    document = {"vhosts": [{"name": "/"}], "queues": [{"vhost": "/", "durable": True, **each} for each in queues]}
    path.write_text(json.dumps(document | sections), encoding="utf-8")
    return str(path)


@pytest.fixture
def many(tmp_path: Path) -> str:
    """Thirty equal queues that lose what expires, and a quorum queue."""
    queues = [{"name": f"delay-{level:02}.in", "arguments": {"x-message-ttl": 5}} for level in range(30)]
    return written(tmp_path / "many.json", [*queues, {"name": "work", "arguments": {"x-queue-type": "quorum"}}])


def test_equal_findings_are_told_once_with_how_many_there_are(many: str, capsys: Capture) -> None:
    said = lint(capsys, many, status=1)
    assert "error DLX002 no-dlx-on-rejecting: 30 queues 'delay-*.in', such as: 'delay-00.in' has no" in said
    assert "31 errors, 1 note in 31 queues under 4.3; equal ones together, --all has all 32" in said
    assert "and 28 more (31 of these)" in said
    assert len(said.splitlines()) <= 30


def test_all_tells_them_one_by_one_and_json_has_all(many: str, capsys: Capture) -> None:
    said = lint(capsys, many, "--all", status=1)
    assert all(f": 'delay-{level:02}.in' has no dead-letter exchange" in said for level in range(30))
    assert "such as" not in said
    findings = report(capsys, many)["findings"]
    assert len(findings) == 32
    assert len({each["shape"] for each in findings}) == 3


def test_equal_queues_of_many_virtual_hosts_are_told_once(tmp_path: Path, capsys: Capture) -> None:
    hosts = [f"tenant-{number}" for number in range(5)]
    queues = [{"name": "work", "vhost": host, "arguments": {"x-message-ttl": 5}} for host in hosts]
    path = written(tmp_path / "hosts.json", queues, vhosts=[{"name": host} for host in hosts])
    assert "5 queues 'work' in 5 virtual hosts 'tenant-*', such as: " in lint(capsys, path, status=1)


def test_what_is_likelier_comes_first_and_each_says_what_it_takes(tmp_path: Path, capsys: Capture) -> None:
    dead_lettering = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nonsuch"}
    path = written(
        tmp_path / "four.json",
        [
            {"name": "a-length", "arguments": {"x-max-length": 100_000}},
            {"name": "b-few", "arguments": {"x-max-length": 30}},
            {"name": "c-crashes", "arguments": {"x-queue-type": "quorum"}},
            {"name": "d-reject", "arguments": dead_lettering},
        ],
    )
    found = [each for each in report(capsys, path)["findings"] if each["needs"] and each["severity"] != "note"]
    assert [(each["object"], each["severity"], each["needs"]) for each in found] == [
        ("d-reject", "error", "a consumer that rejects one message"),
        ("c-crashes", "error", "a consumer that crashes 21 times on one message"),
        ("b-few", "error", "31 waiting messages"),
        ("a-length", "warning", "100,001 waiting messages"),
    ]
    assert "  this loses a message, and needs a consumer that rejects one message:" in lint(capsys, path)


@pytest.mark.parametrize("length", [50, 991])
def test_returns_to_a_quorum_queue_of_any_length_are_one_more_than_its_limit(
    length: int, tmp_path: Path, capsys: Capture
) -> None:
    arguments = {"x-queue-type": "quorum", "x-max-length": length}
    found = report(capsys, written(tmp_path / "q.json", [{"name": "work", "arguments": arguments}]))["findings"]
    assert [(each["code"], each["severity"], each["history"][-1]) for each in found] == [
        ("DLX002", "error", {"do": "crash", "queue": "work", "times": 21}),
        ("DLX010", "note", {"do": "crash", "queue": "work", "times": 21}),
    ]


def test_a_time_to_live_where_dead_letters_are_kept_is_a_note(tmp_path: Path, capsys: Capture) -> None:
    dead_lettering = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queues = [{"name": "work", "arguments": dead_lettering}, {"name": "dead", "arguments": {"x-message-ttl": 9}}]
    path = written(tmp_path / "kept.json", queues)
    assert [(each["code"], each["severity"]) for each in report(capsys, path)["findings"]] == [("DLX016", "note")]
    lint(capsys, path, "--fail-on", "warning", status=0)


# Rules


@pytest.mark.parametrize(
    ("args", "codes"),
    [
        (("--select", "DLX002"), {"DLX002"}),
        (("--select", "no-dlx-on-rejecting,dlx010"), {"DLX002", "DLX010"}),
        (("--select", "DLX001", "--select", "DLX010"), {"DLX010"}),
        (("--ignore", "DLX002"), {"DLX010"}),
        (("--select", "DLX002", "--ignore", "DLX002"), set()),
    ],
)
def test_rules_are_selected_and_ignored(args: tuple[str, ...], codes: set[str], many: str, capsys: Capture) -> None:
    assert {each["code"] for each in report(capsys, many, *args)["findings"]} == codes
    assert main(["lint", many, *args]) == int(bool(codes))


def test_statistics_count_the_findings_of_each_rule(many: str, capsys: Capture) -> None:
    assert lint(capsys, many, "--statistics", status=1).splitlines() == [
        "     31 error   DLX002 no-dlx-on-rejecting",
        "      1 note    DLX010 default-delivery-limit",
    ]


def test_statistics_of_several_sources_name_each(many: str, capsys: Capture) -> None:
    assert lint(capsys, many, CLEAN, "--statistics", status=1).splitlines() == [
        f"{many}:",
        "     31 error   DLX002 no-dlx-on-rejecting",
        "      1 note    DLX010 default-delivery-limit",
        f"{CLEAN}:",
        "     no findings",
    ]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--select", "no-dlx-on-rejectin"), "no rule 'no-dlx-on-rejectin'; did you mean 'no-dlx-on-rejecting'?"),
        (("--ignore", "DLX002,DLX0"), "no rule 'DLX0'; did you mean"),
        (("--explain", "nope"), "no rule 'nope'; there are DLX001 to DLX"),
        (("--statistics", "--json"), "--statistics: not with --format json"),
    ],
)
def test_wrong_choices_are_64(args: tuple[str, ...], problem: str, capsys: Capture) -> None:
    assert problem in failing(capsys, 64, CLEAN, *args)


PUBLISHED = "https://github.com/somebody/dlx/tree/main/docs"


def test_each_rule_has_an_address_where_its_document_is(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_documentation", lambda: PUBLISHED)
    documented = Path("docs/how-to/lint.md").read_text(encoding="utf-8")
    anchors = {
        line.removeprefix("### ").lower().replace(" ", "-") for line in documented.splitlines() if "### " in line
    }
    (run,) = json.loads(lint(capsys, ERROR, "--format", "sarif"))["runs"]
    addresses = [str(rule["helpUri"]) for rule in run["tool"]["driver"]["rules"]]
    assert {each.partition("/docs/how-to/lint.md#")[2] for each in addresses} <= anchors
    assert f"  see: {addresses[0]}" in lint(capsys, ERROR)
    assert addresses[0] in lint(capsys, "--explain", "DLX001")


def test_a_checkout_whose_owner_nobody_knows_names_the_command_that_explains_and_its_own_document(
    capsys: Capture,
) -> None:
    assert "  see: dlx lint --explain DLX" in lint(capsys, ERROR)
    assert "OWNER" not in lint(capsys, ERROR, "--format", "sarif")
    file, _, anchor = lint(capsys, "--explain", "DLX001").split()[-1].partition("#")
    assert file == "docs/how-to/lint.md"
    assert anchor.startswith("dlx001-")


# dlx.toml


SUPPRESS = """
[[lint.suppress]]
rule = "DLX002"
object = "queue delay-*"
reason = "they hold what may be lost"
"""


def test_a_suppression_beside_the_source_leaves_findings_out(many: str, capsys: Capture) -> None:
    Path(many).with_name("dlx.toml").write_text(SUPPRESS, encoding="utf-8")
    found = report(capsys, many)
    assert {each["object"] for each in found["findings"]} == {"work"}
    assert {(each["object"], each["reason"]) for each in found["suppressed"]} == {
        (f"delay-{level:02}.in", "they hold what may be lost") for level in range(30)
    }
    assert "1 error, 1 note in 31 queues under 4.3; 30 suppressed" in lint(capsys, many)


def test_a_given_file_comes_before_that_beside_the_source(tmp_path: Path, many: str, capsys: Capture) -> None:
    Path(many).with_name("dlx.toml").write_text(SUPPRESS, encoding="utf-8")
    other = tmp_path / "other.toml"
    other.write_text('[lint.severity]\nDLX010 = "error"\nno-dlx-on-rejecting = "note"\n', encoding="utf-8")
    found = report(capsys, many, "--config", str(other))["findings"]
    assert {(each["code"], each["severity"]) for each in found} == {("DLX010", "error"), ("DLX002", "note")}
    assert found[0]["code"] == "DLX010"


def test_the_file_in_the_working_directory_counts_without_one_beside_the_source(
    tmp_path: Path, many: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "dlx.toml").write_text(SUPPRESS, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    assert len(report(capsys, many)["suppressed"]) == 30


def test_a_suppression_that_matches_nothing_is_told(many: str, capsys: Capture) -> None:
    path = Path(many).with_name("dlx.toml")
    path.write_text(SUPPRESS + SUPPRESS.replace("delay-*", "gone") + 'vhost = "/"\n', encoding="utf-8")
    assert main(["lint", many, "--select", "DLX010"]) == 1
    said = f"{path}: lint.suppress[1]: no finding of DLX002 is about 'queue gone'; take it out\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[lint", "dlx.toml: not TOML: "),
        ("[lint]\nsupress = []", "dlx.toml: lint: there is no field supress; did you mean suppress?"),
        ("[lin]", "dlx.toml: there is no field lin; did you mean lint"),
        (SUPPRESS.replace("reason", "# reason"), "dlx.toml: lint.suppress[0]: the field reason is missing"),
        (SUPPRESS.replace("they hold what may be lost", ""), "dlx.toml: lint.suppress[0].reason: expected a string of"),
        (SUPPRESS.replace("DLX002", "DLX902"), "dlx.toml: lint.suppress[0].rule: no rule 'DLX902'; did you mean"),
        (
            '[lint.severity]\nDLX015 = "notice"',
            "lint.severity.DLX015: 'notice' is not one of the values allowed here; did you mean note? expected one of "
            "error, note, warning",
        ),
        ('[lint.severity]\nself-dxl = "note"', "lint.severity.self-dxl: no rule 'self-dxl'; did you mean 'self-dlx'?"),
    ],
)
def test_a_wrong_file_is_65_with_its_key(text: str, problem: str, many: str, capsys: Capture) -> None:
    Path(many).with_name("dlx.toml").write_text(text, encoding="utf-8")
    assert problem in failing(capsys, 65, many)


@pytest.mark.parametrize("text", ["DESTQ(A) ACTION(IGNORE) RETRY(3)\n", ACTIVEMQ_XML], ids=["table", "xml"])
def test_a_file_of_another_system_comes_from_standard_input_as_well(
    text: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "configuration"
    path.write_text(text, encoding="utf-8")
    code = main(["lint", str(path)])
    captured = capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["lint", "-"]) == code
    assert capsys.readouterr() == tuple(each.replace(str(path), "standard input") for each in captured)


@pytest.mark.parametrize("option", [("--select", "DLX001"), ("--statistics",), ("--all",), ("--on-failure", "crash")])
def test_other_systems_have_no_rules_to_choose(option: tuple[str, ...], tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<beans/>", encoding="utf-8")
    assert f"{option[0]}: only for definitions" in failing(capsys, 64, str(path), *option)


def test_secrets_in_a_file_are_told_once_and_can_be_taken_out(tmp_path: Path, capsys: Capture) -> None:
    file, shared = tmp_path / "definitions.json", tmp_path / "shared.json"
    uri = {"src-uri": ["amqp://app:secret@one"], "dest-uri": "amqp://two", "src-queue": "q", "dest-queue": "r"}
    user = {
        "name": "app",
        "password_hash": "c2VjcmV0",
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "",
    }
    document = {
        "users": [user],
        "vhosts": [{"name": "/"}],
        "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": uri}],
        "global_parameters": [{"name": "auth_token", "value": "abc"}],
        "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    }
    file.write_text(json.dumps(document))
    assert main(["lint", str(file)]) == 0
    told = capsys.readouterr().err
    assert told.count("note: ") == 1
    assert "`dlx convert --redact FILE --out OTHER` writes its definitions without them" in told
    assert main(["convert", "--redact", str(file), "--out", str(shared)]) == 0
    written = json.loads(shared.read_text())
    assert written["global_parameters"] == [{"name": "auth_token", "value": ""}]
    assert written["users"] == [{**user, "password_hash": ""}]
    assert written["parameters"][0]["value"] == {**uri, "src-uri": ["amqp://one"]}
    assert written["queues"] == document["queues"]
    capsys.readouterr()
    assert main(["lint", str(shared)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["convert", "--redact", str(file), str(shared), "--out", str(tmp_path / "both.json")]) == 64


def test_secrets_under_any_key_and_in_queries_of_uris_are_taken_out(tmp_path: Path, capsys: Capture) -> None:
    file, shared = tmp_path / "definitions.json", tmp_path / "shared.json"
    value = {"uri": "amqps://h/%2F?password=hidden1&verify=none", "nested": [{"client_secret": ["hidden2", 5, True]}]}
    document = {
        "vhosts": [{"name": "/", "metadata": {"api-key": "hidden3"}}],
        "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": value}],
        "global_parameters": [{"name": "ldap", "value": {"Password": "hidden4", "host": "h"}}],
        "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    }
    file.write_text(json.dumps(document))
    assert main(["convert", "--redact", str(file), "--out", str(shared)]) == 0
    assert "hidden" not in shared.read_text()
    written = json.loads(shared.read_text())
    assert written["parameters"][0]["value"] == {
        "uri": "amqps://h/%2F?password=&verify=none",
        "nested": [{"client_secret": ["", "", True]}],
    }
    assert written["global_parameters"] == [{"name": "ldap", "value": {"Password": "", "host": "h"}}]
    capsys.readouterr()
    assert main(["lint", str(shared)]) == 0
    assert capsys.readouterr().err == ""


def test_any_source_can_be_redacted(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared.json"
    text = (
        'kind: ConfigMap\ndata:\n  d.json: \'{"users": [{"name": "u", "password_hash": "hidden"}], "queues": [],'
        ' "vhosts": [{"name": "/"}]}\'\n'
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["convert", "--redact", "-", "--out", str(shared)]) == 0
    assert json.loads(shared.read_text())["users"] == [{"name": "u", "password_hash": ""}]
    assert main(["convert", "--redact", "--out", str(shared), "http://guest:guest@127.0.0.1:9/"]) == 69
    assert "no answer" in capsys.readouterr().err


def test_policies_that_mend_are_printed_as_commands(capsys: Capture) -> None:
    source = "tests/analysis/fix_examples/forgotten-dead-letter-exchange.json"
    assert main(["lint", source, "--fix", "policy"]) == 1
    assert capsys.readouterr().out.startswith("# with rabbitmqctl\nrabbitmqctl set_policy ")
