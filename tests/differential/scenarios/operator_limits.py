"""Limits that operators set: of queues and connections of a virtual host, of connections and channels of a user."""

from tests.differential.operations import (
    AddUser,
    CloseChannel,
    CloseConnection,
    DeclareQueue,
    DeleteQueue,
    OpenChannel,
    OpenConnection,
    SetPermissions,
    SetUserLimit,
    SetVhostLimit,
    Wait,
)
from tests.differential.words import Part, queue, quorum, scenario
from tests.real_servers import since

WITH_USER_LIMITS = since("3.9")
COUNTED = Wait(300)  # servers count connections and channels a little later


def bob(name: str, value: int) -> list[Part]:
    """A user with permissions and a limit."""
    return [AddUser("bob"), SetPermissions("bob", ".*", ".*", ".*"), SetUserLimit("bob", name, value)]


SCENARIOS = [
    scenario(
        "queues",
        SetVhostLimit("max-queues", 2), queue("a"), queue("b", exclusive=True), queue("c"), queue("a"),
        DeclareQueue(""), DeleteQueue("a"), quorum("c"), queue("d"), SetVhostLimit("max-queues", -1),
        queue("d"), SetVhostLimit("max-queues", 0), queue("e"), queue("d"),
    ),
    scenario(
        "queues, before or behind other checks",
        SetVhostLimit("max-queues", 0), queue("a", length=-1), quorum("a", durable=False), quorum("a", max_priority=5),
        queue("a", dlx=5), queue("amq.a"),
    ),
    scenario(
        "connections",
        SetVhostLimit("max-connections", 1), OpenConnection("a"), COUNTED, OpenConnection("b"), CloseConnection("a"),
        COUNTED, OpenConnection("b"), SetVhostLimit("max-connections", 0), OpenConnection("c"),
        SetVhostLimit("max-connections", 2), OpenConnection("c"),
    ),
    scenario(
        "connections of a user",
        bob("max-connections", 1), OpenConnection("b", "bob"), COUNTED, OpenConnection("c", "bob"),
        OpenConnection("d"), CloseConnection("b"), COUNTED, OpenConnection("c", "bob"),
        SetUserLimit("bob", "max-connections", 0), OpenConnection("e", "bob"),
        releases=WITH_USER_LIMITS,
    ),
    scenario(
        "channels of a user",
        bob("max-channels", 1), OpenConnection("b", "bob"), OpenChannel(channel="b/1"), COUNTED,
        OpenConnection("c", "bob"), OpenChannel(channel="c/1"), CloseChannel(channel="b/1"), COUNTED,
        OpenChannel(channel="b/2"), COUNTED, OpenChannel(channel="b/3"), COUNTED, OpenChannel(channel="b/4"),
        releases=WITH_USER_LIMITS,
    ),
]  # fmt: skip
