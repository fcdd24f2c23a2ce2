"""How each release introduces itself. Seen on live servers; 3.13 from its source.

None of this decides anything, so it is here and not in the table of releases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dlx.releases import Release
from simulator.server.amqp.methods import encode_method


class Greeting(NamedTuple):
    """What ``connection.start`` says that differs. ``mechanisms`` are in the order in which they are offered."""

    platform: str
    copyright: str
    mechanisms: str


_GREETINGS = {
    "3.8": Greeting("Erlang/OTP 23.2.6", "Copyright (c) 2007-2020 VMware, Inc. or its affiliates.", "PLAIN AMQPLAIN"),
    "3.10": Greeting("Erlang/OTP 25.2.3", "Copyright (c) 2007-2022 VMware, Inc. or its affiliates.", "AMQPLAIN PLAIN"),
    "3.13": Greeting(
        "Erlang/OTP 26.2.5", "Copyright (c) 2007-2024 Broadcom Inc and/or its subsidiaries", "PLAIN AMQPLAIN"
    ),
    "4.0": Greeting(
        "Erlang/OTP 27.3.4.1",
        "Copyright (c) 2007-2024 Broadcom Inc and/or its subsidiaries",
        "PLAIN AMQPLAIN ANONYMOUS",
    ),
    "4.3": Greeting(
        "Erlang/OTP 29.1.2",
        "Copyright (c) 2007-2026 Broadcom Inc and/or its subsidiaries",
        "PLAIN ANONYMOUS AMQPLAIN",
    ),
}
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def mechanisms(release: Release) -> list[str]:
    """The authentication mechanisms that a release offers."""
    return _GREETINGS[release.name].mechanisms.split()


def server_properties(release: Release, cluster_name: str) -> dict[str, Any]:
    """What the server says of itself."""
    greeting = _GREETINGS[release.name]
    return {
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": greeting.copyright,
        "information": "Licensed under the MPL 2.0. Website: https://rabbitmq.com",
        "platform": greeting.platform,
        "product": "RabbitMQ",
        "version": release.version,
    }


def start(release: Release, cluster_name: str) -> bytes:
    """The method ``connection.start``, the same for a client of 0-9 as for one of 0-9-1."""
    fields = {
        "version_major": 0,
        "version_minor": 9,
        "server_properties": server_properties(release, cluster_name),
        "mechanisms": " ".join(mechanisms(release)),
        "locales": "en_US",
    }
    return encode_method("connection.start", fields)
