"""The schemas of scenarios: what the simulators take is valid, and a misspelt field is not."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from simulator.cli.main import main
from simulator.scenario import steps
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems import SCENARIO_TYPES, SYSTEMS
from simulator.systems.activemq import activemq_scenario
from simulator.systems.compare import compare, neutral_scenario
from simulator.systems.ibm_mq import ibm_mq_scenario
from simulator.systems.ironmq import ironmq_scenario
from simulator.systems.zaqar import zaqar_scenario
from tests.systems.activemq import vectors as activemq_vectors
from tests.systems.activemq.live.scenarios import SCENARIOS as OF_ACTIVEMQ
from tests.systems.conftest import reader_of
from tests.systems.ibm_mq import vectors as ibm_mq_vectors
from tests.systems.zaqar.random_scenarios import drawn
from tests.systems.zaqar.scenarios import SCENARIOS as OF_ZAQAR
from tests.systems.zaqar.scenarios import SLOW
from tests.systems.zaqar.vectors import zaqar_scenario as asked_of_zaqar

Found = tuple[str, str, Any]

ROOT = Path(__file__).parents[2]
DOCUMENTS = {
    **{system: f"docs/reference/{system}.md" for system in ("activemq", "ibm_mq", "ironmq", "zaqar")},
    "compare": "docs/how-to/compare.md",
}
POLICY = {"name": "p", "pattern": "^orders$", "definition": {"max-length": 1}, "apply_to": "queues", "priority": 2}
EVERY_STEP = {
    "definitions": {"queues": [{"name": "orders", "vhost": "/"}]},
    "release": "3.10.7",
    "steps": [
        {"do": "publish", "exchange": "", "routing_key": "orders", "headers": {"a": 1}, "expiration_ms": 5, "times": 2},
        *({"do": do, "queue": "orders", "times": 3} for do in ("ack", "reject", "crash", "hold", "get")),
        {"do": "requeue", "queue": "orders", "method": "nack"},
        {"do": "leave", "queue": "orders", "vhost": "/"},
        {"do": "wait", "ms": 10},
        {"do": "set-policy", "policy": POLICY, "operator": True},
        {"do": "clear-policy", "name": "p", "operator": True},
        {"do": "repeat", "times": 2, "steps": [{"do": "repeat", "times": 2, "steps": [{"do": "wait", "ms": 1}]}]},
    ],
}


def of_rabbitmq(document: Mapping[str, Any]) -> None:
    """Read a scenario as the simulator does, as far as its form goes."""
    if unknown := set(document) - {"definitions", "release", "steps"}:
        raise ScenarioError(str(unknown), "unknown")
    if not isinstance(document["definitions"], dict) or not isinstance(document.get("release", ""), str):
        raise ScenarioError("", "of a wrong type")
    steps.from_builtins(document["steps"])


def of_activemq(document: Mapping[str, Any]) -> None:
    """Read a scenario, and the policies of its connections, which the run reads."""
    for step in activemq_scenario.read(document).steps:
        if isinstance(step, activemq_scenario.Connect):
            activemq_scenario.client_policies(step, "", None)


READERS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "rabbitmq": of_rabbitmq,
    "activemq": of_activemq,
    "ibm_mq": ibm_mq_scenario.read_scenario,
    "ironmq": ironmq_scenario.read,
    "zaqar": zaqar_scenario.read,
    "compare": neutral_scenario.read,
}


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The schema that a command prints without a scenario."""
    assert main(["compare", "--schema"] if name == "compare" else ["simulate", name, "--schema"]) == 0
    schema: dict[str, Any] = json.loads(capsys.readouterr().out)
    return schema


@pytest.fixture
def validators(capsys: pytest.CaptureFixture[str]) -> dict[str, Draft202012Validator]:
    return {name: Draft202012Validator(printed(name, capsys)) for name in READERS}


# Every scenario that there is


@cache
def scenarios() -> tuple[Found, ...]:
    """The scenarios in examples, documents and tests: the system, where, the scenario."""
    own = [("rabbitmq", "every step", EVERY_STEP)]
    own += [("zaqar", name, each) for name, each in (OF_ZAQAR | SLOW).items()]
    own += [("zaqar", f"seed {seed}", drawn(seed)) for seed in range(5)]
    own += [("activemq", name, {"steps": each}) for name, each in OF_ACTIVEMQ.items()]
    return (*own, *_in_files(), *_in_documents(), *_compared(), *_of_vectors())


def _in_files() -> Iterator[Found]:
    for folder in ("examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*.json")):
            if path.stat().st_size < 100_000:
                document = json.loads(path.read_bytes())
                yield from ((system, str(path.relative_to(ROOT)), document) for system in _systems(document))


def _systems(document: Any) -> Iterator[str]:
    """The system that a document is a scenario of, by the fields that its scenarios must have."""
    for system, fields in {
        "rabbitmq": {"definitions", "steps"},
        "ibm_mq": {"rules_table", "messages"},
        "compare": {"messages", "until_ms"},
    }.items():
        if isinstance(document, dict) and fields <= set(document):
            yield system


def _in_documents() -> Iterator[Found]:
    for system, name in DOCUMENTS.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        (scenario, *_) = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        yield system, name, json.loads(scenario)
    text = (ROOT / "docs/how-to/testing.md").read_text(encoding="utf-8")
    yield (
        "rabbitmq",
        "docs/how-to/testing.md",
        json.loads(re.findall(r'^```json\n(\{\n  "def.*?)^```', text, re.S | re.M)[0]),
    )


def _compared() -> Iterator[Found]:
    """What each system is given by ``dlx compare``."""
    for path in sorted((ROOT / "examples/compare").glob("*.json")):
        neutral = neutral_scenario.read(json.loads(path.read_bytes()))
        for outcome in compare(neutral, list(SYSTEMS.built_in)):
            yield outcome.system, f"{path.name} under {outcome.system}", outcome.scenario


class _Asked(Exception):
    """Raised in place of an answer: it is only asked what would be simulated."""


def _of_vectors() -> list[Found]:
    """What the recorded traces are compared with."""
    found: list[Found] = []
    for system, module in (("activemq", activemq_vectors), ("ibm_mq", ibm_mq_vectors), ("zaqar", asked_of_zaqar)):

        def asked(scenario: Any, *_: Any, system: str = system) -> Any:
            found.append((system, f"recorded trace {len(found) + 1}", copy.deepcopy(scenario)))
            raise _Asked

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "simulate", asked)
            for path in sorted((ROOT / f"tests/systems/{system}/vectors").glob("*.json")):
                reader, document = reader_of(path)
                with contextlib.suppress(_Asked):
                    reader.check(document, path.stem)
    return found


def test_every_scenario_that_there_is_is_valid(validators: dict[str, Draft202012Validator]) -> None:
    wrong = {f"{system}: {where}": list(validators[system].iter_errors(each)) for system, where, each in scenarios()}
    assert {where: errors[0].message for where, errors in wrong.items() if errors} == {}
    assert {system for system, _, _ in scenarios()} == set(READERS)
    assert len(wrong) > 100


# Fields that there are not


def misspelt(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the value with one field misspelt, for each field, and where; other items of its lists are left out."""
    if isinstance(value, dict):
        kind = f"{value['do']}:" if isinstance(value.get("do"), str) else ""
        for name, part in value.items():
            rest = {key: each for key, each in value.items() if key != name}
            yield f"{kind}{name}", {**rest, f"{name}x": part}
            for where, wrong in misspelt(part):
                yield f"{kind}{name}.{where}", {**value, name: wrong}
    elif isinstance(value, list):
        for part in value:
            for where, wrong in misspelt(part):
                yield where, [wrong]


@pytest.mark.parametrize("system", READERS)
def test_a_misspelt_field_is_invalid_where_the_simulator_refuses_it(
    system: str, validators: dict[str, Draft202012Validator]
) -> None:
    tried: dict[str, bool] = {}
    for of, _, scenario in scenarios():
        if of != system:
            continue
        for where, wrong in misspelt(json.loads(json.dumps(scenario))):
            if where in tried:
                continue
            tried[where] = validators[system].is_valid(wrong)
            try:
                READERS[system](wrong)
                taken = True
            except (ScenarioError, ValueError):
                taken = False
            assert tried[where] == taken, (where, wrong)
    assert sum(not valid for valid in tried.values()) >= 8


@pytest.mark.parametrize(
    ("system", "scenario"),
    [
        ("rabbitmq", {"definitions": {}, "steps": [{"do": "dance", "queue": "orders"}]}),
        ("rabbitmq", {"definitions": [], "steps": []}),
        ("rabbitmq", {"definitions": {}}),
        ("activemq", {"profile": "5.17"}),
        ("activemq", {"steps": [{"do": "connect", "connection": "c", "redelivery_policy": {"maximumRedelivery": 1}}]}),
        ("ibm_mq", {"rules_table": "ACTION(RETRY)", "messages": [{"priority": 10}]}),
        ("ironmq", {"queues": {"jobs": {"message_timout": 60}}}),
        ("ironmq", {"steps": [{"do": "post", "at_s": -1, "queue": "jobs", "messages": [{"name": "a"}]}]}),
        ("zaqar", {"steps": [], "profile": "sqlite"}),
        ("zaqar", {"steps": [], "system": "rabbitmq"}),
        ("compare", {"messages": [], "until_ms": 1000}),
        ("compare", {"messages": [{"name": "a", "fails": "sometimes"}], "until_ms": 1000}),
    ],
)
def test_what_the_simulator_refuses_in_a_field_is_invalid(
    system: str, scenario: Any, validators: dict[str, Draft202012Validator]
) -> None:
    assert not validators[system].is_valid(scenario)
    with pytest.raises((ScenarioError, ValueError, KeyError)):
        READERS[system](scenario)


# The schemas themselves


@pytest.mark.parametrize("name", READERS)
def test_a_schema_is_one_and_says_what_it_is_of(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = printed(name, capsys)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert f"dlx {'compare' if name == 'compare' else 'simulate'}" in schema["title"]
    assert name in schema["title"] or name == "compare"
    for kind in schema["$defs"].values():
        assert kind["title"]
        assert kind["additionalProperties"] is False, kind["title"]
        assert not re.search(r"^ {4}|Attributes:|\n\n\n", kind["description"], re.MULTILINE)


def test_fields_have_what_the_docstrings_say_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    fields = printed("compare", capsys)["$defs"]["Message"]["properties"]
    assert fields["how"]["description"].startswith("what the consumer does then: give it back (``reject``), die")
    assert all(each["description"] for each in fields.values())
    touch = printed("ironmq", capsys)["$defs"]["Touch"]["properties"]
    assert touch["every_s"]["description"] == touch["times"]["description"] == "how often, and with which time between."
    policy = printed("activemq", capsys)["$defs"]["RedeliveryPolicy"]["properties"]
    assert policy["backOffMultiplier"]["description"] == "by how much."


def test_every_system_has_a_schema() -> None:
    assert set(SCENARIO_TYPES) >= set(SYSTEMS.built_in)


def test_without_schema_a_scenario_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    for command, missing in (["simulate", "zaqar"], "SCENARIO.json"), (["compare"], "SOURCE"):
        assert main(command) == 64
        assert f"Missing argument '{missing}'." in capsys.readouterr().err
