"""What all strategies promise: examples to paste, the plainest ones smallest, errors that help, light loading."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

import dlx
from dlx import field_values
from dlx.releases import RELEASES
from simulator.testing import _hypothesis, strategies
from tests.testing.reaching import reached

PUBLIC = {name: getattr(strategies, name) for name in strategies.__all__ if name != "definitions_document"}
DOCUMENTED = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"


def documented_imports() -> str:
    """What the package says is imported where an example is pasted."""
    below = str(strategies.__doc__).partition("can be pasted into a test below\n\n")[2].partition("\n\n")[0]
    return below.replace(">>> ", "") + "\n"


PASTED_BELOW: dict[str, Any] = {}
exec(documented_imports(), PASTED_BELOW)


def made(name: str, **arguments: Any) -> st.SearchStrategy[Any]:
    return PUBLIC[name](**arguments)


VARIANTS = [
    *((name, {}) for name in PUBLIC),
    ("x_deaths", {"hostile": True}),
    ("properties", {"hostile": True}),
    ("properties", {"malformed": True}),
    ("messages", {"hostile": True}),
    ("messages", {"release": "3.10"}),
    ("queue_arguments", {"valid": False}),
    ("policies", {"valid": False}),
    ("policies", {"operator": True}),
    ("histories", {"hostile": True}),
    ("histories", {"kinds": ["publish", "repeat"]}),
    ("death_histories", {"hostile": True}),
    ("log_rows", {"consistent": False}),
]


@pytest.mark.parametrize(("name", "arguments"), VARIANTS, ids=lambda part: str(part))
def test_an_example_can_be_pasted(name: str, arguments: dict[str, Any]) -> None:
    @settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
    @given(made(name, **arguments))
    def check(drawn: Any) -> None:
        assert eval(repr(drawn), dict(PASTED_BELOW)) == drawn

    check()


ALL_PRINTED = settings(
    verbosity=Verbosity.verbose,
    phases=[Phase.generate],
    max_examples=200,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), VARIANTS, ids=lambda part: str(part))
def test_what_hypothesis_prints_can_be_pasted(
    name: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Any] = []

    @ALL_PRINTED
    @given(made(name, **arguments), st.integers())  # with an integer, no strategy runs out of examples
    def check(value: Any, _number: int) -> None:
        drawn.append(value)
        assert len(drawn) < 100

    with pytest.raises(AssertionError) as raised:
        check()
    shown = "\n".join([capsys.readouterr().out, *raised.value.__notes__])
    printed = re.findall(r"^[\w ]+: (check\(.*?^\))", shown, re.MULTILINE | re.DOTALL)
    pasted = [eval(call, PASTED_BELOW | {"check": lambda value, _number: value}) for call in printed]
    assert pasted == drawn


def test_the_imports_are_documented_alike() -> None:
    assert f"```python\n{documented_imports()}```\n" in DOCUMENTED.read_text()


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_pasted_by_its_name(name: str) -> None:
    release = dlx.release(name)
    assert repr(release) == f"dlx.release({name!r})"
    assert eval(repr(release), PASTED_BELOW) == release
    of_ones_own = msgspec.structs.replace(release, queue_mode_checked=not release.queue_mode_checked)
    assert eval(repr(of_ones_own), PASTED_BELOW) == of_ones_own


TYPED = [
    *(
        kind(7)
        for kind in (field_values.SignedByte, field_values.UnsignedByte, field_values.Short, field_values.UnsignedShort)
    ),
    *(kind(7) for kind in (field_values.UnsignedInt, field_values.Long, field_values.Timestamp)),
    field_values.Float32(0.5),
    field_values.Binary(b"7"),
]


@pytest.mark.parametrize("value", TYPED, ids=repr)
def test_a_pasted_value_keeps_its_type_on_the_wire(value: Any) -> None:
    pasted = eval(repr(value), dict(PASTED_BELOW))
    assert (type(pasted), pasted) == (type(value), value)
    assert f"{value}" == f"{field_values.plain(value)}"


SMALLEST = {
    "bindings": dlx.Binding(source="dlx", destination="orders", routing_key="orders"),
    "exchanges": dlx.Exchange(name="dlx"),
    "field_tables": {},
    "death_histories": dlx.DeathHistory(),
    "histories": (),
    "log_rows": [],
    "messages": dlx.Message(exchange="", routing_keys=("orders",)),
    "properties": {},
    "queue_arguments": {},
    "queues": dlx.Queue(name="orders"),
    "retry_plans": dlx.RetryPlan(delays_ms=()),
    "topologies": dlx.Topology.of(queues=[dlx.Queue(name="orders")]),
    "x_deaths": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_example_is_the_plainest(name: str) -> None:
    assert find(made(name), lambda _drawn: True) == SMALLEST[name]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("topologies", {"release": "4.4"}, f"release='4.4': no release '4.4': known are {', '.join(RELEASES)}"),
        ("topologies", {"release": 4.3}, "release=4.3: expected a name such as '4.3', or a dlx.Release"),
        ("topologies", {"queues_min": 0}, "queues_min=0: expected an integer, 1 or more"),
        ("topologies", {"queues_min": 3, "queues_max": 2}, "queues_max=2: expected an integer, at least queues_min=3"),
        ("topologies", {"cyclic": "yes"}, "cyclic='yes': expected True, False or None"),
        ("topologies", {"cyclic": True, "types": ["stream"]}, "cyclic=True: streams have no dead letters"),
        ("topologies", {"types": []}, "types=[]: expected at least one name"),
        ("topologies", {"types": ["stream"], "release": "3.8"}, "types=['stream']: RabbitMQ 3.8 has 'classic'"),
        ("deaths", {"queue_names": None}, "queue_names=None: expected several strings, in a tuple or list"),
        ("topologies", {"limits": ["ttl"]}, "limits: no 'ttl' there; expected some of 'message-ttl', 'max-length'"),
        ("topologies", {"limits": "message-ttl"}, "expected several strings, such as ('message-ttl',)"),
        ("definitions", {"policies": 1}, "policies=1: expected True or False"),
        ("queue_arguments", {"type": "stream", "release": "3.8"}, "RabbitMQ 3.8 has 'classic', 'quorum'"),
        ("policies", {"queue_names": []}, "queue_names=[]: expected at least one name"),
        ("policies", {"queue_names": [b"orders"]}, "expected strings only"),
        ("retry_plans", {"delays_max": -1}, "delays_max=-1: expected an integer, 0 or more"),
        ("messages", {"deaths_max": -1}, "deaths_max=-1: expected an integer, 0 or more"),
        ("histories", {"kinds": ["explode"]}, "kinds: no 'explode' there; expected some of 'publish', 'ack'"),
        ("histories", {"topology": {}}, "topology={}: expected a dlx.Topology"),
        ("log_rows", {"topology": dlx.Topology()}, "topology: expected at least one queue in it"),
    ],
)
def test_a_wrong_argument_is_told_what_would_be_right(name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        made(name, **arguments)
    assert said in str(raised.value)


def test_a_document_is_made_of_a_topology() -> None:
    with pytest.raises(InvalidArgument, match=r"topology=\{\}: expected a dlx.Topology"):
        strategies.definitions_document({})
    assert strategies.definitions_document(dlx.Topology())["queues"] == []


def test_all_arguments_are_keywords_with_defaults() -> None:
    for name, strategy in PUBLIC.items():
        for parameter in inspect.signature(strategy).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                assert parameter.kind is parameter.KEYWORD_ONLY, (name, parameter)
                assert parameter.default is not parameter.empty, (name, parameter)


REGISTERED = (
    dlx.Binding, dlx.Death, dlx.DeathHistory, dlx.Exchange, dlx.Message, dlx.Policy, dlx.Queue, dlx.Release,
    dlx.RetryPlan, dlx.Settings, dlx.Topology,
)  # fmt: skip


@pytest.mark.parametrize("kind", REGISTERED)
def test_hypothesis_draws_the_values_of_dlx_by_their_types(kind: type) -> None:
    _hypothesis.register()
    assert isinstance(reached(st.from_type(kind), lambda _drawn: True), kind)


@pytest.mark.parametrize("first", ["import hypothesis", "import simulator.testing._hypothesis"])
def test_what_hypothesis_loads_by_its_entry_point_is_light(first: str) -> None:
    code = (
        f"import sys; {first}; import hypothesis;"
        "assert 'simulator.testing._hypothesis' in sys.modules;"
        "print(*(name for name in sys.modules if name.startswith('simulator.testing.strategies')"
        " or name.split('.')[0] in ('pyarrow', 'pika', 'numpy', 'pyspark', 'click', 'rich')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_the_entry_point_is_enough() -> None:
    code = (
        "from hypothesis import find, strategies as st; import dlx;"
        "print(sorted(find(st.from_type(dlx.Topology), lambda topology: True).queues))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['orders']"
