"""What is inferred between the rows of one message, and what definitions rule out."""

from __future__ import annotations

from tests.replay.logs import Log, death, definitions_of, died

LADDER = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {
            "x-message-ttl": 100,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "work",
        },
    }
)


def lap(number: int) -> dict[str, object]:
    """The headers in ``work`` after that many laps."""
    return died(
        death("wait", "expired", count=number, keys=["wait"]),
        death("work", "rejected", count=number, keys=["work"]),
    )


def verdicts(rows):
    return [row["verdict"] for row in rows]


def reasons(row):
    return [(hop["queue"], hop["reason"]) for hop in row["hops"]]


def test_the_hops_of_a_retry_ladder_are_reconstructed(tmp_path):
    log = Log().publish("", "work").deliver("work", "", ["work"])
    log.deliver("work", "", ["work"], headers=lap(1)).deliver("work", "", ["work"], headers=lap(2))
    rows = log.replay(tmp_path, LADDER)
    assert verdicts(rows) == ["agree"] * 3
    assert [reasons(row) for row in rows] == [
        [],
        [("work", "rejected"), ("wait", "expired")],
        [("work", "rejected"), ("wait", "expired")],
    ]
    assert [row["new_hops"] for row in rows] == [0, 2, 2]


def test_a_rejection_without_a_delivery_before_it_means_that_the_log_lacks_that(tmp_path):
    (row,) = Log().publish("", "work").deliver("work", "", ["work"], headers=lap(1)).replay(tmp_path, LADDER)
    assert (row["verdict"], reasons(row)) == ("agree", [("work", "rejected"), ("wait", "expired")])
    assert [each["what"] for each in row["unchecked"]] == ["rejection"]


def test_no_expiry_without_a_ttl(tmp_path):
    no_ttl = definitions_of(
        {
            "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
            "wait": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
        }
    )
    log = Log().publish("", "work").deliver("work", "", ["work"])
    rows = log.deliver("work", "", ["work"], headers=lap(1)).replay(tmp_path, no_ttl)
    assert verdicts(rows) == ["agree", "unexplained"]
    assert rows[1]["why"] == "expired in 'wait': neither the queue nor the message has a TTL"


def test_an_expiration_of_the_message_is_a_ttl(tmp_path):
    plain = definitions_of({"inbox": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}, "late": {}})
    entry = {"original-expiration": "50", **death("inbox", "expired", keys=["inbox"])}
    log = Log().publish("", "inbox", expiration="50").deliver("late", "", ["late"], headers=died(entry))
    (row,) = log.replay(tmp_path, plain)
    assert row["verdict"] == "agree"
    assert reasons(row) == [("inbox", "expired")]


def test_a_forged_death_that_the_broker_forgets_rules_no_path_out(tmp_path):
    """From 4.0 on, what a client wrote into ``x-death`` goes with the first death, and the same key may die again."""
    plain = definitions_of({"inbox": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}, "late": {}})
    forged = {"x-death": [death("inbox", "expired", keys=["elsewhere"])]}
    entry = {"original-expiration": "50", **death("inbox", "expired", keys=["inbox"])}
    log = Log().publish("", "inbox", expiration="50", headers=forged)
    (row,) = log.deliver("late", "", ["late"], headers=died(entry)).replay(tmp_path, plain)
    assert row["verdict"] == "agree"
    assert reasons(row) == [("inbox", "expired")]


HEADERS_OF_3_12 = ("x-death", "x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")


def test_3_12_may_have_forgotten_the_expiration_of_what_it_dead_letters(tmp_path):
    """A classic queue does so with what arrived behind another message, which a log need not show."""
    plain = definitions_of({"inbox": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}, "late": {}})
    expired = death("inbox", "expired", keys=["inbox"])
    log = Log()
    for entry in (expired, {**expired, "original-expiration": "50"}):
        headers = {name: value for name, value in died(entry).items() if name in HEADERS_OF_3_12}
        log.publish("", "inbox", expiration="50").deliver("late", "", ["late"], headers=headers)
    assert verdicts(log.replay(tmp_path, plain, "3.12")) == ["agree", "agree"]
    assert verdicts(log.replay(tmp_path, plain, "3.11")) == ["differ", "agree"]


def test_no_length_drop_without_a_limit(tmp_path):
    queues = {"inbox": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}, "late": {}}
    headers = died(death("inbox", "maxlen", keys=["inbox"]))
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=headers)
    (row,) = log.replay(tmp_path, definitions_of(queues))
    assert (row["verdict"], row["why"]) == ("unexplained", "maxlen in 'inbox': the queue has no length limit")
    queues["inbox"]["x-max-length"] = 1
    (row,) = log.replay(tmp_path, definitions_of(queues))
    assert row["verdict"] == "agree"


FAN = definitions_of(
    {
        "inbox": {"x-dead-letter-exchange": "dead"},
        "audit": {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "archive"},
        "repair": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "archive"},
        "archive": {},
    },
    {"dead": "fanout"},
    [("dead", "audit", ""), ("dead", "repair", "")],
)


def test_each_copy_of_a_fanout_has_its_own_line_of_descent(tmp_path):
    rejected = death("inbox", "rejected", keys=["inbox"])
    repaired = died(death("repair", "rejected", exchange="dead", keys=["inbox"]), rejected)
    audited = died(death("audit", "expired", exchange="dead", keys=["inbox"]), rejected)
    log = Log().publish("", "inbox").deliver("inbox", "", ["inbox"])
    log.deliver("repair", "dead", ["inbox"], headers=died(rejected))
    # The copy in audit expired unseen; its ancestor is the delivery from inbox, two rows up.
    log.deliver("archive", "", ["archive"], headers=audited)
    log.deliver("archive", "", ["archive"], headers=repaired)
    rows = log.replay(tmp_path, FAN)
    assert verdicts(rows) == ["agree"] * 4
    assert [reasons(row) for row in rows[1:]] == [
        [("inbox", "rejected")],
        [("inbox", "rejected"), ("audit", "expired")],
        [("repair", "rejected")],
    ]
    assert sum(row["new_hops"] for row in rows) == 4, "two copies of one dead letter, and a death of each"
    assert sum(row["new_deaths"] for row in rows) == 3


def test_x_death_tells_two_ways_apart(tmp_path):
    definitions = definitions_of(
        {
            "a": {"x-message-ttl": 10, "x-dead-letter-exchange": "x"},
            "b": {"x-message-ttl": 10, "x-dead-letter-exchange": "x"},
            "out": {},
        },
        {"in": "fanout", "x": "fanout"},
        [("in", "a", ""), ("x", "b", ""), ("x", "a", ""), ("x", "out", ""), ("in", "out", "")],
    )
    headers = died(death("b", "expired", exchange="x", keys=["k"]), death("a", "expired", exchange="in", keys=["k"]))
    (row,) = Log().publish("in", "k").deliver("out", "x", ["k"], headers=headers).replay(tmp_path, definitions)
    assert row["verdict"] == "agree", "order and exchanges of x-death leave one way only"
    assert reasons(row) == [("a", "expired"), ("b", "expired")]


def test_ambiguous_lists_every_hop_sequence(tmp_path):
    # Two of the three laps were not traced; they went through short, and once through long.
    back = {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    definitions = definitions_of(
        {"work": {"x-dead-letter-exchange": "retry"}, "short": back, "long": back},
        {"retry": "fanout"},
        [("retry", "short", ""), ("retry", "long", "")],
    )
    headers = died(
        death("short", "expired", count=2, exchange="retry", keys=["work"]),
        death("work", "rejected", count=3, keys=["work"]),
        death("long", "expired", exchange="retry", keys=["work"]),
        first=death("work", "rejected", keys=["work"]),
    )
    log = Log().publish("", "work").deliver("work", "", ["work"])
    rows = log.deliver("work", "", ["work"], headers=headers).replay(tmp_path, definitions)
    assert verdicts(rows) == ["agree", "ambiguous"]
    lap_short, lap_long = "work rejected -> short expired", "work rejected -> long expired"
    assert sorted(rows[1]["alternatives"]) == [
        " -> ".join((lap_long, lap_short, lap_short)),
        " -> ".join((lap_short, lap_long, lap_short)),
    ]


def test_a_queue_that_the_definitions_lack_is_said(tmp_path):
    log = Log().publish("", "amq.gen-1").deliver("amq.gen-1", "", ["amq.gen-1"])
    log.publish("", "work", message_id="m2").deliver("work", "", ["work"], message_id="m2")
    rows = log.replay(tmp_path, LADDER)
    assert verdicts(rows) == ["agree", "agree"]
    (unchecked,) = rows[0]["unchecked"]
    assert (unchecked["what"], unchecked["name"]) == ("queue", "amq.gen-1")
    assert "exports omit exclusive queues" in unchecked["why"]
    assert rows[1]["unchecked"] == []


def test_a_log_that_begins_mid_stream(tmp_path):
    log = Log().deliver("work", "", ["work"], headers=lap(1)).deliver("work", "", ["work"], headers=lap(2))
    rows = log.replay(tmp_path, LADDER)
    assert verdicts(rows) == ["agree", "agree"]
    assert [each["what"] for each in rows[0]["unchecked"]] == ["publish"]
    assert "publish" not in [each["what"] for each in rows[1]["unchecked"]], "it is explained from what was seen"


def test_equal_messages_without_an_id_are_counted_one_by_one(tmp_path):
    plain = definitions_of(
        {
            "inbox": {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"},
            "late": {},
        }
    )
    log = Log()
    for _ in range(3):
        log.publish("", "inbox", message_id=None)
    for _ in range(3):
        log.deliver("late", "", ["late"], message_id=None, headers=died(death("inbox", "expired", keys=["inbox"])))
    rows = log.replay(tmp_path, plain)
    assert verdicts(rows) == ["agree"] * 3
    assert [row["new_hops"] for row in rows] == [1, 1, 1]


def test_a_redelivery_is_no_new_death(tmp_path):
    parked = definitions_of(
        {"work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"}, "parking": {}}
    )
    dead = died(death("work", "rejected", keys=["work"]))
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    for _ in range(3):
        log.deliver("parking", "", ["parking"], headers=dead)
    rows = log.replay(tmp_path, parked)
    assert verdicts(rows) == ["agree"] * 5
    assert [row["new_hops"] for row in rows] == [0, 0, 1, 0, 0]


def test_a_difference_does_not_repeat_itself(tmp_path):
    forged = died(death("wait", "expired", count=5, keys=["wait"]), death("work", "rejected", count=1, keys=["work"]))
    after = died(death("wait", "expired", count=6, keys=["wait"]), death("work", "rejected", count=2, keys=["work"]))
    log = Log().publish("", "work").deliver("work", "", ["work"])
    log.deliver("work", "", ["work"], headers=forged).deliver("work", "", ["work"], headers=after)
    rows = log.replay(tmp_path, LADDER)
    assert verdicts(rows) == ["agree", "differ", "agree"]
    (difference,) = rows[1]["differences"]
    assert (difference["field"], difference["expected"], difference["seen"]) == ("x-death[0].count", "1", "5")


def test_the_cycle_rule_rules_a_path_out(tmp_path):
    loop = definitions_of(
        {
            "a": {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"},
            "b": {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"},
        }
    )
    headers = died(death("b", "expired", keys=["b"]), death("a", "expired", keys=["a"]))
    (row,) = Log().publish("", "a").deliver("a", "", ["a"], headers=headers).replay(tmp_path, loop)
    assert row["verdict"] == "unexplained"
    assert row["why"] == "expired in 'b': the cycle rule drops a message that would return to 'a'"
