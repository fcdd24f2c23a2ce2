"""The option ``--dlx-lint`` of the pytest plugin: what the tests of a run declare is linted at its end."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.live.servers import LiveServer

pytest_plugins = ["pytester"]

DECLARED = """
    import pika, pytest

    def declare(url, *queues, exchange="", **arguments):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            for queue in queues:
                table = {name.replace("_", "-"): each for name, each in arguments.items()}
                channel.queue_declare(queue, arguments=table)
            if exchange:
                channel.exchange_declare(exchange, "fanout")
                channel.queue_declare("parked")
                channel.queue_bind("parked", exchange)
"""
TO_NOWHERE = (
    DECLARED
    + """
    @pytest.mark.parametrize("run", [1, 2, 3])
    def test_orders(run, dlx_broker):
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="nowhere")

    def test_nothing(dlx_broker):
        pass
"""
)
MISSING = "DLX001 missing-dlx: 'orders' sends its dead letters to exchange 'nowhere', which does not exist"


def section(result: pytest.RunResult) -> str:
    """What the run says of lint."""
    return result.stdout.str().partition(" dlx lint ==")[2]


def findings(inner: pytest.Pytester, *options: str) -> dict[tuple[str, str], list[str]]:
    """Run pytest in the folder; return the tests that declared it, by the name of a finding and its object."""
    inner.runpytest("--dlx-lint", "--dlx-lint-report", "found.json", *options)
    report = json.loads((inner.path / "found.json").read_text())
    return {(each["name"], each["object"]): each["declared_by"] for each in report["findings"]}


def test_a_finding_is_told_once_with_its_tests(inner: pytest.Pytester) -> None:
    inner.makepyfile(TO_NOWHERE)
    result = inner.runpytest("--dlx-lint")
    assert result.ret == pytest.ExitCode.OK
    told = section(result)
    assert told.count(MISSING) == 1
    of = "test_a_finding_is_told_once_with_its_tests.py"
    assert f"  at: {of}:14\n  declared by: {of}::test_orders[1] and 2 more\n" in told
    assert (
        "the tests' declarations: 1 error in 1 queue under 4.3\nAssumed: what different tests declare is on one broker"
        in told
    )


def test_without_the_option_nothing_is_collected(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.testing import declared

    monkeypatch.delattr(declared, "Watched")
    inner.makepyfile(TO_NOWHERE)
    result = inner.runpytest()
    result.assert_outcomes(passed=4)
    assert "dlx lint" not in result.stdout.str()


def test_the_entry_point_loads_it_without_a_warning(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    pytester.makepyfile("def test_nothing(dlx_broker): pass")
    result = pytester.runpytest_subprocess("-p", "dlx.pytest_plugin", "--dlx-lint")
    result.assert_outcomes(passed=1)
    assert "the tests' declarations: no findings" in section(result)


def test_a_run_without_brokers_says_so(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_nothing(): pass")
    told = section(inner.runpytest("--dlx-lint=note"))
    assert "\nNo test that ran has dlx_broker or dlx_session_broker.\n" in told
    assert not section(inner.runpytest("--dlx-lint", "--collect-only"))


def test_a_run_that_stops_early_tells_what_was_declared(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_it=DECLARED
        + """
    def test_fails(dlx_session_amqp_url):
        declare(dlx_session_amqp_url, "orders", x_dead_letter_exchange="nowhere")
        assert 0

    def test_after(): pass
    """
    )
    assert findings(inner, "-x")["missing-dlx", "orders"] == ["test_it.py::test_fails"]


def test_a_worker_that_crashed_is_told(inner: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    inner.makepyfile("""
        import os

        def test_crash(dlx_broker):
            os._exit(3)
    """)
    result = inner.runpytest_subprocess("-n", "1", "--dlx-lint")
    assert "\nNot checked: what the tests of gw0 declared: it crashed\n" in section(result)


def test_what_is_gone_before_the_test_ends_is_linted(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        DECLARED
        + """
    def test_exclusive(dlx_broker):
        with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
            lost = {"x-dead-letter-exchange": "nowhere"}
            connection.channel().queue_declare("exclusive", exclusive=True, arguments=lost)

    def test_deleted(dlx_broker):
        declare(dlx_broker.amqp_url, "deleted", x_dead_letter_exchange="nowhere")
        dlx_broker.api("DELETE", "queues/%2F/deleted")

    def test_stopped(dlx_broker):
        declare(dlx_broker.amqp_url, "stopped", x_dead_letter_exchange="nowhere")
        dlx_broker.server.stop()
    """
    )
    assert {each for name, each in findings(inner) if name == "missing-dlx"} == {"exclusive", "deleted", "stopped"}


def test_tests_that_agree_are_linted_together(inner: pytest.Pytester) -> None:
    """One declares the exchange that another one's queue dead-letters to."""
    inner.makepyfile(
        DECLARED
        + """
    def test_queue(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="dead")

    def test_exchange(dlx_broker):
        declare(dlx_broker.amqp_url, exchange="dead")
    """
    )
    assert "missing-dlx" not in {name for name, _ in findings(inner)}


def test_tests_that_disagree_are_linted_apart(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_it=DECLARED
        + """
    def test_nowhere(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="nowhere")

    def test_parked(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", exchange="dead", x_dead_letter_exchange="dead")

    def test_elsewhere(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="elsewhere")
    """
    )
    told = section(inner.runpytest("--dlx-lint"))
    assert "declared by: test_it.py::test_nowhere\n" in told
    assert "declared by: test_it.py::test_elsewhere\n" in told
    assert "the tests' declarations: 2 errors" in told
    assert "test_parked" not in told
    assert "Assumed: tests that differ in an object, a policy or the release have brokers of their own: 3 here" in told


def test_what_a_test_declares_in_two_ways_is_linted_in_both(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_it=DECLARED
        + """
    def test_it(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="nowhere")
        dlx_broker.api("DELETE", "queues/%2F/orders")
        declare(dlx_broker.amqp_url, "orders", x_dead_letter_exchange="elsewhere")
    """
    )
    told = section(inner.runpytest("--dlx-lint"))
    assert "to exchange 'nowhere', which does not exist" in told
    assert "to exchange 'elsewhere', which does not exist" in told


def test_policies_of_one_test_do_not_reach_the_queues_of_another(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_it=DECLARED
        + """
    def test_policy(dlx_broker):
        definition = {"dead-letter-exchange": "nowhere"}
        dlx_broker.api("PUT", "policies/%2F/all", {"pattern": ".*", "definition": definition, "apply-to": "queues"})
        declare(dlx_broker.amqp_url, "with-policy")

    def test_without(dlx_broker):
        declare(dlx_broker.amqp_url, "without-policy")
    """
    )
    missing = {each: tests for (name, each), tests in findings(inner).items() if name == "missing-dlx"}
    assert missing == {"with-policy": ["test_it.py::test_policy"]}


def test_definitions_count_as_declared_by_the_test(inner: pytest.Pytester) -> None:
    queue = {"name": "orders", "vhost": "/", "durable": True, "arguments": {"x-dead-letter-exchange": "nowhere"}}
    (inner.path / "definitions.json").write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    inner.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.dlx_topology("definitions.json")
        def test_it(dlx_broker): pass
    """
    )
    assert findings(inner)["missing-dlx", "orders"] == ["test_it.py::test_it"]


def test_of_the_broker_of_the_run_each_test_has_what_it_declared(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_it=DECLARED
        + """
    def test_first(dlx_session_amqp_url):
        declare(dlx_session_amqp_url, "first", x_dead_letter_exchange="nowhere")

    def test_second(dlx_session_amqp_url, dlx_broker):
        declare(dlx_session_amqp_url, "first", "second", x_dead_letter_exchange="nowhere")

    def test_third(dlx_session_amqp_url):
        declare(dlx_session_amqp_url, "third", x_dead_letter_exchange="nowhere")
    """
    )
    missing = {each: tests for (name, each), tests in findings(inner).items() if name == "missing-dlx"}
    assert missing == {
        "first": ["test_it.py::test_first", "test_it.py::test_second"],
        "second": ["test_it.py::test_second"],
        "third": ["test_it.py::test_third"],
    }


def test_workers_send_what_they_collected(inner: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    inner.makepyfile(test_it=TO_NOWHERE)
    result = inner.runpytest_subprocess("-n", "2", "--dlx-lint=error", "--dlx-lint-report", "found.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "  declared by: test_it.py::test_orders[1] and 2 more\n" in section(result)
    [finding] = json.loads((inner.path / "found.json").read_text())["findings"]
    assert finding["declared_by"] == [f"test_it.py::test_orders[{run}]" for run in (1, 2, 3)]


# What fails the run


@pytest.mark.parametrize(
    ("options", "ini", "ret"),
    [
        (["--dlx-lint"], "", 0),
        (["--dlx-lint", "test_a_level_fails_the_run.py"], "", 0),
        (["--dlx-lint=error"], "", 1),
        (["--dlx-lint=note"], "", 1),
        ([], "dlx_lint = error", 1),
        (["--dlx-lint"], "dlx_lint = error", 1),
    ],
)
def test_a_level_fails_the_run(inner: pytest.Pytester, options: list[str], ini: str, ret: int) -> None:
    inner.makeini(f"[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n{ini}\n")
    inner.makepyfile(TO_NOWHERE)
    result = inner.runpytest(*options)
    assert result.ret == ret
    assert ("The run fails: " in section(result)) == bool(ret)


def test_findings_below_the_level_fail_no_run(inner: pytest.Pytester) -> None:
    (inner.path / "dlx.toml").write_text('[lint.severity]\nmissing-dlx = "warning"\n')
    inner.makepyfile(TO_NOWHERE)
    assert inner.runpytest("--dlx-lint=error").ret == pytest.ExitCode.OK
    assert inner.runpytest("--dlx-lint=warning").ret == pytest.ExitCode.TESTS_FAILED


def test_a_baseline_leaves_out_what_it_has(inner: pytest.Pytester) -> None:
    inner.makepyfile(TO_NOWHERE)
    inner.runpytest("--dlx-lint", "--dlx-lint-report", "known.json")
    result = inner.runpytest("--dlx-lint=error", "--dlx-lint-baseline", "known.json")
    assert result.ret == pytest.ExitCode.OK
    assert "no findings in 1 queue under 4.3; 1 known from the baseline" in section(result)


def test_the_project_suppresses_findings(inner: pytest.Pytester) -> None:
    suppress = '[[lint.suppress]]\nrule = "missing-dlx"\nobject = "queue ord*"\nreason = "only in tests"\n'
    (inner.path / "dlx.toml").write_text(suppress)
    inner.makepyfile(TO_NOWHERE)
    result = inner.runpytest("--dlx-lint=error")
    assert result.ret == pytest.ExitCode.OK
    assert "no findings in 1 queue under 4.3; 1 suppressed" in section(result)


@pytest.mark.parametrize(
    ("options", "ini", "said"),
    [
        (["--dlx-lint=fatal"], "", "argument --dlx-lint: ignored explicit argument 'fatal'"),
        ([], "dlx_lint = fatal", "dlx_lint in the configuration: expected error, warning or note, got 'fatal'"),
        (["--dlx-lint-report", "x.json"], "", "--dlx-lint-report: give --dlx-lint, too"),
        (["--dlx-lint", "--dlx-lint-report", "none/x.json"], "", "--dlx-lint-report: no folder "),
        (["--dlx-lint", "--dlx-lint-baseline", "none.json"], "", "none.json: No such file or directory"),
    ],
)
def test_a_wrong_option_is_told(inner: pytest.Pytester, options: list[str], ini: str, said: str) -> None:
    inner.makeini(f"[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n{ini}\n")
    result = inner.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()


# Reports


def test_reports_have_the_form_that_their_names_end_in(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_it=TO_NOWHERE)
    files = ["found.sarif", "found.xml", "found.json", "found.txt"]
    inner.runpytest("--dlx-lint", *(f"--dlx-lint-report={file}" for file in files))
    sarif, junit, found, text = ((inner.path / file).read_text() for file in files)
    [result] = json.loads(sarif)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "test_it.py"},
        "region": {"startLine": 14},
    }
    failure = ElementTree.fromstring(junit).find("testcase/failure")
    assert failure is not None
    assert failure.text is not None
    assert "Declared by: test_it.py::test_orders[1] and 2 more." in failure.text
    assert len(json.loads(found)["findings"][0]["declared_by"]) == 3
    assert text.startswith(f"error {MISSING}")


@pytest.mark.parametrize(("option", "kind"), [("--dlx-lint", "system-out"), ("--dlx-lint=error", "failure")])
def test_the_junit_file_of_the_run_has_a_suite(inner: pytest.Pytester, option: str, kind: str) -> None:
    """It fails where the run does."""
    inner.makepyfile(TO_NOWHERE)
    inner.runpytest(option, "--junitxml=run.xml")
    tests, lint = ElementTree.parse(inner.path / "run.xml").getroot()
    assert (tests.get("tests"), lint.get("name")) == ("4", "dlx lint the tests' declarations")
    assert lint.get("failures") == str(int(kind == "failure"))
    told = lint.find(f"testcase[@name='DLX001 missing-dlx']/{kind}")
    assert told is not None
    assert "'orders' sends its dead letters to exchange 'nowhere'" in str(told.text)


ON_SERVER = """
    def test_orders(dlx_broker):
        declare(dlx_broker.amqp_url, "orders", exchange="dead", x_dead_letter_exchange="nowhere")
        definition = {"dead-letter-exchange": "elsewhere"}
        path = f"policies/{dlx_broker.vhost}/parked"
        dlx_broker.api("PUT", path, {"pattern": "^parked$", "definition": definition, "apply-to": "queues"})
        assert not dlx_broker.simulated and dlx_broker.vhost != "/"
"""


def assert_linted(inner: pytest.Pytester, server: str, release: str) -> None:
    """Run a test on a server; what is there at its end is linted."""
    inner.makepyfile(test_it=DECLARED + ON_SERVER)
    found = findings(inner, "--dlx-broker", server)
    missing = {each: tests for (name, each), tests in found.items() if name == "missing-dlx"}
    assert missing == {key: [f"test_it.py::test_orders[live-{release}]"] for key in ("orders", "parked")}
    report = json.loads((inner.path / "found.json").read_text())
    assert any(said.startswith("what was exclusive on real servers") for said in report["unchecked"])


def test_a_server_shows_what_is_there_at_the_end_of_each_test(inner: pytest.Pytester, server: str) -> None:
    assert_linted(inner, server, "4.3")


def test_a_real_server_shows_it(inner: pytest.Pytester, live_server: LiveServer) -> None:
    assert_linted(inner, f"{live_server.amqp_url}|{live_server.management_url}", live_server.release)
