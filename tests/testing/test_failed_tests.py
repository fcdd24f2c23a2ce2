"""What pytest shows of a failed test that used ``dlx_broker``."""

from __future__ import annotations

import re

import pytest

from tests.otlp import facts, traces

pytest_plugins = ["pytester"]

TESTS = """
    import pika, pytest
    from simulator.testing import assert_nothing_lost

    @pytest.fixture
    def channel(dlx_amqp_url):
        with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", arguments={"x-dead-letter-exchange": "gone"})
            channel.queue_declare("wait", arguments={"x-message-ttl": 5000})
            channel.basic_publish("", "wait", b"x")
            channel.basic_publish("", "orders", b"x", pika.BasicProperties(message_id="order-1"))
            channel.basic_reject(channel.basic_get("orders")[0].delivery_tag, requeue=False)
            yield channel
"""
LOST = (
    "It was dropped: it died in the queue 'orders' (rejected) and went nowhere "
    "(dead-letter exchange 'gone' of queue 'orders' does not exist)."
)


def shown(result: pytest.RunResult) -> list[str]:
    """What stands between the title of the section and the end of the test's report."""
    lines = result.stdout.lines
    (start,) = (number for number, line in enumerate(lines) if "- what became of the messages -" in line)
    end = next(number for number, line in enumerate(lines) if number > start and line.startswith("="))
    return [re.sub("20..-.*?[.]...", "TIME", line) for line in lines[start + 1 : end]]


def test_a_failed_test_tells_losses_then_queues_then_lives(inner: pytest.Pytester) -> None:
    inner.makepyfile(TESTS + "\n    def test_it(channel):\n        assert not channel")
    assert shown(inner.runpytest()) == [
        "Lost:",
        f"  message 2 (id 'order-1'): {LOST}",
        "In the queues:",
        "  orders: nothing",
        "  wait: 1 message, never dead-lettered; something is due in 5 s",
        "message 2 (id 'order-1'):",
        "  At TIME it was published to the default exchange with the routing key 'orders'.",
        "  At once it entered the queue 'orders'.",
        "  At once the queue 'orders' handed it to a consumer.",
        "  At once the consumer of 'orders' rejected it for good.",
        f"  At once {LOST[0].lower()}{LOST[1:]}",
        "  Nothing is left of it.",
        "message 1:",
        "  At TIME it was published to the default exchange with the routing key 'wait'.",
        "  At once it entered the queue 'wait'.",
        "  It is in the queue 'wait', ready at place 1 of 1.",
    ]


def test_a_life_that_the_failure_tells_is_not_told_twice(inner: pytest.Pytester) -> None:
    inner.makepyfile(TESTS + "\n    def test_it(channel, dlx_broker):\n        assert_nothing_lost(dlx_broker)")
    assert [line for line in shown(inner.runpytest()) if line.startswith("message")] == ["message 1:"]


def test_many_messages_are_told_in_few_lines(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        TESTS + "\n    def test_it(channel):"
        "\n        for number in range(1000): channel.basic_publish('', f'q{channel.queue_declare(str(number))}', b'')"
        "\n        for number in range(1000): channel.basic_publish('', 'wait', b'')"
        "\n        assert 0"
    )
    lines = shown(inner.runpytest())
    assert "  and 982 more queues" in lines
    assert sum(line.startswith("message 2002 and 1,000 more (message 2001, message 2000,") for line in lines) == 1
    assert lines[-1] == "and 997 more messages"
    assert len(lines) < 60


def test_messages_that_are_lost_alike_are_told_once(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        TESTS + "\n    def test_it(channel, dlx_broker):"
        "\n        for number in range(12): channel.basic_publish('', 'orders', b'')"
        "\n        for number in range(12): channel.basic_reject(channel.basic_get('orders')[0].delivery_tag, False)"
        "\n        assert_nothing_lost(dlx_broker)"
    )
    result = inner.runpytest()
    named = "(message 3, message 4, message 5, message 6, message 7, …)"
    result.stdout.fnmatch_lines([f"E *message 2 (id 'order-1') and 12 more {named}: {LOST}"])
    lines = shown(result)
    assert lines[:2] == ["Lost:", f"  message 2 (id 'order-1') and 12 more {named}: {LOST}"]
    assert result.stdout.str().count("At once it was dropped") == 1


def test_the_copies_of_a_message_are_told_apart(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        TESTS + "\n    def test_it(channel, dlx_broker, dlx_clock):"
        "\n        properties = pika.BasicProperties(headers={'CC': ['wait']})"
        "\n        channel.queue_purge('wait')"
        "\n        channel.basic_publish('', 'orders', b'', properties)"
        "\n        channel.basic_reject(channel.basic_get('orders')[0].delivery_tag, requeue=False)"
        "\n        assert 0"
    )
    lines = shown(inner.runpytest())
    assert f"  message 3: The copy in 'orders' {LOST.removeprefix('It ')}" in lines
    assert "  One copy is in the queue 'wait', ready at place 1 of 1." in lines
    assert not [line for line in lines if "message 3: It" in line]


def test_what_passes_says_nothing(inner: pytest.Pytester) -> None:
    inner.makepyfile(TESTS + "\n    def test_it(channel): pass\n    def test_other(): assert 0")
    result = inner.runpytest("-rA")
    result.assert_outcomes(passed=1, failed=1)
    assert "became of the messages" not in result.stdout.str()


def test_a_broker_that_is_gone_does_not_hide_the_failure(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_it(dlx_broker):\n    dlx_broker.server.stop()\n    assert 'this' == 'that'")
    result = inner.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * assert 'this' == 'that'", "The broker does not say: *"])


FULL = """
    import pika, pytest

    @pytest.fixture
    def full(dlx_broker):
        with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
            arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
            connection.channel().queue_declare("full", arguments=arguments)
"""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("dlx_clock.advance(hours=-1)", "E *ValueError: time only goes forward: *"),
        ("dlx_clock.advance(days=10_000_000)", "E *ValueError: time can be moved up to the end of the year 9999*"),
        ("dlx_broker.api('GET', 'queus')", "E *ManagementError: GET /api/queus: 404 Not Found"),
        ("assert_dead_lettered(dlx_broker, to='ordres')", "E *AssertionError: expected dead letters *"),
        ("dlx_broker.publish('', 'ordres')", "E *UnroutableError: 1 unroutable message*"),
        ("dlx_broker.publish('', 'full')", "E *NackError: *"),
        ("dlx_broker.get('ordres')", "E *LookupError: *"),
        ("dlx_broker.faults.add('close_chanel')", "E *FaultError: fault: no fault 'close_chanel'; *"),
        ("assert_settles(dlx_broker, within=-1)", "E *ValueError: expected within to be a time *"),
    ],
)
def test_the_traceback_ends_in_the_test(inner: pytest.Pytester, call: str, error: str) -> None:
    inner.makepyfile(
        "from simulator.testing import assert_dead_lettered, assert_settles\n\n"
        "def test_it(full, dlx_broker, dlx_clock):\n"
        f"    {call}"
    )
    inner.makeconftest(FULL)
    result = inner.runpytest("--show-capture=no")
    result.stdout.fnmatch_lines([f">       {call}".replace("[", "[[]"), error, "test_the_traceback_*py:4: *"])
    assert ".py:" not in re.sub(r"test_the_traceback\w*[.]py", "", result.stdout.str())


RETRIED = """
    import pika

    def test_it(dlx_broker):
        with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.exchange_declare("both", "fanout")
            channel.queue_declare("work", arguments={"x-dead-letter-exchange": "both"})
            back = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
            channel.queue_declare("wait", arguments=back)
            channel.queue_declare("lost", arguments={"x-max-length": 0, "x-dead-letter-exchange": "gone"})
            for queue in ("wait", "lost"):
                channel.queue_bind(queue, "both")
            headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            channel.basic_publish("", "work", b"x", pika.BasicProperties(headers=headers))
            channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=True)
            channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)
            dlx_broker.clock.advance(seconds=2)
            channel.basic_ack(channel.basic_get("work")[0].delivery_tag)
            channel.basic_publish("", "nowhere", b"x")
            channel.basic_publish("", "wait", b"x")
            channel.queue_purge("wait")
            channel.basic_publish("", "wait", b"x")
            assert not channel

    def test_that_passes(dlx_broker):
        assert dlx_broker

    def test_of_another(dlx_broker):
        with pika.BlockingConnection(pika.URLParameters(dlx_broker.amqp_url)) as connection:
            connection.channel().basic_publish("", "nowhere", b"x")
            assert not connection
"""


def test_the_messages_of_failed_tests_are_traces(inner: pytest.Pytester) -> None:
    inner.makepyfile(RETRIED)
    inner.path.joinpath("traces.jsonl").write_text("of an earlier run")
    inner.runpytest("--dlx-otlp", "traces.jsonl")
    lives = traces(inner.path / "traces.jsonl")
    retried, nowhere, purged, waiting, other = lives
    assert [span.name for span in retried] == [
        "publish work",
        "queue work",
        "requeue work",
        "queue work",
        "reject work",
        "dead-letter work",
        "queue lost",
        "dead-letter lost",
        "queue wait",
        "dead-letter wait",
        "queue work",
        "ack work",
    ]
    assert retried[0].parent_span_id.hex() == "b7ad6b7169203331"
    told = {span.name: facts(span) for span in retried}
    assert told["dead-letter lost"]["error.type"] == "lost"
    assert told["dead-letter lost"]["dlx.death.setting"] == "max-length"
    assert "'gone'" in told["dead-letter lost"]["dlx.why"]
    assert told["dead-letter wait"]["dlx.death.setting.value"] == "1000"
    (stay,) = (span for span in retried if span.name == "queue wait")
    assert stay.end_time_unix_nano - stay.start_time_unix_nano == 1_000_000_000
    assert [facts(each[-1]).get("error.type") for each in (nowhere, purged, other)] == [
        "unroutable", "purged", "unroutable",
    ]  # fmt: skip
    assert facts(waiting[-1])["dlx.outcome"] == "waiting"
    assert [facts(each[0])["dlx.test"].rpartition("::")[2] for each in lives] == ["test_it"] * 4 + ["test_of_another"]


def test_a_folder_for_traces_that_is_not_there_is_named_before_the_tests(inner: pytest.Pytester) -> None:
    inner.makepyfile(RETRIED)
    result = inner.runpytest("--dlx-otlp", "away/traces.jsonl")
    result.stderr.fnmatch_lines(["ERROR: --dlx-otlp *away/traces.jsonl: No such file or directory"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
