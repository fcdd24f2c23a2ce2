"""The state machine as its users have it: subclassed, with rules and invariants of their own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from dlx.releases import RELEASES
from simulator.broker.copies import Copy
from simulator.broker.operations import queues
from simulator.broker.state import NodeState, QueueState
from simulator.cli.main import main
from simulator.definitions import DefinitionsError
from simulator.scenario.steps import AnyStep, Publish, Reject, Repeat, Wait
from simulator.testing import Property, PropertyBroken, TopologyMachine, topology_machine
from tests.testing.test_trial import LADDER, QUORUM, definitions, queue

QUICK = settings(
    max_examples=40,
    stateful_step_count=20,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


def run(machine: type[TopologyMachine], **other: Any) -> None:
    run_state_machine_as_test(machine, settings=settings(QUICK, **other))


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_the_invariants_hold_in_topologies_that_it_draws(release: str) -> None:
    class Drawn(TopologyMachine):
        pass

    Drawn.release = release
    run(Drawn)


@pytest.mark.slow
def test_it_does_all_that_it_says() -> None:
    done: set[str] = set()

    class Watched(TopologyMachine):
        definitions = LADDER

        def do(self, step: Any) -> None:
            super().do(step)
            done.add(type(step).__name__)

    run(Watched, max_examples=100)
    assert done >= {"Publish", "Ack", "Reject", "Requeue", "Crash", "Hold", "Leave", "Wait", "SetPolicy", "ClearPolicy"}


def test_definitions_stay_fixed_for_properties_of_a_topology() -> None:
    class Fixed(TopologyMachine):
        definitions = LADDER
        properties = ("lossless",)

        @invariant()
        def nobody_changed_a_policy(self) -> None:
            assert not self.trial.broker.vhosts["/"].policies

    run(Fixed)


def test_rules_and_invariants_of_ones_own() -> None:
    class Parked(TopologyMachine):
        definitions = LADDER
        looked = 0

        @rule()
        def look(self) -> None:
            type(self).looked += 1

        @invariant()
        def the_wait_queue_stays_empty(self) -> None:
            wait = self.trial.queue("orders.wait")
            assert wait is not None
            assert wait.messages == 0, "a message waits"

    with pytest.raises(AssertionError, match="a message waits"):
        run(Parked)
    assert Parked.looked


# Properties of one's own


class AtMost(Property):
    """So many messages of one queue; a name that stands in no identifier."""

    name = "at most!"

    def __init__(self, most: int = 1_000) -> None:
        self.most = most

    def check(self, trial: Any) -> None:
        if trial.queue("parking").messages > self.most:
            raise self.broken(f"more than {self.most} are parked")


class AtMostNone(AtMost):
    def __init__(self) -> None:
        super().__init__(0)


PARKING = definitions(queue("orders"), queue("parking"))


class Parking(TopologyMachine):
    definitions = PARKING
    properties = (lambda: AtMost(0),)


class EmptyParking(TopologyMachine):
    definitions = PARKING
    properties = ("lossless", AtMostNone)


def told(of: type[TopologyMachine], kind: type[BaseException] = PropertyBroken, **other: Any) -> str:
    """What a machine tells of the failure that it finds."""
    with pytest.raises(kind) as caught:
        run(of, phases=[Phase.generate, Phase.shrink], **other)
    (note,) = (each for each in caught.value.__notes__ if "As a test:" in each)
    return note


def code(note: str) -> str:
    """The test in a report."""
    lines = note.partition("As a test:\n\n")[2].partition("\n\nAs a picture")[0].splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines)


def pasted(note: str) -> dict[str, Any]:
    """The test in a report, as pasted into a module."""
    names: dict[str, Any] = {}
    exec(code(note), names)
    return names


@pytest.mark.parametrize("systematic", [True, False])
@pytest.mark.parametrize(
    ("of", "expression"), [(Parking, "[Parking.properties[0]()]"), (EmptyParking, "[AtMostNone()]")]
)
def test_a_property_of_ones_own_is_tried_and_printed_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, systematic: bool, of: type[TopologyMachine], expression: str
) -> None:
    monkeypatch.setattr(of, "systematic", systematic)
    note = told(of, stateful_step_count=1 if systematic else 20)  # the first step begins: only the search publishes
    assert note.startswith("at most! is broken: more than 0 are parked")
    assert f"properties={expression})" in note
    assert "dlx fuzz" not in note
    with pytest.raises(PropertyBroken, match="at most! is broken"):
        pasted(note)["test_at_most_"]()


def test_a_class_that_cannot_be_imported_is_not() -> None:
    class Local(AtMostNone):
        pass

    class Machine(TopologyMachine):
        definitions = PARKING
        properties = (Local,)

    note = told(Machine)
    assert "# Local: put this test where the class is defined" in note
    assert "properties=[Local()])" in note


@pytest.mark.slow
@pytest.mark.parametrize("change", [True, False])
def test_policies_change_unless_a_property_of_ones_own_forbids_it(change: bool) -> None:
    class Own(Property):
        name = "own"

    changed: list[AnyStep] = []

    class Watched(TopologyMachine):
        definitions = LADDER
        properties = (Own,)

        def operations(self) -> Any:
            return super().operations().map(lambda step: changed.append(step) or step)

    if not change:
        Own.policies_change = False
    run(Watched)
    assert bool(changed) == change


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"properties": "lossless"}, TypeError, r"expected a list, such as \['lossless'\]"),
        ({"properties": [AtMostNone()]}, TypeError, "a machine takes names, and what makes a new Property"),
        ({"properties": [Property]}, ValueError, 'Property has no name; give the class one: name = "property"'),
        ({"properties": [dict]}, TypeError, r"got \{\}; expected names of properties, or a subclass of Property"),
        ({"properties": ["lossles"]}, ValueError, "no property 'lossles'"),
        ({"publishes": [("", "orders")]}, TypeError, "publishes takes Publish steps"),
        ({"publishes": [Publish("", "order")]}, LookupError, "publishes: no queue 'order'; did you mean 'orders'"),
    ],
)
def test_a_machine_that_is_given_what_it_cannot_take_says_so(
    fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    wrong = type("Wrong", (TopologyMachine,), {"definitions": QUORUM, **fields})
    with pytest.raises(error, match=said):
        run(wrong)


# Whatever fails is reported


class Fails(TopologyMachine):
    definitions = LADDER
    systematic = False


class ByInvariant(Fails):
    @invariant()
    def nothing_waits(self) -> None:
        wait = self.trial.queue("orders.wait")
        assert wait is not None
        assert not wait.messages, "a message waits"


class ByRule(Fails):
    @rule()
    def look(self) -> None:
        if any(queue.messages for queue in self.trial.queues()):
            raise AssertionError("a message waits")

    def teardown(self) -> None:
        """Does not call that of the base."""


class ByStop(Fails):
    @rule()
    def look(self) -> None:
        if any(queue.messages for queue in self.trial.queues()):
            pytest.fail("a message waits")


@pytest.mark.parametrize("of", [ByInvariant, ByRule, ByStop])
def test_a_failing_rule_or_invariant_of_ones_own_is_reported(of: type[TopologyMachine]) -> None:
    note = told(of, BaseException)
    assert "a message waits" in note.splitlines()[0]
    assert "The shortest history found:\n\n    publish to the default exchange with routing key 'orders" in note
    assert "sequenceDiagram" in note
    assert "    # Assert here what failed:" in note
    (test,) = (each for name, each in pasted(note).items() if name.startswith("test_"))
    test()


def test_a_property_that_a_rule_breaks_through_the_trial_is_reported() -> None:
    class Crashing(TopologyMachine):
        definitions = QUORUM
        properties = ("lossless",)
        systematic = False

        @rule()
        def fail_for_ever(self) -> None:
            self.trial.publish("", "orders")
            self.trial.crash("orders", times=50)

    note = told(Crashing)
    assert note.startswith("lossless is broken: a message that died in 'orders' (delivery_limit) was dropped")
    with pytest.raises(PropertyBroken, match="lossless is broken"):
        pasted(note)["test_lossless"]()


@pytest.mark.parametrize("given", [True, False])
def test_definitions_without_a_file_are_replayed_from_one_that_the_report_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    class Drawn(TopologyMachine):
        definitions = QUORUM if given else None
        properties = ("lossless",)

    monkeypatch.chdir(tmp_path)
    write, again = (line.strip() for line in told(Drawn).partition("Again:\n\n")[2].splitlines())
    subprocess.run(["sh", "-c", write], check=True)
    assert main(shlex.split(again)[1:]) == 1
    assert "lossless is broken" in capsys.readouterr().out


def test_what_the_systematic_search_did_not_try_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_machine, "SEARCH_S", 0)

    class Orders(TopologyMachine):
        definitions = LADDER
        properties = ("lossless",)

    with pytest.warns(UserWarning, match="Orders, lossless: not tried: .* of the ways that messages can go"):
        run(Orders, max_examples=1)


# What it starts with


def test_the_trial_is_there_for_initialize_rules_of_ones_own() -> None:
    class Filled(TopologyMachine):
        definitions = LADDER

        @initialize()
        def a_first_order(self) -> None:
            self.trial.publish("", "orders")

        @initialize()
        def more_orders(self) -> None:
            self.trial.publish("", "orders", times=2)

        @invariant()
        def both_were_first(self) -> None:
            assert [getattr(step, "times", 0) for step in self.trial.history[:2]] in ([1, 2], [2, 1])

    run(Filled)


ORDERS = """
from simulator.testing import TopologyMachine

class Orders(TopologyMachine):
    definitions = "definitions.json"
    properties = ["lossless"]
"""


@pytest.mark.parametrize("beside", [True, False])
def test_definitions_are_beside_the_file_of_the_class_or_in_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: bool
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_orders.py").write_text(ORDERS)
    monkeypatch.chdir(tmp_path)
    spec = spec_from_file_location("orders_of_a_test", tests / "test_orders.py")
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, spec.name, module_from_spec(spec))
    spec.loader.exec_module(sys.modules[spec.name])
    orders = sys.modules[spec.name].Orders

    with pytest.raises(DefinitionsError, match=rf"definitions.json: no such file; looked in {tests} or {tmp_path}"):
        run(orders)
    (tmp_path / "definitions.json").write_text("{}" if beside else json.dumps(QUORUM))
    if beside:
        (tests / "definitions.json").write_text(json.dumps(QUORUM))
    where = "tests/definitions.json" if beside else "definitions.json"
    assert f"dlx fuzz {where} --property lossless" in told(orders)


def test_publishes_of_ones_own_keep_what_they_say() -> None:
    class Late(Property):
        name = "late"
        expirations_ms = (2_000,)

    published: set[tuple[int | None, int]] = set()

    class Watched(TopologyMachine):
        definitions = definitions(queue("orders", max_length=3))
        properties = ("punctual", Late)
        publishes = (Publish("", "orders", expiration_ms=5_000, times=7), Publish("", "orders", body_bytes=1))
        systematic = False

        def do(self, step: AnyStep) -> None:
            if isinstance(step, Publish):
                published.add((0 if step.body_bytes else step.expiration_ms, step.times))
                drawn.add(step.expiration_ms)

    drawn: set[int | None] = set()
    run(Watched)
    assert published == {(5_000, 7), (0, 1), (0, 4)}
    assert drawn == {5_000, 60_000, 1_000, 2_000}


def test_histories_may_begin_where_publishers_publish() -> None:
    both = definitions(queue("orders", dead_letter_exchange="nowhere"), queue("safe"))

    class Safe(TopologyMachine):
        definitions = both
        properties = ("lossless",)
        publishes = (Publish("", "safe"),)

    run(Safe)

    class Both(TopologyMachine):
        definitions = both
        properties = ("lossless",)

    with pytest.raises(PropertyBroken, match="dead-letter exchange 'nowhere' of queue 'orders' does not exist"):
        run(Both)


def test_a_broker_that_forgets_messages_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conservation: the queue loses its head without an event."""
    right = queues.requeue

    def forgetful(node: NodeState, queue: QueueState, copies: list[Copy], *rest: Any) -> None:
        right(node, queue, copies[1:], *rest)

    monkeypatch.setattr(queues, "requeue", forgetful)

    class Forgetful(TopologyMachine):
        definitions = LADDER

    with pytest.raises(PropertyBroken, match="conservation is broken: messages appeared or vanished"):
        run(Forgetful)


def test_a_broker_that_miscounts_deaths_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """x-death: the count of a second death stays what it was."""
    from simulator.broker.operations import dead_letters

    right = dead_letters._letter

    def forgetful(node: NodeState, queue: QueueState, copy: Copy, reason: str) -> Any:
        letter, deaths = right(node, queue, copy, reason), copy.message.deaths
        if letter.message is None or len(deaths or ()) < 2:
            return letter
        return msgspec.structs.replace(letter, message=msgspec.structs.replace(letter.message, deaths=deaths))

    monkeypatch.setattr(dead_letters, "_letter", forgetful)

    class Forgetful(TopologyMachine):
        definitions = LADDER

        @rule()
        def go_round(self) -> None:
            self.do(Repeat((Publish("", "orders"), Reject("orders"), Wait(30_000)), 3))

    with pytest.raises(PropertyBroken, match="x-death is broken: x-death says"):
        run(Forgetful)
