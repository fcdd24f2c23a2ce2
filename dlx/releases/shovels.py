"""The rows about dynamic shovels."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_ARGUMENTS = frozenset({"src-queue-args", "src-consumer-args", "dest-queue-args"})


class ShovelRows:
    """Dynamic shovels, of the plugin rabbitmq_shovel."""

    shovel_keys: frozenset[str] = changed(
        {"3.10": _ARGUMENTS, "4.0": _ARGUMENTS | {"src-predeclared", "dest-predeclared"}},
        before=frozenset(),
        meaning="The keys that a shovel's definition may have besides those that all releases know.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.9", "3.11", "3.12", "3.13"),
    )
    shovel_delete_after: Literal["crashes unless positive", "0 and more"] = since(
        "3.10", "0 and more", before="crashes unless positive",
        meaning="Which numbers of messages may end a shovel, and what becomes of a definition with another.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.9",),
    )
    shovel_arguments_checked: Literal["not", "names", "values"] = changed(
        {"3.10": "names", "4.3": "values"}, before="not",
        meaning=(
            "What a server checks of the arguments that a shovel's definition has for queues and consumers: their"
            " names, and x-dead-letter-routing-key makes the request crash; or their values."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.9", "3.11", "3.12", "3.13", "4.1", "4.2"),
    )
    shovel_protocols_checked: bool = since(
        "4.3", True, before=False,
        meaning="A shovel's protocol may be local, and an unknown one is refused; before, it makes the request crash.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("4.1", "4.2"),
    )
    shovel_ends_with_channel: bool = since(
        "4.0", True, before=False,
        meaning=(
            "A shovel whose publish is refused, because the exchange is missing or not to be written to, terminates and"
            " tries again; before, it mostly goes on to take messages, which it can neither publish nor confirm."
        ),
        evidence="3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13"),
    )
