"""The rows about the import of a definitions document."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_ACCESS = ("users", "vhosts", "permissions", "topic_permissions")
_TOPOLOGY = ("global_parameters", "policies", "parameters", "queues", "bindings")


class Definitions:
    """The import of a definitions document."""

    definitions_order: tuple[str, ...] = changed(
        {
            "3.10": (*_ACCESS, "exchanges", *_TOPOLOGY),
            "4.3": (*_ACCESS[:-1], "exchanges", *_ACCESS[-1:], *_TOPOLOGY),
        },
        before=(*_ACCESS, "parameters", "global_parameters", "policies", "queues", "exchanges", "bindings"),
        meaning="The order in which the sections of a definitions document are imported.",
        evidence="live; rabbit_definitions.erl apply_defs",
    )
    definitions_without_vhost: Literal["no such vhost", "crash"] = since(
        "3.13", "crash", before="no such vhost",
        meaning=(
            "An import for the whole broker with queues, exchanges or bindings that name no virtual host is refused,"
            " or crashes."
        ),
        evidence="live; rabbit_definitions.erl any_orphaned_in_doc (3.13.7)",
    )
    definitions_existing: Literal["checked", "skipped"] = since(
        "3.10", "skipped", before="checked",
        meaning=(
            "An imported queue or exchange that exists already is checked for the same type and arguments, or"
            " skipped."
        ),
        evidence="live; rabbit_definitions.erl add_queue_int",
    )
    definitions_impossible_queues: Literal["refused", "left out"] = since(
        "3.10", "left out", before="refused",
        meaning=(
            "An imported queue that its type does not allow, such as a quorum queue that is not durable, is refused,"
            " or silently left out."
        ),
        evidence="live; rabbit_definitions.erl add_queue_int, rabbit_queue_type_util.erl check_non_durable",
    )
    definitions_impossible_bindings: Literal["left out", "refused"] = since(
        "3.13", "refused", before="left out",
        meaning=(
            "An imported binding whose source or destination is missing, or which the exchange does not take, is"
            " silently left out, or refused."
        ),
        evidence="live; rabbit_definitions.erl add_binding_int",
    )
    definitions_refusal_texts: Literal["printed", "plain"] = since(
        "4.3", "plain", before="printed",
        meaning=(
            "The refusal of an imported policy or parameter is printed as an Erlang term and escaped for HTML, or is"
            " the plain text."
        ),
        evidence="live; rabbit_definitions.erl format, add_policy, add_parameter",
    )
