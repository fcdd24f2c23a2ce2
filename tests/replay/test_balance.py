"""What the broker counted against what a replay reconstructed: residuals are named, or unexplained."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from dlx.global_counters import CONFIRMED, Account, Series
from dlx.releases import release
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.capture.counters import CounterReadings, NodeReadings, reading
from simulator.cli.main import main
from simulator.cli.replay import show_balance
from simulator.replay.report import page
from simulator.replay.results.counters import Balance, BalanceEntry, LogCounts, as_json, balance, remarks, sentences
from simulator.replay.results.headline import headline
from simulator.replay.results.summary import Summary
from tests.counters.playing import HOUR_MS, play
from tests.counters.simulators import simulated
from tests.counters.workloads import QueuePlan, Step, Workload
from tests.replay.test_report import report_data, visible_text

AGREEING = Summary(
    messages=9, deliveries=9, dead_letters=4, agree=9, differ=0, ambiguous=0, unexplained=0, broken_lines=0,
)  # fmt: skip
EXPIRED = Account("expired", "classic", "disabled")
SENT = Account("expired", "classic", "at_most_once")
HELD = Account("rejected", "quorum", "at_least_once")


def queue(name: str, kind: str = "classic", **settings: Any) -> Queue:
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in settings.items()}
    return Queue(name=name, type=kind, arguments=arguments)


def topology(*queues: Queue, bound: Mapping[str, str] = {}) -> Topology:
    names = {each.name: each for each in queues}
    exchanges = {name: Exchange(name=name, type="fanout") for name in bound} | {"": Exchange(name="")}
    bindings = {name: (Binding(source=name, destination=to),) for name, to in bound.items() if to}
    return Topology(exchanges=exchanges, queues=names, bindings=bindings)


def readings(counted: Mapping[Account, int], **changes: Any) -> CounterReadings:
    series: dict[Series, int] = {account.series: count for account, count in counted.items()}
    series[Series("messages_received", (("protocol", "amqp091"),))] = changes.pop("received", 0)
    node = NodeReadings(node="rabbit@a", release="4.3.6", before=reading(0, {}), after=reading(1, series))
    return CounterReadings(**{"nodes": (node,), "vhost": "/", **changes})


def books(counted: Mapping[Account, int], log: LogCounts, *queues: Queue, **changes: Any) -> Balance:
    log = msgspec.structs.replace(log, vhosts=frozenset({"/"}))
    bound = changes.pop("bound", {})
    return balance(readings(counted, **changes), log, {"/": topology(*queues, bound=bound)}, release("4.3"))


def said(found: Balance) -> str:
    return " | ".join(sentence for entry in found.entries for sentence in sentences(entry, found))


def only(found: Balance) -> BalanceEntry:
    (entry,) = found.entries
    return entry


NO_EXCHANGE = queue("a", message_ttl=100)


def test_what_is_in_the_log_balances() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    log = LogCounts(arrived={("/", "a"): 3}, deaths={("/", "a", "expired"): 3})
    found = books({SENT: 3}, log, sends, queue("b"), bound={"x": "b"})
    assert (only(found).counted, only(found).reconstructed, only(found).residual) == (3, 3, 0)
    assert (found.lost, found.unexplained, said(found)) == (0, 0, "")


def test_messages_that_died_without_an_exchange_are_named_with_their_queues() -> None:
    log = LogCounts(arrived={("/", "a"): 5, ("/", "quiet"): 2})
    found = books({EXPIRED: 5}, log, NO_EXCHANGE, queue("quiet"))
    assert (found.lost, found.unexplained) == (5, 0)
    assert said(found) == (
        "5 messages expired in classic queues without a dead-letter exchange to go to: no trace shows these, and they"
        " are gone; queues that can do it: 'a' (no dead-letter exchange: dead messages are dropped; at most 5)"
    )


def test_more_than_the_log_has_is_unexplained() -> None:
    found = books({EXPIRED: 7}, LogCounts(arrived={("/", "a"): 5}), NO_EXCHANGE)
    assert (found.lost, found.unexplained, only(found).unexplained) == (5, 2, 2)
    assert "5 messages expired" in said(found)
    assert said(found).endswith(
        "more than the messages of the log can have done (perhaps they were in their queues before the log began, or"
        " in another virtual host): unexplained: 2"
    )


def test_where_no_queue_can_do_it_all_is_unexplained() -> None:
    found = books({EXPIRED: 1}, LogCounts(arrived={("/", "quiet"): 5}), queue("quiet"))
    assert (found.lost, found.unexplained) == (0, 1)
    assert said(found).startswith("1 message expired in classic queues without a dead-letter exchange")
    assert "no queue of the log can do it" in said(found)


def test_what_was_delivered_and_acknowledged_may_have_been_rejected_instead() -> None:
    rejected = Account("rejected", "classic", "disabled")
    log = LogCounts(arrived={("/", "a"): 5}, delivered={("/", "a"): 3})
    assert books({rejected: 3}, log, queue("a")).unexplained == 0
    assert books({rejected: 4}, log, queue("a")).unexplained == 1


def test_only_messages_with_an_expiration_expire_where_the_queue_has_no_ttl() -> None:
    log = LogCounts(arrived={("/", "a"): 5}, expiring={("/", "a"): 2})
    assert books({EXPIRED: 2}, log, queue("a")).unexplained == 0
    assert books({EXPIRED: 3}, log, queue("a")).unexplained == 1


def test_the_same_message_does_not_die_twice_in_a_queue() -> None:
    log = LogCounts(arrived={("/", "a"): 5}, deaths={("/", "a", "rejected"): 4})
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    counted = {SENT: 2, Account("rejected", "classic", "at_most_once"): 4}
    found = books(counted, log, sends, queue("b"), bound={"x": "b"})
    assert (found.unexplained, [entry.residual for entry in found.entries]) == (1, [2, 0])


def test_a_dead_letter_on_its_way_may_die_in_the_next_queue() -> None:
    """It expires in ``a`` and then in ``b``: neither death is in the log, as no queue delivers it."""
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    log = LogCounts(arrived={("/", "a"): 2})
    found = books({SENT: 2, EXPIRED: 2}, log, sends, queue("b", message_ttl=9), bound={"x": "b"})
    assert (found.lost, found.unexplained) == (2, 0)
    assert "'a' (its dead letters go to 'b'; at most 2)" in said(found)
    assert "'b' (no dead-letter exchange: dead messages are dropped; at most 2)" in said(found)


def test_a_loss_on_the_way_is_told_with_its_cause() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    found = books({SENT: 2}, LogCounts(arrived={("/", "a"): 2}), sends, bound={"x": ""})
    assert "with a dead letter sent at most once that no later delivery shows" in said(found)
    assert "'a' (dead-letter exchange 'x' has no bindings: dead letters are lost; at most 2)" in said(found)
    assert found.lost == 0


def test_a_misspelt_exchange_counts_as_none() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="nope")
    found = books({EXPIRED: 2}, LogCounts(arrived={("/", "a"): 2}), sends)
    assert found.lost == 2
    assert "'a' (dead-letter exchange 'nope' does not exist: dead letters are lost; at most 2)" in said(found)


def test_a_dead_letter_exchange_that_the_definitions_lack_may_be_internal() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="inner")
    found = books({SENT: 2}, LogCounts(arrived={("/", "a"): 2}), sends)
    assert found.unexplained == 0
    assert "'inner' is not in the definitions, which may lack internal ones; at most 2" in said(found)


def test_what_is_held_is_known_from_the_confirmations() -> None:
    settings = {"dead_letter_exchange": "x", "dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    holds = queue("a", "quorum", **settings)
    log = LogCounts(arrived={("/", "a"): 5}, delivered={("/", "a"): 5}, deaths={("/", "a", "rejected"): 2})
    counted = {HELD: 5, Account(CONFIRMED, "quorum", "at_least_once"): 2}
    found = books(counted, log, holds, queue("b"), bound={"x": "b"})
    assert (found.held, found.lost, found.unexplained) == (3, 0, 0)
    assert said(found).startswith("3 messages were rejected in quorum queues with a dead letter sent at least once")
    assert "3 at-least-once dead letters were not confirmed" in " ".join(remarks(found))


CONFIRMATIONS = Account(CONFIRMED, "quorum", "at_least_once")


@pytest.mark.parametrize(
    ("confirmed", "told"),
    [
        (2, ""),
        (7, "5 more at-least-once dead letters were confirmed than counted"),
        (1, "1 more at-least-once dead letters were delivered than confirmed"),
    ],
)
def test_confirmations_have_to_fit(confirmed: int, told: str) -> None:
    settings = {"dead_letter_exchange": "x", "dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    log = LogCounts(arrived={("/", "a"): 2}, delivered={("/", "a"): 2}, deaths={("/", "a", "rejected"): 2})
    found = books({HELD: 2, CONFIRMATIONS: confirmed}, log, queue("a", "quorum", **settings), bound={"x": "a"})
    assert [text.startswith(told) for text in found.misfits] == [True] * bool(told)
    assert headline(AGREEING, "4.3", found).tone == ("open" if told else "good")


def test_a_queue_whose_messages_are_all_found_is_not_suspected() -> None:
    """``w`` sends its dead letters to ``a`` by their key, and not to ``b``: there all two have died already."""
    exchanges = {"": Exchange(name=""), "shop": Exchange(name="shop", type="topic")}
    bindings = [Binding(source="shop", destination=name, routing_key=f"{name}.*") for name in ("a", "b")]
    sends = {"message_ttl": 100, "dead_letter_exchange": "shop", "dead_letter_routing_key": "a.again"}
    queues = [queue("w", **sends), queue("a"), queue("b", **sends)]
    shop = Topology(
        exchanges=exchanges, queues={each.name: each for each in queues}, bindings={"shop": tuple(bindings)}
    )
    log = LogCounts(
        arrived={("/", "w"): 2, ("/", "a"): 2, ("/", "b"): 2},
        deaths={("/", "w", "expired"): 2, ("/", "b", "expired"): 2},
        vhosts=frozenset({"/"}),
    )
    found = balance(readings({SENT: 7}), log, {"/": shop}, release("4.3"))
    assert (only(found).suspects, found.unexplained) == ((), 3)


def test_a_dead_letter_routing_key_without_a_binding_leads_nowhere() -> None:
    exchanges = {"": Exchange(name=""), "dlx": Exchange(name="dlx", type="direct")}
    bound = Binding(source="dlx", destination="dl", routing_key="good")
    sends = queue("nokey", message_ttl=100, dead_letter_exchange="dlx", dead_letter_routing_key="nokey")
    queues = {"nokey": sends, "dl": queue("dl")}
    log = LogCounts(arrived={("/", "nokey"): 2}, vhosts=frozenset({"/"}))
    shop = Topology(exchanges=exchanges, queues=queues, bindings={"dlx": (bound,)})
    found = balance(readings({SENT: 2}), log, {"/": shop}, release("4.3"))
    assert "'nokey' (its dead letters reach no queue; at most 2)" in said(found)


def test_a_counter_that_is_not_there_accuses_nobody() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    log = LogCounts(arrived={("/", "a"): 3}, deaths={("/", "a", "expired"): 3})
    found = books({EXPIRED: 0}, log, sends, queue("b"), bound={"x": "b"})
    assert (found.entries, found.unexplained) == ((), 0)
    assert found.misfits == (f"The counters lack {SENT.series}",)
    assert headline(AGREEING, "4.3", found).tone == "open"


def test_a_queue_that_the_definitions_lack_is_suspected_of_everything() -> None:
    found = books({EXPIRED: 2}, LogCounts(arrived={("/", "exclusive"): 2}), queue("b"))
    assert found.unexplained == 0
    assert "'exclusive' (the definitions do not have it; at most 2)" in said(found)


def test_more_found_than_counted_is_unexplained() -> None:
    sends = queue("a", message_ttl=100, dead_letter_exchange="x")
    log = LogCounts(arrived={("/", "a"): 3}, deaths={("/", "a", "expired"): 3})
    found = books({SENT: 1}, log, sends, queue("b"), bound={"x": "b"})
    assert (only(found).residual, found.unexplained) == (-2, 2)
    assert said(found) == "2 messages expired in classic queues, and the broker did not count them: unexplained: 2"


def test_a_log_that_is_cut_explains_the_rest() -> None:
    found = books({EXPIRED: 7}, LogCounts(), NO_EXCHANGE, cut=("it ended after 5 rows, as requested",))
    assert found.unexplained == 0
    assert said(found) == (
        "7 messages expired in classic queues, and no trace shows them"
        " | the log is cut: it ended after 5 rows, as requested"
    )


def test_queues_of_a_plugin_are_not_judged() -> None:
    found = books({Account("maxlen", "mqtt_qos0", "disabled"): 2}, LogCounts(), NO_EXCHANGE)
    assert found.unexplained == 0
    assert said(found) == "2 messages were too many in mqtt_qos0 queues: a replay knows nothing of such queues"


def test_it_says_what_was_not_checked() -> None:
    log = LogCounts(published=8, ambiguous=1, vhosts=frozenset({"/"}))
    topologies = {"/": topology(NO_EXCHANGE), "other": topology()}
    found = balance(readings({}, received=10), log, topologies, release("4.3"))
    assert list(remarks(found)) == [
        "The counters are of node rabbit@a and of all virtual hosts there; the log is of /. What other nodes of a"
        " cluster counted is not among them.",
        "The log shows nothing of virtual host other, which the nodes count as well.",
        "What died between a reading and the first or last trace is counted, and the log does not show it.",
        "The nodes received 10 messages, and the log has 8 publishes: the others were refused, went to another"
        " virtual host, or came before or after the log.",
        "1 deliveries are ambiguous: the deaths of their first explanation are counted.",
    ]


def test_unexplained_deliveries_may_hide_deaths() -> None:
    log = LogCounts(arrived={("/", "a"): 1}, unexplained={("/", "b"): 3})
    found = books({EXPIRED: 2}, log, NO_EXCHANGE, queue("b"))
    assert "or behind one of the 3 unexplained deliveries): unexplained: 1" in said(found)


# How it is shown

LOSING = books({EXPIRED: 5, SENT: 4}, LogCounts(arrived={("/", "a"): 3}), NO_EXCHANGE)


def test_losses_come_first_and_say_so_in_the_report() -> None:
    text = visible_text(page(report_data(balance=LOSING)))
    assert text.index("The books of the broker: 6 dead letters unexplained") < text.index("Where the messages went")
    assert text.index("expired classic queues none 5 0 5 3 messages expired") < text.index("at most once 4 0 4")
    assert "What this assumes" in text


def test_the_report_without_counters_says_nothing_of_them() -> None:
    assert "books" not in visible_text(page(report_data()))


def test_the_report_counts_what_is_lost_without_a_trace() -> None:
    lossy = books({EXPIRED: 3}, LogCounts(arrived={("/", "a"): 3}), NO_EXCHANGE)
    assert "3 messages lost without a trace" in visible_text(page(report_data(balance=lossy)))


def test_the_terminal_shows_accounts_sentences_and_what_was_not_checked() -> None:
    shown = io.StringIO()
    show_balance(Console(file=shown, width=200), LOSING)
    text = shown.getvalue()
    assert "* 3 messages expired in classic queues without a dead-letter exchange" in text
    assert text.index("disabled") < text.index("at most once")
    assert "Not checked:\n* The counters are of node rabbit@a" in text


def test_json_has_the_sentences() -> None:
    document = json.loads(msgspec.json.encode(as_json(LOSING)))
    assert (document["lost"], document["unexplained"], document["nodes"]) == (3, 6, ["rabbit@a"])
    assert document["entries"][0]["says"][0].startswith("3 messages expired")
    assert document["unchecked"]


# From the shell


def losing_workload() -> Workload:
    """Three messages expire without a dead-letter exchange, two with one."""
    lost = QueuePlan("lost", "classic", "ttl", {"x-message-ttl": 20})
    sent = {"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queues = [lost, QueuePlan("sent", "classic", "ttl", sent), QueuePlan("dead", "classic", "none", {})]
    return Workload(0, queues, [], [Step("publish", "lost", 3), Step("publish", "sent", 2)], drained=True)


def replayed(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> tuple[int, str, str]:
    files = [str(folder / "log.parquet"), "--definitions", str(folder / "definitions.json")]
    files += ["--tolerance-ms", str(HOUR_MS)]  # the capture has the time of this machine, the server its own
    code = main(["replay", *files, "--counters", str(folder / "log.counters.json"), *more])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_replay_balances_what_capture_wrote(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with simulated("4.3") as (target, _):
        local = play(target, losing_workload(), tmp_path).balance
    code, out, _ = replayed(capsys, tmp_path, "--json", "--out", str(tmp_path / "out"))
    assert code == 0
    counters = json.loads(out)["counters"]
    assert counters == json.loads(msgspec.json.encode(as_json(local)))
    assert [(each["counted"], each["reconstructed"]) for each in counters["entries"]] == [(3, 0), (2, 2)]
    assert (tmp_path / "out" / "summary.json").read_text() == out.rstrip("\n")
    assert "3 messages lost without a trace" in (tmp_path / "out" / "report.html").read_text()


def test_an_unexplained_residual_fails_the_replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with simulated("4.3") as (target, _):
        play(target, losing_workload(), tmp_path)
    path = tmp_path / "log.counters.json"
    document = json.loads(path.read_text())
    for count in document["nodes"][0]["after"]["counters"]:
        if count["name"] == "messages_dead_lettered_expired" and count["value"] == 3:
            count["value"] = 5
    path.write_text(json.dumps(document))
    code, out, _ = replayed(capsys, tmp_path)
    assert code == 1
    assert "unexplained: 2" in out


def test_a_wrong_file_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_text('{"queues": [], "exchanges": [], "bindings": []}')
    (tmp_path / "log.parquet").write_bytes(b"")
    (tmp_path / "log.counters.json").write_text("{}")
    code, _, err = replayed(capsys, tmp_path)
    assert code == 65
    assert "log.counters.json: its format is not 'dlx global counters'" in err
