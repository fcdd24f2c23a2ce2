"""The firehose, and direct reply-to."""

from tests.differential.operations import (
    Bind,
    Cancel,
    CloseChannel,
    Commit,
    Consume,
    Count,
    DeclareQueue,
    Drain,
    Get,
    Nack,
    Operation,
    Reject,
    Rollback,
    SelectConfirms,
    SelectTransactions,
    SetTracing,
)
from tests.differential.words import exchange, publish, queue, quorum, rejected, scenario
from tests.real_servers import LIVE

CONFIRMED = SelectConfirms()
TRACED = [SetTracing(), queue("t"), Bind("amq.rabbitmq.trace", "t", "#")]
REPLIES = "amq.rabbitmq.reply-to"
ADDRESS = f"{REPLIES}-1"
ASKED = [
    queue("q"), queue("copy"), Consume(REPLIES, "r", no_ack=True), publish("q", reply_to=REPLIES),
    Get("q", channel="b"),
]  # fmt: skip


def answer(body: str, key: str, *, mandatory: bool = False, **copies: list[str]) -> list[Operation]:
    """Publish an answer, on connection ``b``."""
    return publish(key, body, headers=copies or None, mandatory=mandatory, on="b")


SCENARIOS = [
    scenario(
        "publish and get",
        TRACED, queue("q"),
        publish("q", headers={"a": 1}, message_id="m", priority=5, timestamp=1700000000, delivery_mode=2), Get("q"),
        Nack(), Get("q"),
    ),
    scenario(
        "publish and deliver",
        TRACED, queue("q"), Consume("q", "c"), publish("q", content_type="text/plain", expiration="60000"), Reject(),
    ),
    scenario(
        "to an exchange, unroutable",
        TRACED, exchange("x"), publish("k", exchange="x"), publish("nowhere"), publish("nowhere", mandatory=True),
    ),
    scenario(
        "CC and BCC",
        TRACED, queue("q"), queue("r"), publish("q", headers={"CC": ["r", "q"], "BCC": ["s"], "z": 1, "a": 2}),
    ),
    scenario(
        "dead letters are not published",
        TRACED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q"), rejected("q"), Get("d"),
    ),
    scenario("quorum queues", TRACED, quorum("q"), publish("q"), Get("q"), Nack(), Get("q")),
    scenario(
        "keys of traces",
        SetTracing(), queue("p"), queue("d"), Bind("amq.rabbitmq.trace", "p", "publish.#"),
        Bind("amq.rabbitmq.trace", "d", "deliver.q"), queue("q"), publish("q"), Get("q"),
        publish("k", exchange="amq.fanout"),
    ),
    scenario("switched off", TRACED, publish("x"), SetTracing(False), publish("y"), Drain("t")),
    scenario("the trace exchange is internal", publish("k", exchange="amq.rabbitmq.trace")),
    scenario("on another channel", TRACED, queue("q"), publish("q", on="a/2"), Get("q", channel="b")),
    scenario(
        "reply-to",
        queue("q"), Consume(REPLIES, "r", no_ack=True), publish("q", reply_to=REPLIES), Get("q", channel="b"),
        publish("amq.rabbitmq.reply-to-1", "answer", on="b", correlation_id="c"),
        publish("amq.rabbitmq.reply-to-1", "again", on="b"),
    ),
    scenario("reply-to without no_ack", Consume(REPLIES, "r")),
    scenario("reply-to without a consumer", queue("q"), publish("q", reply_to=REPLIES)),
    scenario("reply-to twice", Consume(REPLIES, "r", no_ack=True), Consume(REPLIES, "s", no_ack=True)),
    scenario(
        "reply-to cancelled",
        queue("q"), Consume(REPLIES, "r", no_ack=True), publish("q", reply_to=REPLIES), Get("q", channel="b"),
        Cancel("r"), publish("amq.rabbitmq.reply-to-1", on="b", mandatory=True),
    ),
    scenario(
        "reply-to whose channel is gone",
        queue("q"), Consume(REPLIES, "r", no_ack=True), publish("q", reply_to=REPLIES), Get("q", channel="b"),
        DeclareQueue("amq.rabbitmq.reply-to-1", passive=True, channel="b"), CloseChannel(),
        DeclareQueue("amq.rabbitmq.reply-to-1", passive=True, channel="b"),
        publish("amq.rabbitmq.reply-to-1", on="b", mandatory=True),
    ),
    scenario(
        "reply-to survives a dead letter",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), Consume(REPLIES, "r", no_ack=True),
        publish("q", reply_to=REPLIES), Get("q", channel="b"), Reject(requeue=False, channel="b"),
        Get("d", channel="b"), publish("amq.rabbitmq.reply-to-1", "answer", on="b"), Count("d"),
    ),
    scenario(
        "reply-to with copies",
        ASKED, queue("full", length=1, overflow="reject-publish"), publish("full"), answer("1", ADDRESS, CC=["copy"]),
        answer("2", ADDRESS, BCC=["copy"]), answer("3", ADDRESS, CC=["nowhere"]), Count("copy"),
        SelectConfirms(channel="b"), answer("4", ADDRESS, CC=["full"]), Get("copy"), releases=LIVE,
    ),
    scenario(
        "reply-to whose address is a copy",
        ASKED, answer("1", "copy", CC=[ADDRESS]), answer("2", "copy", BCC=[ADDRESS]), answer("3", "k", CC=[ADDRESS]),
        answer("4", ADDRESS, CC=[ADDRESS]), publish("k", exchange="amq.fanout", headers={"CC": [ADDRESS]}),
        releases=LIVE,
    ),
    scenario(
        "reply-to, mandatory, with copies",
        ASKED, answer("1", ADDRESS, mandatory=True, CC=["copy"]), answer("2", "k", mandatory=True, CC=[ADDRESS]),
        answer("3", ADDRESS, mandatory=True, CC=["nowhere"]), releases=LIVE,
    ),
    scenario(
        "reply-to in a transaction",
        ASKED, SelectTransactions(channel="b"), answer("1", ADDRESS, mandatory=True), answer("2", ADDRESS, CC=["copy"]),
        Commit(channel="b"), answer("3", ADDRESS, CC=["copy"]), Rollback(channel="b"), releases=LIVE,
    ),
    scenario(
        "reply-to by dead letter",
        ASKED, queue("q1", dlx="", dlrk=ADDRESS), queue("q2", dlx=""), quorum("q3", dlx=""),
        publish("q1", "1"), rejected("q1"), publish("q2", "2", headers={"CC": [ADDRESS]}), rejected("q2"),
        publish("q3", "3", headers={"CC": [ADDRESS]}), rejected("q3"), releases=LIVE,
    ),
]  # fmt: skip
