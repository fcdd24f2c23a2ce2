"""What a push queue has pushed: which subscriber got which message, and what its endpoint answered.

No request leaves the simulator. What an endpoint answers is told to it: statuses of HTTP, in order, the last for good;
200 where nothing was told, 0 for one that cannot be reached.

Source: push queues reference; API reference, Get Push Statuses for a Message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from simulator.systems.ironmq.settings import Push, Subscriber

MULTICAST = "multicast"
NO_CONNECTION = 0
_OK, _ACCEPTED, _REDIRECTS = 200, 202, 300
_LEAST, _MOST = 100, 599
_SECOND_US = 1_000_000


class Endpoints:
    """The endpoints of subscribers, by their URLs."""

    def __init__(self) -> None:
        self._answers: dict[str, list[int]] = {}

    def tell(self, url: str, answers: int | Sequence[int]) -> None:
        """Say what an endpoint answers from now on. Raises ``ValueError`` with what would be right."""
        given = [answers] if isinstance(answers, int) else [*answers]
        for answer in given:
            if answer == _ACCEPTED:
                raise ValueError("202, which keeps the message reserved, is not simulated")
            if answer != NO_CONNECTION and not _LEAST <= answer <= _MOST:
                raise ValueError(f"expected statuses of HTTP, or 0 for no connection; got {answer}")
        if not given:
            raise ValueError("expected one status of HTTP at least")
        self._answers[url] = given

    def ask(self, url: str) -> int:
        """Return what the endpoint answers to the next push."""
        answers = self._answers.get(url, [_OK])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@dataclass(slots=True)
class _Status:
    """How it stands between a message and one subscriber."""

    tries: int = 0
    code: int = NO_CONNECTION
    last_us: int | None = None

    @property
    def is_delivered(self) -> bool:
        return _is_accepted(self.code)


def _is_accepted(code: int) -> bool:
    return _OK <= code < _REDIRECTS


class Pushing:
    """A message on its way to the subscribers of its queue."""

    def __init__(self) -> None:
        self._statuses: dict[str, _Status] = {}

    def round(self, kind: str, push: Push, endpoints: Endpoints, now_us: int) -> list[tuple[Subscriber, int]]:
        """Try the subscribers that are to be tried; return them with what they answered.

        ``kind``: ``multicast`` tries each that has not got the message, ``unicast`` one after the other until one has.
        """
        tried = []
        for subscriber in push.subscribers:
            status = self._status(subscriber)
            if status.is_delivered or status.tries > push.retries:
                continue
            code = endpoints.ask(subscriber.url)
            status.tries, status.code, status.last_us = status.tries + 1, code, now_us
            tried.append((subscriber, code))
            if kind != MULTICAST and _is_accepted(code):
                break
        return tried

    def failed(self, kind: str, push: Push) -> list[Subscriber]:
        """Return the subscribers that have not got the message; none, of ``unicast``, once one has it."""
        missing = [each for each in push.subscribers if not self._status(each).is_delivered]
        return missing if kind == MULTICAST or len(missing) == len(push.subscribers) else []

    def may_go_on(self, subscribers: Iterable[Subscriber], push: Push) -> bool:
        """Return whether one of the subscribers has retries left."""
        return any(self._status(each).tries <= push.retries for each in subscribers)

    def shown(self, push: Push) -> list[dict[str, Any]]:
        """Return the statuses as IronMQ shows them."""
        return [_shown(each, self._status(each), push.retries) for each in push.subscribers]

    def error(self, source_id: str, body: str, subscribers: Iterable[Subscriber]) -> str:
        """Return the body of the message that the error queue gets."""
        told: Mapping[str, Any] = {
            "source_msg_id": source_id,
            "body": body,
            "subscribers": [
                {
                    "name": each.name,
                    "url": each.url,
                    "code": code,
                    "msg": f"the endpoint answered {code}" if code else "no connection",
                }
                for each in subscribers
                for code in [self._status(each).code]
            ],
        }
        return msgspec.json.encode(told).decode()

    def _status(self, subscriber: Subscriber) -> _Status:
        return self._statuses.setdefault(subscriber.name, _Status())


def _shown(subscriber: Subscriber, status: _Status, retries: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": subscriber.name,
        "retries_remaining": retries - max(status.tries - 1, 0),
        "tries": status.tries,
        "status_code": status.code,
        "url": subscriber.url,
    }
    if status.last_us is not None:
        at = datetime.fromtimestamp(status.last_us // _SECOND_US, UTC)
        shown["last_try_at"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return shown
