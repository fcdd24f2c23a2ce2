"""Configurations of Rascal, from a file made by hand that has every field, and what Rascal itself makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError
from simulator.sources import definitions_from_file, definitions_from_text
from simulator.sources.rascal import FIELDS

FOLDER = Path(__file__).parent / "rascal"
CONFIG = FOLDER / "config.json"
DECLARED = FOLDER / "declared.json"
"""What Rascal 21.0.1 and amqplib 2.3.1 declare of the configuration, with {uuid} for each UUID."""

# The attributes that Rascal's validation takes, and the options that amqplib reads.
WRITTEN = {
    "vhost": "assert bindings check concurrency connection connectionStrategy connections defaults exchanges name "
    "namespace publicationChannelPools publications queues subscriptions",
    "exchange": "assert check fullyQualifiedName name options type",
    "queue": "assert check fullyQualifiedName name options purge replyTo type",
    "binding": "bindingKey bindingKeys destination destinationType fullyQualifiedName name options qualifyBindingKeys "
    "source",
    "publication": "autoCreated confirm deprecated destination encryption exchange name options queue replyTo "
    "routingKey timeout vhost",
    "subscription": "autoCreated channelPrefetch closeTimeout contentType deprecated encryption handler handlers name "
    "options prefetch promisifyAckOrNack queue recovery redeliveries retry source vhost workflow workflows",
    "exchange options": "alternateExchange arguments autoDelete durable expires internal",
    "queue options": "arguments autoDelete deadLetterExchange deadLetterRoutingKey durable exclusive expires maxLength "
    "maxPriority messageTtl overflow queueMode",
}


def written() -> dict[str, set[str]]:
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    vhosts = list(config["vhosts"].values())
    found: dict[str, set[str]] = {"vhost": {name for vhost in vhosts for name in vhost}}
    for kind in ("exchange", "queue", "binding", "publication", "subscription"):
        parts: list[Any] = [*config.get(f"{kind}s", {}).values()]
        for vhost in vhosts:
            given = vhost.get(f"{kind}s", {})
            parts += given.values() if isinstance(given, dict) else given
        found[kind] = {name for each in parts if isinstance(each, dict) for name in each}
        found[f"{kind} options"] = {
            name for each in parts if isinstance(each, dict) for name in each.get("options", {})
        }
    return found


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_field_is_known_and_in_the_file(kind: str) -> None:
    part, _, options = kind.partition(" ")
    known: Any = FIELDS[part]
    assert set(known[options] if options else known) == set(WRITTEN[kind].split())
    assert written()[kind] >= set(WRITTEN[kind].split())


@pytest.fixture(scope="module")
def read() -> Definitions:
    return definitions_from_file(CONFIG)


@pytest.mark.parametrize("section", ["exchanges", "queues", "bindings"])
def test_what_is_read_is_what_rascal_declares(section: str, read: Definitions) -> None:
    declared = json.loads(DECLARED.read_text(encoding="utf-8"))[section]
    assert sorted(read.document[section], key=repr_of) == sorted(declared, key=repr_of)


def repr_of(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)


def test_a_namespace_stands_before_names_of_arguments_but_not_of_options(read: Definitions) -> None:
    queues = read.topology("shop").queues
    assert queues["eu:work"].arguments["x-dead-letter-exchange"] == "eu:dlx"
    assert queues["eu:retry"].arguments["x-dead-letter-exchange"] == "orders"  # which is no exchange of this namespace


def test_what_rascal_does_besides_is_said(read: Definitions) -> None:
    said = "\n".join(read.remarks)
    assert f"{CONFIG}, line 65: 'elsewhere' is not asserted, so Rascal declares none: left out" in said
    assert "Rascal empties queue 'work' at each start" in said
    assert "the name of queue 'replies' has another end each time: '{uuid}' here" in said
    assert "publications (3), subscriptions (2), shovels (1), recovery (1): they declare nothing" in said
    assert "virtual host 'logs' is not defined here" in said
    assert "'shop'" not in said  # it is asserted


def test_an_object_has_its_place(read: Definitions) -> None:
    names = [each["name"] for each in read.document["queues"]]
    lines = CONFIG.read_text(encoding="utf-8").splitlines()
    for name, line in (("eu:retry", '"retry": {'), ("errors", '{ "name": "errors"')):
        place = read.place("queues", names.index(name))
        assert place is not None
        assert line in lines[place.line - 1]


def parsed(vhost: dict[str, Any], **more: Any) -> Definitions:
    return definitions_from_text(json.dumps({"vhosts": {"/": vhost}, **more}).encode(), "config.json")


def test_the_virtual_host_is_that_of_the_url() -> None:
    read = parsed({"connection": "amqp://localhost/%2Fshop", "queues": ["q"]})
    assert read.vhosts == ("/shop",)
    assert "the connection of '/' is to virtual host '/shop'" in read.remarks[0]
    assert parsed({"connection": {"url": "${RABBITMQ_URL}"}, "queues": ["q"]}).vhosts == ("/",)


def test_a_namespace_that_changes_has_a_stand_in() -> None:
    read = parsed({"namespace": True, "queues": ["q"]})
    assert list(read.topology("/").queues) == ["{uuid}:q"]
    assert "the namespace is another one at each start: '{uuid}' stands for it" in read.remarks[0]


@pytest.mark.parametrize(
    ("vhost", "said"),
    [
        ({"queues": {"q": {"optoins": {}}}}, "vhosts./.queues.q.optoins: unknown field; did you mean 'options'?"),
        (
            {"queues": {"q": {"options": {"x-message-ttl": 1}}}},
            "vhosts./.queues.q.options.x-message-ttl: amqplib ignores it; arguments belong in options.arguments",
        ),
        (
            {"queues": {"q": {"options": {"deadLeterExchange": "d"}}}},
            "options.deadLeterExchange: unknown field; did you mean 'deadLetterExchange'",
        ),
        ({"queues": [1]}, "vhosts./.queues[0]: expected a name, or an object with one"),
        ({"queues": "q"}, "vhosts./.queues: expected an object"),
        ({"queues": {"q": {"options": {"durable": "yes"}}}}, "options.durable: expected true or false, got 'yes'"),
        ({"exchanges": ["e"], "qeues": {}}, "vhosts./.qeues: unknown field; did you mean 'queues'?"),
        (
            {"exchanges": ["e"], "queues": ["work"], "bindings": ["e -> wrok"]},
            "vhosts./.bindings[0].destination: no queue 'wrok' in this virtual host; did you mean 'work'?",
        ),
        (
            {"exchanges": ["e"], "bindings": ["e"]},
            "bindings[0].source: missing; expected the name of one, or the binding",
        ),
        (
            {"queues": ["work"], "subscriptions": {"s": {"queue": "wrok"}}},
            "vhosts./.subscriptions.s.queue: no queue 'wrok' in its virtual host; did you mean 'work'?",
        ),
        ({"queues": ["q"], "publications": {"p": {"exchnge": "e"}}}, "did you mean 'exchange'?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(vhost: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionsError) as caught:
        parsed(vhost)
    assert said in str(caught.value)
    assert str(caught.value).startswith("config.json, line 1: ")


def test_publications_are_of_virtual_hosts_that_are_there() -> None:
    with pytest.raises(DefinitionsError) as caught:
        parsed({"exchanges": ["e"]}, publications={"p": {"vhost": "shop", "exchange": "e"}})
    assert "publications.p.vhost: no virtual host 'shop' here" in str(caught.value)


def test_lint_finds_where_the_namespace_leads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(CONFIG)]) == 1
    assert "'eu:retry'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "connection",
    [
        {"connection": "amqp://u:hunter2@h/"},
        {"connection": {"url": "amqp://u:hunter2@h/"}},
        {"connections": ["amqp://h/", {"hostname": "h", "vhost": "/", "password": "hunter2"}]},
    ],
)
def test_a_password_of_a_connection_is_said(connection: dict[str, Any]) -> None:
    said = "\n".join(parsed({"queues": ["q"], **connection}).remarks)
    assert "config.json, line 1: the connection has a password, which is not for a repository" in said
    assert "hunter2" not in said
    assert not parsed({"queues": ["q"], "connection": "amqp://u:${PASSWORD}@h/"}).remarks


VHOST = {"exchanges": ["e"], "queues": ["q"], "bindings": ["e -> q"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"name": "service", "rascal": {"vhosts": {"/": VHOST}}}),
        json.dumps({"messaging": {"broker": {"vhosts": {"/": VHOST}}}}),
    ],
)
def test_a_configuration_among_others_of_the_program_is_read(text: str) -> None:
    read = definitions_from_text(text.encode(), "config.json")
    assert list(read.topology("/").queues) == ["q"]
    assert "config.json, line 1: what has `vhosts` here is taken for a configuration of Rascal" in read.remarks


def test_a_configuration_with_comments_is_read_with_its_lines() -> None:
    text = '{\n // ours\n "vhosts": {"/": {\n "queues": ["q", /* last */]}}}'
    read = definitions_from_text(text.encode(), "config.json")
    assert str(read.place("queues", 0)) == "config.json, line 4"


@pytest.mark.parametrize(
    "text", ['{"vhosts": {}}', '{"vhosts": {"/": {"queues": {"q": {"assert": false}}}}}', '{\n//\n"vhosts": {}}']
)
def test_a_configuration_that_declares_nothing_is_said_to(text: str) -> None:
    read = definitions_from_text(text.encode(), "config.json")
    assert "config.json, line 1: this configuration of Rascal declares nothing" in read.remarks
    assert not read.document
