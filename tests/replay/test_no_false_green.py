"""``dlx replay`` from a log to its exit code: what it says of lost messages, and of logs that prove nothing."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.replay.logs import Log, death, definitions_of, died, write_log

Run = tuple[int, str]


def run(folder: Path, log: Log, definitions: Definitions, *options: str) -> list[str]:
    (folder / "definitions.json").write_bytes(definitions.to_json())
    trace = write_log(folder / "trace.log", log.records)
    return ["replay", str(trace), "--definitions", str(folder / "definitions.json"), *options]


def shop(exchange: str, ttl_ms: int | None = None) -> Definitions:
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 500}
    own = {} if ttl_ms is None else {"x-message-ttl": ttl_ms}
    queues = {"orders": {"x-dead-letter-exchange": exchange, **own}, "dead": {}, "wait": wait, "late": {}}
    return definitions_of(queues, {"orders.dlx": "fanout"}, [("orders.dlx", "dead", "")])


def and_one_that_is_seen_again(log: Log) -> Log:
    expired = died(death("wait", "expired", keys=["wait"]))
    log.publish("", "wait", message_id="other")
    return log.deliver("late", "", ["late"], message_id="other", headers=expired)


def test_three_messages_that_a_misspelt_exchange_may_have_lost(tmp_path: Path, capsys: Any) -> None:
    log = Log()
    for number in range(3):
        name = f"order {number}"
        log.publish("", "orders", message_id=name).deliver("orders", "", ["orders"], message_id=name)
    arguments = run(tmp_path, and_one_that_is_seen_again(log), shop("ordres.dlx"), "--out", str(tmp_path / "out"))
    assert main(arguments) == 0
    out = capsys.readouterr().out
    first, second = out.splitlines()[:2]
    assert first == "RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked."
    assert second == "  3 messages last delivered in 'orders': lost if consumers rejected them"
    assert "dead-letter exchange 'ordres.dlx' of queue 'orders' does not exist" in out
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert re.search(r'<section[^>]*class="open"', page)
    assert "<li>3 messages last delivered in &#x27;orders&#x27;: lost if consumers rejected them" in page
    told = unescape(re.sub(r"<[^>]*>", "", page))
    assert "3 last delivered in orders, whose dead-letter exchange 'ordres.dlx' does not exist" in told
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert (summary["lost"], summary["may_be_lost"], summary["unchecked"]) == (0, 3, {})


def test_three_messages_that_expired_into_nothing(tmp_path: Path, capsys: Any) -> None:
    log = Log()
    for number in range(3):
        log.publish("", "orders", message_id=f"order {number}")
    for number in range(6):
        log.publish("", "dead", message_id=f"later {number}")
    and_one_that_is_seen_again(log)
    assert main(run(tmp_path, log, shop("ordres.dlx", ttl_ms=5000), "--json")) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["agree"] == summary["deliveries"] == summary["dead_letters"] == 1
    assert (summary["lost"], summary["may_be_lost"]) == (3, 0)


def test_a_publish_that_went_elsewhere_is_told(tmp_path: Path, capsys: Any) -> None:
    """Every delivery is as predicted, and one publish came into no queue."""
    log = and_one_that_is_seen_again(Log()).publish("", "dead", message_id="last", routed=[])
    assert main(run(tmp_path, log, shop("orders.dlx"), "--out", str(tmp_path / "out"))) == 1
    out = capsys.readouterr().out
    assert out.startswith("1 publish went to other queues than RabbitMQ 4.3 routes them to with these definitions.")
    told = '1  routed_queues of the default exchange: expected ["dead"], seen []; publishes, first at trace.log:3'
    assert told in out
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert (summary["misrouted"], summary["agree"], summary["deliveries"]) == (1, 1, 1)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert re.search(r'<section[^>]*class="bad"', page)
    assert "routed_queues of the default exchange" in page


def test_a_log_in_which_nothing_died_proves_nothing(tmp_path: Path, capsys: Any) -> None:
    log = Log().publish("", "orders").deliver("orders", "", ["orders"])
    assert main(run(tmp_path, log, shop("orders.dlx"), "--require-deaths")) == 1
    told = capsys.readouterr()
    proves = "No delivery in this log shows that a message died: it proves nothing about dead letters."
    assert told.out.startswith(proves)
    assert "--require-deaths" in told.err


def test_times_that_are_off_by_little_propose_a_tolerance(tmp_path: Path, capsys: Any) -> None:
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 1900}
    log, definitions = and_one_that_is_seen_again(Log()), definitions_of({"wait": wait, "late": {}})
    assert main(run(tmp_path, log, definitions)) == 1
    out = capsys.readouterr().out
    assert out.startswith("1 delivery of 1 differs from what RabbitMQ 4.3 does with these definitions.")
    proposed = re.search("and --tolerance-ms ([0-9]+) allows for that, or a TTL of the definitions is wrong", out)
    assert proposed is not None
    assert main(run(tmp_path, log, definitions, "--tolerance-ms", proposed[1])) == 0
