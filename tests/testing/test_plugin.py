"""The pytest plugin, as those see it who use it: pytest runs test files in folders of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pika
import pytest

from dlx.releases import RELEASES
from simulator.testing.brokers import backends, servers, virtual_time
from simulator.testing.brokers.simulated import Simulator

pytest_plugins = ["pytester"]

HEAVY = ["docker", "hypothesis", "msgspec", "pika", "simulator.broker", "simulator.serve", "testcontainers", "uvicorn"]
EXPECTED = "expected @pytest.mark.dlx_topology(file=None, *, release=None, vhost=None), all of them texts"


def exported(*queues: str, vhost: str = "/", **more: object) -> str:
    """A definitions file with these queues in one virtual host, and another that has none."""
    items = [{"name": name, "vhost": vhost, "durable": True, "arguments": {}} for name in queues]
    return json.dumps({"vhosts": [{"name": vhost, **more}, {"name": "unused"}], "queues": items})


def errors(result: pytest.RunResult) -> str:
    """What pytest says of a test that could not start, without its name."""
    found = re.search(r"ERROR at setup of \S+ _+\n(.*?)\n=", result.stdout.str(), re.DOTALL)
    assert found is not None, result.stdout.str()
    return found[1]


def test_loading_it_loads_pytest_alone(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    code = (
        "import sys, pytest\n"
        "assert pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:hypothesispytest', '-p', 'no:anyio']) == 0\n"
        "assert 'simulator.testing.plugin' in sys.modules\n"
        f"print('loaded:', *({HEAVY!r} & sys.modules.keys()))"
    ).replace(repr(HEAVY), repr(set(HEAVY)))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"


# Fixtures


def test_every_test_has_a_broker_of_its_own(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pika, pytest

        @pytest.mark.parametrize("run", [1, 2])
        def test_it(run, dlx_broker, dlx_amqp_url):
            assert dlx_amqp_url == dlx_broker.amqp_url
            assert dlx_broker.simulated and dlx_broker.release == "4.3" and dlx_broker.vhost == "/"
            assert dlx_broker.api("GET", "queues") == []
            with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
                connection.channel().queue_declare("q")
            assert [queue["name"] for queue in dlx_broker.api("GET", "queues/%2F")] == ["q"]
    """)
    inner.runpytest().assert_outcomes(passed=2)


def test_time_is_virtual(inner: pytest.Pytester) -> None:
    """What clients sent before has arrived when the clock moves, although nothing answers a publish."""
    inner.makepyfile("""
        import pika

        def test_it(dlx_amqp_url, dlx_clock):
            with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
                channel = connection.channel()
                channel.queue_declare("dead")
                channel.queue_declare("q", arguments={
                    "x-message-ttl": 86_400_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
                before = dlx_clock.now_us()
                for _ in range(1000):
                    channel.basic_publish("", "q", b"x")
                assert dlx_clock.advance(hours=24) == before + 86_400_000_000
                assert channel.queue_declare("dead", passive=True).method.message_count == 1000
    """)
    inner.runpytest().assert_outcomes(passed=1)


def test_the_simulator_is_chosen_once_for_all_tests(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(backends, "Simulator", lambda release: chosen.append(release) or Simulator(release))
    inner.makepyfile("""
        import pytest

        @pytest.mark.parametrize("run", range(3))
        def test_it(run, dlx_broker): pass
    """)
    inner.runpytest().assert_outcomes(passed=3)
    assert len(chosen) == 1


def test_the_release_is_that_of_the_exporting_server_unless_somebody_names_one(inner: pytest.Pytester) -> None:
    inner.makefile(".json", definitions='{"rabbit_version": "3.10.8", "vhosts": [{"name": "/"}], "queues": []}')
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_topology("definitions.json")
        def test_of_the_file(dlx_broker, pytestconfig):
            assert dlx_broker.release == (pytestconfig.getoption("dlx_release") or "3.10")

        @pytest.mark.dlx_topology("definitions.json", release="4.0")
        def test_of_the_marker(dlx_broker):
            assert dlx_broker.release == "4.0"

        def test_without_a_file(dlx_broker, pytestconfig):
            assert dlx_broker.release == (pytestconfig.getoption("dlx_release") or "4.3")
    """)
    inner.runpytest().assert_outcomes(passed=3)
    inner.runpytest("--dlx-release", "3.13").assert_outcomes(passed=3)


def test_a_broker_costs_a_test_little() -> None:
    """RabbitMQ's management API included, started and stopped."""
    spent_s = []
    for _ in range(5):
        start_s = time.perf_counter()
        with Simulator().broker(None, None) as broker:
            assert broker.api("GET", "queues") == []
        spent_s.append(time.perf_counter() - start_s)
    assert min(spent_s) < 0.05


def test_consumers_answer_while_time_passes(inner: pytest.Pytester) -> None:
    """One call is enough for a retry that goes round six times."""
    inner.makepyfile("""
        import threading
        import pika

        def test_it(dlx_amqp_url, dlx_clock):
            with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
                channel = connection.channel()
                back, wait = ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to} for to in ("q", "wait"))
                channel.queue_declare("q", arguments=wait)
                channel.queue_declare("wait", arguments={**back, "x-message-ttl": 1000})
                seen, subscribed = [], threading.Event()

                def fail(own, method, properties, body):
                    seen.append(dlx_clock.now_us())
                    if len(seen) == 6:
                        own.basic_ack(method.delivery_tag)
                        own.stop_consuming()
                    else:
                        own.basic_reject(method.delivery_tag, requeue=False)

                def consume():
                    with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as mine:
                        own = mine.channel()
                        own.basic_consume("q", fail)
                        subscribed.set()
                        own.start_consuming()

                consumer = threading.Thread(target=consume)
                consumer.start()
                subscribed.wait()
                channel.basic_publish("", "q", b"x")
                dlx_clock.advance(hours=1)
                consumer.join()
                assert [time - seen[0] for time in seen] == [second * 1_000_000 for second in range(6)]
    """)
    inner.runpytest().assert_outcomes(passed=1)


def test_a_consumer_that_does_not_answer_is_waited_for_once() -> None:
    """One in this very thread cannot."""
    with Simulator().broker(None, None) as broker, pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as own:
        channel = own.channel()
        channel.queue_declare("q")
        channel.queue_declare("wait", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
        channel.basic_consume("q", print)
        for seconds in range(1, 31):
            channel.basic_publish("", "wait", b"x", pika.BasicProperties(expiration=str(seconds * 1000)))
        start_us, start_s = broker.clock.now_us(), time.perf_counter()
        assert broker.clock.advance(hours=1, answer_within_s=1) == start_us + 3_600_000_000
        assert time.perf_counter() - start_s < 15  # and not 30 times 1 s


def test_a_consumer_that_requeues_for_ever_does_not_stop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "QUICK_ANSWERS_MAX_S", 0.2)

    def requeue() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        channel = connection.channel()
        for method, _, _ in channel.consume("q", inactivity_timeout=60):
            if stop.is_set():
                break
            channel.basic_reject(method.delivery_tag, requeue=True)
        connection.close()

    stop, consumer = threading.Event(), threading.Thread(target=requeue)
    with Simulator().broker(None, None) as broker, pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as own:
        own.channel().queue_declare("q")
        own.channel().basic_publish("", "q", b"x")
        consumer.start()
        start_us = broker.clock.now_us()
        assert broker.clock.advance(hours=1) == start_us + 3_600_000_000
        stop.set()
        consumer.join()


def test_the_assertions_take_the_fixture(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pika
        from simulator.testing import assert_dead_lettered

        def test_it(dlx_broker):
            with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
                channel = connection.channel()
                channel.queue_declare("q", arguments={"x-dead-letter-exchange": "gone"})
                channel.basic_publish("", "q", b"x", pika.BasicProperties(message_id="order-1"))
                channel.basic_reject(next(channel.consume("q"))[0].delivery_tag, requeue=False)
                assert_dead_lettered(dlx_broker, to="parked")
    """)
    result = inner.runpytest("--tb=short")
    result.assert_outcomes(failed=1)
    shown = [line for line in result.stdout.lines if line.startswith(("E  ", "    assert_"))]
    assert [re.sub("20..-.*?[.]...", "TIME", line) for line in shown] == [
        '    assert_dead_lettered(dlx_broker, to="parked")',
        "E   AssertionError: expected dead letters in the queue 'parked', but it does not exist; the queues are 'q'",
        "E   What became of the message:",
        "E   message 1 (id 'order-1'):",
        "E     At TIME it was published to the default exchange with the routing key 'q'.",
        "E     At once it entered the queue 'q'.",
        "E     At once the queue 'q' handed it to a consumer.",
        "E     At once the consumer of 'q' rejected it for good.",
        "E     At once it was dropped: it died in the queue 'q' (rejected) and went nowhere "
        "(dead-letter exchange 'gone' of queue 'q' does not exist).",
        "E     Nothing is left of it.",
    ]


# Definitions


TOPOLOGY = """
    import pytest

    {mark}
    def test_it(dlx_topology, dlx_broker):
        assert list(dlx_topology.queues) == [queue["name"] for queue in dlx_broker.api("GET", "queues/%2F")] == {queues}
"""


@pytest.mark.parametrize(
    ("mark", "option", "configured", "queues"),
    [
        ("marked.json", "option.json", "configured.json", ["marked"]),
        (None, "option.json", "configured.json", ["option"]),
        (None, None, "configured.json", ["configured"]),
    ],
)
def test_the_marker_goes_before_the_command_line_and_that_before_the_configuration(
    inner: pytest.Pytester, mark: str | None, option: str | None, configured: str, queues: list[str]
) -> None:
    for name in ("marked", "option", "configured"):
        (inner.path / f"{name}.json").write_text(exported(name))
    with (inner.path / "tox.ini").open("a") as ini:
        ini.write(f"\ndlx_definitions = {configured}\n")
    inner.makepyfile(TOPOLOGY.format(mark=f"@pytest.mark.dlx_topology({mark!r})" if mark else "", queues=queues))
    inner.runpytest(*(["--dlx-definitions", option] if option else [])).assert_outcomes(passed=1)


@pytest.mark.parametrize("folder", ["tests", "."])
def test_a_marked_file_is_beside_the_test_or_in_the_root(inner: pytest.Pytester, folder: str) -> None:
    (inner.path / "tests").mkdir()
    (inner.path / folder / "shop.json").write_text(exported("orders", vhost="shop"))
    test = inner.makepyfile(TOPOLOGY.format(mark="@pytest.mark.dlx_topology('shop.json')", queues=["orders"]))
    test.rename(inner.path / "tests" / "test_shop.py")
    inner.runpytest("tests").assert_outcomes(passed=1)


def test_one_of_many_virtual_hosts_can_be_meant(inner: pytest.Pytester) -> None:
    both = json.loads(exported("orders", vhost="shop"))
    both["vhosts"].append({"name": "other"})
    both["queues"].append({"name": "letters", "vhost": "other"})
    (inner.path / "both.json").write_text(json.dumps(both))
    mark = "@pytest.mark.dlx_topology('both.json', vhost='other')"
    inner.makepyfile(TOPOLOGY.format(mark=mark, queues=["letters"]))
    inner.runpytest().assert_outcomes(passed=1)

    inner.makepyfile("def test_it(dlx_broker): pass")
    assert errors(inner.runpytest("--dlx-definitions", "both.json")) == (
        f"{inner.path / 'both.json'}: vhosts: expected one virtual host with queues, got 'shop', 'other'; "
        "name one with @pytest.mark.dlx_topology(FILE, vhost=NAME)"
    )


def test_the_default_queue_type_is_imported(inner: pytest.Pytester) -> None:
    (inner.path / "quorum.json").write_text(exported("orders", metadata={"default_queue_type": "quorum"}))
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_topology("quorum.json")
        def test_it(dlx_broker):
            dlx_broker.api("PUT", "queues/%2F/new", {"durable": True})
            assert {queue["type"] for queue in dlx_broker.api("GET", "queues/%2F")} == {"quorum"}
    """)
    inner.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        ("'nowhere.json'", "@pytest.mark.dlx_topology: no file 'nowhere.json' in {path}"),
        ("7", EXPECTED),
        ("'one.json', 'two'", EXPECTED),
        ("filename='one.json'", EXPECTED),
        ("release=4.3", EXPECTED),
        ("release='9.9'", f"@pytest.mark.dlx_topology: no release '9.9': known are {', '.join(RELEASES)}"),
        ("'broken.json'", "{path}/broken.json: line 1, column 2: not JSON: JSON is malformed: "
                          "object keys must be strings (byte 1)"),
        ("'one.json', vhost='two'", "{path}/one.json: no virtual host 'two'; there are '/', 'unused'"),
        ("'refused.json'", "{path}/refused.json: queues[0].arguments.x-message-ttl: no RabbitMQ takes this: "),
    ],
)  # fmt: skip
def test_errors_say_what_would_be_right(inner: pytest.Pytester, mark: str, error: str) -> None:
    (inner.path / "broken.json").write_text("{1}")
    (inner.path / "one.json").write_text(exported("one"))
    refused = json.loads(exported("one"))
    refused["queues"][0]["arguments"] = {"x-message-ttl": -1}
    (inner.path / "refused.json").write_text(json.dumps(refused))
    inner.makepyfile(f"""
        import pytest

        @pytest.mark.dlx_topology({mark})
        def test_it(dlx_broker): pass
    """)
    result = inner.runpytest()
    result.assert_outcomes(errors=1)
    assert errors(result).startswith(error.format(path=inner.path))


def test_markers_of_a_class_and_of_its_methods_are_merged(inner: pytest.Pytester) -> None:
    """Of each argument the closest counts, but a virtual host is one of the file that it was named with."""
    both = json.loads(exported("orders", vhost="shop"))
    both["vhosts"].append({"name": "other"})
    both["queues"].append({"name": "letters", "vhost": "other"})
    (inner.path / "both.json").write_text(json.dumps(both))
    (inner.path / "one.json").write_text(exported("one"))
    inner.makepyfile("""
        import pytest

        pytestmark = pytest.mark.dlx_topology(release="3.8")

        @pytest.mark.dlx_topology("both.json", vhost="shop")
        class TestIt:
            def test_class(self, dlx_topology, dlx_broker):
                assert ([*dlx_topology.queues], dlx_broker.release) == (["orders"], "3.8")

            @pytest.mark.dlx_topology(release="3.10")
            def test_release(self, dlx_topology, dlx_broker):
                assert ([*dlx_topology.queues], dlx_broker.release) == (["orders"], "3.10")

            @pytest.mark.dlx_topology(vhost="other")
            def test_vhost(self, dlx_topology):
                assert [*dlx_topology.queues] == ["letters"]

            @pytest.mark.dlx_topology("one.json")
            def test_file(self, dlx_topology):
                assert [*dlx_topology.queues] == ["one"]
    """)
    inner.runpytest().assert_outcomes(passed=4)


def test_a_topology_has_to_be_given(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_it(dlx_topology): pass")
    assert errors(inner.runpytest()) == (
        "dlx_topology: no definitions file is given; mark the test with @pytest.mark.dlx_topology(FILE), "
        "or set --dlx-definitions or dlx_definitions in the configuration"
    )


# Releases


@pytest.mark.parametrize(
    ("mark", "option", "configured", "release"),
    [
        ("4.0.5", "3.10", "3.8", "4.0"),
        (None, "3.10", "3.8", "3.10"),
        (None, None, "3.8.9", "3.8"),
        (None, None, None, "4.3"),
    ],
)
def test_the_release_is_chosen(
    inner: pytest.Pytester, mark: str | None, option: str | None, configured: str | None, release: str
) -> None:
    if configured:
        with (inner.path / "tox.ini").open("a") as ini:
            ini.write(f"\ndlx_release = {configured}\n")
    inner.makepyfile(f"""
        import pytest

        {f"@pytest.mark.dlx_topology(release='{mark}')" if mark else ""}
        def test_it(dlx_broker):
            assert dlx_broker.release == {release!r}
            assert dlx_broker.api("GET", "overview")["rabbitmq_version"].startswith({release + "."!r})
    """)
    inner.runpytest(*(["--dlx-release", option] if option else [])).assert_outcomes(passed=1)


def test_a_version_that_another_stands_in_for_is_a_warning_of_the_run(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_it(dlx_broker):
            assert dlx_broker.api("GET", "overview")["rabbitmq_version"] == "3.13.7"
    """)
    result = inner.runpytest("--dlx-release", "3.13.0")
    result.assert_outcomes(passed=1)
    remark = "the rules of RabbitMQ 3.13.7 stand in for those of 3.13.0: death_order changed in 3.13.3"
    result.stdout.fnmatch_lines([f"*StandInRelease: {remark}"])
    strict = inner.runpytest("--dlx-release", "3.13.0", "-W", "error::dlx.releases.StandInRelease")
    assert strict.ret == pytest.ExitCode.USAGE_ERROR
    strict.stderr.fnmatch_lines([f"ERROR: --dlx-release: {remark}"])


# Several releases

TOLD = """
    import pytest

    def test_it(dlx_broker, dlx_clock):
        assert dlx_broker.simulated
        print("ran on", dlx_broker.release, dlx_broker.api("GET", "overview")["rabbitmq_version"])
"""


def ran(result: pytest.RunResult) -> list[str]:
    """The names of the tests that passed, without their file."""
    return re.findall(r"::(\S+) PASSED", result.stdout.str())


def test_brokers_may_be_named_by_their_release(inner: pytest.Pytester) -> None:
    inner.makepyfile(TOLD)
    result = inner.runpytest("-v", "-s", "--dlx-broker", "3.13", "--dlx-broker", "4.3.6", "--dlx-broker", "4.3")
    assert re.findall(r"ran on (.*)", result.stdout.str()) == ["3.13 3.13.7", "4.3 4.3.6", "4.3 4.3.6"]
    assert set(re.findall(r"::(test_it\[[\d.]+)", result.stdout.str())) == {"test_it[3.13", "test_it[4.3"}


def test_the_configuration_may_name_several_releases(inner: pytest.Pytester, server: str) -> None:
    inner.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\ndlx_releases = 3.13 4.3\n")
    inner.makepyfile("def test_it(dlx_clock): pass\n\ndef test_without(): pass")
    each = ["test_it[3.13]", "test_it[4.3]", "test_without"]
    assert ran(inner.runpytest("-v")) == each
    # A broker on the command line is in place of them, and `simulator` means them.
    assert ran(inner.runpytest("-v", "--dlx-broker", "4.0")) == ["test_it[4.0]", "test_without"]
    assert ran(inner.runpytest("-v", "--dlx-release", "4.0")) == ["test_it", "test_without"]
    both = inner.runpytest("-v", "--dlx-broker", "simulator", "--dlx-broker", server)
    assert ran(both) == [*each[:2], "test_it[live-4.3]", "test_without"]


def test_a_marker_names_the_releases_of_a_test(inner: pytest.Pytester, server: str) -> None:
    inner.makepyfile("""
        import pytest

        pytestmark = pytest.mark.dlx_releases("3.8", "3.10")

        def test_module(dlx_broker):
            assert dlx_broker.release in ("3.8", "3.10")

        @pytest.mark.dlx_releases("4.3.6", "4.0", "4.3")
        def test_own(dlx_broker):
            assert dlx_broker.release in ("4.3", "4.0")
    """)
    marked = ["test_module[3.8]", "test_module[3.10]", "test_own[4.3]", "test_own[4.0]"]
    assert ran(inner.runpytest("-v")) == marked
    assert ran(inner.runpytest("-v", "--dlx-release", "3.9")) == marked
    on_server = inner.runpytest("-v", "-rs", "--dlx-broker", server)
    assert ran(on_server) == ["test_own[live-4.3]"]
    on_server.stdout.fnmatch_lines(["SKIPPED * the test is for RabbitMQ 3.8 and 3.10, and this one is 4.3"])
    named = inner.runpytest("-v", "--dlx-broker", "4.0")
    named.assert_outcomes(passed=1, skipped=1)
    assert ran(named) == ["test_own[4.0]"]


def test_the_release_of_a_topology_goes_before_those_of_the_configuration(inner: pytest.Pytester) -> None:
    inner.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\ndlx_releases = 3.13 4.3\n")
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_topology(release="4.0")
        def test_it(dlx_broker):
            assert dlx_broker.release == "4.0"
    """)
    assert ran(inner.runpytest("-v")) == ["test_it"]
    inner.runpytest("-v", "--dlx-broker", "4.3").assert_outcomes(skipped=1)


@pytest.mark.parametrize(
    ("marks", "error"),
    [
        ("dlx_releases('3.14')", "@pytest.mark.dlx_releases('3.14'): no release '3.14': known *; the nearest *3.13*"),
        ("dlx_releases()", "@pytest.mark.dlx_releases(): expected releases, each in quotes, such as *('3.13', '4.3')"),
        ("dlx_releases(['4.3'])", "@pytest.mark.dlx_releases([[]'4.3'[]]): expected releases, each in quotes*"),
        ("dlx_releases(4.3, 3.10)", "@*(4.3, 3.1): a number drops the last zero of 3.10, so write *; got 3.1"),
        ("dlx_releases('4.3'), pytest.mark.dlx_topology(release='4.0')",
         "dlx_releases and the release of dlx_topology do the same; leave one of them out"),
    ],
)  # fmt: skip
def test_a_marker_that_is_no_use_is_told(inner: pytest.Pytester, marks: str, error: str) -> None:
    inner.makepyfile(f"import pytest\npytestmark = [pytest.mark.{marks}]\ndef test_it(dlx_broker): pass")
    result = inner.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"test_a_marker_that_is_no_use_is_told.py::test_it: {error}"])
    assert "Traceback" not in result.stdout.str()


def test_a_release_of_a_marker_may_be_a_number(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_releases(3.13, "4.3")
        def test_it(dlx_broker):
            assert dlx_broker.release in ("3.13", "4.3")
    """)
    inner.runpytest().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            "dlx_releases = 3.13 4.30",
            "dlx_releases in the configuration: no release '4.30': known are *; the nearest *",
        ),
        ("dlx_releases = 3.13\ndlx_release = 4.3", "dlx_release and dlx_releases in the configuration do the same; *"),
    ],
)
def test_releases_in_the_configuration_that_are_no_use_are_told(inner: pytest.Pytester, lines: str, error: str) -> None:
    inner.makeini(f"[pytest]\n{lines}\n")
    result = inner.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {error}"])


# Brokers


def test_tests_run_once_for_each_broker(inner: pytest.Pytester, server: str) -> None:
    (inner.path / "one.json").write_text(exported("one"))
    inner.makepyfile("""
        import pika, pytest

        @pytest.mark.dlx_topology("one.json")
        def test_it(dlx_broker, dlx_clock):
            if not dlx_broker.simulated:
                assert dlx_broker.vhost.startswith("dlx-test-")
            with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
                connection.channel().queue_declare("one", passive=True)
            before = dlx_clock.now_us()
            dlx_clock.advance(milliseconds=50)
            assert dlx_clock.now_us() >= before + 50_000
    """)
    result = inner.runpytest("-v", "--dlx-broker", "simulator", "--dlx-broker", server)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_it?simulator? PASSED*", "*::test_it?live-4.3? PASSED*"])
    assert [vhost["name"] for vhost in servers.ask(server).api("GET", "vhosts")] == ["/"]


def test_a_test_for_another_release_is_skipped_on_a_server(inner: pytest.Pytester, server: str) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_topology(release="3.8")
        def test_it(dlx_broker): pass
    """)
    result = inner.runpytest("-rs", "--dlx-broker", server)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * the test is for RabbitMQ 3.8, and this one is 4.3"])


def test_what_a_server_refuses_is_told(inner: pytest.Pytester, server: str) -> None:
    refused = exported("one").replace('"arguments": {}', '"arguments": {"x-expires": 0}')
    (inner.path / "refused.json").write_text(refused)
    inner.makepyfile("def test_it(dlx_broker): pass")
    result = inner.runpytest("--dlx-broker", server, "--dlx-definitions", "refused.json")
    assert errors(result).startswith(f"{inner.path / 'refused.json'}: RabbitMQ 4.3.6 refuses it: ")
    assert [vhost["name"] for vhost in servers.ask(server).api("GET", "vhosts")] == ["/"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--dlx-broker", "rabbitmq"], "ERROR: --dlx-broker: expected simulator, a release such as 4.3, "
         "container:IMAGE, amqp://user:password@host:port/ or 'AMQP_URL|MANAGEMENT_URL', got 'rabbitmq'"),
        (["--dlx-broker", "container:"], "ERROR: --dlx-broker: expected simulator, a release such as 4.3, "
         "container:IMAGE, amqp://user:password@host:port/ or 'AMQP_URL|MANAGEMENT_URL', got 'container:'"),
        (["--dlx-broker", "amqp://me:secret@127.0.0.1:1"], "ERROR: --dlx-broker: no RabbitMQ management API answers at "
         "http://127.0.0.1:10001/ (nothing listens there); "
         "give it as 'amqp://me:...@127.0.0.1:1|http://...'"),
        (["--dlx-broker", "amqp://"], "ERROR: --dlx-broker: expected simulator, *, got 'amqp://'"),
        (["--dlx-broker", "amqp://host:rabbit/"], "ERROR: --dlx-broker: expected simulator, *, got 'amqp://host:...'"),
        (["--dlx-broker", "amqp://me:secret@127.0.0.1/shop"], "ERROR: --dlx-broker: every test gets a virtual host of "
         "its own, so leave '/shop' out of 'amqp://me:...@127.0.0.1/shop'"),
        (["--dlx-broker", "amqps://127.0.0.1:1"], "ERROR: --dlx-broker: no RabbitMQ management API answers at "
         "https://127.0.0.1:10001/ (nothing listens there); give it as 'amqps://guest:...@127.0.0.1:1|https://...'"),
        (["--dlx-broker", "WRONG"], "ERROR: --dlx-broker: the management API at http://127.0.0.1:*/ refuses the user "
         "'guest': *; is the password right, and does the user have the tag 'management'?"),
        (["--dlx-release", "2.0"], f"ERROR: --dlx-release: no release '2.0': known are {', '.join(RELEASES)}; "
         "the nearest is 3.8"),
        (["--dlx-broker", "4.9"], f"ERROR: --dlx-broker: no release '4.9': known are {', '.join(RELEASES)}; "
         "the nearest is 4.3"),
        (["--dlx-broker", "simulater"], "*, got 'simulater'; did you mean 'simulator'[?]"),
        (["--dlx-broker", "4.3", "--dlx-release", "4.0"], "ERROR: --dlx-broker 4.3 and --dlx-release 4.0 name two "
         "releases; leave one out"),
        (["--dlx-release", "4.0", "--dlx-broker", "SERVER"], "ERROR: --dlx-broker: the server at * is RabbitMQ 4.3.6, "
         "not 4.0"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_met_are_usage_errors(
    inner: pytest.Pytester, server: str, options: list[str], error: str
) -> None:
    wrong = server.replace("amqp://", "amqp://guest:wrong@")
    result = inner.runpytest(*(option.replace("SERVER", server).replace("WRONG", wrong) for option in options))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([error])
    assert "Traceback" not in result.stderr.str()


def test_an_unknown_release_in_the_configuration_is_named(inner: pytest.Pytester) -> None:
    inner.makeini("[pytest]\ndlx_release = 2.0\n")
    result = inner.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: dlx_release in the configuration: no release '2.0': known are *"])


@pytest.mark.parametrize(
    ("library", "code", "error"),
    [
        ("uvicorn", "def test_it(dlx_broker): pass", "dlx_broker: this needs uvicorn: pip install '.[[]server]' in a "
         "checkout of dlx"),
        ("hypothesis", "from simulator.testing import TopologyMachine",
         "E   ModuleNotFoundError: this needs hypothesis: pip install '.[[]testing]' in a checkout of dlx"),
    ],
)  # fmt: skip
def test_an_extra_that_is_not_installed_is_named(inner: pytest.Pytester, library: str, code: str, error: str) -> None:
    inner.makeconftest(f"import sys\nsys.modules[{library!r}] = None")
    inner.makepyfile(code)
    result = inner.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([error])


def test_time_ends_with_the_year_9999(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest
        from simulator.testing.brokers.servers import ManagementError

        def test_it(dlx_broker, dlx_clock):
            now_us = dlx_clock.advance(days=365 * 7900)
            for advance in (dlx_clock.advance, dlx_broker.server.clock.advance):
                with pytest.raises(ValueError, match="up to the end of the year 9999"):
                    advance(days=1e12)
            with pytest.raises(ManagementError, match="400 .*up to the end of the year 9999"):
                dlx_broker.api("POST", "clock/advance", {"days": 36_500})
            assert dlx_clock.now_us() == now_us
    """)
    inner.runpytest().assert_outcomes(passed=1)


def test_without_a_container_engine_nothing_runs(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{inner.path}/no-engine.sock")
    inner.makepyfile("def test_one(dlx_broker): pass\n\ndef test_two(dlx_broker): pass")
    result = inner.runpytest_subprocess("--dlx-broker", "container:rabbitmq:4.3-management")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines([
        "* --dlx-broker: the image rabbitmq:4.3-management cannot be run: Error while fetching server API version: *",
        "It takes a container engine such as Docker, and the image. *",
    ])  # fmt: skip
    assert "Traceback" not in result.stdout.str()


def test_options_and_marker_are_documented(inner: pytest.Pytester) -> None:
    options = inner.runpytest("--help").stdout
    options.fnmatch_lines(["dead letters (dlx):", "*--dlx-broker=BROKER*", "*--dlx-release=RELEASE*"])
    options.fnmatch_lines(["*dlx_release (string):*", "*dlx_releases (args):*", "*dlx_definitions (string):*"])
    inner.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.dlx_topology(file=None, [*], release=None, *"])


CONTAINER = """
import pytest
import simulator
from simulator.testing.brokers import backends

class Container:
    username = password = "guest"

    def __init__(self, image):
        assert image == "rabbitmq:4.3-management"

    def with_exposed_ports(self, *ports):
        assert ports == (15672,)
        return self

    def start(self):
        print("container started")
        self.server = simulator.serve("4.3", clock="wall", management_port=0)

    def get_container_host_ip(self):
        return "127.0.0.1"

    def get_exposed_port(self, port):
        url = {5672: self.server.amqp_url, 15672: self.server.management_url}[port]
        return int(url.rstrip("/").rpartition(":")[2])

    def stop(self):
        print("container removed")
        self.server.stop()

backends._testcontainers = lambda: (Container, RuntimeError)
"""


def test_a_container_is_started_once_when_it_is_needed_and_removed(inner: pytest.Pytester) -> None:
    inner.makeconftest(CONTAINER)
    inner.makepyfile("""
        def test_without():
            print("no broker")

        def test_one(dlx_broker):
            assert dlx_broker.release == "4.3"
            print("one broker")

        def test_two(dlx_broker):
            print("two brokers")
    """)
    result = inner.runpytest_subprocess("-s", "-v", "--dlx-broker", "container:rabbitmq:4.3-management")
    result.assert_outcomes(passed=3)
    said = re.findall(r"no broker|one broker|two brokers|container \w+", result.stdout.str())
    assert said == ["no broker", "container started", "one broker", "two brokers", "container removed"]
    result.stdout.fnmatch_lines(["*::test_one?container-rabbitmq:4.3-management?*"])


def test_releases_servers_and_a_container_are_one_matrix(inner: pytest.Pytester, server: str) -> None:
    inner.makeconftest(CONTAINER)
    inner.makepyfile("""
        import pytest

        @pytest.mark.parametrize("queue", ["a", "b"])
        def test_each(dlx_broker, queue):
            dlx_broker.api("PUT", f"queues/{dlx_broker.vhost.replace('/', '%2F')}/{queue}", {})
            dlx_broker.publish("", queue, b"one")
            assert [each.body for each in dlx_broker.drain(queue)] == [b"one"]

        @pytest.mark.dlx_releases("3.10", "4.3")
        def test_marked(dlx_broker):
            assert dlx_broker.release in ("3.10", "4.3")
    """)
    named = ["4.0", "simulator", server, "container:rabbitmq:4.3-management"]
    result = inner.runpytest_subprocess("-v", *[f"--dlx-broker={each}" for each in named])
    result.assert_outcomes(passed=12, skipped=1)
    brokers = {"4.0", "simulator", "live-4.3", "container-rabbitmq:4.3-management"}
    assert {each for each in ran(result) if "each" in each} == {
        f"test_each[{broker}-{queue}]" for broker in brokers for queue in "ab"
    }
    assert {each for each in ran(result) if "marked" in each} == {
        f"test_marked[{broker}]" for broker in {"3.10", "4.3", *brokers} - {"4.0", "simulator"}
    }


def test_a_container_of_another_release_is_removed_at_once(inner: pytest.Pytester) -> None:
    inner.makeconftest(CONTAINER)
    inner.makepyfile("def test_one(dlx_broker): pass\n\ndef test_two(dlx_broker): pass")
    options = ["--dlx-release", "4.0", "--dlx-broker", "container:rabbitmq:4.3-management"]
    result = inner.runpytest_subprocess("-s", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert re.findall(r"container \w+", result.stdout.str()) == ["container started", "container removed"]
    result.stdout.fnmatch_lines(["*--dlx-broker: the server at http://127.0.0.1:*/ is RabbitMQ 4.3.6, not 4.0*"])


def test_a_test_may_have_a_broker_with_tls(inner: pytest.Pytester, server: str) -> None:
    pytest.importorskip("trustme")
    inner.makepyfile(
        """
        import pika
        import pytest

        @pytest.mark.dlx_tls(clients="required", login_from="common_name")
        def test_it(dlx_broker):
            parameters = pika.URLParameters(dlx_broker.amqps_url)
            parameters.ssl_options = pika.SSLOptions(dlx_broker.tls.client_context(), parameters.host)
            parameters.credentials = pika.credentials.ExternalCredentials()
            with pika.BlockingConnection(parameters) as connection:
                connection.channel().queue_declare("orders", exclusive=True)
                (shown,) = dlx_broker.api("GET", "connections")
                assert (shown["user"], shown["auth_mechanism"], shown["ssl"]) == ("guest", "EXTERNAL", True)
        """
    )
    inner.runpytest().assert_outcomes(passed=1)
    result = inner.runpytest("--dlx-broker", server, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*the test has @pytest.mark.dlx_tls, which makes certificates for the simulator"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("clients='some'", "@pytest.mark.dlx_tls: clients is one of 'none', 'optional', 'required', not 'some'"),
        ("client='none'", "@pytest.mark.dlx_tls: Unexpected keyword argument 'client'"),
        ("'none'", "expected @pytest.mark.dlx_tls(*, clients='optional', login_from=None)"),
        ("cert='no.pem', key='no.key'", "@pytest.mark.dlx_tls: cert: no file 'no.pem' in ROOT"),
        (
            "cert='bad.pem', key='bad.pem'",
            "@pytest.mark.dlx_tls: ROOT/bad.pem: expected a certificate in PEM format, which begins with "
            "-----BEGIN CERTIFICATE-----",
        ),
    ],
)
def test_tls_that_makes_no_sense(inner: pytest.Pytester, arguments: str, says: str) -> None:
    (inner.path / "bad.pem").write_text("nothing")
    inner.makepyfile(
        f"""
        import pytest

        @pytest.mark.dlx_tls({arguments})
        def test_it(dlx_broker):
            pass
        """
    )
    assert errors(inner.runpytest()) == says.replace("ROOT", str(inner.path))


def test_files_of_tls_are_found_beside_the_test_then_in_the_root_directory(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trustme")
    inner.makeconftest("""
        import trustme

        issued = trustme.CA().issue_cert("localhost", "127.0.0.1")
        issued.cert_chain_pems[0].write_to_path("../tests/server.pem")
        issued.private_key_pem.write_to_path("../server.key")
    """)
    folder = inner.mkdir("tests")
    (folder / "test_it.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.dlx_tls(cert='server.pem', key='server.key')\n"
        "def test_it(dlx_broker): assert dlx_broker.amqps_url\n"
    )
    monkeypatch.chdir(inner.mkdir("elsewhere"))
    inner.runpytest_subprocess("--rootdir", str(inner.path), str(folder)).assert_outcomes(passed=1)


def test_a_broker_without_tls_names_the_marker(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_url(dlx_broker): dlx_broker.amqps_url

        def test_certificates(dlx_broker): dlx_broker.tls.ca
    """)
    result = inner.runpytest()
    result.assert_outcomes(failed=2)
    told = "E*AttributeError: this broker has no TLS: add @pytest.mark.dlx_tls to the test"
    result.stdout.fnmatch_lines([told, "*", told])
