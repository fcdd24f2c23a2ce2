"""One broker for a whole run, for an application that is configured once, and a clean start for each test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
CONFTEST = """
    import pika, pytest

    @pytest.fixture(scope="session")
    def app(dlx_session_amqp_url):
        with pika.BlockingConnection(pika.URLParameters(dlx_session_amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders")
            channel.queue_declare("own", exclusive=True)
            channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
            yield channel
"""


@pytest.fixture
def inner(loaded: None, pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def test_an_application_that_is_configured_once_finds_its_broker_in_each_test(inner: pytest.Pytester) -> None:
    """Queues and connections stay; messages, faults and what became of earlier messages do not."""
    inner.makepyfile("""
        import pytest
        from simulator.testing import assert_nothing_lost

        @pytest.mark.parametrize("run", range(3))
        def test_it(app, dlx_broker, dlx_amqp_url, dlx_session_amqp_url, run):
            assert dlx_amqp_url == dlx_session_amqp_url
            assert dlx_broker.wait_for("orders", messages=0) == 0
            assert_nothing_lost(dlx_broker)
            assert dlx_broker.faults.all() == []
            app.basic_publish("", "orders", b"a")
            app.basic_publish("", "orders", b"b")
            dlx_broker.faults.add("close_channel", queue="gone")
            app.basic_reject(app.basic_get("orders")[0].delivery_tag, requeue=False)
            dlx_broker.wait_for("orders")
            with pytest.raises(AssertionError, match="expected that nothing is lost"):
                assert_nothing_lost(dlx_broker)

        def test_its_report(app, dlx_broker):
            assert 0
    """)
    result = inner.runpytest(*QUIET)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["No message was published.", "In the queues:", "  orders: nothing"])
    result.stdout.no_fnmatch_line("*ERROR*")


def test_other_tests_have_brokers_of_their_own(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_shared(app, dlx_session_amqp_url): pass

        def test_own(dlx_broker, dlx_amqp_url):
            assert dlx_broker.api("GET", "queues") == []
    """)
    inner.runpytest(*QUIET).assert_outcomes(passed=2)


def test_each_broker_of_the_command_line_has_its_run(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        urls = set()

        def test_one(app, dlx_session_broker):
            urls.add(dlx_session_broker.amqp_url)

        def test_two(app, dlx_broker):
            urls.add(dlx_broker.amqp_url)

        def test_at_the_end():
            assert len(urls) == 2
    """)
    result = inner.runpytest(*QUIET, "-v", "--dlx-broker", "3.13", "--dlx-broker", "4.3")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*::test_one[[]3.13[]] PASSED*", "*::test_two[[]4.3[]] PASSED*"])


def test_a_marker_cannot_change_the_broker_of_the_whole_run(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.mark.dlx_topology(release="3.13")
        def test_it(app, dlx_broker): pass

        @pytest.mark.dlx_tls
        def test_tls(app, dlx_broker): pass
    """)
    result = inner.runpytest(*QUIET)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines([
        "dlx_topology: this test has the broker of the whole run, *; leave the marker out",
        "dlx_tls: this test has the broker of the whole run, which has no TLS; leave the marker out, or *",
    ])  # fmt: skip


def test_a_test_without_dlx_broker_has_its_report_too(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_before(app): app.basic_publish("", "orders", b"left over")

        def test_it(app): assert app.basic_get("orders")[0] is None
    """)
    result = inner.runpytest(*QUIET)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "*what became of the messages*",
        "The test has the broker of the whole run as the tests before left it, because it has no dlx_broker:",
        "Lost: nothing",
        "In the queues:",
    ])  # fmt: skip


def test_a_consumer_that_holds_a_delivery_of_an_earlier_test_is_named(inner: pytest.Pytester) -> None:
    """It is named in a warning and in the report of a failure, and the wait is as long as the test says."""
    inner.makepyfile("""
        import pytest

        pytestmark = pytest.mark.dlx_answer_within_s(0.1)

        def test_before(app, dlx_broker):
            app.basic_consume("orders", print)
            dlx_broker.publish("", "orders")

        def test_passes(app, dlx_broker): pass

        def test_fails(app, dlx_broker): assert 0
    """)
    result = inner.runpytest(*QUIET, "-W", "default")
    result.assert_outcomes(passed=2, failed=1, warnings=2)
    told = "The consumer of 'orders' still holds a delivery of an earlier test."
    result.stdout.fnmatch_lines([
        "*what became of the messages*",
        told,
        "*test_passes",
        f"*UserWarning: {told} Before a test, the clock waits up to 0.1 s for it (dlx_answer_within_s).",
    ])  # fmt: skip
