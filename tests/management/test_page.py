"""The page at ``/``: what it shows of losses, queues and messages, to whom, and that looking changes nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from dlx.releases import RELEASES
from simulator.broker.commands import DeclareQueue, Get, OpenChannel, OpenConnection, Publish
from simulator.server.management.page.pages import FOLLOWERS_MAX
from tests.management.client import Simulated

HOSTILE = "<script>alert(1)</script>\"'&amp;"


class Page(Simulated):
    """A server, and what its pages say."""

    def queue(self, name: str, **arguments: object) -> None:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self("PUT", f"/api/queues/%2F/{quote(name, safe='')}", {"durable": True, "arguments": given})

    def publish(self, key: str, *, times: int = 1, exchange: str = "amq.default", **properties: object) -> None:
        message = {"properties": properties, "routing_key": key, "payload": "hello", "payload_encoding": "string"}
        for _ in range(times):
            self("POST", f"/api/exchanges/%2F/{exchange}/publish", message)

    def advance(self, **duration: float) -> None:
        self("POST", "/api/clock/advance", duration)

    def html(self, query: str = "", auth: str = "guest:guest") -> str:
        return self("GET", f"/{query}", auth=auth).body.decode()

    def text(self, query: str = "", auth: str = "guest:guest") -> str:
        """What a reader sees in the main part, in one line."""
        main = self.html(query, auth).partition("<main")[2].partition("</main>")[0]
        shown = re.sub(r"<(svg|script|style)\b.*?</\1>", "", f"<main{main}", flags=re.S)
        return " ".join(unescape(re.sub(r"</?(td|th|tr|p|div|li|dt|dd|h\d)\b[^>]*>", " ", shown)).split())


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", text).split())


@pytest.fixture
def server() -> Page:
    return Page()


# Losses first


def test_losses_lead_with_counts_and_causes(server: Page) -> None:
    server.queue("bills", message_ttl=1_000, dead_letter_exchange="biils.dlx")
    server.queue("last", max_length=1)
    server.publish("last", times=2)
    server.publish("bills", times=3, message_id="bill-7")
    server.advance(seconds=2)
    told = plain(server.text())
    assert "4 messages were lost" in told
    first, second = told.index("3 lost in bills"), told.index("1 lost in last")
    assert first < second < told.index("Queues of /")
    assert "expired: dead-letter exchange 'biils.dlx' of queue 'bills' does not exist" in told
    assert "Newest: bill-7, bill-7, bill-7" in told


def test_a_publish_that_no_queue_takes_is_told_by_its_address(server: Page) -> None:
    client = ("c", 1)
    for command in (OpenConnection("c"), OpenChannel(client), Publish(client, "amq.topic", "lost.key", {}, b"")):
        server.node.handle(command)
    assert "1 lost published to amq.topic with the key lost.key" in plain(server.text())


def test_a_parking_queue_is_not_accused(server: Page) -> None:
    """Its messages wait for a human: it has no consumer, no limit and no dead-letter exchange, and nothing is lost."""
    server.queue("parking")
    server.publish("parking", times=200)
    server.advance(days=30)
    told = plain(server.text())
    assert "No message was lost" in told
    row = server.html().partition('queue=parking">')[2].partition("</tr>")[0]
    assert "bad" not in row
    page = server.html("?vhost=%2F&queue=parking")
    assert "Lost here" not in page
    assert 'class="bad"' not in page
    assert "100 more messages not shown" in page


def test_what_somebody_removed_is_no_alarm(server: Page) -> None:
    server.queue("q")
    server.publish("q", times=2)
    server("DELETE", "/api/queues/%2F/q/contents")
    told = plain(server.text())
    assert "No message was lost" in told
    assert "2 removed in q" in told
    assert "Removed here" in server.text("?vhost=%2F&queue=q")
    assert "alarm" not in server.html("?vhost=%2F&queue=q")


# Queues


def test_dead_letters_that_keep_their_keys_are_not_said_to_go_nowhere(server: Page) -> None:
    server("PUT", "/api/exchanges/%2F/dlx", {"type": "direct"})
    server.queue("work", dead_letter_exchange="dlx")
    server.queue("parking")
    server("POST", "/api/bindings/%2F/e/dlx/q/parking", {"routing_key": "order"})
    row = server.html().partition('queue=work">')[2].partition("</tr>")[0]
    assert "→ parking through dlx, by their own keys" in plain(row.replace("<small>", " "))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dead_letter_exchange": "gone"}, "dead-letter exchange 'gone' does not exist"),
        ({"dead_letter_exchange": "amq.direct"}, "dead-letter exchange 'amq.direct' has no bindings"),
        (
            {"dead_letter_exchange": "", "dead_letter_routing_key": "nope"},
            "dead-letter routing key 'nope' names no queue of the definitions",
        ),
    ],
)
def test_a_way_that_leads_nowhere_is_marked(server: Page, arguments: dict[str, object], told: str) -> None:
    server.queue("work", **arguments)
    assert f'<span class="bad">{told}</span>' in server.html().replace("&#x27;", "'")


def test_a_queue_shows_messages_ways_and_settings_with_origins(server: Page) -> None:
    policy = {"pattern": "^work$", "definition": {"message-ttl": 90_000, "max-length": 9}, "apply-to": "queues"}
    server("PUT", "/api/policies/%2F/short", policy)
    server.queue("work", max_length=5, dead_letter_exchange="", dead_letter_routing_key="parking")
    server.queue("parking")
    server.publish("work", message_id="m-1")
    told = plain(server.text("?vhost=%2F&queue=work"))
    assert "m-1 ready, place 1 work never in 1 min 30 s hello" in told
    assert "message-ttl 90000 1 min 30 s policy short" in told
    assert "max-length 5 argument 9 (policy short)" in told
    assert (
        "expired expired in 'work': message-ttl is 90000 (message-ttl by policy short) dead-lettered → parking" in told
    )
    assert "→ parking" in told
    assert "<svg" in server.html("?vhost=%2F&queue=work")


def test_a_queue_that_is_gone_is_not_found(server: Page) -> None:
    answer = server("GET", "/?vhost=%2F&queue=gone")
    assert answer.status == 404
    assert "There is no queue" in answer.body.decode()


# Messages


def test_a_message_is_told_from_its_publish_to_its_loss(server: Page) -> None:
    server.queue("bills", message_ttl=1_000, dead_letter_exchange="biils.dlx")
    server.publish("bills", message_id="bill-7", headers={"tenant": "acme"})
    server.advance(seconds=2)
    told = plain(server.text("?message=1"))
    assert "bill-7 Message no. 1 with the key bills, in / Lost." in told
    assert "+1 s Its time to live ran out in the queue 'bills'." in told
    assert "tenant acme" in told
    assert 'class="loss"' in server.html("?message=1")
    assert "settings that decided it, and where they come from: bills" in told


def test_a_living_message_says_where_it_is(server: Page) -> None:
    server.queue("work")
    server.publish("work", message_id="m-1")
    server.advance(minutes=5)
    told = plain(server.text("?message=1"))
    assert "It is in the queue 'work', ready at place 1 of 1. Nothing has happened to it for 5 min." in told
    assert "body, 5 bytes hello" in told
    assert "Lost" not in told


def test_a_message_with_a_lost_copy_says_where_the_other_is(server: Page) -> None:
    server.queue("bills", message_ttl=1_000, dead_letter_exchange="biils.dlx")
    server.queue("work")
    server.publish("bills", message_id="bill-7", headers={"CC": ["work"]})
    server.advance(seconds=2)
    told = plain(server.text("?message=1"))
    assert "One copy lost, another is in 'work'. The copy in 'bills' was dropped: it died in the queue 'bills'" in told
    assert "One copy entered the queue 'work'." in told
    assert "Lost." not in told


def two_bound_copies(server: Page) -> None:
    """Publish to ``billing``, whose time to live loses the copy, and to ``mail``."""
    server("PUT", "/api/exchanges/%2F/shop", {"type": "fanout"})
    server.queue("billing", message_ttl=60_000, dead_letter_exchange="nowhere")
    server.queue("mail")
    for queue in ("billing", "mail"):
        server("POST", f"/api/bindings/%2F/e/shop/q/{queue}", {})
    server.publish("", exchange="shop")
    server.advance(seconds=61)


def test_a_copy_that_somebody_removed_does_not_hide_the_one_that_is_lost(server: Page) -> None:
    two_bound_copies(server)
    server("DELETE", "/api/queues/%2F/mail/contents")
    told = plain(server.text("?message=1"))
    head = told.partition("Its way")[0]
    assert "One copy lost, another was removed. The copy in 'billing' was dropped" in head
    assert "settings that decided it, and where they come from: billing" in head
    assert "'mail'" not in head
    assert "alarm" in server.html("?message=1")


def test_each_lost_copy_is_told_with_the_settings_that_decided_it(server: Page) -> None:
    two_bound_copies(server)
    server("POST", "/api/queues/%2F/mail/get", {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"})
    head = plain(server.text("?message=1")).partition("Its way")[0]
    assert "2 copies lost in 'billing', 'mail'. The copy in 'billing' was dropped" in head
    assert "The copy in 'mail' was dropped" in head
    assert re.findall(r"where they come from: (\w+)", head) == ["billing", "mail"]


def test_an_empty_routing_key_is_named(server: Page) -> None:
    two_bound_copies(server)
    told = plain(server.text("?message=1"))
    assert "Message no. 1 with the key (empty), in /" in told
    assert "routing key (empty)" in told
    client = ("c", 1)
    for command in (OpenConnection("c"), OpenChannel(client), Publish(client, "amq.direct", "", {}, b"")):
        server.node.handle(command)
    server("POST", "/api/bindings/%2F/e/amq.direct/q/mail", {"routing_key": "mail"})
    assert "1 lost published to amq.direct with the key (empty)" in plain(server.text())


def test_a_message_that_somebody_removed_is_no_alarm(server: Page) -> None:
    server.queue("q")
    server.publish("q")
    server("DELETE", "/api/queues/%2F/q/contents")
    told = plain(server.text("?message=1"))
    assert "Removed. It was removed with what else was in the queue 'q'." in told
    assert "Lost" not in told
    assert "alarm" not in server.html("?message=1")
    assert 'class="bad"' not in server.html("?find=1")


def test_a_message_with_two_copies_says_where_each_is(server: Page) -> None:
    server.queue("mail")
    server.queue("work")
    server.publish("mail", headers={"CC": ["work"]})
    told = plain(server.text("?message=1"))
    assert "One copy is in the queue 'mail', ready at place 1 of 1." in told
    assert "One copy is in the queue 'work', ready at place 1 of 1." in told
    assert "It is in" not in told


def test_what_happens_to_a_message_again_and_again_is_told_once(server: Page) -> None:
    server.queue("work")
    server.publish("work")
    for _ in range(21):
        server("POST", "/api/queues/%2F/work/get", {"count": 1, "ackmode": "reject_requeue_true", "encoding": "auto"})
    told = plain(server.text("?message=1"))
    assert told.count("It went back to the queue 'work'") == 1
    assert "These 2, 21 times." in told


@pytest.mark.parametrize("number", ["2", "x", "", "9" * 30, "٣"])
def test_a_message_that_nobody_knows_is_not_found(server: Page, number: str) -> None:
    server.queue("work")
    server.publish("work")
    assert server("GET", f"/?message={quote(number)}").status == 404


# The search


def test_a_single_hit_is_shown_at_once(server: Page) -> None:
    server.queue("work")
    server.publish("work", message_id="order-1")
    server.publish("work", message_id="order-12")
    assert server("GET", "/?find=order-1").headers["location"] == "./?message=1"
    assert server("GET", "/?find=2").headers["location"] == "./?message=2"
    assert server("GET", "/?find=wor").headers["location"] == "./?vhost=%2F&queue=work"
    several = plain(server.text("?find=ORDER"))
    assert several.index("order-12") < several.index("order-1 ")
    assert "No queue and no message" in server.html("?find=nothing")


# What may not happen


def test_texts_of_others_are_shown_as_text(server: Page) -> None:
    server.queue(HOSTILE, dead_letter_exchange=HOSTILE)
    server.publish(HOSTILE, message_id=HOSTILE, headers={HOSTILE: HOSTILE, "list": [HOSTILE]}, type=HOSTILE)
    for query in ("", f"?vhost=%2F&queue={quote(HOSTILE)}", "?message=1", f"?find={quote(HOSTILE)}", "?find=%3Cscript"):
        html = server.html(query)
        assert "<script>alert" not in html
        assert "alert(1)" in html or server("GET", f"/{query}").status == 303
    assert "default-src 'none'" in server("GET", "/").headers["content-security-policy"]


def test_looking_changes_nothing(server: Page) -> None:
    server.queue("work", queue_type="quorum", dead_letter_exchange="", dead_letter_routing_key="wait", delivery_limit=3)
    server.queue("wait", message_ttl=500)
    server.publish("work", times=3, message_id="m")
    for command in (OpenConnection("c"), OpenChannel(("c", 1)), Get(("c", 1), "work", no_ack=False)):
        server.node.handle(command)
    before = server.node.broker.snapshot()
    changes = server.node.changes.number
    for query in ("", "?vhost=%2F&queue=work", "?vhost=%2F&queue=wait", "?message=1", "?find=m"):
        assert server("GET", f"/{query}").status == 200
    assert server.node.broker.snapshot() == before
    assert server.node.changes.number == changes


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_the_page(release: str) -> None:
    server = Page(release)
    server.queue("bills", message_ttl=1_000, dead_letter_exchange="biils.dlx")
    server.publish("bills", times=2, message_id="bill")
    server.advance(seconds=2)
    assert "2 messages were lost" in server.text()
    assert "Lost here" in server.text("?vhost=%2F&queue=bills")
    assert "Lost." in server.text("?message=1")


def test_what_is_large_is_cut(server: Page) -> None:
    server.queue("big", dead_letter_exchange="fan")
    server("PUT", "/api/exchanges/%2F/fan", {"type": "fanout"})
    for number in range(70):
        server.queue(f"copy {number}")
        server("POST", f"/api/bindings/%2F/e/fan/q/copy%20{number}", {})
    keys = [f"key {number}" for number in range(1_000)]
    headers = {f"header {number}": "x" * 100_000 for number in range(20)}
    message = {"properties": {"headers": {**headers, "CC": keys}}, "payload": "y" * 1_000_000}
    server(
        "POST",
        "/api/exchanges/%2F/amq.default/publish",
        {**message, "routing_key": "big", "payload_encoding": "string"},
    )
    server.publish("", exchange="fan")
    sizes = {query: len(server.html(query)) for query in ("", "?vhost=%2F&queue=big", "?message=1", "?message=2")}
    assert max(sizes.values()) < 500_000, sizes
    assert "50 more copies" in server.text("?vhost=%2F&queue=big")
    assert "70 queues, which are too many to draw" in server.text("?message=2")


def test_of_many_queues_and_hosts_a_page_shows_some_and_the_search_finds_all(server: Page) -> None:
    for number in range(600):
        server.queue(f"queue {number}")
    for number in range(150):
        server("PUT", f"/api/vhosts/host{number}", {})
        server("PUT", f"/api/permissions/host{number}/guest", {"configure": "", "write": "", "read": ""})
    told = server.text()
    assert "100 more queues not shown." in told
    assert "51 more virtual hosts not shown." in told
    assert server("GET", "/?find=queue%20599").headers["location"] == "./?vhost=%2F&queue=queue%20599"


@pytest.mark.parametrize("name", ["a/b", "100 %", "%2F", "a?b&c=d#e", "+", "zażółć 🐇", "..", '"', "Ω\t", ""])
def test_queues_of_any_name_have_a_page(server: Page, name: str) -> None:
    server("PUT", f"/api/vhosts/{quote('h/' + name, safe='')}", {})
    client = ("c", 1)
    for command in (OpenConnection("c", vhost=f"h/{name}"), OpenChannel(client)):
        server.node.handle(command)
    server.node.handle(DeclareQueue(channel=client, queue=f"q{name}", exclusive=True, arguments={}))
    server.node.handle(Publish(client, "", f"q{name}", {"message_id": f"id {name}"}, b""))
    (link,) = re.findall(r'href="(\?vhost=[^"]*)"', server.html())
    told = server.text(unescape(link))
    assert f"Exclusive classic queue of h/{name}".strip() in told
    assert f"id {name}".strip() in told
    assert server("GET", f"/?find={quote(f'id {name}'.strip())}").headers["location"] == "./?message=1"


def test_users_see_their_virtual_hosts_and_read_what_they_may(server: Page) -> None:
    server.queue("hidden")
    server.publish("hidden", message_id="secret-id", type="secret type")
    assert server("GET", "/", auth=None).headers["www-authenticate"].startswith("Basic")
    server("PUT", "/api/users/u", {"password": "p", "tags": "management"})
    for query in ("", "?vhost=%2F&queue=hidden", "?message=1", "?find=secret"):
        assert "secret-id" not in server.html(query, auth="u:p")
    assert "hidden" not in server.html(auth="u:p")
    assert "u has access to no virtual host" in server.html(auth="u:p")
    assert "No message was lost" not in server.html(auth="u:p")
    server("PUT", "/api/permissions/%2F/u", {"configure": "", "write": "", "read": "^other$"})
    assert "u may not read from this queue" in server.html("?vhost=%2F&queue=hidden", auth="u:p")
    assert "secret type" not in server.html("?message=1", auth="u:p")
    assert "Move the clock" not in server.html(auth="u:p")
    server("PUT", "/api/permissions/%2F/u", {"configure": "", "write": "", "read": "^hidden$"})
    assert "secret-id" in server.html("?vhost=%2F&queue=hidden", auth="u:p")
    assert "secret type" in server.html("?message=1", auth="u:p")
    assert server("DELETE", "/").status == 405


def test_names_that_are_no_text_are_shown_all_the_same(server: Page) -> None:
    client = ("c", 1)
    for command in (OpenConnection("c"), OpenChannel(client)):
        server.node.handle(command)
    server.node.handle(Publish(client, "", "nowhere \udcff", {"message_id": "\udcfe"}, b""))
    for query in ("", "?message=1"):
        assert "nowhere ?" in server.html(query)


def test_nothing_comes_from_elsewhere(server: Page) -> None:
    server.queue("q")
    for path in ("/", "/page/page.css", "/page/page.js"):
        answer = server("GET", path)
        assert answer.status == 200
        assert not re.search(rb"(?:https?:)?//[a-z]", answer.body)
    assert server("GET", "/page/page.js", auth=None).headers["content-type"].startswith("text/javascript")
    assert server("GET", "/page/other", auth=None).status == 404


# Following


class Stream:
    """A client of the stream of changes; ``told`` is what it has received."""

    def __init__(self, server: Page) -> None:
        self.server = server
        self.told: list[str] = []
        self.status = 0
        self.gone = asyncio.Event()

    @property
    def changes(self) -> int:
        return sum("event: change" in each for each in self.told)

    async def follow(self, then: Callable[[], object] = lambda: None) -> None:
        """Receive until the server ends the stream, or the client is ``gone``; do ``then`` after each part."""
        path = {"path": "/page/changes", "raw_path": b"/page/changes", "query_string": b""}
        peers = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)}
        headers = [(b"authorization", b"Basic Z3Vlc3Q6Z3Vlc3Q=")]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http"}
        bodies = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, object]:
            found = next(bodies, None)
            if found is None:
                await self.gone.wait()
                return {"type": "http.disconnect"}
            return found

        async def send(message: dict[str, Any]) -> None:
            self.status = message.get("status", self.status)
            self.told.append(message.get("body", b"").decode())
            then()

        await asyncio.wait_for(
            self.server.application({**scope, **path, **peers, "headers": headers}, receive, send), 20
        )


def test_changes_are_told_as_they_come(server: Page) -> None:
    async def followed() -> Stream:
        stream = Stream(server)
        then = {1: lambda: server.node.handle(OpenConnection("c")), 2: server.node.stop}
        await stream.follow(lambda: then.pop(stream.changes, lambda: None)())
        return stream

    assert asyncio.run(followed()).changes == 2


def test_so_many_pages_are_told_of_changes_and_no_more(server: Page) -> None:
    async def followed() -> None:
        streams = [Stream(server) for _ in range(FOLLOWERS_MAX)]
        tasks = [asyncio.create_task(stream.follow()) for stream in streams]
        while not all(stream.changes for stream in streams):
            await asyncio.sleep(0)
        one_more = Stream(server)
        await one_more.follow()
        assert (one_more.status, one_more.told[-1]) == (503, "too many pages are open")
        streams[0].gone.set()
        await tasks[0]
        last = Stream(server)
        tasks.append(asyncio.create_task(last.follow()))
        while not last.changes:
            await asyncio.sleep(0)
        server.node.stop()
        await asyncio.gather(*tasks)

    asyncio.run(followed())
    assert server.node.changes.followers == 0


def test_the_clock_can_be_moved_from_the_page(server: Page) -> None:
    bodies = [json.loads(unescape(each)) for each in re.findall(r'data-advance="([^"]*)"', server.html())]
    assert bodies == [{"seconds": 1}, {"minutes": 1}, {"to_next_deadline": True}]
    server.queue("q", message_ttl=5_000)
    server.publish("q")
    for body in bodies:
        assert server("POST", "/api/clock/advance", body).status == 200
    assert "no queue" not in server.text()
