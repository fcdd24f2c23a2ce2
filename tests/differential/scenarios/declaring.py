"""Declarations that are refused, and those that must be equivalent to what is there."""

from tests.differential.operations import (
    VHOST,
    Bind,
    BindExchange,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    Http,
    ShowQueue,
    Unbind,
)
from tests.differential.words import exchange, queue, quorum, scenario, stream
from tests.real_servers import LIVE, since
from tests.vectors.amqp import Field

LOCATOR = "x-queue-master-locator"
LOCATORS = ["min-masters", "client-local", "random", "nope", "", 5, True, [1], Field("x", b"random"), b"\xff"]
IMPORTED = {"name": "i", "durable": True, "auto_delete": False}
WIDTHS = "bBsuIil"  # tags of integers of 8 to 64 bits

SCENARIOS = [
    scenario(
        "integers of every width are shown",
        *([quorum(f"q{tag}", limit=Field(tag, 7), length=Field(tag, 9)), ShowQueue(f"q{tag}")] for tag in WIDTHS),
        *([queue(f"c{tag}", ttl=Field(tag, 100), note=Field(tag, 3)), ShowQueue(f"c{tag}")] for tag in WIDTHS),
    ),
    scenario(
        "delivery limits of every width are shown",
        *(
            [quorum(f"q{tag}", limit=Field(tag, 7)), ShowQueue(f"q{tag}", ("arguments", "delivery_limit"))]
            for tag in WIDTHS
        ),
        releases=since("4.0"),
    ),
    scenario(
        "types of dead-letter arguments",
        queue("q", dlx=5), queue("q", dlx=True), queue("q", dlx="x", dlrk=5), queue("q", dlrk="k"),
        queue("q", dlx=["x"]), queue("q", dlx=None, dlrk=""), queue("q", dlx=Field("V", None)),
    ),
    scenario(
        "values of ttl and expires",
        queue("q", ttl=-1), queue("q", ttl="5"), queue("q", ttl=1.5), queue("q", ttl=315360000001),
        queue("q", expires=0), queue("q", expires=-5), queue("q", expires="1"), queue("r", ttl=Field("s", 5)),
        queue("r2", ttl=Field("T", 5)),
    ),
    scenario(
        "values of lengths",
        queue("q", length=-1), queue("q", length="5"), queue("q", max_length_bytes=-1), queue("q", overflow="nope"),
        queue("q", overflow=5), queue("q", max_priority=256), queue("q", max_priority=-1),
        queue("q", max_priority="1"), queue("q", max_priority=0), queue("r", max_priority=255),
    ),
    scenario(
        "queue types",
        queue("q", type="foo"), queue("q", type=5), queue("q", type="classic"), queue("q"), quorum("q"), stream("q"),
    ),
    scenario(
        "queue types and modes beyond ASCII",
        [queue("q", type=name) for name in ("é", "€", "é€", Field("S", b"\xff"))],
        [queue("q", queue_mode=name) for name in ("é", "€", Field("S", b"\xff"))],
    ),
    scenario(
        "arguments of other types",
        queue("c", limit=5), queue("c2", dead_letter_strategy="at-least-once"), queue("c3", max_age="1D"),
        queue("c4", queue_mode="lazy"), queue("c5", queue_mode="nope"), queue("c6", queue_version=1),
        queue("c7", foo=1), queue("c8", single_active_consumer="yes"), queue("c9", consumer_timeout=-1),
    ),
    scenario(
        "a master locator",
        [
            [queue(f"c{number}", queue_master_locator=value), DeleteQueue(f"c{number}")]
            for number, value in enumerate(LOCATORS)
        ],
        DeclareQueue("void", arguments={LOCATOR: None}), DeclareQueue("e", exclusive=True, arguments={LOCATOR: "nope"}),
        DeclareQueue("e", exclusive=True, arguments={LOCATOR: "random"}), queue("c", queue_master_locator="random"),
        queue("c", queue_master_locator="nope"), quorum("q", queue_master_locator="nope"),
        Http("PUT", ("queues", VHOST, "w"), {"arguments": {LOCATOR: "random"}}),
        [
            Http("POST", ("definitions", VHOST), {"queues": [IMPORTED | {"arguments": {LOCATOR: value}}]})
            for value in ("nope", "random")
        ],
        releases=LIVE,
    ),
    scenario(
        "arguments that a quorum queue does not take",
        quorum("q1", max_priority=5), quorum("q2", queue_mode="lazy"), quorum("q3", overflow="nope"),
        quorum("q4", limit=-1), quorum("q5", limit="x"), quorum("q6", dead_letter_strategy="nope"),
        quorum("q7", dead_letter_strategy=3), quorum("q8", quorum_initial_group_size=1), quorum("q9", expires=0),
        quorum("q10", max_in_memory_length=5),
    ),
    scenario(
        "properties that a quorum queue does not take",
        quorum("q", durable=False), quorum("q", auto_delete=True), quorum("q", exclusive=True), quorum(""),
        stream("s", durable=False), stream("s", exclusive=True), stream("s", auto_delete=True),
    ),
    scenario(
        "arguments that a stream does not take",
        stream("s1", dlx=""), stream("s2", ttl=5), stream("s3", length=5), stream("s4", max_length_bytes=1000),
        stream("s5", max_age="nope"), stream("s6", max_age="1D"), stream("s7", overflow="drop-head"),
        stream("s8", limit=1),
    ),
    scenario(
        "equivalent queues",
        queue("q", ttl=1000, dlx="d"), queue("q", ttl=Field("l", 1000), dlx="d"), queue("q", ttl=1001, dlx="d"),
        queue("q", dlx="d"), queue("q", ttl=1000), queue("q", ttl=1000, dlx="e"),
        queue("q", ttl=1000, dlx="d", length=5), queue("q", ttl=1000, dlx="d", foo="bar"),
        DeclareQueue("q", passive=True),
    ),
    scenario(
        "equivalent properties",
        queue("q"), queue("q", durable=False), queue("q", auto_delete=True), queue("q", exclusive=True),
        queue("e", exclusive=True), queue("e"), queue("e", exclusive=True), queue("e", exclusive=True, on="b"),
    ),
    scenario(
        "equivalent quorum queues",
        quorum("q", limit=5), quorum("q"), quorum("q", limit=6), queue("q"), quorum("q", limit=5, length=1),
        quorum("q", limit=5),
    ),
    scenario(
        "reserved names",
        queue("amq.mine"), DeclareQueue("amq.rabbitmq.reply-to"), exchange("amq.mine"),
        exchange("amq.direct", "direct"),
    ),
    scenario(
        "names",
        queue("ünïcode"), queue("with space / slash"), queue("x" * 255), queue("new\nline"), queue("0"),
    ),
    scenario(
        "passive",
        DeclareQueue("missing", passive=True), DeclareExchange("missing", passive=True),
        DeclareExchange("amq.topic", "direct", passive=True),
    ),
    scenario(
        "exchange types",
        exchange("x", "no-such-type"), exchange("x", "direct"), exchange("x", "topic"),
        exchange("x", "direct", durable=False), exchange("x", "direct", internal=True),
        exchange("x", "direct", auto_delete=True), exchange("x", "direct"),
    ),
    scenario(
        "arguments of exchanges",
        exchange("x", ae="y"), exchange("x"), exchange("x", ae="z"), exchange("x", ae="y"),
        DeclareExchange("y", arguments={"alternate-exchange": 5}), DeclareExchange("y", arguments={"foo": 1}),
        exchange("y"), exchange("amq.fanout", ae="y"), exchange("", "direct"),
    ),
    scenario(
        "the default exchange",
        queue("q"), Bind("", "q", "k"), Unbind("", "q", "q"), exchange("x"), BindExchange("", "x"),
        BindExchange("x", ""), exchange(""), DeclareExchange("", passive=True),
    ),
    scenario(
        "headers bindings",
        queue("q"), exchange("x", "headers"), Bind("x", "q", arguments={"x-match": "foo"}),
        Bind("x", "q", arguments={"x-match": 5}), Bind("x", "q", arguments={"x-match": "all-with-x"}),
        Bind("x", "q", arguments={}),
    ),
    scenario(
        "topic bindings",
        queue("q"), exchange("x", "topic"), Bind("x", "q", "#.a.#"), Bind("x", "q", "#.a.#.b.#"),
    ),
    scenario(
        "declared again after deletion with other arguments",
        queue("q", ttl=5), DeleteQueue("q"), queue("q", ttl=6),
    ),
    scenario(
        "integers of every width",
        queue("q", length=Field("b", 5)), queue("q", length=Field("u", 5)), queue("q", length=Field("d", 5.0)),
        queue("q", length=Field("i", 5)), queue("q", length=Field("f", 5.0)),
    ),
]  # fmt: skip
