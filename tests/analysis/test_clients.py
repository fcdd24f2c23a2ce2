"""What is stated of clients decides what ``dlx lint`` and ``dlx fuzz`` call a loss, and their answers name the line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis.clients import Clients, Publishes, QueueClients
from simulator.analysis.entries import entries
from simulator.analysis.lint.linting import LintReport, lint
from simulator.analysis.snapshot import Snapshot
from simulator.cli.main import main
from simulator.definitions import Definitions, read_definitions
from simulator.scenario import steps
from simulator.testing import Trial
from simulator.testing.fuzz.systematic_search import Search
from tests.long import some_in_ci

Capture = pytest.CaptureFixture[str]


def queue(name: str, *, auto_delete: bool = False, **arguments: Any) -> dict[str, Any]:
    stated = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": auto_delete, "arguments": stated}


def document(*queues: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"vhosts": [{"name": "/"}], "queues": list(queues), **sections}


def linted(definitions: dict[str, Any], clients: Clients, rules: str = "4.3") -> LintReport:
    return lint(Definitions(definitions, "definitions"), release(rules), clients)


def found(definitions: dict[str, Any], clients: Clients, rules: str = "4.3") -> set[tuple[str, str]]:
    """The rules that find something, each with the name of the object; notes apart."""
    report = linted(definitions, clients, rules)
    return {(each.name, each.about.name) for each in report.findings if each.severity != "note"}


def lost(definitions: dict[str, Any], clients: Clients, rules: str = "4.3", **options: bool) -> set[str | None]:
    """The queues in which the search loses messages."""
    search = Search(definitions, "lossless", release=rules, clients=clients, **options)
    return {each.broken.cause.queue for each in search.run_all()}


ALONE = document(queue("work"))
REJECTING = Clients(on_failure=("reject",))


def test_it_is_a_loss_that_consumers_reject_where_that_is_stated() -> None:
    (finding,) = linted(ALONE, REJECTING).findings
    assert (finding.name, finding.severity) == ("no-dlx-on-rejecting", "error")
    assert finding.because.endswith(
        "; assumed: consumers reject what they cannot process, and do nothing else with it (clients.on_failure)"
    )
    assert lost(ALONE, REJECTING) == {"work"}
    assert found(ALONE, Clients()) == set()
    assert lost(ALONE, Clients()) == set()
    assert "without a dead-letter exchange, no consumer rejects for good in 'work'" in linted(ALONE, Clients()).assumed


@pytest.mark.parametrize("failures", [(), ("crash",), ("requeue",), ("requeue", "crash")])
def test_what_consumers_do_not_do_is_no_loss(failures: Any) -> None:
    definitions = document(queue("work", queue_type="quorum", delivery_limit=3))
    stated = Clients(on_failure=failures)
    assert found(definitions, stated) == ({("no-dlx-on-rejecting", "work")} if failures else set())
    assert lost(definitions, stated) == ({"work"} if failures else set())
    (said,) = (
        each for each in linted(definitions, stated).assumed if each.endswith("(clients.on_failure)") or ";" in each
    )
    assert ("else messages are lost or held in 'work' (delivery_limit, no dead-letter exchange)" in said) != bool(
        failures
    )


@pytest.mark.parametrize("rules", ["3.10", "3.13", "4.0", "4.3"])
def test_consumers_that_only_requeue_do_not_crash_in_a_history(rules: str) -> None:
    definitions = document(queue("work", queue_type="quorum", delivery_limit=3))
    (finding,) = (
        each for each in linted(definitions, Clients(on_failure=("requeue",)), rules).findings if each.history
    )
    assert finding.history[1:] == (steps.Requeue("work", 4),)
    with pytest.raises(AssertionError, match="lossless is broken"):
        Trial(definitions, release=rules, properties=["lossless"]).play(finding.history)


def test_a_line_about_a_queue_comes_before_that_about_all() -> None:
    definitions = document(queue("work"), queue("mail"))
    stated = Clients(on_failure=("reject",), queue=(QueueClients("m*", on_failure=()),))
    assert found(definitions, stated) == {("no-dlx-on-rejecting", "work")}
    assert lost(definitions, stated) == {"work"}


def test_nobody_fails_a_message_where_nobody_consumes() -> None:
    definitions = document(
        queue("wait", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="work"),
        queue("work", dead_letter_exchange="", dead_letter_routing_key="wait"),
    )
    open_to_all = {("endless-retry", "work"), ("automatic-cycle", "wait"), ("automatic-cycle", "work")}
    assert found(definitions, Clients()) & open_to_all == {("endless-retry", "work")}
    stated = Clients(queue=(QueueClients("work", consumers="none"),))
    assert found(definitions, stated) == set()


@pytest.mark.parametrize("rules", ["3.13", "4.3"])
def test_only_a_classic_queue_lives_on_by_being_declared(rules: str) -> None:
    delay = {"message_ttl": 1_000, "expires": 11_000, "dead_letter_exchange": "", "dead_letter_routing_key": "work"}
    definitions = document(queue("classic", **delay), queue("quorum", queue_type="quorum", **delay), queue("work"))
    stated = Clients(declare_before_publish=True)
    assert found(definitions, stated, rules) - found(definitions, Clients(), rules) == set()
    assert ("queue-removed-with-messages", "classic") in found(definitions, Clients(), rules)
    assert ("queue-removed-with-messages", "classic") not in found(definitions, stated, rules)
    assert ("queue-removed-with-messages", "quorum") in found(definitions, stated, rules)
    assert lost(definitions, stated, rules) == {"quorum"}
    assert lost(definitions, Clients(), rules) == {"classic", "quorum"}
    assert any(
        each.startswith(
            "publishers declare a queue each time before they publish (clients.declare_before_publish); else"
        )
        for each in linted(definitions, stated, rules).assumed
    )


def test_to_be_declared_helps_no_queue_in_which_messages_stay_longer_or_to_which_they_are_dead_lettered() -> None:
    stated = Clients(declare_before_publish=True)
    long = document(
        queue("delay", message_ttl=11_000, expires=11_000, dead_letter_exchange="", dead_letter_routing_key="w")
    )
    assert ("queue-removed-with-messages", "delay") in found(long, stated)
    behind = document(
        queue("work", dead_letter_exchange="", dead_letter_routing_key="delay"),
        queue("delay", message_ttl=1_000, expires=11_000),
    )
    assert ("queue-removed-with-messages", "delay") in found(behind, stated)
    assert "delay" in lost(behind, stated)


def test_a_queue_that_always_has_a_consumer_is_not_deleted() -> None:
    definitions = document(queue("replies", expires=60_000), queue("events", auto_delete=True))
    stated = Clients(consumers="always")
    assert {name for _, name in found(definitions, Clients())} == {"replies", "events"}
    assert found(definitions, stated) == set()
    assert lost(definitions, stated) == set()
    assert found(definitions, Clients(consumers="none")) == {("queue-removed-with-messages", "replies")}


def test_a_policy_that_lets_queues_expire_is_no_other_than_an_argument() -> None:
    policy = {"vhost": "/", "name": "gone", "pattern": "", "apply-to": "queues", "definition": {"expires": 60_000}}
    definitions = document(queue("replies"), policies=[policy])
    assert found(definitions, Clients()) == {("queue-removed-with-messages", "replies")}
    assert lost(definitions, Clients()) == {"replies"}
    assert found(definitions, Clients(consumers="always")) == set()
    assert lost(definitions, Clients(consumers="always")) == set()


def test_an_export_of_one_virtual_host_is_no_other() -> None:
    definitions = document(queue("replies", expires=60_000))
    del definitions["vhosts"], definitions["queues"][0]["vhost"]
    assert lost(definitions, Clients()) == {"replies"}
    assert lost(definitions, Clients(consumers="always")) == set()


SHOP = document(
    queue("orders", message_ttl=1_000, dead_letter_exchange="dlx"),
    queue("dead"),
    exchanges=[
        {"name": name, "vhost": "/", "type": kind, "durable": True, "arguments": {}}
        for name, kind in (("shop", "topic"), ("dlx", "direct"))
    ],
    bindings=[
        {
            "source": source,
            "vhost": "/",
            "destination": to,
            "destination_type": "queue",
            "routing_key": key,
            "arguments": {},
        }
        for source, to, key in (("shop", "orders", "order.#"), ("dlx", "dead", "order.new"))
    ],
)


def test_keys_that_nothing_publishes_are_no_loss() -> None:
    stated = Clients(publish=(Publishes("shop", ("order.new",)),))
    assert ("unroutable-dead-letter", "orders") in found(SHOP, Clients())
    assert found(SHOP, stated) == set()
    assert lost(SHOP, stated) == set()
    said = "publishers publish only 'order.new' to exchange 'shop' (clients.publish); else messages are lost or held in"
    assert any(each.startswith(said) for each in linted(SHOP, stated).assumed)


def test_a_pattern_stands_for_keys_that_go_different_ways() -> None:
    flows = Snapshot(Definitions(SHOP, "definitions"), release("4.3")).flows
    stated = Clients(publish=(Publishes("shop", ("*.new",)), Publishes("", ("dead",))))
    assert {(each.exchange, each.routing_key) for each in entries(flows, stated).publishes} == {
        ("shop", "order.new"),
        ("", "dead"),
    }


RETRY = document(
    queue("work", dead_letter_exchange="delay"),
    queue("wait", message_ttl=1000, dead_letter_exchange="retry"),
    exchanges=[
        {"name": name, "vhost": "/", "type": "topic", "durable": True, "auto_delete": False, "internal": False}
        for name in ("delay", "retry")
    ],
    bindings=[
        {"source": source, "vhost": "/", "destination": to, "destination_type": "queue", "routing_key": key}
        for source, to, key in (("delay", "wait", "short"), ("retry", "work", "work.#"))
    ],
)


@pytest.mark.parametrize(("cc", "losing"), [((), {"wait"}), (("work.new",), set()), (("works.new",), {"wait"})])
def test_keys_of_cc_bring_back_what_was_delayed(cc: tuple[str, ...], losing: set[str]) -> None:
    stated = Clients(on_failure=(), publish=(Publishes("delay", ("short",), cc=cc),))
    assert found(RETRY, stated) == {("unroutable-dead-letter", each) for each in losing}
    assert lost(RETRY, stated) == losing
    assumed = " ".join(linted(RETRY, stated).assumed)
    assert ("with CC 'work" in assumed) == ("publishers set no expiration, other CC, BCC" in assumed) == bool(cc)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (
            Clients(publish=(Publishes("shp", ("order.new",)),)),
            "exchange: there is no exchange 'shp'; did you mean 'shop'?",
        ),
        (
            Clients(publish=(Publishes("shop", ("bill",)),)),
            "exchange 'shop' (clients.publish[0]): no queue takes the keys",
        ),
        (
            Clients(queue=(QueueClients("order", consumers="none"),)),
            "name: there is no queue 'order'; did you mean 'orders'?",
        ),
    ],
)
def test_a_line_about_nothing_is_told(stated: Clients, said: str) -> None:
    assert any(said in each for each in linted(SHOP, stated).unchecked)


def test_publishes_that_no_queue_takes_are_taken_as_not_stated(tmp_path: Path, capsys: Capture) -> None:
    stated = Clients(publish=(Publishes("others", ("order.new",)), Publishes("", ("nowhere",))))
    report, unstated = linted(SHOP, stated), linted(SHOP, Clients())
    assert report.findings == unstated.findings != ()
    said = "clients.publish: no queue takes what it states, so it is taken as not stated"
    assert said in report.unchecked
    assert not any("publishers publish only" in each for each in report.assumed)
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(SHOP), encoding="utf-8")
    assert main(["lint", str(path), "--fail-on", "lost", "--publish", "others", "order.new"]) == 1
    told = capsys.readouterr().err
    assert f"warning: {path}: {said}\n" in told
    assert "there is no exchange 'others'" in told


def test_a_misspelt_exchange_tells_where_nobody_publishes_then() -> None:
    shop = {"name": "shop", "vhost": "/", "type": "direct", "durable": True}
    binding = {"source": "shop", "vhost": "/", "destination": "orders", "destination_type": "queue", "routing_key": ""}
    definitions = document(queue("orders"), exchanges=[shop, {**shop, "name": "mails"}], bindings=[binding])
    stated = Clients(publish=(Publishes("shop", ("",)), Publishes("mail", ("",))))
    unchecked = linted(definitions, stated).unchecked
    assert "clients.publish states that nobody publishes to exchange 'mails'" in unchecked
    right = Clients(publish=(Publishes("shop", ("",)), Publishes("mails", ("",))))
    assert not any("nobody publishes" in each for each in linted(definitions, right).unchecked)


CYCLE = document(
    queue("first", message_ttl=2_000, dead_letter_exchange="", dead_letter_routing_key="second"),
    queue("second", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="work"),
    queue("work"),
)
AGAIN = Clients(
    republish_x_death=True, queue=(QueueClients("*st", consumers="none"), QueueClients("second", consumers="none"))
)


@pytest.mark.parametrize("rules", ["3.10", "3.13", "4.0", "4.3"])
def test_deaths_that_clients_publish_again_count_before_4_0(rules: str) -> None:
    counts = rules.startswith("3")
    assert (("automatic-cycle", "first") in found(CYCLE, AGAIN, rules)) == counts
    assert lost(CYCLE, AGAIN, rules) == ({"first"} if counts else set())
    assert found(CYCLE, Clients(), rules) == lost(CYCLE, Clients(), rules) == set()
    report = linted(CYCLE, AGAIN, rules)
    said = "consumers publish messages again with their x-death (clients.republish_x_death)"
    assert any(each == said + f", which RabbitMQ {rules} does not count" * (not counts) for each in report.assumed)
    assert not any("BCC or x-death" in each for each in report.assumed)
    if counts:
        (finding,) = (each for each in report.findings if each.severity == "error")
        assert finding.because.endswith(f"; assumed: {said}")
        assert str(finding.fix) == "let consumers publish messages again without their x-death"


LADDER = Path("examples/topologies/frameworks")


@pytest.mark.parametrize("name", some_in_ci(["celery", "celery-x-death", "nservicebus"], ["nservicebus"]))
def test_a_ladder_of_delays_is_recognised_and_only_bits_are_published_to_it(name: str) -> None:
    definitions = read_definitions(LADDER / f"{name}.json")
    report = lint(definitions, release("4.3"))
    told = [each.message for each in report.findings if each.name == "unroutable-dead-letter"]
    said = "It is a ladder of delays, whose keys begin with 28 bits: state which keys clients publish."
    assert sum(each.endswith(said) for each in told) == 27  # the last queue leads off it
    top = next(each["name"] for each in definitions.document["exchanges"])
    work = {"celery": "celery", "celery-x-death": "celery", "nservicebus": "sales"}[name]
    stated = Clients(publish=(Publishes(top, (f"#.{work}",)),))
    keys = [each.routing_key for each in entries(Snapshot(definitions, release("4.3")).flows, stated).publishes]
    assert len(keys) == 29
    assert all(re.fullmatch(rf"([01]\.){{28}}{work}", key) for key in keys)
    assert not [each for each in lint(definitions, release("4.3"), stated).findings if "ladder" in each.message]


# The command line, and the file


TOML = """
[clients]
on_failure = ["reject"]
"""


@pytest.fixture
def alone(tmp_path: Path) -> str:
    path = tmp_path / "alone.json"
    path.write_text(json.dumps(ALONE), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", ["lint", "fuzz"])
def test_the_file_beside_the_source_states_it_and_options_come_before_it(
    command: str, alone: str, capsys: Capture
) -> None:
    assert main([command, alone]) == 0
    assert main([command, alone, "--on-failure", "reject"]) == 1
    Path(alone).with_name("dlx.toml").write_text(TOML, encoding="utf-8")
    assert main([command, alone]) == 1
    assert "Assumed: consumers reject what they cannot process" in capsys.readouterr().out
    assert main([command, alone, "--on-failure", "nothing"]) == 0
    assert main([command, alone, "--on-failure", "nothing", "--on-failure", "crash"]) == 64


@pytest.mark.parametrize("command", ["lint", "fuzz"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[clients]\non_failures = ["reject"]', "clients: there is no field on_failures; did you mean on_failure?"),
        ('[clients]\non_failure = ["rejects"]', "clients.on_failure[0]: 'rejects'"),
        ('[[clients.queue]]\nconsumers = "none"', "clients.queue[0]: the field name is missing"),
        ('[[clients.publish]]\nexchange = "shop"\nkeys = []', "clients.publish[0].keys: expected"),
    ],
)
def test_a_wrong_line_is_named(command: str, text: str, problem: str, alone: str, capsys: Capture) -> None:
    Path(alone).with_name("dlx.toml").write_text(text, encoding="utf-8")
    assert main([command, alone]) == 65
    assert f"dlx.toml: {problem}" in " ".join(capsys.readouterr().err.split())


def test_the_command_to_find_it_again_has_what_was_stated(alone: str, capsys: Capture) -> None:
    assert main(["fuzz", alone, "--on-failure", "reject"]) == 1
    assert "--on-failure reject" in capsys.readouterr().out.partition("Again:")[2]


def test_lint_publishes_only_what_it_is_given(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(SHOP), encoding="utf-8")
    assert main(["lint", str(path), "--fail-on", "lost"]) == 1
    assert main(["lint", str(path), "--fail-on", "lost", "--publish", "shop", "order.new"]) == 0
    assert "publishers publish only 'order.new' to exchange 'shop' (clients.publish)" in capsys.readouterr().out


def test_the_history_of_a_queue_that_goes_with_its_consumer_loses_a_message() -> None:
    definitions = document(queue("jobs", auto_delete=True))
    (finding,) = (each for each in linted(definitions, Clients(on_failure=("requeue",))).findings if each.history)
    with pytest.raises(AssertionError, match="lossless is broken"):
        Trial(definitions, release="4.3", properties=["lossless"]).play(finding.history)


def test_what_publishers_are_stated_to_publish_is_no_unlikely_publish() -> None:
    delay = {"name": "orders.delay", "vhost": "/", "type": "direct", "durable": True}
    binding = {"source": "orders.delay", "vhost": "/", "destination": "orders.wait", "destination_type": "queue",
               "routing_key": "later"}  # fmt: skip
    definitions = document(
        queue("orders", dead_letter_exchange="orders.delay", dead_letter_routing_key="later"),
        queue("orders.wait", message_ttl=50, dead_letter_exchange="out"),
        exchanges=[delay, {**delay, "name": "out"}],
        bindings=[binding],
    )
    stated = Clients(publish=(Publishes("orders.delay", ("later",)),))
    errors = {each.about.name for each in linted(definitions, stated).findings if each.severity == "error"}
    assert "orders.wait" in errors


def test_the_first_line_about_a_queue_says_whether_consumers_work_on_it() -> None:
    lines = (QueueClients("orders.dead", consumers="none"), QueueClients("orders*", on_failure=("reject",)))
    assert not Clients(queue=lines).works_on("/", "orders.dead")
    assert Clients(queue=lines).works_on("/", "orders.new")


def test_a_parking_queue_is_not_named_among_what_would_be_lost() -> None:
    dlx = {"name": "orders.dlx", "vhost": "/", "type": "fanout", "durable": True}
    binding = {"source": "orders.dlx", "vhost": "/", "destination": "orders.dead", "destination_type": "queue",
               "routing_key": ""}  # fmt: skip
    definitions = document(
        queue("orders", queue_type="quorum", dead_letter_exchange="orders.dlx"),
        queue("orders.dead", queue_type="quorum"),
        exchanges=[dlx],
        bindings=[binding],
    )
    said = [each for each in linted(definitions, REJECTING).assumed if "else messages are lost" in each]
    assert not any("orders.dead" in each for each in said)
