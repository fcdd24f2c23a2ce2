"""Definitions that a server starts with, and what an import does with odd but well-formed documents."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.operator_errors import OperatorError
from simulator.bootstrap import start_broker
from simulator.broker import Broker
from simulator.broker.commands import ImportDefinitions
from simulator.definitions import DefinitionsError

RELEASES = ("3.8", "3.10", "3.13", "4.0", "4.3")
QUEUE = {"name": "q", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}


def imported(document: dict[str, Any], release: str = "4.3", vhost: str | None = "/") -> Broker:
    broker = Broker(release)
    broker.handle(ImportDefinitions(document, vhost), 0)
    return broker


def refusal(document: dict[str, Any], release: str = "4.3", vhost: str | None = "/") -> str:
    with pytest.raises(OperatorError) as refused:
        imported(document, release, vhost)
    return refused.value.text


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_starts_with_the_export_of_one_virtual_host(release: str) -> None:
    broker = start_broker(release, definitions={"original_vhost_name": "shop", "queues": [QUEUE]})
    assert list(broker.vhosts["shop"].queues) == ["q"]
    assert broker.users["guest"].permissions.keys() == {"/", "shop"}


def test_a_server_starts_with_the_permissions_of_the_export() -> None:
    nothing = {"user": "guest", "vhost": "/", "configure": "", "write": "", "read": ""}
    broker = start_broker("4.3", definitions={"vhosts": [{"name": "/"}, {"name": "shop"}], "permissions": [nothing]})
    assert {name: granted.configure for name, granted in broker.users["guest"].permissions.items()} == {"/": ""}


def test_a_server_does_not_start_with_what_rabbitmq_refuses() -> None:
    with pytest.raises(DefinitionsError, match="invalid arg 'x-max-length' for queue 'q' in vhost '/'"):
        start_broker("4.3", definitions={"queues": [QUEUE | {"arguments": {"x-max-length": -1}}]})


def test_known_users_keep_their_passwords() -> None:
    users = [{"name": "guest", "password_hash": "AAAA", "tags": "administrator"}, {"name": "new", "tags": ["a"]}]
    broker = imported({"users": users}, vhost=None)
    assert broker.authenticated("guest", "guest")
    assert broker.users["new"].tags == ("a",)


def test_what_a_document_does_not_say_of_a_virtual_host_stays() -> None:
    broker = imported(
        {"vhosts": [{"name": "/", "metadata": {"description": "d", "default_queue_type": "quorum"}}]}, vhost=None
    )
    broker.handle(ImportDefinitions({"vhosts": [{"name": "/", "tracing": True}]}), 0)
    vhost = broker.vhosts["/"]
    assert (vhost.description, vhost.default_queue_type, vhost.tracing) == ("d", "quorum", True)


def test_operator_policies_may_be_pairs_and_plugins_have_parameters() -> None:
    value = {"pattern": ".*", "definition": [["max-length", 3]], "priority": 0, "apply-to": "queues"}
    parameters = [
        {"component": "shovel", "name": "s", "value": {}},
        {"component": "operator_policy", "name": "op", "value": value},
    ]
    broker = imported({"parameters": parameters, "queues": [QUEUE]})
    assert broker.vhosts["/"].queues["q"].settings.max_length == 3


def test_everything_else_of_a_section_is_tried_before_it_fails() -> None:
    bad = QUEUE | {"name": "bad", "arguments": {"x-max-length": -1}}
    policy = {"name": "p", "pattern": "", "definition": {"max-length": 1}, "priority": 0}
    broken = policy | {"name": "broken", "definition": {"nope": 1}}
    broker = Broker("4.3")
    with pytest.raises(OperatorError):
        broker.handle(ImportDefinitions({"queues": [bad, QUEUE]}, "/"), 0)
    with pytest.raises(OperatorError):
        broker.handle(ImportDefinitions({"policies": [policy, broken, policy | {"name": "later"}]}, "/"), 0)
    vhost = broker.vhosts["/"]
    assert list(vhost.queues) == ["q"]
    assert list(vhost.policies) == ["p"]
    assert vhost.queues["q"].settings.max_length == 1


def test_wrong_types_are_named_with_their_place() -> None:
    assert refusal({"queues": [QUEUE | {"durable": "yes"}]}) == (
        'definitions: queues[0].durable: expected true or false, got "yes"'
    )
    assert refusal({"queues": "none"}) == 'definitions: queues: expected a list, got "none"'
    assert refusal({"permissions": [{"user": 5}]}, vhost=None) == "function_clause"


def test_what_names_no_virtual_host_goes_into_none() -> None:
    assert refusal({"queues": [QUEUE]}, vhost=None).startswith("Virtual host does not exist and is not specified")
    assert refusal({"queues": [QUEUE]}, vhost="no") == (
        'Please create virtual host "no" prior to importing definitions.'
    )
