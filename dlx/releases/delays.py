"""The rows about the x-delayed-message exchange: each release with the plugin that was made for it."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import since


class DelayRows:
    """The x-delayed-message exchange."""

    delay_kinds: frozenset[str] = since(
        "4.0",
        frozenset("BsuIilSdfx"),
        before=frozenset("bBsuIilS"),
        meaning=(
            "Of which types on the wire an x-delay may be, by their letters; the exchange routes a message with one of"
            " another type at once. A string has to be that of an integer."
        ),
        evidence="live; rabbit_delayed_message.erl get_delay",
        undecided=("3.11", "3.12", "3.13"),
    )
    delay_kinds_unreadable: frozenset[str] = since(
        "4.0",
        frozenset("DV"),
        before=frozenset(),
        meaning="For an x-delay of which types on the wire the exchange fails, which ends the publisher's connection.",
        evidence="live",
        undecided=("3.11", "3.12", "3.13"),
    )
    delay_header_after: Literal["as published", "negative"] = since(
        "4.0",
        "negative",
        before="as published",
        meaning=(
            "What a classic queue shows of x-delay when the delay is over: the publisher's own value, until a quorum"
            " queue, a death or the removal of BCC has the headers written anew, or always a negative long."
        ),
        evidence="live; rabbit_delayed_message.erl swap_delay_header",
        undecided=("3.11", "3.12", "3.13"),
    )
    delayed_messages_counted: Literal["by exchange and policy", "by name"] = since(
        "3.10",
        "by name",
        before="by exchange and policy",
        meaning=(
            "messages_delayed of the management API counts what waits for an exchange of that name, or only what came"
            " while it had its present policy."
        ),
        evidence="live; rabbit_delayed_message.erl messages_delayed",
    )
    plugins_not_released: frozenset[str] = since(
        "4.3", frozenset({"rabbitmq_delayed_message_exchange"}), before=frozenset(),
        meaning="The plugins of which no released version starts, though a broker may have them here.",
        evidence="live (its branch main of 2025-11-21 stops with: undef rabbit_mnesia:start_mnesia/1)",
    )
    delayed_topic_routes: bool = since(
        "4.3",
        False,
        before=True,
        meaning=(
            "A delayed exchange whose x-delayed-type is topic finds its bindings. No released version of the plugin"
            " starts on 4.3: seen with a start of Mnesia put in place of the plugin's own."
        ),
        evidence="live",
        undecided=("4.1", "4.2"),
    )
