"""The limits of what Zaqar accepts: spans of time, numbers, names. Refusals have Zaqar's own words.

Times are seconds. The limits are those of Zaqar's default configuration.
"""

from __future__ import annotations

import re

MESSAGE_TTL_S = range(60, 1_209_600 + 1)
CLAIM_TTL_S = range(60, 43_200 + 1)
CLAIM_GRACE_S = range(60, 43_200 + 1)
DELAY_S = range(0, 900 + 1)
MESSAGES_PER_CLAIM_MAX = 20
ITEMS_PER_PAGE_MAX = 20
METADATA_BYTES_MAX = 64 * 1024
POST_BYTES_MAX = 256 * 1024
NAME_MAX = 64
PROJECT_MAX = 256

DEFAULT_MESSAGE_TTL_S = 3600
DEFAULT_CLAIM_TTL_S = 300
DEFAULT_CLAIM_GRACE_S = 60
DEFAULT_ITEMS = 10
"""Messages of a claim or a page, queues of a page, where no limit is asked for."""

_NAME = re.compile(r"[a-zA-Z0-9_\-.]+")


class Invalid(ValueError):
    """A request that Zaqar refuses; the text is the description that its answer has."""


def check_name(kind: str, name: str, project: str) -> None:
    """Raise ``Invalid`` for a name that no queue (or topic, by ``kind``) of that project can have."""
    # Zaqar's pattern ends with $, which lets one trailing newline pass.
    if len(project) > PROJECT_MAX or len(name) > NAME_MAX or not _NAME.fullmatch(name.removesuffix("\n")):
        raise Invalid(f"The format of the submitted {kind} name or project id is not valid.")


def check_message_ttl(ttl_s: int) -> None:
    """Raise ``Invalid`` for a time to live that a message cannot have."""
    if not MESSAGE_TTL_S.start <= ttl_s < MESSAGE_TTL_S.stop:
        raise Invalid(
            f"The TTL for a message may not exceed {MESSAGE_TTL_S[-1]} seconds, "
            f"and must be at least {MESSAGE_TTL_S[0]} seconds long."
        )


def check_message_delay(delay_s: int) -> None:
    """Raise ``Invalid`` for a delay that a message cannot have."""
    if not DELAY_S.start <= delay_s < DELAY_S.stop:
        raise Invalid(
            f"The Delay TTL for a message may not exceed {DELAY_S[-1]} seconds,"
            f"and must be at least {DELAY_S[0]} seconds long."
        )


def check_claim_ttl(ttl_s: int) -> None:
    """Raise ``Invalid`` for a time that no claim can last."""
    if not CLAIM_TTL_S.start <= ttl_s < CLAIM_TTL_S.stop:
        raise Invalid(_claim_text("TTL", CLAIM_TTL_S))


def check_claim(ttl_s: int, grace_s: int, limit: int | None) -> None:
    """Raise ``Invalid`` for a new claim's terms, in Zaqar's order: ttl, number of messages, grace."""
    check_claim_ttl(ttl_s)
    check_limit(limit, MESSAGES_PER_CLAIM_MAX)
    if not CLAIM_GRACE_S.start <= grace_s < CLAIM_GRACE_S.stop:
        raise Invalid(_claim_text("grace", CLAIM_GRACE_S))


def check_limit(limit: int | None, most: int = ITEMS_PER_PAGE_MAX) -> None:
    """Raise ``Invalid`` for a number of messages that cannot be asked for; ``None`` asks for none in particular."""
    if limit is not None and not 0 < limit <= most:
        raise Invalid(f"Limit must be at least 1 and may not be greater than {most}.")


def check_queues_limit(limit: int | None) -> None:
    """Raise ``Invalid`` for a number of queues that cannot be asked for."""
    if limit is not None and not 0 < limit <= ITEMS_PER_PAGE_MAX:
        raise Invalid(f"Limit must be at least 1 and no greater than {ITEMS_PER_PAGE_MAX}.")


def check_deletion(ids: list[str] | None, pop: int | None) -> None:
    """Raise ``Invalid`` unless messages are deleted either by their ids or by a number to pop."""
    if pop is not None and ids is not None:
        raise Invalid("pop and id params cannot be present together in the delete request.")
    if pop is None and ids is None:
        raise Invalid('The request should have either "ids" or "pop" parameter in the request, to be able to delete.')
    if pop is not None and not 0 < pop <= MESSAGES_PER_CLAIM_MAX:
        raise Invalid(f"Pop value must be at least 1 and may not be greater than {MESSAGES_PER_CLAIM_MAX}.")
    if ids is not None and not 0 < len(ids) <= ITEMS_PER_PAGE_MAX:
        raise Invalid(f"ids parameter should have at least 1 and not greater than {ITEMS_PER_PAGE_MAX} values.")


def _claim_text(what: str, span: range) -> str:
    return f"The {what} for a claim may not exceed {span[-1]} seconds, and must be at least {span[0]} seconds long."
