"""What `dlx upgrade` says is what servers of the releases on both sides of an upgrade do; so is what its fixes do.

Each example runs on every server there is. What is expected of a release is stated by name, and held against the
sentence that the upgrade from it, or to it, prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pika
import pika.spec
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import dlx
from dlx.releases import release
from simulator.analysis.upgrade.questions import UpgradeChange
from simulator.analysis.upgrade.report import upgraded
from simulator.definitions import Definitions
from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer

WAIT_S = 10
TTL_MS = 200
Delivery = tuple[pika.spec.Basic.GetOk, pika.spec.BasicProperties]


class Site:
    """A virtual host on a server, with a channel in it."""

    def __init__(self, server: LiveServer, vhost: str, channel: BlockingChannel) -> None:
        self.server, self.vhost, self.channel = server, vhost, channel

    def declare(self, name: str, kind: str = "classic", **arguments: Any) -> None:
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **table})

    def set_policy(self, name: str, pattern: str, **definition: Any) -> None:
        keys = {key.replace("_", "-"): value for key, value in definition.items()}
        body = {"pattern": pattern, "definition": keys, "apply-to": "queues"}
        self.server.api("PUT", f"policies/{self.vhost}/{name}", body)

    def publish(self, queue: str, headers: Mapping[str, Any] | None = None) -> None:
        properties = pika.BasicProperties(headers=dict(headers or {}))
        self.channel.basic_publish("", queue, b"", properties)

    def take(self, queue: str) -> Delivery | None:
        """The next message of a queue, once there is one; ``None`` where none comes."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            method, properties, _ = self.channel.basic_get(queue)
            if method is not None:
                return method, properties
            time.sleep(0.02)
        return None

    def taken(self, queue: str) -> Delivery:
        found = self.take(queue)
        assert found is not None, f"no message in {queue}"
        return found

    def requeue(self, queue: str, times: int, *, nack: bool = False) -> None:
        """Return the message of a queue so often; end where it does not come back."""
        for _ in range(times):
            method, _ = self.taken(queue)
            give_back = self.channel.basic_nack if nack else self.channel.basic_reject
            give_back(method.delivery_tag, requeue=True)

    def reject(self, queue: str) -> None:
        method, _ = self.taken(queue)
        self.channel.basic_reject(method.delivery_tag, requeue=False)

    def stays_in(self, *queues: str, for_s: float = 1.5) -> bool:
        """Whether a message is in these queues all the time, or at least again and again, until the time is over."""
        until, seen = time.monotonic() + for_s, 0.0
        while time.monotonic() < until:
            if any(self.channel.queue_declare(name, passive=True).method.message_count for name in queues):
                seen = time.monotonic()
            time.sleep(0.05)
        return seen > until - 0.6

    def change(self, before: str, after: str, behaviour: str, about: str) -> UpgradeChange:
        """What `dlx upgrade` says of this virtual host; the worst of that behaviour and object."""
        document = self.server.api("GET", "definitions")
        definitions = Definitions(document, self.server.management_url)
        found = upgraded(definitions, release(before), release(after)).changes
        told = [each.change for each in found if each.behaviour == behaviour]
        return next(each for each in told if (each.about.vhost, each.about.name) == (self.vhost, about))


@pytest.fixture
def site(live_server: LiveServer, live_vhost: str) -> Iterator[Site]:
    connection = pika.BlockingConnection(pika.URLParameters(live_server.vhost_url(live_vhost)))
    try:
        yield Site(live_server, live_vhost, connection.channel())
    finally:
        connection.close()


def expected(site: Site, by_release: Mapping[str, Any]) -> Any:
    """What is expected of this server's release."""
    return by_release[site.server.release]


def test_the_default_limit_of_20_drops_a_message_at_return_21(site: Site) -> None:
    site.declare("orders", "quorum")
    told = site.change("3.10", "4.0", "quorum_default_delivery_limit", "orders")
    assert "has the delivery limit 20: the 21st return drops the message" in told.message
    site.publish("orders")
    site.requeue("orders", 21)
    assert site.stays_in("orders") == expected(site, {"3.8": True, "3.10": True, "4.0": False, "4.3": False})


def test_the_fix_for_the_default_limit_is_taken_and_keeps_the_message(site: Site) -> None:
    site.declare("orders", "quorum")
    site.declare("parking")
    site.set_policy("limits", "^orders$", delivery_limit=25, dead_letter_exchange="", dead_letter_routing_key="parking")
    site.publish("orders")
    site.requeue("orders", 21)
    assert site.stays_in("orders")
    site.requeue("orders", 5)
    assert site.take("parking") is not None


def test_no_limit_by_policy_is_taken_from_4_0_on_as_the_fix_says(site: Site) -> None:
    site.declare("orders", "quorum")
    told = site.change("3.10", "4.0", "quorum_default_delivery_limit", "orders")
    assert "Policies take delivery-limit -1, for none, only from 4.0 on" in told.fix.text
    if expected(site, {"3.8": False, "3.10": False, "4.0": True, "4.3": True}):
        site.set_policy("unlimited", "^orders$", delivery_limit=-1)
        site.publish("orders")
        site.requeue("orders", 25)
        assert site.stays_in("orders")
    else:
        with pytest.raises(ManagementError, match="400"):
            site.set_policy("unlimited", "^orders$", delivery_limit=-1)


@pytest.mark.parametrize("nack", [True, False], ids=["nack", "reject"])
def test_returns_by_nack_stop_counting_in_4_3_and_those_by_reject_count(site: Site, nack: bool) -> None:
    site.declare("orders", "quorum", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    site.declare("dead")
    told = site.change("4.0", "4.3", "quorum_delivery_limit_counts", "orders")
    assert "return by basic.nack no longer count" in told.message
    site.publish("orders")
    site.requeue("orders", 3, nack=nack)
    counts = True if not nack else expected(site, {"3.8": True, "3.10": True, "4.0": True, "4.3": False})
    assert site.stays_in("dead" if counts else "orders")


def test_counts_of_x_death_begin_anew_after_republishing_in_4_0(site: Site) -> None:
    site.declare("orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    site.declare("dead")
    told = site.change("3.10", "4.0", "client_deaths_continued", site.vhost)
    assert "under 3.10 its x-death counts go on" in told.message
    assert "the counts begin at 1" in told.message
    count = _count_after_republishing(site, lambda headers: headers)[0]
    assert count == expected(site, {"3.8": 2, "3.10": 2, "4.0": 1, "4.3": 1})


def test_an_own_count_goes_on_in_every_release(site: Site) -> None:
    site.declare("orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    site.declare("dead")
    _, headers = _count_after_republishing(site, lambda headers: dlx.republish_headers(headers, attempts=1))
    history = dlx.death_history(headers)
    assert history.attempts_before + history.attempts == 2


def _count_after_republishing(site: Site, headers_for: Any) -> tuple[int, dict[str, Any]]:
    """A message dies, is published again, and dies again: the count in x-death, and all headers."""
    site.publish("orders")
    site.reject("orders")
    method, properties = site.taken("dead")
    site.publish("orders", headers_for(dict(properties.headers)))
    site.channel.basic_ack(method.delivery_tag)
    site.reject("orders")
    _, properties = site.taken("dead")
    return properties.headers["x-death"][0]["count"], dict(properties.headers)


def test_a_loop_behind_a_rejection_is_dropped_as_a_cycle(site: Site) -> None:
    site.declare("work", dead_letter_exchange="", dead_letter_routing_key="one")
    site.declare("one", message_ttl=TTL_MS, dead_letter_exchange="", dead_letter_routing_key="two")
    site.declare("two", message_ttl=TTL_MS, dead_letter_exchange="", dead_letter_routing_key="one")
    told = site.change("3.10", "4.0", "death_order", "two")
    assert "under 4.0 it is dropped as a cycle before 'one'" in told.message
    site.publish("work")
    site.reject("work")
    stays = site.stays_in("one", "two", for_s=2.5)
    assert stays == expected(site, {"3.8": True, "3.10": True, "4.0": False, "4.3": False})


def test_returned_messages_go_to_the_back_in_3_10_alone(site: Site) -> None:
    site.declare("orders", "quorum")
    told = site.change("3.10", "4.3", "quorum_requeue_without_limit", "orders")
    assert "goes to the back of 'orders' under 3.10, and to its front under 4.3" in told.message
    site.publish("orders", {"n": 1})
    site.publish("orders", {"n": 2})
    site.requeue("orders", 1)
    time.sleep(0.2)
    _, properties = site.taken("orders")
    assert properties.headers["n"] == expected(site, {"3.8": 1, "3.10": 2, "4.0": 1, "4.3": 1})


def test_a_dead_letter_counts_on_in_4_3(site: Site) -> None:
    for name, to in (("orders", "again"), ("again", "dead")):
        site.declare(name, "quorum", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key=to)
    site.declare("dead")
    told = site.change("4.0", "4.3", "delivery_count_carried", "again")
    assert "They count towards its delivery limit (1), which is reached sooner" in told.message
    site.publish("orders")
    site.requeue("orders", 2)
    site.requeue("again", 1)
    counted_on = expected(site, {"3.8": False, "3.10": False, "4.0": False, "4.3": True})
    assert site.stays_in("dead" if counted_on else "again")


def test_headers_of_a_dead_letter(site: Site) -> None:
    """The x-last-death headers, and CC behind a routing key of the queue, are there from 3.13 on."""
    site.declare("orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    site.declare("dead")
    assert (
        "keeps the header" in site.change("3.10", "4.0", "cc_header_after_dead_letter_routing_key", site.vhost).message
    )
    site.publish("orders", {"CC": ["nowhere"]})
    site.reject("orders")
    _, properties = site.taken("dead")
    found = {name for name in ("CC", "x-last-death-queue") if name in properties.headers}
    new = {"CC", "x-last-death-queue"}
    assert found == expected(site, {"3.8": set(), "3.10": set(), "4.0": new, "4.3": new})


def test_the_order_of_deaths(site: Site) -> None:
    for name, to in (("a", "b"), ("b", "c"), ("c", "d")):
        site.declare(name, message_ttl=TTL_MS, dead_letter_exchange="", dead_letter_routing_key=to)
    site.declare("d")
    assert "'d'" in site.change("3.10", "4.0", "death_order", site.vhost).message
    site.publish("a")
    _, properties = site.taken("d")
    order = [each["queue"] for each in properties.headers["x-death"]]
    turned, newest = ["c", "a", "b"], ["c", "b", "a"]
    assert order == expected(site, {"3.8": turned, "3.10": turned, "4.0": newest, "4.3": newest})
