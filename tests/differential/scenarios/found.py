"""What random scripts found: where the simulator once differed from a real server (``tests.differential.fuzz``)."""

from tests.differential.operations import (
    VHOST,
    Ack,
    Bind,
    Cancel,
    ClearPolicy,
    CloseChannel,
    Consume,
    Count,
    DeleteQueue,
    Drain,
    Get,
    Http,
    Nack,
    Qos,
    ReadStream,
    Recover,
    Reject,
    SelectConfirms,
    Wait,
)
from tests.differential.words import Part, exchange, fan, policy, publish, queue, quorum, scenario, stream
from tests.real_servers import LIVE, since
from tests.vectors.amqp import Field

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms(channel="p")
BYTES = b"\x00\xff"
LONG = 201 * "x"
WIDE = "q" + 120 * "é"
NOT_UTF8 = Field("S", BYTES)
MESSAGE = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}
NEGATIVE = Http("POST", ("exchanges", VHOST, "amq.default", "publish"), MESSAGE | {"properties": {"priority": -1}})
EXPIRING = {"name": "p", "pattern": "^n", "definition": {"expires": 60000, "max-length": 1}, "apply-to": "all"}
NEW = {"name": "n", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}}
DISTANT = {
    "seconds": 2**40,
    "milliseconds": 1000 * 2**40,
    "timestamp": Field("T", 2**40),
    "never": Field("T", 2**64 - 1),
}
STREAMING = tuple(release for release in LIVE if release != "3.8")


def getting(ackmode: str, encoding: str, count: int, of: str = "q") -> Part:
    """basic.get through the management API."""
    return Http("POST", ("queues", VHOST, of, "get"), {"ackmode": ackmode, "encoding": encoding, "count": count})


def published(**properties: object) -> list[Part]:
    """A message published through the management API, looked at there, and taken."""
    publish = Http("POST", ("exchanges", VHOST, "amq.default", "publish"), MESSAGE | {"properties": properties})
    return [publish, getting("ack_requeue_true", "auto", 1), Get("q", no_ack=True)]


def offset(value: object) -> Part:
    """A consumer that starts there."""
    return Consume("s", "c", arguments={"x-stream-offset": value})


SCENARIOS = [
    scenario(
        "basic.get counts what is left after expiry, if it needs no acknowledgement",
        CONFIRMED, quorum("q"), publish("q", "1", on="p"), publish("q", "2", on="p", expiration="150"), Wait(400),
        Get("q", no_ack=True), publish("q", "1", on="p"), publish("q", "2", on="p", expiration="150"), Wait(400),
        Get("q"), Get("q"), releases=FROM_39,
    ),
    scenario(
        "a delivery limit widens the prefetch of who returns",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d"), publish("q", *"123456", on="p"), Qos(2),
        Consume("q", "c"), Ack(delivery=0), Reject(delivery=1), Reject(delivery=2),
    ),
    scenario(
        "a delivery limit widens the prefetch of a single active consumer",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d", single_active_consumer=True),
        publish("q", *"12345", on="p"), Qos(2), Consume("q", "c"), Reject(delivery=1), Reject(delivery=2),
    ),
    scenario(
        "a stream gives byte arrays back as text",
        CONFIRMED, stream("s"), publish("s", on="p", headers={"a": BYTES, "b": b"ab", "c": "text", "d": NOT_UTF8}),
        publish("s", on="p", headers={"a": BYTES, "x-list": [BYTES, {"k": BYTES}, None], "n": [1], "CC": ["k"]}),
        ReadStream("s"), releases=FROM_39,
    ),
    scenario(
        "a stream gives dead letters their expiration back",
        CONFIRMED, stream("s"), quorum("q", dlx="", dlrk="s", length=0), queue("r", dlx="", dlrk="s", length=0),
        publish("q", on="p", expiration="60000"), publish("r", on="p", expiration="+060000"), ReadStream("s"),
        releases=FROM_39,
    ),
    scenario(
        "what comes to the head of a full quorum queue expires",
        CONFIRMED, queue("d"), quorum("q", length=1, dlx="", dlrk="d"), publish("q", "1", on="p"),
        publish("q", "2", on="p", expiration="200"), Wait(500), Count("q"), Count("d"), releases=FROM_39,
    ),
    scenario(
        "a quorum queue hands out consumer by consumer",
        CONFIRMED, quorum("q", limit=9), Consume("q", "k3"), publish("q", *"123456789", on="p"), Consume("q", "k1"),
        Consume("q", "k2"), Nack(multiple=True), Wait(100), Recover(), Wait(100),
    ),
    scenario(
        "a consumer that comes back goes on with what it had",
        CONFIRMED, quorum("q"), Qos(2), Consume("q", "c"), publish("q", *"123456", on="p"), Cancel("c"), Qos(1),
        Consume("q", "c"), Wait(100), Count("q"), Ack(delivery=0), Wait(100), Ack(delivery=1), Wait(100), Count("q"),
        Ack(multiple=True), Wait(100), CloseChannel(), releases=since("4.0"),
    ),
    scenario(
        "a consumer of a classic queue that comes back begins anew",
        CONFIRMED, queue("q"), Qos(2), Consume("q", "c"), publish("q", *"123456", on="p"), Cancel("c"),
        Consume("q", "c"), Ack(delivery=0), Ack(delivery=2), CloseChannel(),
    ),
    scenario(
        "consumers of a deleted queue are cancelled in the order of their tags",
        queue("q"), Consume("q", "c"), Consume("q", "a", arguments={"x-priority": -1}), Consume("q", "b"),
        Consume("q", "aa"), DeleteQueue("q", channel="b"), quorum("r"), Consume("r", "c"), Consume("r", "a"),
        Consume("r", "b"), DeleteQueue("r", channel="b"),
    ),
    scenario(
        "a binding is checked before the lock on its queue",
        queue("q", exclusive=True), exchange("h", "headers"), Bind("h", "q", arguments={"x-match": 5}, channel="b"),
        Bind("h", "q", arguments={"x-match": "all"}, channel="b"), Bind("missing", "q", channel="b"),
        releases=LIVE,
    ),
    scenario(
        "the name of a quorum queue may be too long for an atom",
        [quorum("w" * length, on="b") for length in (233, 234, 255)], quorum("é" * 127, on="b"), releases=LIVE,
    ),
    scenario(
        "an offset is looked at after the prefetch",
        stream("s"), offset(b"x"), Qos(1), offset(b"x"), Qos(1, True), offset(b"x"), releases=STREAMING,
    ),
    scenario(
        "an offset that is no ASCII", stream("s"), Qos(1), offset("5ö"), offset("€"), releases=STREAMING,
    ),
    scenario(
        "the management API opens a channel before it looks at the ackmode",
        queue("q"), getting("other", "other", 1), getting("other", "auto", 0), getting("other", "auto", 1),
        releases=LIVE,
    ),
    scenario(
        "the management API publishes numbers that do not fit",
        queue("q"), published(priority=-1), published(priority=300), published(timestamp=-1),
        published(delivery_mode=3), published(delivery_mode=-1), releases=LIVE,
    ),
    scenario(
        "the management API takes no number for a boolean",
        Http("PUT", ("queues", VHOST, "q"), {"auto_delete": 1, "arguments": {"x-message-ttl": "x"}}),
        Http("PUT", ("queues", VHOST, "q"), {"durable": 0}), Http("PUT", ("exchanges", VHOST, "x"), {"internal": 1}),
        releases=LIVE,
    ),
    scenario(
        "the management API looks at booleans before arguments",
        [
            Http("PUT", (kind, VHOST, "w"), {"arguments": {"x-dead-letter-exchange": None}} | booleans)
            for kind in ("queues", "exchanges")
            for booleans in ({"auto_delete": {"a": 1}}, {"durable": 7}, {"auto_delete": 8, "durable": 7})
        ],
        Http("PUT", ("exchanges", VHOST, "w"), {"arguments": 5, "internal": 7}), releases=LIVE,
    ),
    scenario(
        "the management API cuts no text",
        exchange(LONG, "topic"), queue(LONG), Http("PUT", ("exchanges", VHOST, LONG), {"type": "topic"}),
        Http("PUT", ("exchanges", VHOST, LONG), {"type": "direct", "durable": True}),
        Http("PUT", ("queues", VHOST, LONG), {"durable": False}), releases=LIVE,
    ),
    scenario(
        "until 3.10 a stream gives an x-death back that is neither a list nor a table",
        CONFIRMED, stream("s"),
        [publish("s", on="p", headers={"x-death": value}) for value in (True, None, 5, b"x", BYTES, "text", {}, [])],
        ReadStream("s"), releases=STREAMING,
    ),
    scenario(
        "the management API fails to tell what is not ASCII",
        quorum("sö", single_active_consumer=True), queue("qö"), exchange("xö"), queue("eö", exclusive=True),
        Http("PUT", ("queues", VHOST, "qö"), {"durable": False}), Http("PUT", ("queues", VHOST, "amq.ö"), {}),
        Http("PUT", ("queues", VHOST, "q"), {"arguments": {"x-queue-type": "ö"}}),
        Http("PUT", ("exchanges", VHOST, "xö"), {"type": "direct"}),
        Http("POST", ("exchanges", VHOST, "xö", "publish"), MESSAGE | {"properties": {"expiration": "ö"}}),
        Http("POST", ("exchanges", VHOST, "xö", "publish"), MESSAGE | {"payload_encoding": "ö"}),
        [getting("ack_requeue_true", "auto", 1, of=name) for name in ("sö", "eö")],
        Http("POST", ("bindings", VHOST, "e", "xö", "q", "missingö"), {"routing_key": "ö"}),
        Http("POST", ("bindings", VHOST, "e", "amq.headers", "q", "qö"), {"arguments": {"x-match": "ö"}}),
        Http("DELETE", ("queues", VHOST, "eö", "contents")), Http("DELETE", ("queues", VHOST, "missingö")),
        Http("PUT", ("parameters", "ö", VHOST, "n"), {"value": 1}), releases=LIVE,
    ),
    scenario(
        "how a refused x-match is printed",
        queue("q"),
        [
            Bind("amq.headers", "q", "f", {"x-match": value})
            for value in ("ö", "€", Field("S", b"\xff"), Field("S", b"\xc3\xb6\xff"), "\x7f", BYTES, ["ö"], {"ö": "ö"})
        ],
        releases=LIVE,
    ),
    scenario(
        "the management API takes lists for arguments",
        Http("PUT", ("exchanges", VHOST, "x"), {"arguments": ["a", 1]}),
        Http("GET", ("exchanges", VHOST, "x")), Http("PUT", ("exchanges", VHOST, "x"), {}), releases=LIVE,
    ),
    scenario(
        "the management API takes lists for arguments, of bindings until 3.10",
        queue("q"), Http("POST", ("bindings", VHOST, "e", "amq.direct", "q", "q"), {"arguments": [{"a": 1}]}),
        publish("", exchange="amq.direct"), Get("q"), releases=("3.8", "3.10"),
    ),
    scenario(
        "the management API takes lists for arguments, of queues in 3.8",
        Http("PUT", ("queues", VHOST, "w"), {"arguments": ["x-max-length", 5]}),
        Http("PUT", ("queues", VHOST, "w"), {}), releases=("3.8",),
    ),
    scenario(
        "from 3.13 on a stream keeps no message whose priority is no octet",
        queue("q"), stream("s"), exchange("f"), Bind("f", "q"), Bind("f", "s"),
        [
            Http("POST", ("exchanges", VHOST, "f", "publish"), MESSAGE | {"properties": {"priority": priority}})
            for priority in (-1, 255, 256)
        ],
        [Get("q", no_ack=True)] * 4, ReadStream("s"), releases=STREAMING,
    ),
    scenario(
        "an error of the connection whose text is too long in UTF-8 is not told",
        stream(WIDE), Get(WIDE), Get(WIDE[1:]), quorum("k" + WIDE), DeleteQueue("k" + WIDE, if_empty=True),
        releases=("4.0", "4.3"),
    ),
    *[
        scenario(
            f"what comes back without a delivery limit is handed out one by one, {limit=}",
            CONFIRMED, quorum("q", limit=limit), publish("q", *"123456", on="p"), Consume("q", "c1"),
            Consume("q", "c0"), Nack(multiple=True, tag=0), Recover(), CloseChannel(),
            releases=releases,
        )
        for limit, releases in ((None, STREAMING), (5, STREAMING), (-1, ("4.0", "4.3")))
    ],
    scenario(
        "who was refused is not told that the queue emptied under a policy to drop",
        CONFIRMED, quorum("q", length=0, overflow="reject-publish"), publish("q", *"12", on="p"),
        policy("p", "^q$", overflow="drop-head"), Wait(150), ClearPolicy("p"), Wait(150), publish("q", *"34", on="p"),
        publish("q", "5", on="p2"), Drain("q"), publish("q", "6", on="p"), releases=STREAMING,
    ),
    *[
        scenario(
            f"an expiration counts towards a limit in bytes as it was sent, {size=}",
            CONFIRMED, queue("d"), quorum("q", max_length_bytes=size, dlx="", dlrk="d"),
            [publish("q", "12345", on="p", expiration=sent) for sent in ("60000", "+60000", "+060000")],
            releases=STREAMING,
        )
        for size in (13, 14)
    ],
    *[
        scenario(
            f"what an at-least-once queue tries again meets the policy in the next queue, {first=}",
            CONFIRMED, quorum(first, dlx="", ttl=150, overflow="reject-publish", dead_letter_strategy="at-least-once"),
            quorum(second), publish(first, "1", on="p"), Wait(400),
            policy("p", "^q", dlx="", dlrk=second, message_ttl=150), Wait(500), releases=STREAMING,
        )
        for first, second in (("q1", "q2"), ("q2", "q1"))
    ],
    *[
        scenario(
            f"a queue that crashes, {how}",
            CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d", length=2), publish("q", "t", on="p"),
            publish("q", "bad", on="p", headers={"x-death": [1]}, delivery_mode=mode), Get("q"), parts,
            Wait(300), Get("q"), Ack(tag=1), Wait(150), releases=("3.8", "3.10"),
        )
        for how, mode, parts in (
            ("rejected", 2, [Get("q"), publish("q", "kept", on="p", delivery_mode=2), Reject(tag=2)]),
            ("rejected, transient", 1, [Get("q"), publish("q", "kept", on="p", delivery_mode=2), Reject(tag=2)]),
            ("pushed out by a transient message", 2, publish("q", "1", "2", on="p")),
            ("pushed out by a persistent message", 2, publish("q", "1", "2", on="p", delivery_mode=2)),
        )
    ],
    *[
        scenario(
            f"a negative priority, {type}",
            CONFIRMED, queue("d"), queue("q", type=type, length=2, dlx="", dlrk="d"),
            publish("q", "1", on="p", delivery_mode=2), NEGATIVE, publish("q", "2", on="p"), Wait(150), Count("q"),
        )
        for type in ("classic", "quorum")
    ],
    *[
        scenario(
            f"a negative priority, queue with priorities, {exclusive=}",
            CONFIRMED, queue("q", max_priority=3, exclusive=exclusive), publish("q", "1", "2", on="p", delivery_mode=2),
            publish("q", "t", on="p"), Get("q"), Get("q"), NEGATIVE, Wait(300), Ack(tag=1), Reject(tag=2), Count("q"),
            Get("q"), publish("q", "3", on="p"), Ack(tag=3), Wait(150),
        )
        for exclusive in (False, True)
    ],
    scenario(
        "a delivery mode of more than eight bits",
        queue("q"), stream("s"), exchange("f"), Bind("f", "q"), Bind("f", "s"),
        [
            Http("POST", ("exchanges", VHOST, "f", "publish"), MESSAGE | {"properties": {"delivery_mode": mode}})
            for mode in (258, 2, 1)
        ],
        getting("ack_requeue_true", "auto", 3), ReadStream("s"), releases=("4.0", "4.3"),
    ),
    *[
        scenario(
            f"a decimal dead-lettered into a stream, {type}",
            CONFIRMED, stream("s"), queue("q", type=type, dlx="", dlrk="s"), publish("q", "t", on="p"),
            publish("q", "bad", on="p", headers={"d": Field("D", [2, 314])}),
            publish("q", "kept", on="p", delivery_mode=2),
            Get("q"), Get("q"), Reject(tag=2), Wait(300), Get("q"), Reject(tag=3), Wait(300), ReadStream("s"),
            releases=("4.0", "4.3"),
        )
        for type in ("classic", "quorum")
    ],
    scenario(
        "timestamps in a stream have 64 bits for their milliseconds",
        CONFIRMED, stream("s"),
        [publish("s", str(time), on="p", timestamp=time) for time in (1, 2**61, 2**62 - 1, 2**63, 2**64 - 1)],
        publish("s", on="p", headers={"a": Field("T", 2**62 - 1), "b": Field("T", 2**62), "c": Field("T", 5)}),
        ReadStream("s"), releases=STREAMING,
    ),
    scenario(
        "the management API rejects all that it got before any dead letter goes on",
        CONFIRMED, queue("d"), quorum("z", length=0, dlx="", dlrk="d"), queue("q", dlx="x"), fan("x", "d", "z"),
        publish("q", "1", "2", on="p"), getting("reject_requeue_false", "auto", 2), Wait(300),
        releases=LIVE,
    ),
    scenario(
        "a mandatory publish before confirms are selected",
        publish("nowhere", "returned", on="p", mandatory=True), publish("nowhere", "dropped", on="p"),
        CONFIRMED, publish("nowhere", "1", "2", on="p"), publish("nowhere", "3", on="p", mandatory=True),
        releases=LIVE,
    ),
    *[
        scenario(
            f"deliveries of two consumers come back at once, {kind}, {at_most} of the channel",
            CONFIRMED, queue("q", max_priority=priorities), Qos(1), Consume("q", "c"), Qos(at_most, global_=True),
            Consume("q", "b", arguments={"x-priority": 10}), publish("q", "1", on="p"),
            publish("q", "2", on="p", priority=9), publish("q", "3", on="p"), publish("q", "4", on="p", priority=8),
            Nack(multiple=True, tag=0), Ack(multiple=True, tag=0), releases=LIVE,
        )
        for kind, priorities in (("no priorities", None), ("priorities", 10))
        for at_most in (2, 3)
    ],
    *[
        scenario(
            f"a single active consumer makes way for one of higher priority by {how}",
            CONFIRMED, quorum("q", single_active_consumer=True, limit=limit), Qos(1), Consume("q", "c"),
            publish("q", "1", on="p"), Qos(3), Consume("q", "b", arguments={"x-priority": 10}), answer,
            publish("q", "2", on="p"), Count("q"), after, publish("q", "3", on="p"), releases=LIVE,
        )
        for how, limit, answer, after in (
            ("basic.reject", None, Reject(), Cancel("c")),
            ("basic.nack without a delivery limit", -1, Nack(), Consume("q", "d")),
            ("basic.recover", None, Recover(), Cancel("b")),
            ("basic.reject over its delivery limit", 0, Reject(),
             [Consume("q", "d", channel="e"), CloseChannel(channel="e")]),
            ("basic.nack for good", None, Nack(requeue=False), Cancel("c")),
            ("basic.ack", None, Ack(), Cancel("c")),
        )
    ],
    *[
        scenario(
            f"a quorum queue after a policy that it does not support, {then}",
            CONFIRMED, queue("d"), policies, quorum("q"), more, publish("q", "1", "2", on="p"), Wait(600),
            Get("q"), Reject(), Get("q"), Reject(), Get("q"), Reject(requeue=False), Count("q"), Count("d"),
            releases=LIVE,
        )
        for then, policies, more in (
            ("delivery-limit and overflow", policy("p", "^q", overflow="reject-publish-dlx", delivery_limit=1), []),
            ("lengths", policy("p", "^q", overflow="reject-publish", max_length=1, dlx="", dlrk="d"), []),
            ("message-ttl", policy("p", "^q", message_ttl=300, dlx="", dlrk="d"), []),
            ("expires", policy("p", "^q", expires=60_000, dlx="", dlrk="d"), []),
            ("priorities", [policy("p", "^q", priority=1, expires=60_000, dlx="", dlrk="d"),
                            policy("r", "^q", max_length=1)], []),
            ("an operator policy", policy("p", "^q", operator=True, expires=60_000, max_length=1), []),
            ("which is set again", policy("p", "^q", expires=60_000, dlx="", dlrk="d"),
             policy("p", "^q", expires=60_000, dlx="", dlrk="d")),
            ("and before another", policy("p", "^q", expires=60_000, dlx="", dlrk="d"),
             policy("r", "^r", max_length=1)),
            ("and before another is cleared", [policy("p", "^q", expires=60_000, dlx="", dlrk="d"),
                                               policy("r", "^r", max_length=1)], ClearPolicy("r")),
        )
    ],
    scenario(
        "a quorum queue and a policy that it does not support in one document",
        CONFIRMED, Http("POST", ("definitions", VHOST), {"policies": [EXPIRING], "queues": [NEW]}),
        publish("n", "1", "2", on="p"), Count("n"), policy("r", "^r", max_length=1), publish("n", "3", on="p"),
        Count("n"), releases=LIVE,
    ),
    scenario(
        "a death of more than 32 bits of expiration in a stream",
        CONFIRMED, stream("s"), queue("q", dlx="", dlrk="s", length=0), quorum("r", dlx="", dlrk="s", length=0),
        queue("t", dlx="", dlrk="q"),
        [publish(to, on="p", expiration=ms) for to in "qr" for ms in ("4294967296", "4294967297", "0", "8589934594")],
        publish("t", "dies twice", on="p", expiration="4294967299"), Get("t"), Reject(requeue=False),
        ReadStream("s"), releases=("4.0", "4.3"),
    ),
    scenario(
        "deliveries of two consumers come back at once to a channel whose prefetch was lowered",
        CONFIRMED, queue("q"), Qos(1), Qos(4, global_=True), Consume("q", "c"), Consume("q", "b"),
        publish("q", "1", "2", on="p"), Qos(1, global_=True), Nack(multiple=True, tag=0), Ack(), releases=LIVE,
    ),
    *[
        scenario(
            f"the next single active consumer, {how}",
            CONFIRMED, quorum("q", single_active_consumer=True), Qos(2), Consume("q", "c"),
            [part for n, prefetch in enumerate(prefetches)
             for part in (Qos(prefetch, channel="n"), Consume("q", f"n{n}", arguments=arguments, channel="n"))],
            publish("q", "1", "2", "3", on="p"), Ack(multiple=True, tag=0), Cancel("c"), publish("q", "4", on="p"),
            releases=LIVE,
        )
        for how, prefetches, arguments in (
            ("no priorities", (1, 3, 2), {}),
            ("one priority", (1, 3, 2), {"x-priority": 5}),
            ("one priority, no limit", (1, 0, 3), {"x-priority": 5}),
            ("one priority and prefetch", (2, 2), {"x-priority": 5}),
        )
    ],
    *[
        scenario(
            f"a single active consumer beside a cancelled one with deliveries, {how}",
            CONFIRMED, quorum("q", single_active_consumer=True), Qos(2), Consume("q", "c"),
            publish("q", "1", "2", "3", on="p"), Cancel("c"), Consume("q", "d", channel="n"), publish("q", "4", on="p"),
            Ack(delivery=0), Reject(), parts, publish("q", "5", on="p"), releases=LIVE,
        )
        for how, parts in (
            ("settled", []),
            ("settled, and another subscribes", [Consume("q", "e", channel="m"), Cancel("e", channel="m")]),
            ("settled, and it cancels", [Consume("q", "e", channel="m"), Cancel("d", channel="n")]),
        )
    ],
    scenario(
        "a single active consumer beside a cancelled one with deliveries, whose channel is lost",
        CONFIRMED, quorum("q", single_active_consumer=True), Qos(2), Consume("q", "c"),
        publish("q", "1", "2", "3", on="p"), Cancel("c"), Consume("q", "d", channel="n"), CloseChannel(),
        publish("q", "4", on="p"), releases=LIVE,
    ),
    scenario(
        "a headers exchange compares timestamps of distant years",
        CONFIRMED, exchange("x", "headers"),
        [[queue(name), Bind("x", name, arguments={"at": at})] for name, at in DISTANT.items()],
        [publish("", name, exchange="x", headers={"at": at}) for name, at in DISTANT.items()],
        releases=LIVE,
    ),
]  # fmt: skip
