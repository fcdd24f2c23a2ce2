"""Where a dead letter goes and what it carries: keys, CC and BCC, special exchanges, properties and typed headers."""

from typing import Any

from tests.differential.operations import (
    Bind,
    BindExchange,
    ClearPolicy,
    Consume,
    Count,
    DeleteExchange,
    DeleteQueue,
    Get,
    Nack,
    Reject,
    SelectConfirms,
    Wait,
)
from tests.differential.words import exchange, fan, policy, publish, queue, quorum, rejected, scenario
from tests.real_servers import since
from tests.vectors.amqp import Field

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms()
EVERY_TYPE: dict[str, Any] = {
    "text": "text", "empty": "", "long text": "x" * 300, "bool": True, "byte": Field("b", -5), "ubyte": Field("B", 200),
    "short": Field("s", -300), "ushort": Field("u", 60000), "int": 5, "uint": Field("i", 4_000_000_000),
    "long": Field("l", 5), "large": 2**40, "float": Field("f", 1.5), "double": 0.1, "time": Field("T", 1700000000),
    "bytes": Field("x", b"\x00\xff"), "void": None, "decimal": Field("D", [2, 314]),
    "array": [1, "a", [True], {"b": 2}],
    "table": {"z": 1, "a": Field("l", 2), "nested": {"deep": [None]}}, "": "a name of no length", "é": "ünicode",
}  # fmt: skip
EVERY_PROPERTY: dict[str, Any] = {
    "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 3,
    "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1700000000,
    "type": "t", "user_id": "guest", "app_id": "a", "cluster_id": "k",
}  # fmt: skip

SCENARIOS = [
    scenario(
        "typed headers survive",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", headers=EVERY_TYPE), Get("q"),
        Reject(requeue=False), Get("d"),
    ),
    scenario(
        "typed headers survive a quorum queue",
        CONFIRMED, quorum("d"), quorum("q", dlx="", dlrk="d"), publish("q", headers=EVERY_TYPE), Get("q"),
        Reject(requeue=False), Get("d"),
    ),
    scenario(
        "properties survive",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", **EVERY_PROPERTY), rejected("q"), Get("d"),
    ),
    scenario(
        "properties survive a quorum queue",
        CONFIRMED, quorum("d"), quorum("q", dlx="", dlrk="d"), publish("q", headers={}, **EVERY_PROPERTY),
        rejected("q"), Get("d"),
    ),
    scenario(
        "empty headers and none",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "empty", headers={}), publish("q", "none"),
        publish("q", "mode 1", delivery_mode=1), publish("q", "priority 0", priority=0), Get("q"), Reject(),
        rejected("q", 4),
    ),
    scenario(
        "a large body",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "0123456789" * 30000), publish("q", ""),
        rejected("q", 2),
    ),
    scenario(
        "own key",
        CONFIRMED, exchange("x", "direct"), queue("d"), Bind("x", "d", "q"), queue("q", dlx="x"), publish("q"),
        rejected("q"),
    ),
    scenario(
        "dead-letter routing key",
        CONFIRMED, exchange("x", "direct"), queue("d"), Bind("x", "d", "k"), queue("q", dlx="x", dlrk="k"),
        publish("q"), rejected("q"),
    ),
    scenario(
        "empty dead-letter routing key",
        CONFIRMED, exchange("x", "direct"), queue("d"), Bind("x", "d", ""), queue("q", dlx="x", dlrk=""),
        publish("q"), rejected("q"), queue("r", dlx="", dlrk=""), publish("r"), rejected("r"),
    ),
    scenario(
        "CC and BCC",
        CONFIRMED, queue("cc"), queue("bcc"), queue("q"),
        publish("q", headers={"CC": ["cc"], "BCC": ["bcc"], "z": 1}),
        publish("q", headers={"CC": ["q", "cc", "cc", "missing", 5], "BCC": []}),
    ),
    scenario(
        "CC and BCC, then rejected, default keys",
        CONFIRMED, exchange("x", "topic"), queue("d"), Bind("x", "d", "#"), queue("cc"), queue("bcc"),
        Bind("x", "bcc", "bcc"), queue("q", dlx="x"), publish("q", headers={"CC": ["cc"], "BCC": ["bcc"]}),
        rejected("q"),
    ),
    scenario(
        "CC and BCC, then rejected, dead-letter routing key",
        CONFIRMED, exchange("x", "topic"), queue("d"), Bind("x", "d", "#"), queue("cc"), Bind("x", "cc", "cc"),
        queue("q", dlx="x", dlrk="k"), publish("q", headers={"CC": ["cc"], "BCC": ["bcc"]}), rejected("q"),
    ),
    scenario(
        "CC and BCC, two hops",
        CONFIRMED, exchange("x", "direct"), queue("q3"), queue("q2", dlx="x"), queue("q1", dlx="", dlrk="q2"),
        Bind("x", "q3", "q2"), Bind("x", "q3", "cc"), publish("q1", headers={"CC": ["cc"], "BCC": ["bcc"]}),
        rejected("q1"), rejected("q2"),
    ),
    scenario(
        "a BCC key that is the dead-letter routing key",
        CONFIRMED, queue("end"), queue("d", dlx="", dlrk="end"), queue("q", dlx="", dlrk="d"), queue("nobody"),
        publish("q", headers={"BCC": ["d"]}), Nack(), rejected("q"), rejected("d", 2),
    ),
    scenario(
        "CC that is no array",
        CONFIRMED, queue("q"), publish("q", headers={"CC": "text"}), publish("q", headers={"BCC": 5}),
        publish("q", headers={"CC": {"a": 1}}), publish("q", headers={"CC": None}),
    ),
    scenario(
        "a dead-letter exchange that is missing",
        CONFIRMED, queue("q", dlx="missing"), publish("q"), rejected("q"), Count("q"),
    ),
    scenario(
        "a dead-letter exchange that is missing, quorum",
        CONFIRMED, quorum("q", dlx="missing"), publish("q"), rejected("q"), Count("q"),
    ),
    scenario(
        "a dead-letter exchange that comes and goes",
        CONFIRMED, queue("d"), queue("q", dlx="x"), publish("q", *"1234"), rejected("q"), exchange("x"),
        Bind("x", "d"), rejected("q"), DeleteExchange("x"), rejected("q"), exchange("x"), Bind("x", "d"),
        rejected("q"),
    ),
    scenario(
        "a dead-letter exchange without a route",
        CONFIRMED, exchange("x", "direct"), queue("q", dlx="x"), publish("q"), rejected("q"), Count("q"),
    ),
    scenario(
        "the default exchange and a queue that is missing",
        CONFIRMED, queue("q", dlx="", dlrk="missing"), publish("q"), rejected("q"), Count("q"),
    ),
    scenario(
        "a dead-letter queue deleted and made again",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", *"123"), rejected("q"), DeleteQueue("d"),
        rejected("q"), queue("d"), rejected("q"),
    ),
    scenario(
        "an internal exchange",
        CONFIRMED, exchange("x", internal=True), queue("d"), Bind("x", "d"), queue("q", dlx="x"), publish("q"),
        rejected("q"),
    ),
    scenario(
        "an alternate exchange",
        CONFIRMED, exchange("ae"), exchange("x", "direct", ae="ae"), queue("d"), Bind("ae", "d"), queue("e"),
        Bind("x", "e", "known"), queue("q", dlx="x"), Bind("ae", "q"), publish("q"), rejected("q"), Count("q"),
    ),
    scenario(
        "an exchange bound to an exchange",
        CONFIRMED, exchange("x", ae="ae"), exchange("y", "direct"), exchange("ae"), BindExchange("x", "y"),
        queue("d"), queue("e"), Bind("ae", "e"), Bind("y", "d", "q"), queue("q", dlx="x"), publish("q"),
        rejected("q"), queue("r", dlx="x"), publish("r"), rejected("r"),
    ),
    scenario(
        "exchanges bound in a circle",
        CONFIRMED, exchange("x"), exchange("y"), BindExchange("x", "y"), BindExchange("y", "x"), queue("d"),
        Bind("y", "d"), Bind("x", "d"), queue("q", dlx="x"), publish("q"), rejected("q"),
    ),
    scenario(
        "a topic exchange",
        CONFIRMED, exchange("x", "topic"), queue("d"), Bind("x", "d", "dead.#"), queue("e"),
        Bind("x", "e", "*.letters"), queue("q", dlx="x", dlrk="dead.letters"), publish("q"), rejected("q"),
    ),
    scenario(
        "a headers exchange sees what died before",
        CONFIRMED, exchange("x", "headers"), queue("rejected"), queue("expired"), queue("queue"), queue("any"),
        Bind("x", "rejected", arguments={"x-match": "all-with-x", "x-first-death-reason": "rejected"}),
        Bind("x", "expired", arguments={"x-match": "any-with-x", "x-first-death-reason": "expired"}),
        Bind("x", "queue", arguments={"x-match": "all-with-x", "x-first-death-queue": "q", "a": 1}),
        Bind("x", "any", arguments={"x-match": "any-with-x", "x-death": None}), queue("q", dlx="x"),
        publish("q", headers={"a": 1}), rejected("q"), publish("q", expiration="0"), releases=FROM_39,
    ),
    scenario(
        "a headers exchange does not see x- headers",
        CONFIRMED, exchange("x", "headers"), queue("d"), queue("e"),
        Bind("x", "d", arguments={"x-match": "all", "x-first-death-reason": "rejected"}),
        Bind("x", "e", arguments={"x-match": "any", "x-first-death-reason": "rejected", "a": 1}), queue("q", dlx="x"),
        publish("q", headers={"a": 1}), rejected("q"),
    ),
    scenario(
        "a dead letter goes to a consumer",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), Consume("d", "c", channel="b"), publish("q", "1", "2"),
        rejected("q", 2), Reject(channel="b"),
    ),
    scenario(
        "a priority queue as dead-letter queue",
        CONFIRMED, queue("d", max_priority=5), queue("q", dlx="", dlrk="d"), publish("q", "low", priority=1),
        publish("q", "high", priority=5), publish("q", "none"), rejected("q", 3),
    ),
    scenario(
        "dead letters are not returned",
        CONFIRMED, queue("q", dlx="", dlrk="missing"), publish("q", mandatory=True), rejected("q"),
    ),
    scenario(
        "a death in a batch of two queues",
        CONFIRMED, fan("x", "q1", "q2"), queue("d"), policy("p", "^q", dlx="", dlrk="d"), publish("", exchange="x"),
        rejected("q1"), rejected("q2"),
    ),
    scenario(
        "the policy changes while a message is there",
        CONFIRMED, queue("d"), queue("e"), queue("q"), publish("q", *"12345"), rejected("q"),
        policy("p", "^q$", dlx="", dlrk="d"), rejected("q"), policy("p", "^q$", dlx="", dlrk="e"), rejected("q"),
        policy("p", "^q$", dlx="missing"), rejected("q"), ClearPolicy("p"), rejected("q"),
    ),
    scenario(
        "exchange by argument, key by policy",
        CONFIRMED, queue("d"), queue("q", dlx=""), policy("p", "^q$", dlrk="d"), publish("q"), rejected("q"),
    ),
    scenario(
        "key by policy alone",
        CONFIRMED, queue("d"), queue("q"), policy("p", "^q$", dlrk="d"), publish("q"), rejected("q"), quorum("r"),
        policy("p2", "^r$", dlrk="d"), publish("r"), rejected("r"),
    ),
    scenario(
        "argument against policy",
        CONFIRMED, queue("d"), queue("e"), queue("q", dlx="", dlrk="d"), policy("p", "^q$", dlx="missing", dlrk="e"),
        publish("q"), rejected("q"), quorum("r", dlx="", dlrk="d"), policy("p", "^r$", dlrk="e"), Wait(50),
        publish("r"), rejected("r"),
    ),
    scenario(
        "deleted, not dead-lettered",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "1", "2"), Get("q"), DeleteQueue("q"),
        Count("d"), Nack(requeue=True), Count("d"),
    ),
]  # fmt: skip
