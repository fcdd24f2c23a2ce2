"""The report of a replay: totals, groups of queues, escaping, and what it says about losses."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from dlx.releases import release
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.capture import FileReport, convert
from simulator.pictures.curves import label_place, overlap, segments
from simulator.pictures.layout import layered
from simulator.replay.report import ReportData, groups, page
from simulator.replay.report.aggregation import BUCKETS_MAX, bucket
from simulator.replay.report.data import (
    Ambiguous,
    DeadLetterFlow,
    DeathPath,
    Deaths,
    DifferenceCause,
    Example,
    FieldDiffers,
    Published,
    QueueDeliveries,
    Unexplained,
)
from simulator.replay.report.grouping import arrows
from simulator.replay.report.pictures import deaths_picture, flow_picture, paths_picture
from simulator.replay.results.summary import LostMessages, Summary, UncheckedFinding, summarize
from simulator.replay.search.losses import LossyQueue, find_losses
from tests.replay.logs import EXAMPLES, example_definitions

SUMMARY = Summary(
    messages=1_234, deliveries=5_000, dead_letters=321, agree=5_000, differ=0, ambiguous=0, unexplained=0,
    broken_lines=0,
)  # fmt: skip
EVIL = "</script><script>alert('&')</script>"


def report_data(**changes: Any) -> ReportData:
    """A retry loop: work rejected -> retry -> wait expired -> work, and one queue apart."""
    data = ReportData(
        rules="4.3",
        captured_on="4.3.6",
        definitions="definitions.json",
        summary=SUMMARY,
        files=(FileReport(file="trace.log", rows=6_234, broken=0),),
        span_us=(1_700_000_000_000_000, 1_700_000_060_000_000),
        publishes=(Published("/", "shop", "shop.work", 100), Published("/", "", "plain", 7)),
        dead_letters=(
            DeadLetterFlow("/", "shop.work", "rejected", "shop.retry", "shop.wait", 60, 60),
            DeadLetterFlow("/", "shop.wait", "expired", "", "shop.work", 60, 60),
        ),
        deliveries=(QueueDeliveries("/", "shop.work", 160, 0),),
        bucket_us=1_000_000,
        deaths=(Deaths(1_700_000_000_000_000, "/", "shop.work", "rejected", 60),),
        paths=(DeathPath("/", (("shop.work", "rejected"), ("shop.wait", "expired")), "shop.work", 60, 40),),
        differences=(),
        causes=(),
        unexplained=(),
        ambiguous=(),
        losses=(),
    )
    return msgspec.structs.replace(data, **changes)


def visible_text(html: str) -> str:
    """What a reader sees: the page without scripts, styles and tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def figures(html: str) -> Any:
    return json.loads(unpacked(html, "figures"))


def unpacked(html: str, name: str) -> str:
    """What the page holds compressed."""
    found = re.search(f'<script type="text/plain" id="{name}">(.*?)</script>', html)
    assert found is not None
    digits = [ord(each) - (34 if each > "<" else 33) for each in found[1]]
    pairs = zip(digits[::2], digits[1::2], strict=False)
    bits = "".join(f"{one * 93 + other:013b}" for one, other in pairs) + (
        f"{digits[-1]:06b}" if len(digits) % 2 else ""
    )
    size = len(bits) // 8
    return zlib.decompress(int(bits[: 8 * size], 2).to_bytes(size)).decode()


def drawn_text(figure: Any) -> str:
    return " | ".join(annotation["text"] for annotation in figure["layout"]["annotations"])


# -- the page ---------------------------------------------------------------------


def test_headline_says_that_everything_agrees() -> None:
    text = visible_text(page(report_data()))
    assert "RabbitMQ delivered everything as the rules of 4.3 predict" in text
    assert "100 %" in text
    for count in ("1,234 messages", "5,000 deliveries observed", "321 dead letters reconstructed"):
        assert count in text


def test_what_is_unchecked_or_lost_is_told_and_the_headline_is_not_green() -> None:
    assert '<section id="verdict" class="good">' in page(report_data())
    unchecked = UncheckedFinding(what="max-length", name="shop.work", why="max-length 9", count=4, file="t.log", line=7)
    lost = LostMessages(vhost="/", queue="shop.dead", why="no such exchange", lost=3, may_be_lost=2, file="", line=1)
    summary = msgspec.structs.replace(SUMMARY, unchecked={"max-length": 4}, lost=3, may_be_lost=2)
    html = page(report_data(summary=summary, unchecked=(unchecked,), lost=(lost,)))
    assert '<section id="verdict" class="bad">' in html
    text = visible_text(html)
    assert "3 messages were lost: their dead letters reached no queue" in text
    assert "3 lost in shop.dead : no such exchange." in text
    assert "2 not seen again , lost if they died in shop.dead : no such exchange." in text
    assert "max-length shop.work max-length 9 t.log:7 4" in text


def test_share_is_never_rounded_up_to_all() -> None:
    summary = msgspec.structs.replace(SUMMARY, deliveries=10**6, agree=10**6 - 1, differ=1)
    text = visible_text(page(report_data(summary=summary, causes=(DifferenceCause((), 1),))))
    assert "99.99 %" in text
    assert "1 delivery of 1,000,000 differs from what RabbitMQ 4.3 does with these definitions" in text


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = page(report_data())
    assert "default-src 'none'" in html
    assert not re.search(r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=""", html)
    assert "plotly.js v" in unpacked(html, "plotly")


def test_difference_links_to_its_row_of_the_release_table() -> None:
    example = Example("/", "shop.work", "m-17", "trace.log", 421)
    difference = FieldDiffers("x-death order", ("death_order",), 12, '"newest"', "absent", example)
    summary = msgspec.structs.replace(SUMMARY, agree=4_988, differ=12)
    causes = (DifferenceCause(("death_order",), 12),)
    html = page(report_data(summary=summary, captured_on="3.10.8", differences=(difference,), causes=causes))
    assert 'href="#behaviour-death_order"' in html
    assert 'id="behaviour-death_order"' in html
    text = visible_text(html)
    assert "of deliveries agree. The release table explains all that are not as predicted." in text
    assert "RabbitMQ 3.10.8 wrote the log, and the rules of 4.3 made the predictions." in text
    assert "trace.log:421 , message m-17, queue shop.work" in text
    assert "expected &quot;newest&quot; seen absent" in text


def test_unexplained_and_ambiguous_are_shown_with_an_example() -> None:
    example = Example("/", "shop.work", "m-1", "trace.log", 9)
    text = visible_text(
        page(
            report_data(
                summary=msgspec.structs.replace(SUMMARY, agree=4_996, unexplained=3, ambiguous=1),
                unexplained=(Unexplained("no publish of this message", 3, example),),
                ambiguous=(Ambiguous(("a rejected", "b expired"), 1, example),),
            )
        )
    )
    assert "no publish of this message trace.log:9" in text
    assert "a rejected or b expired" in text
    assert "The release table does not explain 3 that are not as predicted." in text


def test_unexplained_deliveries_may_have_a_cause_too() -> None:
    example = Example("/", "shop.work", "m-1", "trace.log", 9)
    summary = msgspec.structs.replace(SUMMARY, agree=4_997, unexplained=3)
    found = Unexplained("no path that the rules allow", 3, example, ("death_order",))
    html = page(report_data(summary=summary, captured_on="3.10.8", unexplained=(found,)))
    assert 'href="#behaviour-death_order"' in html
    assert 'id="behaviour-death_order"' in html
    assert "The release table explains all that are not as predicted." in visible_text(html)


def test_names_are_text_everywhere() -> None:
    data = report_data(
        definitions=EVIL,
        files=(FileReport(file=EVIL, rows=1, broken=0),),
        publishes=(Published(EVIL, EVIL, EVIL, 3), Published(EVIL, EVIL, None, 2)),
        dead_letters=(DeadLetterFlow(EVIL, EVIL, EVIL, EVIL, EVIL + "2", 3, 3),),
        deliveries=(QueueDeliveries("/", EVIL, 3, 1),),
        deaths=(Deaths(1_700_000_000_000_000, EVIL, EVIL, EVIL, 3),),
        paths=(DeathPath(EVIL, ((EVIL, EVIL),), EVIL, 3, 3),),
        differences=(FieldDiffers(EVIL, (EVIL,), 1, EVIL, EVIL, Example(EVIL, EVIL, EVIL, EVIL, 1)),),
        causes=(DifferenceCause((EVIL,), 1),),
        unexplained=(Unexplained(EVIL, 1, Example(EVIL, EVIL, EVIL, EVIL, 1)),),
        ambiguous=(Ambiguous((EVIL,), 1, Example(EVIL, EVIL, EVIL, EVIL, 1)),),
        losses=(LossyQueue(EVIL, EVIL, (EVIL,), EVIL),),
    )
    html = page(data)
    assert "<script>alert" not in html
    assert html.count("<script") == page(report_data()).count("<script")
    assert "&lt;/script&gt;&lt;script&gt;alert" in html
    for flow in figures(html)["flows"]:
        assert "<script" not in drawn_text(flow["figure"])


def test_same_data_makes_the_same_page() -> None:
    assert page(report_data()) == page(report_data())


def test_empty_log_makes_a_page() -> None:
    counts: dict[str, Any] = dict.fromkeys(Summary.__struct_fields__, 0)
    nothing = Summary(
        **counts
        | {
            "unchecked": {},
            "left_out": {},
            "overfull": (),
            "unfilled": (),
            "late": (),
            "holding": (),
            "bound_later": (),
        }
    )
    empty = report_data(
        summary=nothing, span_us=None, publishes=(), dead_letters=(), deliveries=(), deaths=(), paths=()
    )
    assert "No dead letters in this log." in visible_text(page(empty))
    assert "The log has no delivery: it proves nothing" in visible_text(page(empty))
    assert "100 %" not in visible_text(page(empty))


# -- groups and pictures ----------------------------------------------------------


def test_queues_that_dead_letters_connect_are_one_group() -> None:
    found = groups(report_data())
    assert [(group.name, list(group.queues)) for group in found] == [
        ("shop", ["shop.wait", "shop.work"]),
        ("plain", ["plain"]),
    ]


def test_what_came_in_and_never_showed_again_is_counted() -> None:
    (shop, plain) = groups(report_data())
    assert shop.unseen_count == 0
    assert plain.queues["plain"].unseen == 7
    text = visible_text(page(report_data()))
    assert "at least 7 not seen again" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"publishes": None},
        {"cut": frozenset({"dead_letters"})},
        {"summary": msgspec.structs.replace(SUMMARY, agree=4_993, unexplained=7)},
    ],
    ids=["publishes unknown", "dead letters cut", "as many unexplained"],
)
def test_nothing_is_said_to_be_gone_where_counts_do_not_show_it(changes: dict[str, Any]) -> None:
    assert "not seen again" not in visible_text(page(report_data(**changes)))


def test_queue_shared_by_many_stands_at_the_edge_of_each_group() -> None:
    names = [f"{letter}.work" for letter in "abcdefghijklmnopqrst"]
    data = report_data(
        publishes=None,
        dead_letters=tuple(DeadLetterFlow("/", name, "rejected", "dlx", "graveyard", 5, 5) for name in names),
        deliveries=(QueueDeliveries("/", "graveyard", 100, 0),),
    )
    found = groups(data)
    assert max(len(group.queues) for group in found) <= 12
    assert sorted(queue for group in found for queue in group.queues) == sorted([*names, "graveyard"])
    own = next(group for group in found if "graveyard" in group.queues)
    others = [group for group in found if group is not own]
    assert all("graveyard" in group.beyond for group in others)
    assert sum(kind.count for kind in own.arriving) == sum(group.dead_letter_count for group in others)


def test_picture_shows_queues_exchanges_counts_and_reasons() -> None:
    (shop, _) = groups(report_data())
    text = drawn_text(json.loads(flow_picture(shop).to_json()))
    for part in ("<b>shop.work</b>", "160 delivered", "<b>shop.retry</b>", "rejected 60", "expired 60"):
        assert part in text


def test_picture_of_many_arrows_keeps_the_largest_dead_letters() -> None:
    data = report_data(
        publishes=tuple(Published("/", f"x{n}", "shop.a", 1_000 + n) for n in range(50)),
        dead_letters=tuple(DeadLetterFlow("/", "shop.a", f"reason{n:02}", "", "shop.b", n, n) for n in range(80)),
    )
    group = groups(data)[0]
    assert len(arrows(group)) == 130
    text = drawn_text(json.loads(flow_picture(group).to_json()))
    assert "reason79" in text
    assert "reason19 " not in text
    caption = figures(page(data))["flows"][0]["caption"]
    assert caption.startswith("The picture shows 60 of 130 arrows")


def test_pictures_need_no_dead_letters() -> None:
    empty = report_data(dead_letters=(), deaths=(), paths=())
    assert deaths_picture(empty).to_json() == deaths_picture(empty).to_json()
    assert paths_picture(empty).to_json() == paths_picture(empty).to_json()


@pytest.mark.parametrize("length_us", [0, 999, 5_000_000, 3_600_000_000, 86_400_000_000 * 365])
def test_time_is_divided_into_a_readable_number_of_intervals(length_us: int) -> None:
    size = bucket((1_700_000_000_000_000, 1_700_000_000_000_000 + length_us))
    assert length_us // size < BUCKETS_MAX


# -- layout -----------------------------------------------------------------------


def test_boxes_do_not_overlap_and_flow_goes_down() -> None:
    names = [f"n{n}" for n in range(12)]
    links = [("n0", f"n{n}") for n in range(1, 7)] + [(f"n{n}", "n7") for n in range(1, 7)]
    links += [("n0", "n7"), ("n7", "n8"), ("n8", "n1"), ("n9", "n9"), ("n10", "n11")]
    plan = layered(dict.fromkeys(names, (120.0, 40.0)), links)
    boxes = {name: (x - 60, y - 20, x + 60, y + 20) for name, (x, y) in plan.centres.items()}
    assert not any(overlap(boxes[a], boxes[b]) for a in names for b in names if a < b)
    for (source, target), route in zip(links, plan.routes, strict=True):
        assert route.back == ((source, target) in [("n8", "n1"), ("n9", "n9")])
        if not route.back:
            assert plan.centres[source][1] < plan.centres[target][1]
    for left, top, right, bottom in boxes.values():
        assert -1 <= left < right <= plan.width + 1
        assert -1 <= top < bottom <= plan.height + 1


def test_labels_avoid_what_is_taken() -> None:
    plan = layered({"a": (100.0, 40.0), "b": (100.0, 40.0)}, [("a", "b")])
    curves = segments(plan.routes[0])
    first = label_place(curves, 60, 16, [])
    taken = (first[0] - 30, first[1] - 8, first[0] + 30, first[1] + 8)
    x, y = label_place(curves, 60, 16, [taken])
    assert not overlap((x - 30, y - 8, x + 30, y + 8), taken)


# -- losses -----------------------------------------------------------------------


def queue(name: str, **arguments: Any) -> Queue:
    return Queue(name=name, arguments={"x-" + key.replace("_", "-"): each for key, each in arguments.items()})


def losses(*queues: Queue, bindings: tuple[Binding, ...] = ()) -> dict[str, str]:
    topology = Topology.of(queues=queues, exchanges=[Exchange(name="dlx")], bindings=bindings)
    return {loss.queue: loss.why for loss in find_losses({"/": topology}, release("4.3"))}


def test_losing_settings_are_found() -> None:
    found = losses(
        queue("fine", dead_letter_exchange="", dead_letter_routing_key="end"),
        queue("end"),
        queue("dropping", message_ttl=1000),
        queue("misspelt", dead_letter_exchange="dlxx"),
        queue("unbound", dead_letter_exchange="dlx"),
        queue("nowhere", dead_letter_exchange="", dead_letter_routing_key="nobody"),
        queue("round", dead_letter_exchange="", dead_letter_routing_key="about", message_ttl=1),
        queue("about", dead_letter_exchange="", dead_letter_routing_key="round", message_ttl=1),
    )
    gone = "dead letters are lost"
    assert found == {
        "dropping": "no dead-letter exchange: dead messages are dropped",
        "misspelt": f"dead-letter exchange 'dlxx' does not exist: {gone}",
        "unbound": f"dead-letter exchange 'dlx' has no bindings: {gone}",
        "nowhere": f"dead-letter routing key 'nobody' names no queue of the definitions: {gone}",
        "round": "automatic cycle round → about → round: the copy that closes it is dropped",
        "about": "automatic cycle about → round → about: the copy that closes it is dropped",
    }


def test_what_keys_decide_is_no_loss() -> None:
    bound = Binding(source="dlx", destination="end", routing_key="other")
    assert losses(queue("work", dead_letter_exchange="dlx"), queue("end"), bindings=(bound,)) == {}


def test_cycle_that_a_rejection_breaks_is_no_loss() -> None:
    found = losses(
        queue("work", dead_letter_exchange="", dead_letter_routing_key="wait"),
        queue("wait", dead_letter_exchange="", dead_letter_routing_key="work", message_ttl=1),
    )
    assert found == {}


# -- with Spark -------------------------------------------------------------------


class Replayed(NamedTuple):
    """Captured rows, and the report of their replay under the rules of a release."""

    data: ReportData
    again: ReportData


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, bool], Replayed]]:
    """Replays the captured example of 4.3."""
    from simulator.replay import replay, spark_session
    from simulator.replay.report import aggregate

    folder = tmp_path_factory.mktemp("captured")
    definitions = example_definitions("4.3")
    files = convert([EXAMPLES / "captured-4.3" / "trace.log.gz"], folder / "captured.parquet").files
    spark = spark_session("local[1]")
    rows = spark.read.parquet(str(folder / "captured.parquet"))

    def run(rules: str, with_captured: bool) -> Replayed:
        replay(rows, definitions, rules).write.parquet(str(folder / rules))
        replayed = spark.read.parquet(str(folder / rules))
        summary = summarize(replayed, definitions)
        given = rows if with_captured else None
        data = aggregate(replayed, definitions, rules, summary, files, given)
        mixed = replayed.repartition(7, "line")
        return Replayed(data, aggregate(mixed, definitions, rules, summary, files, given))

    yield run
    spark.stop()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_report_of_a_captured_log(captured: Callable[[str, bool], Replayed]) -> None:
    data, again = captured("4.3", True)
    summary = data.summary
    assert summary.agree == summary.deliveries == 2_928
    assert sum(kind.deaths for kind in data.dead_letters) == summary.dead_letters
    assert sum(deaths.count for deaths in data.deaths) == summary.dead_letters
    assert sum(delivered.count for delivered in data.deliveries) == summary.deliveries
    retries = data.paths[0]
    assert retries.deaths == (("orders.work", "rejected"), ("orders.wait", "expired"))
    assert (retries.queue, retries.deliveries, retries.messages) == ("orders.work", 166, 62)
    assert {loss.queue for loss in data.losses} >= {"feeds.missing", "feeds.plain", "feeds.unbound"}
    gone = {name: each.unseen for group in groups(data) for name, each in group.queues.items() if each.unseen}
    assert gone == {"cycles.silent.a": 19, "feeds.plain": 25}

    # As many as the picture has left over where a loop of expiries is cut: 19 messages.
    assert (summary.lost, summary.may_be_lost) == (19, 58)
    lost = {each.queue: (each.lost, each.may_be_lost) for each in data.lost}
    assert (lost["cycles.silent.b"], lost["feeds.missing"]) == ((19, 0), (0, 25))
    assert set(summary.unchecked) == {"delivery-count", "message-ttl", "routing"}

    html = page(data)
    assert html == page(again)
    text = visible_text(html)
    assert "19 messages were lost: their dead letters reached no queue" in text
    assert "2,928 deliveries observed" in text
    assert "trace.log.gz against definitions.json of RabbitMQ 4.3.6" in text


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_report_under_another_release_names_the_causes(captured: Callable[[str, bool], Replayed]) -> None:
    data, again = captured("3.8", False)
    assert data.publishes is None
    assert ("last_death_headers",) in {cause.behaviours for cause in data.causes}
    assert sum(each.count for each in data.unexplained) == data.summary.unexplained > 0
    html = page(data)
    assert html == page(again)
    assert 'id="behaviour-last_death_headers"' in html
