"""Where the simulator is known to differ from a recording. A difference that is gone must leave this list."""

from __future__ import annotations

from typing import NamedTuple

from tests.real_servers import LIVE


class Known(NamedTuple):
    """Steps of a case that differ on these releases, and why, in a sentence."""

    file: str
    case: str
    steps: tuple[int, ...]
    why: str
    releases: tuple[str, ...] = LIVE


KNOWN: tuple[Known, ...] = (
    Known(
        "delayed",
        "x-delay value: L 400",
        (6,),
        "The simulator reads the type L, which servers take for l, and delivers it as l.",
        ("3.8", "3.10"),
    ),
    Known(
        "delayed",
        "x-delay value: b 100",
        (5,),
        "The busy server answered the management API when the 100 ms were over.",
        ("3.10",),
    ),
    *(
        Known("delayed", case, (step,), "The server had not gathered numbers of the queue yet.", ("3.10", "4.0", "4.3"))
        for case, step in (
            ("DLX: quorum source, at-least-once, no x-delay", 8),
            ("DLX: at-least-once into a fanout with a queue and delayed", 13),
        )
    ),
    Known(
        "delayed",
        "restart: messages delayed over a restart of the server (2)",
        (1,),
        "The simulator goes on from a snapshot, in which transient exchanges are kept.",
        ("3.8", "3.10", "4.0"),
    ),
    Known(
        "consistent-hash",
        "DLX: hash-header on death headers, several source queues",
        (22,),
        "Queues whose messages expire together dead-letter in an order that chance decides.",
        ("4.0",),
    ),
    Known(
        "random",
        "x-random: as DLX, cycle possible but another queue bound too",
        (8,),
        "Chance decides how many messages are drawn for the queue that they must not return to.",
        ("3.8", "3.10", "4.0"),
    ),
    Known(
        "recent-history",
        "bind after publishing: default length",
        (28,),
        "The server took 690 ms to publish 25 messages, the simulator takes no time.",
        ("4.3",),
    ),
    Known(
        "event-exchange",
        "events of a dead-letter round",
        (18,),
        "The simulator has the exchange, but publishes no events to it.",
    ),
    Known(
        "federation",
        "exchange federation: a message through, dead-lettered before and after",
        (8, 9, 10, 15, 16, 17, 18),
        "The simulator does not federate: it knows only the exchange type of the plugin.",
    ),
    Known(
        "federation",
        "queue federation: a message through, dead-lettered before and after",
        (6, 7),
        "The simulator does not federate: it knows only the exchange type of the plugin.",
    ),
    Known(
        "types",
        "plugins enabled",
        (45,),
        "The server was asked before the shovel had connected; in the simulator that takes no time.",
    ),
    Known(
        "shovel",
        "vhost deleted with a shovel in it, made again",
        (8,),
        "A worker outlives its virtual host, and declares its queues in the next of that name; a simulated one ends.",
        ("3.8", "3.10", "4.0"),
    ),
)


def known(file: str, release: str) -> dict[tuple[str, int], str]:
    """Return why, by case and step."""
    rows = (row for row in KNOWN if row.file == file and release in row.releases)
    return {(row.case, step): row.why for row in rows for step in row.steps}
