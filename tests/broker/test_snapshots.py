"""Snapshots: a restored broker goes on as the original does; what is no snapshot of this version is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlx.deaths import DeathPoint
from dlx.field_values import DeepTable, Long
from dlx.operator_errors import OperatorError
from dlx.releases import RELEASES, release
from dlx.topology import Policy
from simulator.broker import Broker, commands, snapshots
from simulator.broker.snapshots import KINDS, VERSION, Decoder, Encoder, RecordKind
from simulator.events import Event
from simulator.message_history import RecordingBroker
from simulator.testing.strategies.amqp import field_tables
from tests.broker.invariants import check
from tests.broker.test_invariants import START_US, Players, handled
from tests.broker.told import CHANNEL, Told

MS = 1_000
EXPECTED = f"expected a dlx broker snapshot of version {VERSION}"
RETRIES = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}


def busy(name: str = "4.3") -> Told:
    """A broker with something of everything."""
    told = Told(name)
    told.queue("dead", x_queue_type="quorum")
    told.queue("work", x_message_ttl=5_000, **RETRIES)
    told.queue("log", x_queue_type="stream")
    told(commands.SetTracing("/", True), commands.Qos(CHANNEL, 2))
    told(commands.Consume(channel=CHANNEL, queue="work", consumer_tag="c"))
    for text in ("a", "b", "c", "d"):
        told.publish("work", text, headers={"n": Long(5), "text": [text]}, message_id=text)
    told.publish("log", "x" * 100)
    told(commands.Reject(CHANNEL, 1, False), commands.SelectTransactions(CHANNEL), commands.Ack(CHANNEL, 2))
    told.publish("work", "uncommitted")
    return told


SCRIPT: list[commands.Command] = [
    commands.PassTime(),
    commands.Commit(CHANNEL),
    commands.Get(CHANNEL, "dead"),
    commands.Publish(CHANNEL, "", "work", {}, b"later"),
    commands.Commit(CHANNEL),
    commands.CloseConnection("client"),
    commands.PassTime(),
]


def went_on(broker: Broker, now_ms: int) -> list[Any]:
    """What comes of the script, 1.7 s between its commands."""
    return [broker.handle(command, (now_ms + 1_700 * n) * MS) for n, command in enumerate(SCRIPT)]


@pytest.mark.parametrize("name", RELEASES)
@settings(max_examples=30)  # on each release
@given(seed=st.integers(0, 2**16), cuts=st.sets(st.integers(0, 79), max_size=5))
def test_it_goes_on_as_the_original_whenever_it_was_made(name: str, seed: int, cuts: set[int]) -> None:
    players, original, now_us = Players(seed), Broker(name, watch=Event), START_US
    restored: list[Broker] = []
    for step in range(80):
        if step in cuts:
            restored.append(Broker.restore((restored or [original])[-1].snapshot()))
            check(restored[-1])
        command = players.command(original)
        now_us += players.wait_ms() * MS
        expected = handled(original, command, now_us)
        for each in restored:
            assert handled(each, command, now_us) == expected
            assert each.next_due() == original.next_due()


@pytest.mark.parametrize("name", RELEASES)
def test_it_goes_on_in_another_process(name: str, tmp_path: Path) -> None:
    told = busy(name)
    (tmp_path / "saved").write_bytes(told.broker.snapshot())
    code = (
        "import pathlib, sys\n"
        "from simulator.broker import Broker\n"
        "from tests.broker.test_snapshots import went_on\n"
        "broker = Broker.restore(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(went_on(broker, int(sys.argv[2])))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "saved"), str(told.now_ms)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(went_on(told.broker, told.now_ms))


def test_what_waits_to_be_reported_is_in_it() -> None:
    broker = Broker("4.3", watch=Event)
    for command in (commands.OpenConnection("client"), commands.OpenChannel(CHANNEL)):
        broker.handle(command, START_US)
    broker.handle(commands.DeclareQueue(channel=CHANNEL, queue="q", arguments={"x-message-ttl": 10}), START_US)
    broker.handle(commands.Publish(CHANNEL, "", "q"), START_US)
    with pytest.raises(OperatorError):
        broker.handle(commands.DeleteUser("nobody"), START_US + 20 * MS)
    restored = Broker.restore(broker.snapshot())
    assert restored.next_due() == broker.next_due() == START_US + 20 * MS
    expected = broker.handle(commands.PassTime(), START_US)
    assert expected
    assert restored.handle(commands.PassTime(), START_US) == expected


def test_what_looks_alike_stays_one_object() -> None:
    told = Told("4.3")
    told.queue("one")
    told.queue("two")
    body, properties = b"b" * 1_000, {"message_id": "m"}
    for name in ("one", "two", "one"):
        told(commands.Publish(CHANNEL, "", name, properties, body))
    queues = Broker.restore(told.broker.snapshot()).vhosts["/"].queues
    first, second = queues["one"].store.waiting()
    other = next(iter(queues["two"].store.waiting()))
    assert first.message is second.message
    assert first.body is second.body is other.body
    assert first.message.properties == other.message.properties == properties


def test_a_deleted_queue_goes_by_the_policy_of_its_time() -> None:
    told = Told("3.13")
    told.queue("q")
    told(commands.SetPolicy("/", Policy(name="p", pattern=".*", definition={"consumer-timeout": 60_000})))
    told.publish("q")
    told(commands.Get(CHANNEL, "q"), commands.DeleteQueue(CHANNEL, "q"), commands.ClearPolicy("/", "p"))
    restored = Broker.restore(told.broker.snapshot())
    later_us = (told.now_ms + 1_000_000) * MS
    expected = told.broker.handle(commands.PassTime(), later_us)
    assert [type(reply).__name__ for reply in expected] == ["ChannelClosed"]
    assert restored.handle(commands.PassTime(), later_us) == expected


# Header values


def roundtrip(value: Any) -> Any:
    encoder = Encoder(())
    data = msgspec.msgpack.decode(msgspec.msgpack.encode([encoder.encode(value), encoder.objects]))
    return Decoder((), data[1]).decode(data[0])


def typed(value: Any) -> Any:
    """A value with the classes of all that is in it."""
    if isinstance(value, Mapping):
        return [(key, typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, datetime):
        value = value.replace(fold=0)  # no field has it
    return type(value), repr(value)


@given(field_tables())
def test_header_values_keep_their_types(table: dict[str, Any]) -> None:
    assert typed(roundtrip(table)) == typed(table)


@pytest.mark.parametrize(
    "value",
    [
        "\udcff",
        "ü",
        2**100,
        Long(-(2**70)),
        float("inf"),
        Decimal("-1.20"),
        DeepTable(b"\x01"),
        b"",
        b"x" * 100,
        ("a", ("b", 1)),
        frozenset({"a"}),
        None,
    ],
)
def test_unusual_values_do_too(value: Any) -> None:
    assert typed(roundtrip(value)) == typed(value)


def test_values_of_a_librarys_own_classes_are_what_they_are_on_the_wire() -> None:
    integer, text = type("long", (int,), {}), type("Text", (str,), {})
    assert typed(roundtrip([integer(5), text("t")])) == typed([Long(5), "t"])


def test_tables_may_be_nested_deep() -> None:
    deep: Any = "end"
    for _ in range(50_000):
        deep = [deep]
    found, levels = roundtrip(deep), 0
    while isinstance(found, list):
        found, levels = found[0], levels + 1
    assert (found, levels) == ("end", 50_000)


def test_an_identity_that_is_no_data_is_refused() -> None:
    told = Told("4.3")
    told(commands.OpenConnection(object()))
    with pytest.raises(TypeError, match="expected a value that AMQP or the broker has"):
        told.broker.snapshot()


# What is refused


def changed(**fields: Any) -> bytes:
    """A snapshot with other fields around what it holds."""
    return msgspec.msgpack.encode(msgspec.msgpack.decode(busy().broker.snapshot()) | fields)


def holding(**fields: Any) -> bytes:
    """A snapshot of other content, whose checksum is right."""
    content = msgspec.msgpack.decode(msgspec.msgpack.decode(busy().broker.snapshot())["content"])
    other = msgspec.msgpack.encode(content | fields)
    return changed(content=other, checksum=crc32(other))


def layouts(**fields: Any) -> dict[str, Any]:
    return msgspec.msgpack.decode(busy().broker.snapshot())["layouts"] | fields


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", f"{EXPECTED}, found other bytes"),
        (b"something else", f"{EXPECTED}, found other bytes"),
        (b"\x80\x05\x95\x1d", f"{EXPECTED}, found a pickle, as older versions made"),
        (changed(version=3), f"{EXPECTED}, found a 'dlx broker snapshot' of version 3"),
        (changed(format="recipe"), f"{EXPECTED}, found a 'recipe' of version {VERSION}"),
        (changed(release="3.7"), f"expected a snapshot of a release of {', '.join(RELEASES)}, found one of '3.7'"),
        (changed(release=7), "a damaged snapshot: Expected `str`, got `int`"),
        (changed(content=b"other"), "a damaged snapshot: its checksum does not match"),
        (changed(layouts=layouts(held=["vhost"])), "expected of each held: vhost, queue; found: vhost"),
        (changed(layouts=layouts(more=["a"])), "expected of each more: no such record; found: a"),
        (b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0", "found other bytes"),
        (changed(format="\x1b[31m"), r"found a '\x1b[31m'"),
        (holding(node=3), "a damaged snapshot: "),
        (holding(in_force=None), "a damaged snapshot: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_none_is_refused_and_said_why(data: bytes, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        Broker.restore(data)
    assert says in str(refused.value)


@pytest.mark.parametrize("data", [None, 3, "text"])
def test_a_snapshot_is_bytes(data: Any) -> None:
    with pytest.raises(TypeError, match="expected a snapshot as bytes, got"):
        Broker.restore(data)


class FrozenTime(datetime):
    """A time as libraries that freeze it derive one."""


def test_values_of_derived_classes_keep_their_type_on_the_wire() -> None:
    told = Told("4.3")
    told(commands.DeclareQueue(channel=CHANNEL, queue="q"))
    headers = {"when": FrozenTime(2026, 1, 2, tzinfo=UTC), "what": bytearray(b"abc")}
    told(commands.Publish(CHANNEL, "", "q", {"headers": headers}))
    copy = Broker.restore(told.broker.snapshot()).vhosts["/"].queues["q"].store.head()
    assert copy is not None
    assert copy.message.headers == {"when": datetime(2026, 1, 2, tzinfo=UTC), "what": b"abc"}


SAVED = busy().broker.snapshot()


@example(SAVED.index(b"4.3") + 2, ord("3") ^ ord("2"), False)  # another release
@given(st.integers(0, len(SAVED) - 1), st.integers(1, 255), st.booleans())
def test_damage_is_refused(at: int, change: int, short: bool) -> None:
    damaged = SAVED[:at] if short else SAVED[:at] + bytes([SAVED[at] ^ change]) + SAVED[at + 1 :]
    with pytest.raises(ValueError):
        Broker.restore(damaged)


def test_rules_of_ones_own_have_no_snapshot() -> None:
    other = msgspec.structs.replace(release("4.3"), max_message_size=7)
    with pytest.raises(ValueError, match=r"other rules under the name '4\.3'"):
        Broker(other).snapshot()


# Names


def test_no_class_and_no_module_is_named() -> None:
    told = busy()
    data = RecordingBroker.taking_over(told.broker).snapshot()
    named = [kind.of.__name__ for kind in KINDS if kind.of.__name__.encode() in data]
    assert named == []
    assert b"simulator" not in data
    assert b"builtins" not in data


def test_a_class_may_be_renamed_and_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    told = busy("4.0")
    data = told.broker.snapshot()
    fields = [(field, str) for field in DeathPoint.__struct_fields__]
    renamed = msgspec.defstruct("Elsewhere", fields, frozen=True, module="elsewhere")
    kinds = tuple(RecordKind(k.name, renamed, k.fields) if k.of is DeathPoint else k for k in KINDS)
    monkeypatch.setattr(snapshots, "KINDS", kinds)
    dead = Broker.restore(data).vhosts["/"].queues["dead"].store.head()
    assert dead is not None
    assert type(dead.message.first_death) is renamed


def test_the_kinds_have_names_of_their_own() -> None:
    assert len({kind.name for kind in KINDS}) == len({kind.of for kind in KINDS}) == len(KINDS)
