"""Dapr's pub/sub component for RabbitMQ and its Subscriptions, from files made by hand that have every field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.sources import definitions_from_file
from simulator.sources.dapr import COMPONENT_METADATA, FIELDS, SUBSCRIPTION_METADATA
from tests.sources.reading import failing, parsed, paths

FOLDER = Path(__file__).parent / "dapr"

# The fields of Dapr's resources, and the metadata that the component reads.
SCHEMAS = {
    "Component": "apiVersion auth.secretStore kind metadata scopes spec.ignoreErrors spec.initTimeout "
    "spec.metadata.envRef spec.metadata.name spec.metadata.secretKeyRef.key spec.metadata.secretKeyRef.name "
    "spec.metadata.value spec.type spec.version",
    "Subscription": "apiVersion kind metadata scopes spec.bulkSubscribe.enabled spec.bulkSubscribe.maxAwaitDurationMs "
    "spec.bulkSubscribe.maxMessagesCount spec.deadLetterTopic spec.metadata spec.pubsubname spec.route "
    "spec.routes.default spec.routes.rules.match spec.routes.rules.path spec.topic",
}
OF_COMPONENT = (
    "allowedTopics autoAck caCert clientCert clientKey clientName concurrency concurrencyMode connectionString "
    "consumerID deletedWhenUnused deliveryMode durable enableDeadLetter exchangeKind heartBeat host hostname maxLen "
    "maxLenBytes password prefetchCount protectedTopics protocol publishMessagePropertiesToMetadata publisherConfirm "
    "publishingScopes reconnectWait reconnectWaitSeconds requeueInFailure saslExternal subscriptionScopes ttl "
    "ttlInSeconds username"
)
OF_SUBSCRIPTION = (
    "isRawPayload maxLen maxLenBytes maxPriority queueName queueType rawPayload routingKey singleActiveConsumer"
)


def resources(kind: str) -> list[dict[str, Any]]:
    texts = [each.read_text(encoding="utf-8") for each in sorted(FOLDER.iterdir())]
    return [each for text in texts for each in yaml.safe_load_all(text) if each["kind"] == kind]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_field_is_known_and_in_the_files(kind: str) -> None:
    assert set(paths(FIELDS[kind], FIELDS[kind])) == set(SCHEMAS[kind].split())
    written = {path for each in resources(kind) for path in paths(each, FIELDS[kind])}
    assert written == set(SCHEMAS[kind].split())


def test_all_metadata_is_known_and_in_the_files() -> None:
    assert set(COMPONENT_METADATA) == set(OF_COMPONENT.split())
    assert set(SUBSCRIPTION_METADATA) == set(OF_SUBSCRIPTION.split())
    given = {each["name"] for component in resources("Component") for each in component["spec"]["metadata"]}
    assert given == {*OF_COMPONENT.split(), "queueType"}
    assert {name for each in resources("Subscription") for name in each["spec"].get("metadata", {})} == {
        *OF_SUBSCRIPTION.split()
    }


@pytest.fixture(scope="module")
def read() -> Definitions:
    return definitions_from_file(FOLDER)


def test_each_application_has_a_queue_with_its_dead_letters(read: Definitions) -> None:
    topology = read.topology("shop")
    own = ["shop-billing-orders", "shop-shipping-orders", "audit-log"]
    assert set(topology.queues) == {*own, *(f"dlq-{name}" for name in own)}
    assert set(topology.exchanges) >= {"orders", "failed", "audit", *(f"dlx-{name}" for name in own)}
    work = topology.queues["shop-billing-orders"]
    assert dict(work.arguments) == {
        "x-dead-letter-exchange": "dlx-shop-billing-orders",
        "x-queue-type": "quorum",
        "x-single-active-consumer": True,
        "x-max-length": 500,
        "x-max-length-bytes": 2048,
    }
    assert (work.durable, work.auto_delete) == (True, False)
    dead = topology.queues["dlq-shop-billing-orders"]
    assert dict(dead.arguments) == {"x-max-length": 1000, "x-max-length-bytes": 1048576, "x-queue-mode": "lazy"}
    assert topology.exchanges["orders"].type == "topic"
    assert topology.exchanges["dlx-audit-log"].type == "fanout"
    assert topology.queues["audit-log"].arguments["x-max-priority"] == 255
    bindings = [each for each in read.document["bindings"] if each["destination"] == "shop-billing-orders"]
    assert {each["source"] for each in bindings} == {"orders"}
    assert [each["routing_key"] for each in bindings] == ["orders.new", "orders.changed"]


def test_what_depends_on_applications_and_on_dapr_is_said(read: Definitions) -> None:
    said = "\n".join(read.remarks)
    assert "to topic 'failed' Dapr itself publishes what fails, when its retries are over; no Subscription here" in said
    assert "with requeueInFailure, what an application fails on goes back to its queue" in said
    assert "Dapr publishes with an expiration, ttlInSeconds 60: not here" in said
    assert "line 87: Dapr ignores 'queueType' here: it belongs in the metadata of a Subscription" in said
    assert "no component 'other-bus' for RabbitMQ is here: left out" in said
    assert "queues of applications that subscribe in code are not here" in said


def a_component(*metadata: str, scopes: str = "") -> str:
    items = "".join(f"\n  - {{{each}}}" for each in metadata) or " []"
    head = "apiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata: {name: bus}\n"
    return f"{head}{scopes}spec:\n  type: pubsub.rabbitmq\n  version: v1\n  metadata:{items}\n"


def a_subscription(spec: str = "", scopes: str = "") -> str:
    head = "apiVersion: dapr.io/v2alpha1\nkind: Subscription\nmetadata: {name: s}\n"
    return f"---\n{head}{scopes}spec:\n  pubsubname: bus\n  topic: orders\n{spec}"


def test_defaults_are_those_of_the_component() -> None:
    read = parsed(a_component(), a_subscription())
    (queue,) = read.document["queues"]
    assert queue == {
        "name": "{appID}-orders",
        "vhost": "/",
        "durable": True,
        "auto_delete": True,
        "arguments": {"x-queue-type": "classic"},
    }
    (exchange,) = read.document["exchanges"]
    assert (exchange["name"], exchange["type"], exchange["auto_delete"]) == ("orders", "fanout", True)
    assert [each["routing_key"] for each in read.document["bindings"]] == [""]
    said = "\n".join(read.remarks)
    assert "{appID} in the name of queue '{appID}-orders' is known when an application starts" in said
    assert "a component without `durable`: what it declares is taken to be durable" in said


def test_applications_with_one_consumer_id_share_a_queue() -> None:
    both = "scopes: [billing, shipping]\n"
    read = parsed(a_component("name: consumerID, value: group"), a_subscription(scopes=both))
    assert list(read.topology("/").queues) == ["group-orders"]
    apart = parsed(a_component(), a_subscription(scopes=both))
    assert set(apart.topology("/").queues) == {"billing-orders", "shipping-orders"}
    none = parsed(a_component(scopes="scopes: [web]\n"), a_subscription(scopes=both))
    assert not none.topology("/").queues
    assert "no application is in the scopes of both this and 'bus': no queue" in "\n".join(none.remarks)


def test_a_value_from_a_secret_is_said() -> None:
    secret = "secretKeyRef: {name: a, key: b}"
    read = parsed(
        a_component(f"name: connectionString, {secret}", f"name: enableDeadLetter, {secret}"), a_subscription()
    )
    said = "\n".join(read.remarks)
    assert "the connection string is not here: taken to be for virtual host '/'" in said
    assert "the value of 'enableDeadLetter' is not here: taken as not set" in said


def test_a_dead_letter_topic_that_is_read_is_not_said_to_be_lost() -> None:
    of_failed = a_subscription().replace("topic: orders", "topic: failed")
    read = parsed(a_component(), a_subscription("  deadLetterTopic: failed\n"), of_failed)
    said = "\n".join(read.remarks)
    assert "when its retries are over" in said
    assert "lost" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (a_component("name: enableDeadLeter, value: true"), "line 8: Dapr ignores 'enableDeadLeter', a name that it"),
        (
            a_component("name: exchangeKind, value: topics"),
            "expected one of fanout, topic, direct, headers, got 'topics'",
        ),
        (a_component("name: maxLen, value: many"), "line 8: spec.metadata[0].value: expected an integer, got 'many'"),
        (a_component("name: durable, value: [a]"), "expected a string, a number, true or false"),
        (a_component("name: durable, vlaue: a"), "spec.metadata[0].vlaue: unknown field; did you mean 'value'?"),
        (a_component() + a_subscription("  metadata: {queueType: stream}\n"), "expected one of classic, quorum"),
        (a_component() + a_subscription("  deadLeterTopic: a\n"), "spec.deadLeterTopic: unknown field; did you mean"),
        (a_component() + a_subscription().replace("topic: orders", "topic: ''"), "spec.topic: missing"),
        (a_component(), "no topology in it: given.yaml, line 1: no Subscription here: nothing is declared"),
        (a_component().replace("rabbitmq", "rabitmq"), "spec.type: no such component; did you mean 'pubsub.rabbitmq'?"),
        (
            a_component() + a_subscription().replace("pubsubname: bus", "pubsubname: buss"),
            "no component 'buss' for RabbitMQ is here: left out; did you mean 'bus'?",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    told = failing(text)
    assert said in told
    assert "given.yaml" in told


def test_names_that_dapr_does_not_know_are_said_and_the_rest_is_read() -> None:
    """Files of all times have some; a misspelt one is told on its own line, before all else."""
    given = ["backOffPolicy", "autoDelete", "deadLetterExchang", "enableDeadLeter", "backOffMaxRetries", "durable"]
    component = a_component(*(f"name: {name}, value: 'true'" for name in given))
    read = parsed(component, a_subscription("  metadata: {queueTyp: quorum}\n"))
    assert [each["name"] for each in read.document["queues"]] == ["{appID}-orders"]
    told = [each.removeprefix("given.yaml, document ") for each in read.remarks if "Dapr ignores" in each]
    assert told == [
        "1, line 9: Dapr ignores 'autoDelete', a name that it does not know",
        "1, line 10: Dapr ignores 'deadLetterExchang', a name that it does not know",
        "1, line 11: Dapr ignores 'enableDeadLeter', a name that it does not know; did you mean 'enableDeadLetter'?",
        "1, line 8: Dapr ignores 'backOffPolicy', 'backOffMaxRetries': it has not retried by these since 2022",
        "2, line 21: Dapr ignores 'queueTyp', a name that it does not know; did you mean 'queueType'?",
    ]
    assert "Dapr ignores" in read.remarks[0]


def test_a_component_of_another_broker_is_left_out() -> None:
    kafka = a_component().replace("pubsub.rabbitmq", "pubsub.kafka")
    read = parsed(a_component(), a_subscription(), "---\n", kafka.replace("name: bus", "name: log"))
    assert any("left out, since it describes no topology: Component 'log'" in each for each in read.remarks)


def test_lint_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(FOLDER)]) in (0, 1)
    out = capsys.readouterr().out
    assert f"at: {FOLDER / 'subscriptions.yaml'}:1" in out


@pytest.mark.parametrize(
    "given", ["{{ .Values.url }}", "${RABBIT_URL}", "<REPLACE-ME>", "host:5672", "http://h/x", "amqp://[h/x"]
)
def test_a_connection_string_that_is_no_amqp_url_names_no_virtual_host(given: str) -> None:
    read = parsed(a_component(f"name: connectionString, value: '{given}'"), a_subscription())
    assert read.vhosts == ("/",)
    assert (
        "given.yaml, document 1, line 1: the connection string is not an amqp URL: taken to be for '/'" in read.remarks
    )


def test_a_password_in_the_connection_string_is_said() -> None:
    read = parsed(a_component("name: connectionString, value: 'amqp://u:hunter2@h/shop'"), a_subscription())
    said = "\n".join(read.remarks)
    assert "the connection has a password, which is not for a repository" in said
    assert "hunter2" not in said


def test_a_namespace_that_is_known_at_the_start_is_said() -> None:
    read = parsed(a_component("name: consumerID, value: '{namespace}'"), a_subscription())
    said = "\n".join(read.remarks)
    assert "{namespace} in the name of queue '{namespace}-orders' is known when an application starts" in said


def test_a_dead_letter_topic_with_a_subscription_of_its_own_is_one_exchange() -> None:
    second = a_subscription().replace("topic: orders", "topic: poison").replace("name: s}", "name: t}")
    read = parsed(a_component(), a_subscription("  deadLetterTopic: poison\n"), second)
    names = [each["name"] for each in read.document["exchanges"]]
    assert sorted(set(names)) == sorted(names)
    assert "poison" in names
