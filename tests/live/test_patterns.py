"""The servers themselves on the patterns whose outcome is written down in ``tests/rules/test_patterns.py``."""

from __future__ import annotations

import pika

from dlx.releases import release
from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer
from tests.rules.test_patterns import DIFFERING, SEEN


def test_patterns_are_found_where_it_is_written_down(live_server: LiveServer, live_vhost: str) -> None:
    differing = []
    with pika.BlockingConnection(pika.URLParameters(live_server.vhost_url(live_vhost))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for pattern, name, told in [*SEEN, *_differing(live_server)]:
            seen = outcome(live_server, live_vhost, channel, pattern, name)
            if seen != told:
                differing.append((pattern, name, told, seen))
    assert differing == []


def _differing(server: LiveServer) -> list[tuple[str, str, str]]:
    newer = release(server.release).regex_library == "PCRE2"
    return [(pattern, name, two if newer else one) for pattern, name, one, two in DIFFERING]


def outcome(server: LiveServer, vhost: str, channel: pika.channel.Channel, pattern: str, name: str) -> str:
    """Whether a policy with that pattern applies to a queue of that name, which can hold nothing then."""
    policy = {"pattern": pattern, "definition": {"max-length": 0}, "apply-to": "queues"}
    try:
        server.api("PUT", f"policies/{vhost}/p", policy)
    except ManagementError:
        return "refused"
    channel.queue_declare(name)
    channel.basic_publish("", name, b"")
    held = channel.basic_get(name, auto_ack=True)[0] is not None
    channel.queue_delete(name)
    server.api("DELETE", f"policies/{vhost}/p")
    return "absent" if held else "found"
