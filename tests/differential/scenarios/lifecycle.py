"""How queues come and go: purge, delete, auto-delete, exclusive, server-named, x-expires."""

from tests.differential.operations import (
    Ack,
    Bind,
    BindExchange,
    Cancel,
    ClearPolicy,
    CloseChannel,
    CloseConnection,
    Consume,
    Count,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Get,
    KillConnection,
    Nack,
    PurgeQueue,
    Qos,
    SelectConfirms,
    Unbind,
    UnbindExchange,
    Wait,
)
from tests.differential.words import exchange, policy, publish, queue, quorum, scenario

CONFIRMED = SelectConfirms()

SCENARIOS = [
    scenario(
        "a quorum queue that expires as soon as it is declared",
        quorum("q", expires=1), Wait(1000), Count("q"), releases=("3.10", "4.0", "4.3"),
    ),
    scenario(
        "delete if unused and empty, a queue that is neither",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Qos(1), Consume("q", "c"),
        DeleteQueue("q", if_unused=True, if_empty=True, channel="b"), Ack(), Ack(),
        DeleteQueue("q", if_unused=True, if_empty=True, channel="b"), quorum("r"), publish("r"),
        Consume("r", "d"), DeleteQueue("r", if_unused=True, if_empty=True, channel="b"),
    ),
    scenario(
        "purge",
        CONFIRMED, queue("q"), publish("q", "1", "2", "3"), Get("q"), PurgeQueue("q"), Nack(), PurgeQueue("q"),
    ),
    scenario(
        "purge, quorum",
        CONFIRMED, quorum("q"), publish("q", "1", "2", "3"), Get("q"), PurgeQueue("q"), Nack(), PurgeQueue("q"),
    ),
    scenario("purge of nothing", PurgeQueue("q")),
    scenario(
        "delete",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Get("q"), DeleteQueue("q"), DeleteQueue("q"), Ack(),
        Count("q"),
    ),
    scenario(
        "delete, quorum",
        CONFIRMED, quorum("q"), publish("q", "1", "2"), Get("q"), DeleteQueue("q"), DeleteQueue("q"), Count("q"),
    ),
    scenario(
        "delete if empty",
        CONFIRMED, queue("q"), publish("q"), DeleteQueue("q", if_empty=True), Get("q"),
        DeleteQueue("q", if_empty=True), Ack(),
    ),
    scenario(
        "delete if unused",
        queue("q"), Consume("q", "c"), DeleteQueue("q", if_unused=True, channel="b"), Cancel("c"),
        DeleteQueue("q", if_unused=True),
    ),
    scenario(
        "delete if empty, quorum",
        CONFIRMED, quorum("q"), publish("q"), DeleteQueue("q", if_empty=True), DeleteQueue("q", if_unused=True),
    ),
    scenario(
        "auto-delete",
        CONFIRMED, queue("q", auto_delete=True), publish("q"), Consume("q", "c"), Consume("q", "d", channel="b"),
        Cancel("c"), Count("q"), CloseChannel(channel="b"), Count("q"),
    ),
    scenario(
        "auto-delete without a consumer ever",
        queue("q", auto_delete=True), Get("q"), CloseConnection("a"), Count("q"),
    ),
    scenario(
        "auto-delete when the connection is cut",
        queue("q", auto_delete=True), Consume("q", "c", channel="b"), KillConnection("b"), Count("q"),
    ),
    scenario(
        "auto-delete is no death",
        CONFIRMED, queue("d"), queue("q", auto_delete=True, dlx="", dlrk="d"), publish("q"), Consume("q", "c"),
        Cancel("c"), Count("d"), Count("q"),
    ),
    scenario(
        "exclusive queue",
        CONFIRMED, queue("q", exclusive=True), publish("q"), Get("q", channel="b"), DeleteQueue("q", channel="b"),
        queue("q", exclusive=True, on="b"), Consume("q", "c", channel="b"), PurgeQueue("q", channel="b"),
        Bind("amq.fanout", "q", channel="b"), publish("q", "from b", on="b"), CloseConnection("a"), Count("q"),
    ),
    scenario(
        "exclusive queue on another channel of its connection",
        queue("q", exclusive=True), Consume("q", "c", channel="a/2"), publish("q"), CloseChannel(), Count("q"),
    ),
    scenario(
        "exclusive queue is gone with its connection",
        CONFIRMED, queue("d"), queue("q", exclusive=True, on="b", dlx="", dlrk="d"), publish("q"),
        KillConnection("b"), Count("q"), Count("d"), queue("q"),
    ),
    scenario(
        "server-named queue",
        DeclareQueue("", exclusive=True), DeclareQueue("", auto_delete=True), publish("amq.gen-1", "1"),
        Get("amq.gen-1"), Bind("amq.fanout", ""), publish("", "2", exchange="amq.fanout"), Get(""), DeleteQueue(""),
        Get(""),
    ),
    scenario("the last queue of a channel that has none", Get(""), Bind("amq.fanout", ""), PurgeQueue("")),
    scenario("x-expires", queue("q", expires=400), Count("q"), Wait(600), Count("q")),
    scenario(
        "x-expires with messages, which do not die",
        CONFIRMED, queue("d"), queue("q", expires=400, dlx="", dlrk="d"), publish("q"), Wait(600), Count("q"),
        Count("d"),
    ),
    scenario(
        "x-expires is put off by basic.get",
        queue("q", expires=700), Wait(450), Get("q"), Wait(450), Count("q"), Wait(1000), Count("q"),
    ),
    scenario(
        "x-expires is put off by declaring again",
        queue("q", expires=700), Wait(450), queue("q", expires=700), Wait(450), Count("q"),
    ),
    scenario(
        "x-expires is not put off by publishing",
        CONFIRMED, queue("q", expires=700), Wait(400), publish("q"), Wait(450), Count("q"),
    ),
    scenario(
        "x-expires with a consumer",
        queue("q", expires=400), Consume("q", "c"), Wait(600), Count("q"), Cancel("c"), Wait(600), Count("q"),
    ),
    scenario(
        "x-expires with unacknowledged messages",
        CONFIRMED, queue("q", expires=500), publish("q"), Get("q"), Wait(700), Ack(), Count("q"),
    ),
    scenario("x-expires of a quorum queue", quorum("q", expires=500), Wait(12_000), Count("q")),
    scenario(
        "expires by policy",
        queue("q"), policy("p", "^q$", expires=400), Wait(700), DeclareQueue("q", passive=True),
    ),
    scenario(
        "expires by policy and argument",
        queue("q", expires=60000), policy("p", "^q$", expires=400), Wait(700), DeclareQueue("q", passive=True),
    ),
    scenario(
        "expires by policy taken away",
        queue("q"), policy("p", "^q$", expires=600), ClearPolicy("p"), Wait(800), DeclareQueue("q", passive=True),
    ),
    scenario(
        "bindings go with the queue",
        CONFIRMED, queue("q"), exchange("x"), Bind("x", "q"), DeleteQueue("q"), queue("q"),
        publish("", exchange="x", mandatory=True),
    ),
    scenario(
        "bindings go with the exchange",
        CONFIRMED, queue("q"), exchange("x"), Bind("x", "q"), DeleteExchange("x", if_unused=True),
        DeleteExchange("x"), exchange("x"), publish("", exchange="x", mandatory=True),
        DeleteExchange("x", if_unused=True),
    ),
    scenario("delete of a missing exchange", DeleteExchange("x"), DeleteExchange("amq.direct"), DeleteExchange("")),
    scenario(
        "auto-delete exchange",
        queue("q"), DeclareExchange("x", auto_delete=True), Bind("x", "q", "1"), Bind("x", "q", "2"),
        Unbind("x", "q", "1"), DeclareExchange("x", passive=True), Unbind("x", "q", "2"),
        DeclareExchange("x", passive=True),
    ),
    scenario(
        "auto-delete exchanges in a chain",
        queue("q"), DeclareExchange("x", auto_delete=True), DeclareExchange("y", auto_delete=True),
        BindExchange("x", "y"), Bind("y", "q"), DeleteQueue("q"), DeclareExchange("y", passive=True),
        DeclareExchange("x", passive=True),
    ),
    scenario(
        "bindings twice, and taken away",
        CONFIRMED, queue("q"), exchange("x", "direct"), Bind("x", "q", "k"), Bind("x", "q", "k"),
        publish("k", exchange="x"), Unbind("x", "q", "k"), Unbind("x", "q", "k"),
        publish("k", exchange="x", mandatory=True), Unbind("x", "missing", "k"), Unbind("missing", "q", "k"),
        UnbindExchange("x", "missing"), Bind("missing", "q"), Bind("x", "missing"), BindExchange("missing", "x"),
        BindExchange("x", "missing"),
    ),
    scenario(
        "a channel's last breath",
        queue("q"), publish("q", exchange="missing"), publish("q", "not lost"), Count("q"),
    ),
]  # fmt: skip
