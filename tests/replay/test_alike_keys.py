"""Messages whose keys lead to the same places are looked up once, and nothing is said of one that is another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dlx.message_flow import MessageFlow
from dlx.releases import release
from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.generate import Wish, generate
from simulator.replay.engines.local import replay_table
from simulator.replay.kernel.message_verdicts import Lineage
from simulator.replay.kernel.verdict_cache import Memory
from simulator.replay.rows.columns import AlikeKeys
from simulator.replay.rows.row_codec import without_keys, write_signatures
from tests.replay.logs import EXAMPLES, Log, death, definitions_of, died, write_log
from tests.replay.odd_rows import captured, odd_rows

ORDERS = definitions_of(
    {"work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}, "parked": {}, "lost": {}},
    {"orders": "topic"},
    [("orders", "work", "order.*.paid"), ("orders", "lost", "lost.#")],
)


def paid(number: int) -> list[dict[str, Any]]:
    """A publish with a key of its own, a rejection, and the dead letter."""
    key, identity = f"order.{number}.paid", f"m{number}"
    log = Log().publish("orders", key, message_id=identity, routed=["work"])
    log.deliver("work", "orders", [key], message_id=identity)
    entry = death("work", "rejected", exchange="orders", keys=[key])
    log.deliver("parked", "", ["parked"], message_id=identity, headers=died(entry))
    return log.records


def test_messages_with_a_key_each_are_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out = []
    step = Lineage.step

    def counted(self: Lineage, *arguments: Any) -> Any:
        worked_out.append(arguments)
        return step(self, *arguments)

    monkeypatch.setattr(Lineage, "step", counted)
    log = write_log(tmp_path / "trace.log", [record for number in range(100) for record in paid(number)])
    verdicts = replay_table(open_log(log), ORDERS).column("verdict").to_pylist()
    assert verdicts == [None, "agree", "agree"] * 100
    assert len(worked_out) <= 2 * 3  # the last message of a batch is not looked up


def test_a_key_in_x_death_that_is_anothers_is_found(tmp_path: Path) -> None:
    records = [record for number in range(50) for record in paid(number)]
    headers = records[10 * 3 + 2]["properties"]["headers"]
    headers["x-death"][0]["routing-keys"] = ["order.11.paid"]
    found = replay_table(open_log(write_log(tmp_path / "trace.log", records)), ORDERS).to_pylist()
    (bad,) = [row for row in found if row["verdict"] not in ("agree", None)]
    (difference,) = bad["differences"]
    assert (bad["lineage"], difference["field"]) == ("/\nm10", "x-death[0].routing-keys[0]")
    assert (difference["expected"], difference["seen"]) == ('"order.10.paid"', '"order.11.paid"')


@pytest.mark.parametrize("rules", ["4.3", pytest.param("3.10", marks=pytest.mark.long)])
def test_verdicts_are_as_if_each_key_were_unlike_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    """On a log of many keys, copies, headers and expirations, with faults, also under rules that are not its own."""
    path = EXAMPLES / "captured-4.3" / "definitions.json"
    wish = Wish(path.read_bytes(), 2_500, diversity="high", faults=40)
    generate(wish, tmp_path, processes=1)
    log = pq.read_table(tmp_path / "log-00000.parquet").to_batches()
    shared = replay_table(log, read_definitions(path), rules)
    monkeypatch.setattr(Memory, "_number_of_key_of", lambda self, vhost: None)
    alone = replay_table(log, read_definitions(path), rules)
    assert shared.drop_columns(["shown"]).equals(alone.drop_columns(["shown"]))
    assert {"agree", "differ"} <= set(shared.column("verdict").to_pylist())


def test_queue_names_and_the_keys_of_dead_letters_stay() -> None:
    numbers = AlikeKeys(MessageFlow(ORDERS.topology("/"), release("4.3")))
    assert numbers.number("work") is None
    assert numbers.number("parked") is None
    assert numbers.number("order.1.paid") == numbers.number("order.2.paid") != numbers.number("order.1.sent")


def test_what_is_known_of_keys_holds_where_the_bindings_are_the_same() -> None:
    """But not the keys that queues give to dead letters: those are each side's own."""
    parked = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
    bindings = [("orders", "work", "order.*.paid"), ("orders", "lost", "lost.#")]
    queues = {"work": parked | {"x-dead-letter-routing-key": "lost.1"}, "parked": {}, "lost": {}}
    one = AlikeKeys(MessageFlow(ORDERS.topology("/"), release("4.3")))
    same, other = (
        AlikeKeys(MessageFlow(definitions_of(queues, {"orders": "topic"}, some).topology("/"), release("4.3")), [one])
        for some in (bindings, [*bindings, ("orders", "lost", "order.9.*")])
    )
    assert same._classes is one._classes
    assert same.number("lost.1") is None
    assert one.number("lost.1") == one.number("lost.2") == same.number("lost.2")
    assert other.number("order.9.paid") != other.number("order.8.paid")
    assert one.number("order.9.paid") == one.number("order.8.paid")


def test_rows_with_other_keys_have_other_templates() -> None:
    """Whatever stands in the row: two templates are equal only if the rows are, but for the keys."""
    rows = [row | {"routing_keys": keys} for row in odd_rows() for keys in (["a"], ["a", "a"], ["a", "b"], [], ["1"])]
    texts = write_signatures(captured(rows))
    assert len({without_keys(text, {"a": 1, "b": 2}.get) for text in texts}) == len(set(texts))
