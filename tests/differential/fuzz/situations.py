"""Strategies for situations that other steps seldom come to. Each has queues of its own, which no policy is for.

What a server leaves to chance is not drawn here either: what a connection that ends gives back to a quorum queue is
counted and not looked at, as a server may have handed it to a consumer that was gone already; no classic queue has an
automatic consumer then; and of the consumers of a queue only one is ever late.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dlx.routing import REPLY_TO
from tests.differential import operations as ops
from tests.differential.fuzz.management import EFFECT

LOST, ASKS, FULL, LATE = "lost", "asks", "full", "late"
SOON_MS, LATE_MS = 700, 1_500  # how long a consumer may take, and when it has taken longer for sure
PUBLISHER, OTHER, TRANSACTIONS = "p", "z", "t"  # channels

Steps = list[ops.Operation]


@st.composite
def lost_connections(draw: st.DrawFn) -> Steps:
    """A connection ends, of which some channels hold deliveries and others have consumers."""
    kind = draw(st.sampled_from(["classic", "quorum", "quorum"]))
    arguments: dict[str, Any] = {"x-queue-type": kind}
    single = draw(st.integers(0, 2)) == 0
    if single:
        arguments["x-single-active-consumer"] = True
    found: Steps = [ops.DeclareQueue(LOST, arguments=arguments, channel=OTHER)]
    channels = draw(st.permutations([f"l/{number}" for number in range(draw(st.integers(2, 4)))]))
    for number, channel in enumerate(channels):
        automatic = kind == "quorum" and number > 0 and draw(st.booleans())
        if not single and not automatic and draw(st.integers(0, 3)) == 0:
            found += [ops.Publish(LOST, body=f"get {number}", channel=PUBLISHER), ops.Get(LOST, channel=channel)]
            continue
        qos = [] if automatic else [ops.Qos(1, channel=channel)]
        found += [*qos, ops.Consume(LOST, f"l{number}", automatic, channel=channel)]
        if not automatic:
            found.append(ops.Publish(LOST, body=f"held {number}", channel=PUBLISHER))
    end = draw(st.sampled_from([ops.KillConnection("l"), ops.CloseConnection("l")]))
    return [*found, end, EFFECT, ops.Count(LOST), ops.DeleteQueue(LOST, channel=OTHER)]


@st.composite
def answers(draw: st.DrawFn, number: int, queues: list[str]) -> Steps:
    """The ``number``-th requester asks, and is answered, with copies to these queues or as one who has a copy."""
    address, requester = f"{REPLY_TO}-{number}", f"r/{number}"
    found: Steps = [
        ops.DeclareQueue(ASKS, channel=OTHER),
        ops.Consume(REPLY_TO, f"r{number}", True, channel=requester),
        ops.Publish(ASKS, body="asks", properties={"reply_to": REPLY_TO}, channel=requester),
        ops.Get(ASKS, True, channel=OTHER),
    ]
    keys = st.sampled_from([address, address, f"{REPLY_TO}-1", *queues, "nowhere"])
    copies = st.lists(keys, max_size=3)
    channel = draw(st.sampled_from([PUBLISHER, PUBLISHER, "a", TRANSACTIONS]))
    if channel == TRANSACTIONS:
        found.append(ops.SelectTransactions(channel=channel))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 9)) == 0:
            found.append(draw(st.sampled_from([ops.CloseChannel(channel=requester), ops.KillConnection("r"), EFFECT])))
        headers = {"CC": draw(copies), "BCC": draw(copies)}
        kept = {name: value for name, value in headers.items() if value} or None
        mandatory = draw(st.integers(0, 3)) == 0
        found.append(
            ops.Publish(draw(keys), body=f"answer {number}", headers=kept, mandatory=mandatory, channel=channel)
        )
    if channel == TRANSACTIONS:
        found.append(draw(st.sampled_from([ops.Commit(channel=channel), ops.Rollback(channel=channel)])))
    return found


@st.composite
def full_commits(draw: st.DrawFn, others: list[str]) -> Steps:
    """Transactions publish into a quorum queue that refuses, or is about to, and into others."""
    length = draw(st.integers(0, 2))
    arguments = {"x-queue-type": "quorum", "x-max-length": length, "x-overflow": "reject-publish"}
    where: dict[str, Any] = {"channel": TRANSACTIONS}
    found: Steps = [ops.DeclareQueue(FULL, arguments=arguments, channel=OTHER)]
    found += [ops.Publish(FULL, body="fills", channel=PUBLISHER)] * draw(st.integers(0, length + 2))
    found.append(ops.SelectTransactions(**where))
    for _ in range(draw(st.integers(1, 2))):
        for _ in range(draw(st.integers(1, 3))):
            answer = draw(st.sampled_from([ops.Ack(**where), ops.Reject(requeue=False, **where)]))
            publish = ops.Publish(draw(st.sampled_from([FULL, FULL, FULL, *others[:1]])), body="in it", **where)
            found += draw(st.sampled_from([[publish], [publish], [publish], [ops.Get(FULL, **where), answer]]))
        found += [ops.Commit(**where), ops.Count(FULL)]
    return [*found, ops.DeleteQueue(FULL, channel=OTHER)]


@st.composite
def late_consumers(draw: st.DrawFn, number: int) -> Steps:
    """One of the consumers of the ``number``-th such queue is late, mostly of a single active one, and others join."""
    arguments: dict[str, Any] = {"x-queue-type": "quorum"}
    if draw(st.integers(0, 3)):
        arguments["x-single-active-consumer"] = True
    found: Steps = [ops.DeclareQueue(LATE, arguments=arguments, channel=OTHER)]
    channels = [f"m{number}/{place}" for place in range(draw(st.integers(1, 4)))]
    before = draw(st.integers(1, len(channels)))

    def consume(channel: str) -> Steps:
        """The first may take less time than the others."""
        given = {"x-consumer-timeout": SOON_MS if channel == channels[0] else 600_000}
        priority = draw(st.sampled_from([None, None, None, 0, 2]))
        given |= {} if priority is None else {"x-priority": priority}
        return [ops.Qos(1, channel=channel), ops.Consume(LATE, channel, arguments=given, channel=channel)]

    def settle(channel: str) -> Steps:
        kinds = [ops.Ack, ops.Ack, ops.Nack, ops.Reject]
        return [draw(st.sampled_from(kinds))(delivery=0 if channel == channels[0] else -1, channel=channel)]

    for channel in channels[:before]:
        found += consume(channel)
    found += [ops.Publish(LATE, body="late", channel=PUBLISHER), ops.Wait(LATE_MS)]
    rest = [consume(channel) for channel in channels[before:]]
    rest += [settle(channel) for channel in draw(st.lists(st.sampled_from(channels), max_size=4))]
    rest += [[ops.Publish(LATE, body=f"{place}", channel=PUBLISHER)] for place in range(draw(st.integers(1, 3)))]
    rest += [[ops.Cancel(channels[-1], channel=channels[-1])]] * draw(st.integers(0, 1))
    for steps in draw(st.permutations(rest)):
        found += steps
    return [*found, ops.DeleteQueue(LATE, channel=OTHER)]
