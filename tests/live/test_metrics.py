"""The metrics of a server beside those of a simulator: the same names, labels, types and texts, the same numbers."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.counters.playing import DisturbedError, Target, alone, undisturbed, virtual_host
from tests.counters.simulators import simulated
from tests.live.servers import LiveServer

TRIES = 8
SAMPLE_S = 6
REST_MOST_S = 60
SAMPLED_S = 12  # a server shows a queue's numbers after its next sample, each 5 seconds
Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


def text_of(target: Target) -> str:
    with urllib.request.urlopen(str(target.metrics_url), timeout=30) as response:
        return response.read().decode()


def numbers(text: str) -> Numbers:
    families = text_string_to_metric_families(text)
    found = [each for family in families for each in family.samples if not each.name.endswith("_info")]
    return {(each.name, frozenset(each.labels.items())): each.value for each in found}


def at_rest(target: Target, names: set[str], rest_s: float) -> Numbers:
    """Return the numbers of these names when they have stayed as they are: those of a queue outlive it by a moment."""
    found: Numbers = {}
    began = since = time.monotonic()
    while not found or time.monotonic() - since < rest_s:
        now = {key: value for key, value in numbers(text_of(target)).items() if key[0] in names}
        if now != found:
            found, since = now, time.monotonic()
        if since - began > REST_MOST_S:
            raise DisturbedError("its numbers keep changing")
        time.sleep(0.2 if rest_s else 0)
    return found


def risen(target: Target, names: set[str]) -> Iterator[Numbers]:
    """Yield what the numbers of these names rise by, again and again, while one history goes on in the server."""
    with virtual_host(target.server) as vhost:
        alone(target.server, vhost)
        before = at_rest(target, names, SAMPLE_S if target.quiet_s else 0)
        with pika.BlockingConnection(pika.URLParameters(target.server.vhost_url(vhost))) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for kind in ("classic", "quorum"):
                dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{kind}.dead"}
                channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind, "x-max-length": 4, **dead})
                channel.queue_declare(f"{kind}.dead", durable=True)
                for _ in range(5):
                    channel.basic_publish("", kind, b"m")
                method, _, _ = channel.basic_get(kind)
                channel.basic_reject(method.delivery_tag, requeue=False)
                channel.basic_get(kind)
            channel.basic_publish("", "nowhere", b"m")
            channel.basic_consume("classic.dead", lambda *_: None)
            while True:
                connection.process_data_events(0.2)
                alone(target.server, vhost)
                now = numbers(text_of(target))
                yield {key: value - before.get(key, 0) for key, value in now.items() if key[0] in names}


def risen_like(target: Target, names: set[str], expected: Numbers) -> Numbers:
    """Return what the numbers rise by: as expected, or what it was when the server had time to show it."""
    until_s = time.monotonic() + SAMPLED_S
    for found in risen(target, names):
        if {key: found.get(key) for key in expected} == expected or time.monotonic() > until_s:
            break
    return found


@pytest.fixture
def target(live_server: LiveServer) -> Target:
    found = Target(live_server)
    if found.metrics_url is None:
        pytest.skip("the server's Prometheus plugin is off")
    return found


def test_all_that_the_simulator_shows_is_shown_so_by_the_server(target: Target) -> None:
    with simulated(target.server.release) as (other, _):
        ours = text_of(other)
    theirs = text_of(target)
    about = [line for line in ours.splitlines() if line.startswith("#")]
    assert [line for line in about if line not in theirs.splitlines()] == []
    assert numbers(ours).keys() - numbers(theirs).keys() == set()


def test_the_same_history_changes_the_same_numbers(target: Target) -> None:
    with simulated(target.server.release) as (other, _):
        names = {name for name, _ in numbers(text_of(other))}
        expected = next(risen(other, names))
    found: Numbers = {}
    for _ in range(3 * TRIES):  # what is left of a queue in the numbers goes within minutes
        found = undisturbed(lambda: risen_like(target, names, expected))
        if {key: found.get(key) for key in expected} == expected:
            break
    assert {key: found.get(key) for key in expected} == expected
