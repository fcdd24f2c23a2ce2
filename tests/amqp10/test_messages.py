"""Messages between AMQP 1.0 and AMQP 0-9-1: what real servers of 4.0 and 4.3 made of them, and what counts."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

proton = pytest.importorskip("proton")

from proton import symbol  # noqa: E402

import dlx  # noqa: E402
import simulator  # noqa: E402
from simulator.server.amqp10.frames import Codec, Properties  # noqa: E402
from tests.amqp10 import message_transcripts as played  # noqa: E402
from tests.amqp10.message_transcripts import Player, section  # noqa: E402


@pytest.mark.parametrize("release", played.RELEASES)
@pytest.mark.parametrize("scenario", played.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_clients_see_what_they_see_on_a_real_server(release: str, scenario: Callable[[Player], None]) -> None:
    with simulator.serve(release, management_port=0) as server:
        port, management = urlsplit(server.amqp_url).port, server.management_url
        assert port is not None
        assert management is not None
        seen = played.transcript(scenario, port, management, lambda seconds: server.clock.advance(seconds=seconds))

    assert seen == played.recorded(release)[scenario.__name__]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_bytes_of_a_message_are_those_from_its_properties_on(kind: str) -> None:
    messages = (
        section(played.DATA, b"z" * 20),
        Codec().encode(Properties(subject="s" * 10)) + section(played.DATA, b"z" * 300),
        played.annotated(a="v") + section(played.VALUE, "z" * 20),
    )
    with simulator.serve("4.3", management_port=0) as server:
        port, management = urlsplit(server.amqp_url).port, server.management_url
        assert port is not None
        assert management is not None
        player = Player(port, "/", server.clock.advance)
        player.declare("q", kind)
        sender = player.link.sender("/queues/q")
        for message in messages:
            player.link.send(sender, message)
        player.link.receiver("/queues/q", credit=1)
        player.link.receive()
        found = played.call(management, "GET", "queues/%2F/q")
        player.close()

    bare = [len(message) for message in messages]
    bare[2] += (100 if kind == "quorum" else 0) - len(played.annotated(a="v"))  # a guess of the server's
    assert (found["message_bytes"], found["message_bytes_unacknowledged"]) == (sum(bare), bare[0])


def test_messages_that_differ_in_the_body_alone_share_what_was_read() -> None:
    from simulator.server.amqp10.messages import MessageCodec

    codec = MessageCodec(dlx.release("4.3"), Codec())
    head = Codec().encode(Properties(subject="s"))
    (one, body), (other, other_body) = (codec.read(head + section(played.DATA, each)) for each in (b"one", b"other"))

    assert one.properties is other.properties
    assert one.amqp10 is other.amqp10
    assert (body, other_body) == (b"one", b"other")


def test_a_consumer_of_amqp_1_0_reads_its_history_from_annotations() -> None:
    death = {
        symbol("ttl"): proton.uint(5_000),
        symbol("queue"): "orders",
        symbol("reason"): symbol("rejected"),
        symbol("count"): proton.ulong(2),
        symbol("first-time"): proton.timestamp(1_700_000_000_123),
        symbol("last-time"): proton.timestamp(1_700_000_005_999),
        symbol("exchange"): "",
        symbol("routing-keys"): played.texts("orders", "copy"),
    }
    array = proton.Array(proton.UNDESCRIBED, proton.Data.MAP, death)
    annotations = {symbol("x-opt-deaths"): array, symbol("x-first-death-reason"): "expired"} | {
        symbol(f"x-first-death-{name}"): value for name, value in {"queue": "first", "exchange": "e"}.items()
    }

    for source in (annotations, proton.Message(annotations=annotations)):
        history = dlx.death_history(source)

        assert history.malformed == ()
        assert history.first == dlx.DeathPoint("expired", "first", "e")
        assert history.rejected_in("orders") == 2
        assert history.deaths == (
            dlx.Death(
                queue="orders", reason="rejected", count=2, exchange="", routing_keys=("orders", "copy"),
                time_s=1_700_000_000, original_expiration="5000", last_time_s=1_700_000_005,
            ),
        )  # fmt: skip
    assert not dlx.death_history(proton.Message())
