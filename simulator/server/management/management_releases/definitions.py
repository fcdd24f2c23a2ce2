"""Export and import of definitions through the management API."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import changed, since

_LIST: list[Any] | dict[str, Any] = []
_MAP: list[Any] | dict[str, Any] = {}
_VHOST_FIELDS = ("name", "description", "tags", "metadata")


class DefinitionCallRows:
    """Export and import of definitions through the management API."""

    whole_import_refusals: Literal["terms", "texts"] = since(
        "3.13", "texts", before="terms",
        meaning="How an import for the whole broker is refused: with Erlang terms as JSON, or with texts.",
        evidence="live; rabbit_definitions.erl apply_defs",
    )
    definitions_say_of_what: bool = since(
        "4.0", True, before=False,
        meaning="An export says what it is an export of: rabbitmq_definition_format, original_cluster_name and so on.",
        evidence="live; rabbit_mgmt_wm_definitions.erl",
    )
    definitions_vhost_fields: tuple[str, ...] = changed(
        {
            "3.13": (*_VHOST_FIELDS, "default_queue_type"),
            "4.1": _VHOST_FIELDS,
            "4.2": ("name", "metadata", "limits"),
        },
        before=("name",),
        meaning="The fields of a virtual host in an export.",
        evidence=(
            "four live; rabbit_mgmt_wm_definitions.erl rw_state (until 4.1), rabbit_definitions.erl vhost_definition"
        ),
    )
    definitions_queue_type: bool = since(
        "4.2", True, before=False,
        meaning="Exported queues have a field type.",
        evidence="live; rabbit_definitions.erl queue_definition",
    )
    single_vhost_definitions_name_it: bool = since(
        "3.11", False, before=True,
        meaning="The export of one virtual host still names it in policies and parameters.",
        evidence="live; rabbit_mgmt_wm_definitions.erl strip_vhost",
    )
    single_vhost_definitions_no_limits: list[Any] | dict[str, Any] = since(
        "4.2", _MAP, before=_LIST,
        meaning="The limits in the export of a virtual host that has none.",
        evidence="live; exports until 3.13 have no limits",
    )
    single_vhost_definitions_default_queue_type: bool = changed(
        {"4.0": True, "4.1": False}, before=False,
        meaning="The export of one virtual host has default_queue_type beside its metadata.",
        evidence="live",
    )
    download_names: Literal["tokens", "any"] = since(
        "4.3", "tokens", before="any",
        meaning="The names of files that ?download= takes: only names that need no quotes in a header, or all.",
        evidence="four live",
        undecided=("4.1", "4.2"),
    )
    definitions_internal_parameters: bool = since(
        "4.2", False, before=True,
        meaning="Exports contain the global parameters whose names begin with internal.",
        evidence="four live; rabbit_mgmt_wm_definitions.erl (4.1.8, 4.2.9); rabbit_definitions.erl",
    )
