"""The errors of a store. The service makes answers of these."""

from __future__ import annotations


class Missing(LookupError):
    """A queue, message or claim that is not there; the text is that of Zaqar's answer."""


class ClaimMissing(Missing):
    """A claim that is not there, or has ended."""


class Claimed(PermissionError):
    """The message is claimed, and not by the claim that was named."""


class NotClaimed(PermissionError):
    """A claim was named for a message that no claim holds."""


class Failed(RuntimeError):
    """The driver itself breaks here; clients see 503. The text says why, for people."""


def no_queue(project: str, queue: str) -> Missing:
    """Return the error for a queue that was never created."""
    return Missing(f"Queue {queue} does not exist for project {project}")


def no_message(project: str, queue: str, message_id: str) -> Missing:
    """Return the error for a message that does not exist."""
    return Missing(f"Message {message_id} does not exist in queue {queue} for project {project}")


def no_claim(project: str, queue: str, claim_id: str) -> ClaimMissing:
    """Return the error for a claim that does not exist."""
    return ClaimMissing(f"Claim {claim_id} does not exist in queue {queue} for project {project}")
