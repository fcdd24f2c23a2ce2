"""What a report leads with: losses with counts, lives of messages, and the most serious differences."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.capture import convert
from simulator.definitions import read_definitions
from simulator.replay import Database, replay_files, summarize
from simulator.replay.report import ReportData, aggregate, page
from simulator.replay.report.data import DifferenceCause, Example, FieldDiffers, MessageLife, MessageStep
from simulator.replay.report.message_lives import ROWS_MAX, message_lives
from simulator.replay.results.summary import LostMessages
from simulator.replay.rows.tables import LocalTable
from tests.replay.logs import EXAMPLES, Log, definitions_of, write_log
from tests.replay.test_report import EVIL, SUMMARY, figures, report_data, visible_text


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """The report on the captured example of 4.3, under the rules of its own release."""
    work = tmp_path_factory.mktemp("captured")
    definitions = read_definitions(str(EXAMPLES / "captured-4.3" / "definitions.json"))
    with Database(work) as database:
        files = convert([EXAMPLES / "captured-4.3" / "trace.log.gz"], work / "log.parquet").files
        log = database.parquet([work / "log.parquet"])
        replayed = replay_files(log, definitions, "4.3", verdicts=work / "verdicts.parquet")
        return aggregate(replayed, definitions, "4.3", summarize(replayed, definitions), files, log)


def places(html: str, *texts: str) -> list[int]:
    return [html.index(text) for text in texts]


def test_losses_come_first_then_paths_and_pictures_then_agreement(captured: ReportData) -> None:
    html = page(captured)
    order = places(html, 'id="losses"', 'id="messages"', 'id="paths"', 'id="flows"', 'id="findings"', 'id="vanished"')
    assert order == sorted(order)
    told = visible_text(html)
    assert "19 lost in cycles.silent.b : it would return to" in told
    assert "25 last delivered in feeds.missing , whose dead-letter exchange '" in unescape(told)


def test_a_loss_leads_to_its_messages(captured: ReportData) -> None:
    html = page(captured)
    links = re.findall(r'href="#message=([^"]+)"', html.partition('id="losses"')[2].partition("</section>")[0])
    held = {each["message"]: each for each in figures(html)["messages"]}
    assert len(links) == 5 + 5 + 5 + 4 + 2 + 1 + 1
    assert {held[link]["ending"] for link in links} == {"lost", "may be lost"}


def test_all_messages_of_a_small_log_are_held(captured: ReportData) -> None:
    assert len(captured.messages) == captured.summary.messages == 1_123
    assert sum(each.ending == "lost" for each in captured.messages) == captured.summary.lost == 19
    assert sum(each.ending == "may be lost" for each in captured.messages) == captured.summary.may_be_lost
    assert len(msgspec.json.encode(captured.messages)) < 1_500_000


def test_a_life_joins_what_the_log_lacks_and_what_consumers_publish_again(captured: ReportData) -> None:
    lives = {each.message: [step.text for step in each.steps] for each in captured.messages}
    died = next(texts for texts in lives.values() if any("Died in 'orders.work' (rejected)" in each for each in texts))
    at = next(place for place, each in enumerate(died) if each.startswith("Died in 'orders.work'"))
    assert died[at] == "Died in 'orders.work' (rejected), and was dead-lettered to 'orders.wait'."
    assert died[0].startswith("Published to the")
    again = [texts for texts in lives.values() if any(each.startswith("Published again by a client") for each in texts)]
    assert again
    assert all(any(each.startswith("Published to") for each in texts[:-1]) for texts in again)


def test_a_page_says_how_many_of_the_messages_it_holds(captured: ReportData) -> None:
    told = visible_text(page(msgspec.structs.replace(captured, messages=captured.messages[:3])))
    assert "The page holds 3 messages of 1,123: first those lost or possibly lost" in told
    assert "dlx explain LOG --message ID" in told


def test_of_a_large_log_the_lost_messages_are_kept(tmp_path: Path) -> None:
    """Thirty times the captured log: more rows than a page holds."""
    definitions = read_definitions(str(EXAMPLES / "captured-4.3" / "definitions.json"))
    with Database(tmp_path) as database:
        convert([EXAMPLES / "captured-4.3" / "trace.log.gz"], tmp_path / "log.parquet")
        log = database.parquet([tmp_path / "log.parquet"])
        once = replay_files(log, definitions, "4.3", verdicts=tmp_path / "verdicts.parquet")
        copies = "SELECT one.* REPLACE (concat(one.message, '-', copy.range) AS message)"
        lives = message_lives(LocalTable(database, f"({copies} FROM {once} AS one, range(30) AS copy)"), None, 2**60)
    assert sum(len(each.steps) for each in lives) < 3 * ROWS_MAX
    assert [bool(each.ending) for each in lives[:400]] == [True] * 400
    assert len(msgspec.json.encode(lives)) < 3_000_000


def test_a_message_that_is_lost_where_it_was_published_ends_there(tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", Log().publish("", "codes", message_id="one").records)
    with Database(tmp_path) as database:
        convert([log], tmp_path / "log.parquet")
        captured = database.parquet([tmp_path / "log.parquet"])
        definitions = definitions_of({"codes": {"x-message-ttl": 500, "x-dead-letter-exchange": "ordres.dlx"}})
        replayed = replay_files(captured, definitions, "4.3", verdicts=tmp_path / "verdicts.parquet")
        (life,) = message_lives(replayed, captured, 2**60)
    assert life.ending == "lost"
    assert [step.text.partition(":")[0] for step in life.steps[1:]] == ["Lost in 'codes' (expired)"]


def test_texts_of_messages_are_text() -> None:
    life = MessageLife(EVIL, EVIL, (MessageStep(1, "start", EVIL, EVIL),), "lost", EVIL)
    lost = LostMessages(vhost=EVIL, queue=EVIL, why=EVIL, lost=1, may_be_lost=1, file=EVIL, line=1)
    html = page(report_data(messages=(life,), lost=(lost,), summary=msgspec.structs.replace(SUMMARY, lost=1)))
    assert "<script>alert" not in html
    assert html.count("<script") == page(report_data()).count("<script")
    assert json.loads(json.dumps(figures(html)))["messages"][0]["message"] == EVIL


def differs(field: str, behaviour: str, expected: str = '"a"', seen: str = '"b"') -> FieldDiffers:
    return FieldDiffers(field, (behaviour,), 1, expected, seen, Example("/", "q", "m", "trace.log", 1))


def test_the_most_serious_differences_come_first() -> None:
    """Another release: what went elsewhere, then counts, then other values, then headers more or less."""
    found: dict[str, Any] = {
        "last_death_headers": differs("x-last-death-queue", "last_death_headers", "absent"),
        "death_order": differs("x-death order", "death_order"),
        "client_deaths_continued": differs("x-death[0].count", "client_deaths_continued"),
        "death_routing_keys": differs("routing_keys[0]", "death_routing_keys"),
    }
    causes = tuple(DifferenceCause((name,), 1_000 - place) for place, name in enumerate(found))
    summary = msgspec.structs.replace(SUMMARY, agree=4_000, differ=1_000)
    html = page(report_data(summary=summary, differences=tuple(found.values()), causes=causes))
    agreement = html.partition('id="findings"')[2]
    order = places(agreement, *(f'href="#behaviour-{name}"' for name in reversed(found)))
    assert order[0] < order[1] < order[2] < order[3]
    titles = places(agreement, "Lost, or elsewhere", "Counts and histories", "Other values", "Headers added or missing")
    assert titles == sorted(titles)
