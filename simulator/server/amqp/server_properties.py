"""How each release introduces itself: as servers of 3.8, 3.10, 4.0 and 4.3 do; the others from their source.

None of this decides anything, so it is here and not in the table of releases.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from dlx.releases import Release
from dlx.releases.rows import changed, rows_of, subjects_of, with_behaviours
from simulator.server.amqp.methods import encode_method


class ServerProperties:
    """The server properties that differ between releases."""

    copyright: str = changed(
        {
            "3.9": "Copyright (c) 2007-2023 VMware, Inc. or its affiliates.",
            "3.10": "Copyright (c) 2007-2022 VMware, Inc. or its affiliates.",
            "3.11": "Copyright (c) 2007-2023 Broadcom Inc and/or its subsidiaries",
            "3.12": "Copyright (c) 2007-2024 Broadcom Inc and/or its subsidiaries",
            "4.1": "Copyright (c) 2007-2026 Broadcom Inc and/or its subsidiaries",
        },
        before="Copyright (c) 2007-2020 VMware, Inc. or its affiliates.",
        meaning="Whose RabbitMQ it is.",
        evidence="live for 3.8, 3.10, 4.0 and 4.3; rabbit.hrl COPYRIGHT_MESSAGE",
    )
    platform: str = changed(
        {
            "3.9": "Erlang/OTP 25.2.3",
            "3.13": "Erlang/OTP 26.2.5",
            "4.0": "Erlang/OTP 27.3.4.1",
            "4.3": "Erlang/OTP 29.1.2",
        },
        before="Erlang/OTP 23.2.6",
        meaning="The Erlang/OTP that the server runs on. Each release runs on several.",
        evidence="live for 3.8, 3.10, 4.0 and 4.3; one of those that each of the others supports",
    )


@with_behaviours
class Introduction(ServerProperties, msgspec.Struct, frozen=True, kw_only=True):
    """How the server of one release introduces itself; ``TABLE`` says what each field means and how it is known."""


TABLE = rows_of(*subjects_of(Introduction))
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


@cache
def introduction_of(version: str) -> Introduction:
    """Return how the server of a full version such as ``4.3.6`` introduces itself."""
    return Introduction(**{row.name: row.value_in(version) for row in TABLE})


def server_properties(release: Release, cluster_name: str) -> dict[str, Any]:
    """Return what the server of a release says of itself in ``connection.start``."""
    introduction = introduction_of(release.version)
    return {
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": introduction.copyright,
        "information": "Licensed under the MPL 2.0. Website: https://rabbitmq.com",
        "platform": introduction.platform,
        "product": "RabbitMQ",
        "version": release.version,
    }


def start(release: Release, cluster_name: str) -> bytes:
    """Encode the method ``connection.start``, which is the same for a client of 0-9 as for one of 0-9-1."""
    fields = {
        "version_major": 0,
        "version_minor": 9,
        "server_properties": server_properties(release, cluster_name),
        "mechanisms": " ".join(release.sasl_mechanisms),
        "locales": "en_US",
    }
    return encode_method("connection.start", fields)
