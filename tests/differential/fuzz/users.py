"""Strategies for a user with limited permissions, who tries what clients try while others go on.

A channel of a server remembers what its user may do; so permissions change only with the user's connection closed.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential import operations as ops
from tests.differential.fuzz.names import EXCHANGES

USER = "u"  # the name of the user, of its password and of its connection
PATTERNS = ["", "", ".*", ".*", "^q", "^q1$", "^x", "^(q1|x1|amq\\.default)$", "^amq\\.", "2", "^$"]
TOPICS = ["", ".*", "^k", "^k\\.k$", "^{username}"]

Steps = list[ops.Operation]


@st.composite
def permissions(draw: st.DrawFn) -> Steps:
    """What the user may do from now on."""
    configure, write, read = (draw(st.sampled_from(PATTERNS)) for _ in range(3))
    found: Steps = [ops.SetPermissions(USER, configure, write, read)]
    if draw(st.integers(0, 2)) == 0:
        topics = st.sampled_from(TOPICS)
        found.append(ops.SetTopicPermissions(USER, draw(st.sampled_from(EXCHANGES)), draw(topics), draw(topics)))
    return found


@st.composite
def arrives(draw: st.DrawFn) -> Steps:
    """The user is made, and connects."""
    return [ops.AddUser(USER), *draw(permissions()), ops.OpenConnection(USER, USER)]


@st.composite
def changes(draw: st.DrawFn) -> Steps:
    """Other permissions, or none; the user comes back."""
    other = draw(st.one_of(permissions(), permissions(), st.just([ops.ClearPermissions(USER)])))
    return [ops.CloseConnection(USER), *other, ops.OpenConnection(USER, USER)]


@st.composite
def tries(draw: st.DrawFn, queues: list[str], keys: st.SearchStrategy[str], streams: list[str]) -> Steps:
    """What the user does; each queue on a channel of its own, as with other clients.

    Nor does this one ask how many messages a stream has (``scripts.declarations``).
    """
    queue, exchange = draw(st.sampled_from(queues)), draw(st.sampled_from(EXCHANGES))
    source = draw(st.sampled_from(["", exchange, exchange, "missing"]))
    where: dict[str, Any] = {"channel": f"{USER}/{queue}"}
    stores = queue not in streams
    user_id = draw(st.sampled_from([{}, {}, {}, {"user_id": USER}, {"user_id": "guest"}]))
    mine: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "x-dead-letter-exchange": st.sampled_from(["", *EXCHANGES]),
                "x-dead-letter-routing-key": st.sampled_from(queues),
                "x-queue-type": st.sampled_from(["classic", "quorum"]),
            },
        )
    )
    kinds: list[Steps] = [
        [ops.Publish(draw(keys), source, "u", user_id, mandatory=draw(st.booleans()), **where)],
        [ops.Publish(draw(keys), source, "u", user_id, **where)],
        [ops.DeclareQueue("q9", arguments=mine, **where), ops.DeleteQueue("q9", channel="z")],
        [ops.DeclareQueue(queue, passive=True, **where)] if stores else [],
        [ops.DeclareExchange("x9", arguments={"alternate-exchange": exchange}, **where)],
        [ops.DeleteExchange("x9", **where)],
        [ops.DeclareExchange(exchange, passive=True, **where)],
        [ops.Bind(source, queue, draw(keys), **where)],
        [ops.Unbind(source, queue, draw(keys), **where)],
        [ops.BindExchange(source, exchange, draw(keys), **where)],
        [ops.PurgeQueue(queue, **where)],
        [ops.DeleteQueue(queue, if_unused=True, if_empty=True, **where)] if stores else [],
        [ops.DeleteExchange(exchange, if_unused=True, **where)],
        [ops.Get(queue, **where)] * 2 if stores else [],
        [ops.Qos(1, **where), ops.Consume(queue, f"u{draw(st.integers(0, 99))}", **where)],
        [ops.CloseConnection(USER)],
    ]
    return draw(st.sampled_from([kind for kind in kinds if kind]))
