"""IronMQ's refusals: a status and ``{"msg": ...}``.

Source: API reference, Basics (401, 403) and Changes (404). The texts of 400 are not documented; ours
name the field and what would be right.
"""

from __future__ import annotations


class Refusal(Exception):
    """A request that IronMQ does not carry out.

    Attributes:
        status: of the HTTP answer.
        msg: the text in its body.
    """

    def __init__(self, status: int, msg: str) -> None:
        super().__init__(f"{status}: {msg}")
        self.status, self.msg = status, msg

    @property
    def body(self) -> dict[str, str]:
        """The body of the answer."""
        return {"msg": self.msg}


def bad_request(msg: str) -> Refusal:
    """Return the 400 for a request that says what cannot be."""
    return Refusal(400, msg)


def unauthorized() -> Refusal:
    """Return the 401 for a request without a token, or with another one than is expected."""
    return Refusal(401, "Unauthorized")


def reservation_timed_out() -> Refusal:
    """Return the 403 for a reservation that has ended, by time, by a release or by a touch, which makes a new one."""
    return Refusal(403, "Reservation timed out")


def reserved() -> Refusal:
    """Return the 403 for the deletion of a message that another client has reserved.

    Status and text are not documented.
    """
    return Refusal(403, "Message is reserved: reservation_id is required")


def queue_not_found() -> Refusal:
    """Return the 404 for a queue that does not exist."""
    return Refusal(404, "Queue not found")


def message_not_found() -> Refusal:
    """Return the 404 for a message that does not exist. The text is not documented."""
    return Refusal(404, "Message not found")


def out_of_reach() -> Refusal:
    """Return the 503 for a queue of which no replica is online.

    Status and text are not documented.
    """
    return Refusal(503, "Queue is out of reach")
