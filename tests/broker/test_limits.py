"""Limits of virtual hosts and users: what is refused once they are reached, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dlx.operator_errors import OperatorError
from simulator.broker import Broker
from simulator.broker.commands import (
    AddUser,
    ClearUserLimit,
    CloseChannel,
    CloseConnection,
    Command,
    DeclareQueue,
    DeleteQueue,
    ImportDefinitions,
    OpenChannel,
    OpenConnection,
    SetPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed

RELEASES = ("3.8", "3.9", "3.10", "3.12", "3.13", "4.0", "4.3")
A, B = ("a", 1), ("a", 2)


def broker(release: str = "4.3") -> Broker:
    return run(Broker(release), OpenConnection("a"), OpenChannel(A))


def run(broker: Broker, *commands: Command) -> Broker:
    """Run commands that must not be refused."""
    for command in commands:
        assert refusal(broker, command) is None, command
    return broker


def refusal(broker: Broker, command: Command) -> str | None:
    replies = broker.handle(command, 0)
    return next((reply.text for reply in replies if isinstance(reply, ChannelClosed | ConnectionClosed)), None)


def declare(name: str, channel: Any = A, **given: Any) -> DeclareQueue:
    return DeclareQueue(channel=channel, queue=name, **given)


@pytest.mark.parametrize("release", RELEASES)
def test_no_more_queues_than_the_virtual_host_may_have(release: str) -> None:
    limited = run(broker(release), SetVhostLimits("/", {"max-queues": 1}), declare("a"), declare("a"))
    expected = "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    assert refusal(limited, declare("b")) == expected
    run(limited, OpenChannel(A), declare("a", passive=True), DeleteQueue(A, "a"), declare("b"))
    run(limited, SetVhostLimits("/", {"max-queues": -1}), declare("c"), SetVhostLimits("/", None), declare("d"))


@pytest.mark.parametrize(("release", "said"), [("3.12", "queue limit"), ("3.13", "invalid arg 'x-max-length'")])
def test_until_3_12_the_limit_comes_before_the_arguments(release: str, said: str) -> None:
    limited = run(broker(release), SetVhostLimits("/", {"max-queues": 0}))
    assert said in str(refusal(limited, declare("q", arguments={"x-max-length": -1})))


def test_the_limit_comes_before_what_the_type_does_not_allow() -> None:
    limited = run(broker(), SetVhostLimits("/", {"max-queues": 0}))
    assert "queue limit" in str(refusal(limited, declare("q", arguments={"x-queue-type": "quorum"})))


def test_no_more_connections_than_the_virtual_host_may_have() -> None:
    limited = run(broker(), SetVhostLimits("/", {"max-connections": 1}))
    expected = "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached"
    assert refusal(limited, OpenConnection("b")) == expected
    run(limited, CloseConnection("a"), OpenConnection("b"))


def test_no_more_connections_than_the_user_may_have() -> None:
    limited = run(broker(), SetUserLimits("guest", {"max-connections": 1}))
    expected = "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached"
    assert refusal(limited, OpenConnection("b")) == expected
    run(limited, AddUser("u", "u"), SetPermissions("u", "/", "", "", ""), OpenConnection("b", user="u"))
    run(limited, ClearUserLimit("guest", "max-connections"), OpenConnection("c"))


@pytest.mark.parametrize(
    ("release", "named"),
    [("3.11", "guest' {} (1)"), ("3.12", "rabbit@localhost' {} (1)"), ("4.1", "rabbit@localhost' {} (1)"),
     ("4.2", "guest' {} 1"), ("4.3", "guest' {} 1")],
)  # fmt: skip
def test_no_more_channels_than_the_user_may_have(release: str, named: str) -> None:
    limited = run(broker(release), SetUserLimits("guest", {"max-channels": 1}))
    told = named.format("has reached the maximum allowed user limit of")
    assert refusal(limited, OpenChannel(B)) == f"NOT_ALLOWED - number of channels opened for user '{told}"
    assert limited.connections == {}
    run(limited, OpenConnection("b"), OpenChannel(("b", 1)), CloseChannel(("b", 1)), OpenChannel(("b", 2)))
    assert "number of channels" in str(refusal(limited, OpenChannel(("b", 3))))
    run(limited, OpenConnection("c", limited=False), OpenChannel(("c", 1)), ClearUserLimit("guest", "all"))
    assert limited.users["guest"].limits == {}


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"max-queues": "5"}, 'max-queues should be a number, actually was <<"5">>'),
        ({"max-queues": 1.5}, "max-queues should be a number, actually was 1.5"),
        ({"max-channels": 5}, 'Unrecognised terms [{<<"max-channels">>,5}] in limits'),
        (5, "limits not a list 5"),
    ],
)
def test_limits_are_integers_with_known_names(limits: Mapping[str, Any], text: str) -> None:
    with pytest.raises(OperatorError) as refused:
        Broker().handle(SetVhostLimits("/", limits), 0)
    assert refused.value.text == f"Validation failed\n\n{text}\n"


def test_limits_of_users_have_names_of_their_own() -> None:
    with pytest.raises(OperatorError, match=r"Unrecognised terms .*max-queues.* in user-limits"):
        Broker().handle(SetUserLimits("guest", {"max-queues": 5}), 0)


# Imports


def imported(release: str, limit: int, *names: str) -> Broker:
    queues = [{"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in names]
    parameter = {"component": "vhost-limits", "name": "limits", "value": {"max-queues": limit}}
    receiving = broker(release)
    receiving.handle(ImportDefinitions({"parameters": [parameter], "queues": queues}, "/"), 0)
    return receiving


@pytest.mark.parametrize("release", RELEASES)
def test_an_import_brings_limits(release: str) -> None:
    limited = imported(release, 1, "a")
    assert "queue limit" in str(refusal(limited, declare("b")))


@pytest.mark.parametrize(("release", "kept"), [("3.12", ["a", "b"]), ("3.13", ["a"]), ("4.3", ["a"])])
def test_an_import_disregards_the_limit_that_it_brings_or_leaves_queues_out(release: str, kept: list[str]) -> None:
    assert list(imported(release, 1, "a", "b").vhosts["/"].queues) == kept


@pytest.mark.parametrize("release", RELEASES)
def test_an_import_beyond_the_limit_is_refused_whole(release: str) -> None:
    limited = run(imported(release, 2, "a"))
    queues = [{"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in ("a", "b", "c")]
    with pytest.raises(OperatorError) as refused:
        limited.handle(ImportDefinitions({"queues": queues}, "/"), 0)
    assert refused.value.text == (
        'Adding 2 queue(s) to virtual host "/" would exceed the limit of 2 queue(s).\n\n'
        "This virtual host currently has 1 queue(s) defined.\n\nImport aborted!"
    )
    assert list(limited.vhosts["/"].queues) == ["a"]


def test_users_come_with_their_limits_since_3_9() -> None:
    user = {"name": "u", "tags": "", "limits": {"max-channels": 3}}
    for release, limits in (("3.8", {}), ("3.9", {"max-channels": 3})):
        receiving = broker(release)
        receiving.handle(ImportDefinitions({"users": [user]}), 0)
        assert receiving.users["u"].limits == limits
