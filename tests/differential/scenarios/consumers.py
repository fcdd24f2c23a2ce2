"""Consumers: prefetch, priorities, exclusivity, single active consumer, cancels, and wrong acknowledgements."""

from tests.differential.operations import (
    Ack,
    Cancel,
    CloseChannel,
    CloseConnection,
    Consume,
    Count,
    DeclareQueue,
    DeleteQueue,
    Get,
    KillConnection,
    Nack,
    OpenConnection,
    Operation,
    PurgeQueue,
    Qos,
    Recover,
    Reject,
    Scenario,
    SelectConfirms,
    Wait,
)
from tests.differential.words import burst, gets, publish, queue, quorum, scenario
from tests.real_servers import LIVE

CONFIRMED = SelectConfirms()
PATIENT = {"x-consumer-timeout": 100_000}
SETTLED = {
    "basic.ack": Ack(channel="b"),
    "basic.nack": Nack(channel="b"),
    "a final basic.nack": Nack(requeue=False, channel="b"),
    "basic.reject": Reject(channel="b"),
    "a final basic.reject": Reject(requeue=False, channel="b"),
    "basic.recover": Recover(channel="b"),
}


def late_queue() -> DeclareQueue:
    """A queue with a single active consumer, which is late after 1.5 s."""
    return quorum("q", single_active_consumer=True, consumer_timeout=1500)


def with_their_connection(how: str, end: Operation) -> list[Scenario]:
    """What a quorum queue has back when connection ``b`` ends, with consumers on channels beside those that hold it.

    It is counted and purged: whether the queue had sent it to a consumer that was gone already is left to chance.
    """
    begin = [CONFIRMED, quorum("q"), publish("q", "1", "2")]
    single = [CONFIRMED, quorum("q", single_active_consumer=True)]
    rest = [end, Wait(300), Count("q"), PurgeQueue("q")]
    automatic = Consume("q", "e", no_ack=True, channel="b/9")
    named = f"a connection is {how} with"
    return [
        scenario(
            f"{named} an automatic consumer beside",
            begin,
            Qos(2, channel="b"),
            Consume("q", "c", channel="b"),
            automatic,
            rest,
            releases=LIVE,
        ),
        scenario(
            f"{named} an automatic consumer before",
            begin[:2],
            automatic,
            Cancel("e", channel="b/9"),
            publish("q", "1", "2"),
            gets("q", 2, on="b/10"),
            automatic,
            rest,
            releases=LIVE,
        ),
        scenario(
            f"{named} many channels",
            begin[:2],
            [Consume("q", f"c{number}", channel=f"b/{number}") for number in range(2, 6)],
            publish("q", *"123456"),
            automatic,
            rest,
            releases=LIVE,
        ),
        scenario(
            f"{named} its single active consumer and others that wait",
            single,
            Qos(1, channel="b"),
            Consume("q", "c", channel="b"),
            Consume("q", "d", channel="b/2"),
            automatic,
            publish("q", "1", "2"),
            rest,
            releases=LIVE,
        ),
    ]


SCENARIOS = [
    scenario(
        "prefetch 2",
        CONFIRMED, queue("q"), Qos(2), Consume("q", "c"), publish("q", *"12345"), Ack(delivery=1), Ack(delivery=0),
    ),
    scenario(
        "prefetch 2, quorum",
        CONFIRMED, quorum("q"), Qos(2), Consume("q", "c"), publish("q", *"12345"), Ack(delivery=1), Ack(delivery=0),
    ),
    scenario(
        "prefetch per consumer",
        CONFIRMED, queue("q"), queue("r"), Qos(1), Consume("q", "c"), Qos(2), Consume("r", "d"),
        publish("q", "1", "2"), publish("r", "3", "4", "5"), Ack(delivery=0), Ack(delivery=1), Ack(delivery=2),
    ),
    scenario(
        "prefetch of the channel",
        CONFIRMED, queue("q"), queue("r"), Qos(2, global_=True), Consume("q", "c"), Consume("r", "d"),
        publish("q", "1", "2"), publish("r", "3"), Ack(delivery=0), Ack(delivery=0, tag=2),
    ),
    scenario(
        "prefetch of the channel and the consumer",
        CONFIRMED, queue("q"), Qos(1), Qos(2, global_=True), Consume("q", "c"), Consume("q", "d"),
        publish("q", *"1234"), Ack(multiple=True),
    ),
    scenario(
        "prefetch of the channel, quorum",
        CONFIRMED, quorum("q"), Qos(2, global_=True), Consume("q", "c"), publish("q", *"123"),
    ),
    scenario(
        "prefetch of the channel or arguments, quorum",
        quorum("q"), queue("r"), Qos(2, global_=True), Consume("q", "c", arguments={"x-priority": True}),
        Qos(2, global_=True), Consume("q", "c", arguments={"x-priority": 1}), Qos(2, global_=True),
        Consume("r", "c", arguments={"x-priority": "high"}), releases=LIVE,
    ),
    scenario(
        "prefetch raised",
        CONFIRMED, queue("q"), Qos(1, global_=True), Consume("q", "c"), publish("q", *"1234"), Qos(3, global_=True),
        Qos(0, global_=True),
    ),
    scenario(
        "a timeout cancels for each delivery that it finds late",
        CONFIRMED, quorum("q", consumer_timeout=1500), Qos(3), Consume("q", "c"), publish("q", "1"), Wait(150),
        publish("q", "2"), Wait(2200), Count("q"), Ack(delivery=0), Count("q"), Ack(delivery=1), Wait(100),
        releases=["4.3"],
    ),
    scenario(
        "a timeout cancels once for deliveries that are late together",
        CONFIRMED, quorum("q", consumer_timeout=600), publish("q", "1", "2"), Qos(2), Consume("q", "c"), Wait(1000),
        Count("q"), Ack(delivery=0), Count("q"), Ack(delivery=1), Wait(100), releases=["4.3"],
    ),
    scenario(
        "x-credit that is no table",
        queue("q"), quorum("r"), [Consume(each, "c", arguments={"x-credit": 5}) for each in "qr"],
        Count("q"), Count("r"), [Consume(each, "d", arguments={"x-credit": {}}, exclusive=True) for each in "qr"],
        Consume("q", "e", arguments={"x-credit": "x"}),
        Consume("r", "e", arguments={"x-credit": None, "x-priority": "x"}),
    ),
    scenario("prefetch by size", Qos(0, prefetch_size=10)),
    scenario(
        "prefetch and basic.get",
        CONFIRMED, queue("q"), Qos(1), publish("q", *"123"), Get("q"), Get("q"), Consume("q", "c"),
    ),
    scenario(
        "prefetch and no_ack",
        CONFIRMED, queue("q"), Qos(1), Consume("q", "c", no_ack=True), publish("q", *"123"), Ack(tag=3),
    ),
    scenario(
        "round robin",
        CONFIRMED, queue("q"), Consume("q", "c"), Consume("q", "d", channel="b"), Consume("q", "e", channel="c"),
        publish("q", *"1234567"),
    ),
    scenario(
        "round robin, quorum",
        CONFIRMED, quorum("q"), Consume("q", "c"), Consume("q", "d", channel="b"), Consume("q", "e", channel="c"),
        publish("q", *"1234567"),
    ),
    scenario(
        "round robin with prefetch 1",
        CONFIRMED, queue("q"), Qos(1), Consume("q", "c"), Qos(1, channel="b"), Consume("q", "d", channel="b"),
        publish("q", *"12345"), Ack(channel="b"), Ack(channel="b"), Ack(),
    ),
    scenario(
        "round robin on one channel",
        CONFIRMED, queue("q"), publish("q", *"12345"), Qos(1), Consume("q", "c"), Consume("q", "d"), Ack(delivery=1),
        Ack(delivery=0), Ack(multiple=True),
    ),
    scenario(
        "a late consumer gets what is left",
        CONFIRMED, queue("q"), publish("q", *"12345"), Qos(2), Consume("q", "c"), Qos(2, channel="b"),
        Consume("q", "d", channel="b"), Consume("q", "e", channel="c"),
    ),
    scenario(
        "consumer priorities",
        CONFIRMED, queue("q"), Qos(1), Consume("q", "low"), Qos(1, channel="b"),
        Consume("q", "high", arguments={"x-priority": 5}, channel="b"), publish("q", *"123"), Ack(channel="b"), Ack(),
        Consume("q", "negative", arguments={"x-priority": -1}, channel="c"), publish("q", "4"),
    ),
    scenario(
        "consumer priorities, quorum",
        CONFIRMED, quorum("q"), Qos(1), Consume("q", "low"), Qos(1, channel="b"),
        Consume("q", "high", arguments={"x-priority": 5}, channel="b"), publish("q", *"123"), Ack(channel="b"), Ack(),
        Consume("q", "negative", arguments={"x-priority": -1}, channel="c"), publish("q", "4"),
    ),
    scenario(
        "a consumer priority that is no integer",
        queue("q"), Consume("q", "c", arguments={"x-priority": "high"}),
    ),
    scenario(
        "exclusive consumer",
        CONFIRMED, queue("q"), Consume("q", "c", exclusive=True), Consume("q", "d", channel="b"),
        Get("q", channel="b"), publish("q"), Cancel("c"), Consume("q", "d", channel="b"),
        Consume("q", "c", exclusive=True),
    ),
    scenario(
        "exclusive consumer, quorum",
        CONFIRMED, quorum("q"), Consume("q", "c", exclusive=True), Consume("q", "d", channel="b"), publish("q"),
        Cancel("c"), Consume("q", "d", channel="b"),
    ),
    scenario(
        "single active consumer",
        CONFIRMED, queue("q", single_active_consumer=True), Qos(1), Consume("q", "c"), Qos(2, channel="b"),
        Consume("q", "d", channel="b"), Consume("q", "e", channel="c"), publish("q", *"1234"), Ack(), Cancel("c"),
        Ack(), CloseChannel(channel="b"), Get("q", channel="b"),
    ),
    scenario(
        "single active consumer, quorum",
        CONFIRMED, quorum("q", single_active_consumer=True), Qos(1), Consume("q", "c"), Qos(2, channel="b"),
        Consume("q", "d", channel="b"), publish("q", *"1234"), Ack(), Cancel("c"), Ack(), CloseChannel(channel="b"),
    ),
    scenario(
        "single active consumer with priorities, quorum",
        CONFIRMED, quorum("q", single_active_consumer=True), Consume("q", "c"),
        Consume("q", "d", arguments={"x-priority": 5}, channel="b"), publish("q", "1", "2"), Ack(multiple=True),
        publish("q", "3"),
    ),
    scenario(
        "single active consumer and an exclusive one",
        queue("q", single_active_consumer=True), Consume("q", "c", exclusive=True),
    ),
    scenario(
        "single active consumer and basic.get",
        CONFIRMED, queue("q", single_active_consumer=True), Consume("q", "c"), publish("q"), Get("q"),
    ),
    scenario(
        "single active consumer and basic.get, quorum",
        CONFIRMED, quorum("q", single_active_consumer=True), publish("q"), Get("q"), Consume("q", "c"),
        Get("q", channel="b"),
    ),
    scenario(
        "single active consumer, counted",
        queue("q", single_active_consumer=True), Consume("q", "c"), Consume("q", "d"), Count("q"), Cancel("c"),
        Count("q"),
    ),
    scenario(
        "single active consumer, counted, quorum",
        quorum("q", single_active_consumer=True), Consume("q", "c"), Consume("q", "d"), Count("q"), Cancel("c"),
        Count("q"), Cancel("d"), Count("q"),
    ),
    scenario(
        "a consumer tag twice",
        queue("q"), Consume("q", "c"), Consume("q", "c"), Consume("q", "c", channel="b"),
    ),
    scenario("a consumer tag from the server", queue("q"), Consume("q"), Consume("q"), Cancel("amq.ctag-1")),
    scenario("a cancel of no consumer", Cancel("nobody")),
    scenario(
        "the queue of a consumer is deleted",
        CONFIRMED, queue("q"), Consume("q", "c"), Consume("q", "d", channel="b"), publish("q", "1", "2"),
        DeleteQueue("q", channel="c"), Ack(), Cancel("c"),
    ),
    scenario(
        "the queue of a consumer is deleted, quorum",
        CONFIRMED, quorum("q"), Consume("q", "c"), publish("q"), DeleteQueue("q", channel="b"), Ack(),
    ),
    scenario(
        "the queue of a consumer without that capability is deleted",
        OpenConnection("b", capabilities=()), queue("q"), Consume("q", "c", channel="b"), DeleteQueue("q"),
    ),
    scenario("consume from a queue that is missing", Consume("q", "c")),
    scenario("no_local is ignored", CONFIRMED, queue("q"), Consume("q", "c", no_local=True), publish("q")),
    scenario("acknowledged twice", CONFIRMED, queue("q"), publish("q"), Get("q"), Ack(), Ack(tag=1)),
    scenario(
        "a tag that never was",
        CONFIRMED, queue("q"), publish("q"), Get("q"), Ack(tag=5), Nack(tag=5), Reject(tag=5),
    ),
    scenario("tag 0 without multiple", CONFIRMED, queue("q"), publish("q"), Get("q"), Ack(tag=0)),
    scenario(
        "tag 0 with multiple",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Get("q"), Get("q"), Ack(tag=0, multiple=True), CloseChannel(),
        Count("q"),
    ),
    scenario(
        "tag 0 with multiple and nothing unacknowledged",
        Ack(tag=0, multiple=True), Nack(tag=0, multiple=True), Count("q"),
    ),
    scenario(
        "a tag of another channel",
        CONFIRMED, queue("q"), publish("q"), Get("q"), Ack(tag=1, channel="b"), Ack(),
    ),
    scenario(
        "multiple up to one in the middle",
        CONFIRMED, queue("q"), publish("q", *"1234"), Consume("q", "c"), Ack(delivery=1, multiple=True),
        Ack(delivery=0), CloseChannel(),
    ),
    scenario("recover without requeue", CONFIRMED, queue("q"), publish("q"), Get("q"), Recover(requeue=False)),
    scenario("recover to a consumer", CONFIRMED, queue("q"), Consume("q", "c"), publish("q", "1", "2"), Recover()),
    scenario(
        "no_ack get",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Get("q", no_ack=True), Ack(tag=1), Get("q"), Get("q"),
    ),
    scenario("basic.get from a queue that is missing", Get("q")),
    scenario(
        "settled in a burst",
        CONFIRMED, queue("q"), Qos(3), Consume("q", "c"), publish("q", *"123456"),
        burst(Ack(delivery=0), Nack(delivery=1, requeue=False), Reject(delivery=2)),
    ),
    scenario(
        "the connection of a consumer is cut",
        CONFIRMED, queue("q"), Qos(2, channel="b"), Consume("q", "c", channel="b"), publish("q", *"123"),
        Consume("q", "d"), KillConnection("b"),
    ),
    *with_their_connection("cut", KillConnection("b")),
    *with_their_connection("closed", CloseConnection("b")),
    scenario(
        "a consumer joins a single active one that is late",
        CONFIRMED, late_queue(), Qos(1, channel="b"), Consume("q", "c", channel="b"), publish("q", "1"), Wait(2500),
        Count("q"), Consume("q", "d", channel="c"), Ack(channel="c"), publish("q", "2"), Ack(channel="b"),
        publish("q", "3"), releases=["4.3"],
    ),
    scenario(
        "a consumer joins a late one of higher priority",
        CONFIRMED, late_queue(), Qos(1, channel="b"), Consume("q", "c", arguments={"x-priority": 5}, channel="b"),
        publish("q", "1"), Wait(2500), Consume("q", "d", channel="c"), Ack(channel="c"), Ack(channel="b"),
        publish("q", "2"), releases=["4.3"],
    ),
    scenario(
        "a consumer joins a late one in an empty queue",
        CONFIRMED, late_queue(), Qos(1, channel="b"), Consume("q", "c", channel="b"), publish("q", "1"), Wait(2500),
        PurgeQueue("q"), Consume("q", "d", no_ack=True, channel="c"), Ack(channel="b"), publish("q", "2", "3"),
        releases=["4.3"],
    ),
    scenario(
        "a late consumer comes back in its place",
        CONFIRMED, late_queue(), Qos(1, channel="b"), Consume("q", "c", channel="b"), Qos(1, channel="c"),
        Consume("q", "d", arguments=PATIENT, channel="c"), Qos(1, channel="d"), Consume("q", "e", channel="d"),
        publish("q", "1"), Wait(2500), Ack(channel="b"), Ack(channel="c"), Cancel("d", channel="c"), publish("q", "2"),
        releases=["4.3"],
    ),
    scenario(
        "a consumer that makes way is late",
        CONFIRMED, late_queue(), Qos(1, channel="b"), Consume("q", "c", channel="b"), publish("q", "1"),
        Qos(1, channel="c"), Consume("q", "d", arguments=PATIENT | {"x-priority": 5}, channel="c"), Wait(2500),
        Ack(channel="b"), publish("q", "2", "3"), Ack(channel="c"), Cancel("d", channel="c"), publish("q", "4"),
        releases=["4.3"],
    ),
    *[
        scenario(
            f"a late delivery is settled by {how}{what}",
            CONFIRMED, quorum("q", consumer_timeout=1500, **arguments), Qos(1, channel="b"),
            Consume("q", "c", channel="b"), publish("q", "1"), Wait(2500), Count("q"), settle, Count("q"),
            publish("q", "2"), releases=["4.3"],
        )
        for what, arguments in (("", {}), (", single active consumer", {"single_active_consumer": True}))
        for how, settle in SETTLED.items()
    ],
    scenario(
        "consumer counts",
        queue("q"), Consume("q", "c"), Consume("q", "d"), Count("q"), queue("q"), Cancel("c"), Count("q"),
    ),
]  # fmt: skip
