"""The rows about the import and the export of a definitions document."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import changed, since

_ACCESS = ("users", "vhosts", "permissions", "topic_permissions")
_ARGUMENTS = frozenset({"queues.arguments", "exchanges.arguments", "bindings.arguments"})
_REQUIRED = _ARGUMENTS | {"queues.durable", "queues.auto_delete", "exchanges.durable"}
_TOPOLOGY = ("global_parameters", "policies", "parameters", "queues", "bindings")


class DefinitionRows:
    """The import of a definitions document, and its export over HTTP: by ``rabbitmqctl`` it is the same in all."""

    json_lenient: bool = since(
        "3.11", False, before=True,
        meaning=(
            "JSON may have trailing commas, comments, strings in single quotes, escapes that JSON does not have,"
            " control characters in strings, bytes that are not UTF-8, and a byte-order mark."
        ),
        evidence="four live; rabbit_json.erl decode (by jsx until 3.10.25, by Thoas from 3.11.0)",
    )
    json_equal_keys: Literal["last", "first"] = since(
        "3.11", "first", before="last",
        meaning="Which one of equal keys in a JSON object counts.",
        evidence="four live; rabbit_json.erl decode (by jsx until 3.10.25, by Thoas from 3.11.0)",
    )
    definitions_byte_order_mark: Literal["taken", "refused"] = changed(
        {"3.11": "refused", "4.2.5": "taken"}, before="taken",
        meaning="A definitions document that begins with a byte-order mark is taken, or refused.",
        evidence="four live; rabbit_mgmt_wm_definitions.erl decode (strip_bom from 4.2.5)",
    )
    definitions_order: tuple[str, ...] = changed(
        {
            "3.9": (*_ACCESS, "exchanges", *_TOPOLOGY),
            "4.1": (*_ACCESS[:-1], "exchanges", *_ACCESS[-1:], *_TOPOLOGY),
        },
        before=(*_ACCESS, "parameters", "global_parameters", "policies", "queues", "exchanges", "bindings"),
        meaning="The order in which the sections of a definitions document are imported.",
        evidence="live; 4.1 and 4.2 by source: rabbit_definitions.erl apply_defs",
    )
    definitions_without_vhost: Literal["no such vhost", "crash"] = since(
        "3.11", "crash", before="no such vhost",
        meaning=(
            "An import for the whole broker with queues, exchanges or bindings that name no virtual host is refused,"
            " or crashes."
        ),
        evidence="live; rabbit_definitions.erl any_orphaned_in_doc (3.13.7)",
    )
    definitions_default_queue_type: bool = since(
        "3.11", True, before=False,
        meaning="An imported queue that names no type has the default queue type of its virtual host.",
        evidence="four live; rabbit_definitions.erl add_queue_int (augment_declare_args from 3.11.0)",
    )
    definitions_topic_binding_without_key: Literal["function_clause", "badarg"] = since(
        "4.3", "badarg", before="function_clause",
        meaning="How an import of a topic exchange's binding without a routing key is refused.",
        evidence=(
            "four live; 3.8 and 3.10 answer 500 to an import for the whole broker, and 4.0 keeps the binding, which"
            " routes nothing: neither is done here"
        ),
        undecided=("4.1", "4.2"),
    )
    definitions_required_fields: frozenset[str] = changed(
        {"3.9": _REQUIRED - _ARGUMENTS, "3.11": frozenset({"exchanges.durable"}), "4.2.2": frozenset()},
        before=_REQUIRED,
        meaning=(
            "The fields without which an imported queue, exchange or binding is refused; later durable is true,"
            " auto_delete false, and there are no arguments."
        ),
        evidence="four live; rabbit_definitions.erl add_queue_int, add_exchange_int, args",
    )
    definitions_existing: Literal["checked", "skipped"] = since(
        "3.9", "skipped", before="checked",
        meaning=(
            "An imported queue or exchange that exists already is checked for the same type and arguments, or skipped."
        ),
        evidence="live; rabbit_definitions.erl add_queue_int",
    )
    definitions_impossible_queues: Literal["refused", "left out"] = since(
        "3.9", "left out", before="refused",
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
    definitions_unknown_queue_type: Literal["kept", "refused"] = since(
        "4.2.8", "refused", before="kept",
        meaning="An imported virtual host whose default queue type does not exist keeps it, or is refused.",
        evidence="live for 3.8, 3.10 and 4.3; rabbit_definitions.erl add_vhost (4.2.8)",
    )
    definitions_refusal_texts: Literal["printed", "plain"] = since(
        "4.2", "plain", before="printed",
        meaning=(
            "The refusal of an imported policy or parameter is printed as an Erlang term and escaped for HTML, or is"
            " the plain text."
        ),
        evidence="live; rabbit_definitions.erl format, add_policy, add_parameter",
    )
    initial_global_parameters: tuple[tuple[str, Any], ...] = since(
        "4.0", (("cluster_tags", ()),), before=(),
        meaning="The global parameters of a fresh node.",
        evidence="four live; rabbit.erl (cluster_tags)",
    )
    definitions_internal_exchanges: bool = changed(
        {"4.2.9": False, "4.3": True, "4.3.3": False}, before=True,
        meaning="Exports over HTTP contain internal exchanges, and the field internal.",
        evidence="four live; rabbit_mgmt_wm_definitions.erl (4.1.0 to 4.3.5); rabbit_definitions.erl list_exchanges",
    )
    definitions_exclusive_bindings: bool = changed(
        {"4.2.9": True, "4.3": False, "4.3.3": True}, before=False,
        meaning="Exports over HTTP contain the bindings of exclusive queues, though not these queues.",
        evidence="four live; rabbit_mgmt_wm_definitions.erl export_binding (4.1.0 to 4.3.5); rabbit_definitions.erl",
    )
