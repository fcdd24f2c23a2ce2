"""A queue's metadata: the reserved attributes, what they may be, what they say of dead letters, and how they change.

The attribute ``_retry_policy`` is how Zaqar would repeat notifications of subscriptions. It is checked, not followed.
Of JSON patch (draft 10) Zaqar takes a part, for ``/metadata/NAME`` alone.

Source: zaqar/transport/validation.py, Validator._validate_retry_policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.systems.zaqar.limits import (
    DEFAULT_MESSAGE_TTL_S,
    DELAY_S,
    MESSAGE_TTL_S,
    POST_BYTES_MAX,
    Invalid,
    check_message_ttl,
)
from simulator.systems.zaqar.profiles import Profile

MAX_CLAIM_COUNT = "_max_claim_count"
DEAD_LETTER_QUEUE = "_dead_letter_queue"
DEAD_LETTER_TTL = "_dead_letter_queue_messages_ttl"

RESERVED: dict[str, Any] = {
    "_max_messages_post_size": POST_BYTES_MAX,
    "_default_message_ttl": DEFAULT_MESSAGE_TTL_S,
    "_default_message_delay": 0,
    DEAD_LETTER_QUEUE: None,
    DEAD_LETTER_TTL: None,
    MAX_CLAIM_COUNT: None,
    "_enable_encrypt_messages": False,
}
"""The reserved attributes, and what is shown for one that is not set."""


class DeadLettering(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a queue's metadata that is about dead letters.

    Attributes:
        max_claim_count: how many claims hand a message out; the next one moves it. As it was given: only the spec
            profile is sure to have an integer.
        target: the dead-letter queue, as it was given.
        ttl_s: the time to live of a message that is moved, ``None``: it keeps its own.
    """

    max_claim_count: Any
    target: Any
    ttl_s: int | None = None


def dead_lettering(metadata: Mapping[str, Any], profile: Profile) -> DeadLettering | None:
    """Return the dead-lettering that applies to messages of that queue; ``None`` if claims are not counted."""
    if MAX_CLAIM_COUNT not in metadata or DEAD_LETTER_QUEUE not in metadata:
        return None
    maximum, target = metadata[MAX_CLAIM_COUNT], metadata[DEAD_LETTER_QUEUE]
    if profile.unset_is_off and (maximum is None or not target):
        return None
    return DeadLettering(max_claim_count=maximum, target=target, ttl_s=metadata.get(DEAD_LETTER_TTL) or None)


def shown(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata as a client sees them: a reserved attribute that is not set, or empty, has its default."""
    return {**metadata, **{name: default for name, default in RESERVED.items() if not metadata.get(name)}}


def check(metadata: Mapping[str, Any]) -> None:
    """Raise ``Invalid`` for metadata that no queue can have.

    ``TypeError`` for an empty text or list where a number is wanted, or a delay of ``null`` in a retry policy: Zaqar
    lets it pass its first check and fails in the second, with an internal error.
    """
    _integer(metadata, "_default_message_ttl")
    default_ttl = metadata.get("_default_message_ttl")
    if default_ttl is not None and not MESSAGE_TTL_S[0] <= default_ttl <= MESSAGE_TTL_S[-1]:
        raise Invalid(
            f"_default_message_ttl can not exceed {MESSAGE_TTL_S[-1]} seconds, "
            f"and must be at least {MESSAGE_TTL_S[0]} seconds long."
        )
    _integer(metadata, "_max_messages_post_size")
    post_size = metadata.get("_max_messages_post_size")
    if post_size is not None and not 0 < post_size <= POST_BYTES_MAX:
        raise Invalid(f"_max_messages_post_size can not exceed {POST_BYTES_MAX},  and must be at least greater than 0.")
    _integer(metadata, MAX_CLAIM_COUNT)
    _integer(metadata, DEAD_LETTER_TTL)
    if metadata.get(DEAD_LETTER_TTL) is not None:
        check_message_ttl(metadata[DEAD_LETTER_TTL])
    _integer(metadata, "_default_message_delay")
    delay = metadata.get("_default_message_delay")
    if delay is not None and not DELAY_S[0] <= delay <= DELAY_S[-1]:
        raise Invalid(f"The TTL can not exceed {DELAY_S[-1]} seconds, and must be at least {DELAY_S[0]} seconds long.")
    encrypt = metadata.get("_enable_encrypt_messages")
    if encrypt and not isinstance(encrypt, bool):
        raise Invalid("_enable_encrypt_messages must be boolean.")
    check_retry_policy(metadata.get("_retry_policy"))


def _integer(metadata: Mapping[str, Any], name: str) -> None:
    """Check that the attribute is an integer. An empty value of any type passes, as it does in Zaqar."""
    if metadata.get(name) and not isinstance(metadata[name], int):
        raise Invalid(f"{name} must be integer.")


_INTEGERS = (
    "retries_with_no_delay",
    "minimum_delay_retries",
    "minimum_delay",
    "maximum_delay",
    "maximum_delay_retries",
)
_BACKOFFS = ("linear", "arithmetic", "exponential", "geometric")
_MINIMUM_DELAY_S, _MAXIMUM_DELAY_S = 5, 30
_DELAYS_APART_S = 10


def check_retry_policy(policy: Any) -> None:
    """Raise ``Invalid`` for a retry policy that no queue can have; ``TypeError`` for delays that cannot be compared.

    An empty value of any type passes, as it does in Zaqar.
    """
    if not policy:
        return
    if not isinstance(policy, dict):
        raise Invalid("retry_policy must be a dict.")
    for name in _INTEGERS:
        if policy.get(name) and not isinstance(policy[name], int):
            raise Invalid(f"Retry policy: {name} must be a integer.")
    backoff = policy.get("retry_backoff_function")
    if backoff and not isinstance(backoff, str):
        raise Invalid("retry_backoff_function must be a string.")
    if backoff and backoff not in _BACKOFFS:
        raise Invalid("invalid retry_backoff_function.")
    overrides = policy.get("ignore_subscription_override")
    if overrides and not isinstance(overrides, bool):
        raise Invalid("ignore_subscription_override must be a boolean.")
    minimum_s, maximum_s = policy.get("minimum_delay", _MINIMUM_DELAY_S), policy.get("maximum_delay", _MAXIMUM_DELAY_S)
    if maximum_s < minimum_s:
        raise Invalid("minimum_delay must less than maximum_delay.")
    if maximum_s - minimum_s < _DELAYS_APART_S:
        raise Invalid("invalid minimum_delay and maximum_delay.")


# Changes


PATCH_CONTENT_TYPE = "application/openstack-messaging-v2.0-json-patch"
_OPERATIONS = ("add", "remove", "replace")


class Conflict(ValueError):
    """A change of an attribute that is not there."""


class PatchOperation(msgspec.Struct, frozen=True):
    """One operation: ``add``, ``remove`` or ``replace``, the attribute, and the new value."""

    operation: str
    name: str
    value: Any = None


def read_changes(document: Sequence[Any]) -> list[PatchOperation]:
    """Read the operations of a patch.

    Raises ``Invalid``, and ``TypeError`` for a path that is not text and for braces in a text that would be refused.
    """
    return [_change(raw) for raw in document]


def patched(metadata: Mapping[str, Any], changes: Sequence[PatchOperation]) -> dict[str, Any]:
    """Return the metadata after all the changes.

    Raises ``Conflict`` where one replaces or removes what is not there, and what ``check`` raises.
    """
    result = dict(metadata)
    for change in changes:
        known = change.name in result or change.name in RESERVED
        if change.operation != "add" and not known:
            raise Conflict(f"Can't {change.operation} non-existent object {change.name}.")
        if change.operation == "remove":
            result.pop(change.name, None)
        else:
            result[change.name] = change.value
    check(result)
    return result


def _change(raw: Any) -> PatchOperation:
    if not isinstance(raw, dict):
        raise Invalid("Operations must be JSON objects.")
    choice = ", ".join(_OPERATIONS)
    operation = raw.get("op")
    if operation is None:
        raise Invalid(f"Unable to find `op` in JSON Schema change. It must be one of the following: {choice}.")
    if operation not in _OPERATIONS:
        raise _invalid(f"Invalid operation: `{operation}`. It must be one of the following: {choice}.")
    if "path" not in raw:
        raise Invalid("Unable to find 'path' in JSON Schema change")
    path = _tokens(raw["path"])
    if len(path) != 2:
        raise _invalid(f"Invalid JSON pointer for this resource: '/{'/'.join(path)}, e.g /metadata/key'")
    if operation == "remove":
        return PatchOperation(operation, path[1])
    if "value" not in raw:
        raise Invalid(f'Operation "{operation}" requires a member named "value".')
    if path[0].lower() != "metadata":
        raise Invalid("The root of path must be metadata, e.g /metadata/key.")
    return PatchOperation(operation, path[1], raw["value"])


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str):
        raise TypeError(f"the path {pointer!r} is not text")
    if not pointer.startswith("/"):
        raise _invalid(f'Pointer `{pointer}` does not start with "/".')
    if re.search(r"/\s*?/", pointer[1:]):
        raise _invalid(f'Pointer `{pointer}` contains adjacent "/".')
    if len(pointer) > 1 and pointer.endswith("/"):
        raise _invalid(f'Pointer `{pointer}` end with "/".')
    if re.search(r"~[^01]", pointer) or pointer.endswith("~"):
        raise _invalid(f'Pointer `{pointer}` contains "~" not part of a recognized escape sequence.')
    parts = pointer.lstrip("/").split("/")
    return [part.replace("~1", "/").replace("~0", "~").strip() for part in parts]


def _invalid(text: str) -> Invalid:
    """Return a refusal with words of the request in its text, in which Zaqar takes braces for fields to fill in.

    Raises ``TypeError`` where that fails.
    """
    try:
        return Invalid(text.format())
    except (LookupError, ValueError, AttributeError) as error:
        raise TypeError(f"braces in the text {text!r}") from error
