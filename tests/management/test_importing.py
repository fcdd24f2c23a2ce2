"""Definitions that a server starts with, and what an import does with odd but well-formed documents."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.operator_errors import OperatorError
from dlx.releases import RELEASES
from simulator.bootstrap import start_broker
from simulator.broker import Broker
from simulator.broker.commands import ImportDefinitions
from simulator.definitions import DefinitionsError

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


HASHES = {  # of "secret", with the salt 1, 2, 3, 4
    "rabbit_password_hashing_sha256": "AQIDBDB9kM21iEUzN1lZ+6VReCsdNqS0sERdAQTcY6Xs3PMz",
    "rabbit_password_hashing_sha512": (
        "AQIDBPhTH2L5HGYB1LWOrn+YpvuQmVOXKGqgsuiJRIZTILRoEvblSJo/WAsym3IZTfuaIaK5KR2o5KwFfTv6KsxfMIE="
    ),
    "rabbit_password_hashing_md5": "AQIDBDgk9ci8Lfh6CKE9Y0AUfmU=",
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("algorithm", "hashed"), HASHES.items())
def test_imported_hashes_let_users_in(release: str, algorithm: str, hashed: str) -> None:
    user = {"name": "u", "password_hash": hashed, "hashing_algorithm": algorithm, "tags": "management"}
    broker = imported({"users": [user]}, release, vhost=None)
    assert broker.authenticated("u", "secret")
    assert not broker.authenticated("u", "Secret")
    assert not broker.authenticated("u", "")


def test_old_exports_name_no_algorithm() -> None:
    user = {"name": "u", "password_hash": HASHES["rabbit_password_hashing_md5"], "tags": ""}
    assert imported({"users": [user], "rabbit_version": "3.5.7"}, vhost=None).authenticated("u", "secret")
    assert not imported({"users": [user], "rabbit_version": "3.6.0"}, vhost=None).authenticated("u", "secret")


def test_users_without_a_password_cannot_log_in() -> None:
    broker = imported({"users": [{"name": "guest", "tags": ["a"]}, {"name": "new", "tags": ["a"]}]}, vhost=None)
    assert broker.users["new"].tags == broker.users["guest"].tags == ("a",)
    assert not any(broker.authenticated(name, password) for name in ("guest", "new") for password in (name, ""))


def test_a_server_that_starts_with_definitions_knows_guest_by_its_password() -> None:
    users = [{"name": name, "password_hash": next(iter(HASHES.values())), "tags": "x"} for name in ("guest", "u")]
    broker = start_broker("4.3", definitions={"users": users, "vhosts": []})
    assert broker.authenticated("guest", "guest")
    assert broker.authenticated("u", "secret")
    assert broker.users["guest"].tags == ("x",)


def test_what_a_document_does_not_say_of_a_virtual_host_stays() -> None:
    broker = imported(
        {"vhosts": [{"name": "/", "metadata": {"description": "d", "default_queue_type": "quorum"}}]}, vhost=None
    )
    broker.handle(ImportDefinitions({"vhosts": [{"name": "/", "tracing": True}]}), 0)
    vhost = broker.vhosts["/"]
    assert (vhost.description, vhost.default_queue_type, vhost.tracing) == ("d", "quorum", True)


@pytest.mark.parametrize("release", RELEASES)
def test_null_stands_for_no_tags_of_a_virtual_host(release: str) -> None:
    assert imported({"vhosts": [{"name": "t1", "tags": None}]}, release, vhost=None).vhosts["t1"].tags == ()


@pytest.mark.parametrize("release", RELEASES)
def test_operator_policies_may_be_pairs_only_where_a_server_starts(release: str) -> None:
    value = {"pattern": ".*", "definition": [["max-length", 3]], "priority": 0, "apply-to": "queues"}
    document = {"parameters": [{"component": "operator_policy", "name": "op", "value": value}], "queues": [QUEUE]}
    assert start_broker(release, definitions=document).vhosts["/"].queues["q"].settings.max_length == 3
    assert "definition must be a dictionary: [[" in refusal(document, release)


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
    binding = {"source": "amq.direct", "destination": "q", "routing_key": "k", "arguments": {}}
    assert refusal({"queues": [QUEUE], "bindings": [binding]}) == (
        "definitions: bindings[0].destination_type: missing; expected queue or exchange"
    )
    assert refusal({"queues": "none"}) == 'definitions: queues: expected a list, got "none"'
    assert refusal({"permissions": [{"user": 5}]}, vhost=None) == "function_clause"


def test_what_names_no_virtual_host_goes_into_none() -> None:
    assert refusal({"queues": [QUEUE]}, vhost=None).startswith("Virtual host does not exist and is not specified")
    assert refusal({"queues": [QUEUE]}, vhost="no") == (
        'Please create virtual host "no" prior to importing definitions.'
    )
