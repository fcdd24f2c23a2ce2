"""Delivery limits of quorum queues: every way to give a message back, and where the limit comes from."""

from typing import Any

from tests.differential.operations import (
    Ack,
    Cancel,
    ClearPolicy,
    CloseChannel,
    CloseConnection,
    Consume,
    Count,
    Get,
    KillConnection,
    Nack,
    Qos,
    Recover,
    Reject,
    SelectConfirms,
    SetPolicy,
    Wait,
)
from tests.differential.words import gets, nacked, publish, queue, quorum, rejected, returned, scenario
from tests.real_servers import since

FROM_40 = since("4.0")
CONFIRMED = SelectConfirms()
DELAYED_2500: dict[str, Any] = {"delayed_retry_type": "all", "delayed_retry_min": 2500, "delayed_retry_max": 2500}

SCENARIOS = [
    scenario(
        "limit 2, basic.reject",
        CONFIRMED, queue("d"), quorum("q", limit=2, dlx="", dlrk="d"), publish("q", headers={"a": 1}),
        returned("q", 3), Get("q"), Count("d"),
    ),
    scenario(
        "limit 2, basic.nack",
        CONFIRMED, queue("d"), quorum("q", limit=2, dlx="", dlrk="d"), publish("q"), returned("q", 4, by=Nack),
        Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, basic.recover",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q"), Get("q"), Recover(), Get("q"),
        Recover(), Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, channel closed",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q"), Get("q", channel="b"),
        CloseChannel(channel="b"), Get("q", channel="b"), CloseChannel(channel="b"), Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, connection closed",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q"), Get("q", channel="b"),
        CloseConnection("b"), Get("q", channel="b"), CloseConnection("b"), Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, connection cut",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q"), Get("q", channel="b"),
        KillConnection("b"), Get("q", channel="b"), KillConnection("b"), Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, a mixture",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q"), returned("q", 1, by=Nack),
        returned("q", 1), returned("q", 1, by=Nack), returned("q", 1), Get("q"), Count("d"),
    ),
    scenario(
        "limit 1, consumer",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), Qos(1), Consume("q", "c"), publish("q"),
        Reject(), Reject(), Count("d"),
    ),
    scenario(
        "limit 1, consumer cancelled, then channel closed",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), Consume("q", "c", channel="b"), publish("q"),
        Cancel("c", channel="b"), Count("q"), CloseChannel(channel="b"), Get("q"),
    ),
    scenario(
        "limit 0",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d"), publish("q"), returned("q"), Get("q"),
    ),
    scenario(
        "limit -1",
        CONFIRMED, queue("d"), quorum("q", limit=-1, dlx="", dlrk="d"), publish("q"), returned("q", 3), Count("q"),
    ),
    scenario(
        "limit exceeded without a dead-letter exchange",
        CONFIRMED, quorum("q", limit=0), publish("q"), returned("q"), Count("q"),
    ),
    scenario(
        "the default limit",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q"), returned("q", 21), Get("q"), Count("d"),
    ),
    scenario(
        "policy limit",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": 1}), Wait(100),
        publish("q"), returned("q", 2), Get("q"), Count("d"),
    ),
    scenario(
        "smaller of argument and policy",
        CONFIRMED, queue("d"), quorum("q", limit=3, dlx="", dlrk="d"), quorum("r", limit=1, dlx="", dlrk="d"),
        SetPolicy("p", "^[qr]$", {"delivery-limit": 2}), Wait(100), publish("q"), returned("q", 4), Count("d"),
        publish("r"), returned("r", 3), Count("d"),
    ),
    scenario(
        "unlimited by argument, limited by policy",
        CONFIRMED, queue("d"), quorum("q", limit=-1, dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": 2}),
        Wait(100), publish("q"), returned("q", 4), Count("d"),
    ),
    scenario(
        "limited by argument, unlimited by policy",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": -1}),
        Wait(100), publish("q"), returned("q", 3), Count("d"),
    ),
    scenario(
        "unlimited by policy",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": -1}),
        Wait(100), publish("q"), returned("q", 22), Count("d"), releases=FROM_40,
    ),
    scenario(
        "operator policy",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": 5}),
        SetPolicy("o", "^q$", {"delivery-limit": 1}, operator=True), Wait(100), publish("q"), returned("q", 3),
        Count("d"),
    ),
    scenario(
        "policy taken away",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"delivery-limit": 1}), Wait(100),
        publish("q"), returned("q", 1), ClearPolicy("p"), Wait(100), returned("q", 3), Count("d"),
    ),
    scenario(
        "a limit that is no integer",
        CONFIRMED, queue("d"), quorum("q", limit="2", dlx="", dlrk="d"), publish("q"), returned("q", 4), Count("d"),
    ),
    scenario(
        "many at once",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d"), publish("q", "1", "2", "3"), gets("q", 3),
        Nack(multiple=True), Count("q"), gets("q", 3), Reject(delivery=3), Reject(delivery=4), Reject(delivery=5),
    ),
    scenario(
        "counts in the headers",
        CONFIRMED, quorum("q"), publish("q", headers={"x-delivery-count": 7, "x-acquired-count": 9, "z": 1}),
        Get("q"), Nack(), Get("q"), Reject(), Get("q"), Recover(), Consume("q", "c"), Nack(), Ack(),
    ),
    scenario(
        "counts in the headers of a classic queue",
        CONFIRMED, queue("q"), publish("q", headers={"x-delivery-count": 7}), returned("q", 2), Consume("q", "c"),
    ),
    scenario(
        "carried over, basic.reject",
        CONFIRMED, quorum("d"), quorum("q", dlx="", dlrk="d"), publish("q"), rejected("q"), returned("d", 1, by=Nack),
        returned("d", 1), Get("d"),
    ),
    scenario(
        "carried over, basic.nack",
        CONFIRMED, quorum("d"), quorum("q", dlx="", dlrk="d"), publish("q"), nacked("q"), returned("d", 1, by=Nack),
        Get("d"),
    ),
    scenario(
        "carried over, after some returns",
        CONFIRMED, quorum("d"), quorum("q", dlx="", dlrk="d"), publish("q"), returned("q", 2),
        returned("q", 1, by=Nack), nacked("q"), returned("d", 1), Get("d"),
    ),
    scenario(
        "carried over, delivery limit to delivery limit",
        CONFIRMED, quorum("dd"), quorum("d", limit=1, dlx="", dlrk="dd"), quorum("q", limit=1, dlx="", dlrk="d"),
        publish("q"), returned("q", 2), returned("d", 2), Get("dd"), Count("d"),
    ),
    scenario(
        "carried over, quorum to classic",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d"), publish("q"), returned("q"), Get("d"),
    ),
    scenario(
        "carried over, classic to quorum",
        CONFIRMED, quorum("d"), queue("q", dlx="", dlrk="d"), publish("q"), returned("q", 2), rejected("q"), Get("d"),
        Reject(), Get("d"),
    ),
    scenario(
        "carried over, classic to classic",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "rejected", "nacked"), rejected("q"),
        nacked("q"), Get("d"), Get("d"),
    ),
    scenario(
        "carried over, classic, rejected before it expired",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "rejected", expiration="500"),
        returned("q"), publish("q", "nacked", expiration="500"), Get("q"), Get("q"), Reject(delivery=-2),
        Nack(delivery=-1), Wait(700), Get("d"), Get("d"),
    ),
    scenario(
        "carried over, quorum, rejected before it was dropped",
        CONFIRMED, quorum("d"), quorum("q", length=1, dlx="", dlrk="d"), publish("q", "1"), returned("q"),
        publish("q", "2"), Get("d"),
    ),
    scenario(
        "delayed retry",
        CONFIRMED, quorum("q", delayed_retry_type="all", delayed_retry_min=600, delayed_retry_max=1500), publish("q"),
        Get("q"), Nack(), Count("q"), Get("q"), Wait(800), Get("q"), Reject(), Count("q"), Wait(800), Get("q"),
        Reject(), Wait(800), Count("q"), Wait(700), Get("q"), releases=since("4.3"),
    ),
    scenario(
        "delayed retry of failed ones only",
        CONFIRMED, quorum("q", delayed_retry_type="failed", delayed_retry_min=400, delayed_retry_max=400),
        publish("q", "1", "2"), gets("q", 2), Nack(delivery=0), Reject(delivery=1), Count("q"), Wait(600), Count("q"),
        releases=since("4.3"),
    ),
    scenario(
        "delayed retry of returned ones only",
        CONFIRMED, quorum("q", delayed_retry_type="returned", delayed_retry_min=400, delayed_retry_max=400),
        publish("q", "1", "2"), gets("q", 2), Nack(delivery=0), Reject(delivery=1), Count("q"), Wait(600), Count("q"),
        releases=since("4.3"),
    ),
    scenario(
        "delayed retries that end together",
        CONFIRMED, quorum("q", delayed_retry_type="all", delayed_retry_min=600, delayed_retry_max=600),
        publish("q", *"123"), gets("q", 2), Reject(delivery=1), Get("q", channel="b"), Wait(150), Reject(delivery=0),
        Wait(600), Get("q", channel="b"), Wait(300), Get("q", channel="b"), KillConnection("b"), Count("q"), Wait(900),
        Count("q"), releases=["4.3"],
    ),
    scenario(
        "delayed retry, length limit and ttl",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d", length=2, **DELAYED_2500),
        publish("q", "1", "2", expiration="700"), gets("q", 2), Nack(multiple=True), publish("q", "3"), Count("q"),
        Count("d"), Wait(800), Count("d"), Wait(2500), Count("q"), Count("d"), releases=since("4.3"),
    ),
    scenario(
        "delayed retry by policy",
        CONFIRMED, quorum("q"),
        SetPolicy("p", "^q$", {"delayed-retry-type": "all", "delayed-retry-min": 400, "delayed-retry-max": 400}),
        Wait(100), publish("q"), returned("q", 1, by=Nack), Count("q"), Wait(600), Count("q"), releases=since("4.3"),
    ),
    scenario(
        "delayed retry reaches the delivery limit",
        CONFIRMED, queue("d"),
        quorum("q", delayed_retry_type="all", delayed_retry_min=300, delayed_retry_max=300, limit=1, dlx="", dlrk="d"),
        publish("q"), returned("q"), Wait(450), returned("q"), Count("d"), releases=since("4.3"),
    ),
]  # fmt: skip
