"""Checks a log of requests to Zaqar on redis and its answers for what its rules rule out, without a scenario.

A log shows what its clients saw. It does not show when claims ran out, nor what other
clients did, so counts are lower bounds, and only what cannot be is a finding:

* a message handed out more often than the ``_max_claim_count`` of its queue allows;
* a message handed out in a queue that neither it nor its dead letters were put into;
* an age that is not the time since the message was posted.

``docs/how-to/replay.md`` describes the form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from simulator.systems.checked_log import Checked, LogProblem
from simulator.systems.zaqar.limits import Invalid
from simulator.systems.zaqar.metadata import DEAD_LETTER_QUEUE, Conflict, dead_lettering, patched, read_changes
from simulator.systems.zaqar.profiles import REDIS

_Kind = TypeVar("_Kind")
_AGE_TOLERANCE_S = 5  # both ends of an age are whole seconds, and an answer takes its time
_CREATED, _OK = 201, range(200, 300)


class LoggedRequest(msgspec.Struct, frozen=True):
    """One line of the log.

    Attributes:
        method, path: of the request; the path with its query.
        status: of the answer.
        request, response: the JSON documents; ``None`` without one.
        t_s: when, seconds from any start; without it, ages are not checked.
    """

    method: str
    path: str
    status: int
    request: Any = None
    response: Any = None
    t_s: float | None = None


class WrongLine(ValueError):
    """A line that no Zaqar wrote.

    Attributes:
        line: its number, from 1 on.
        problem: the field, and what it should be, in the words of msgspec.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem


class _WrongDocument(ValueError):
    """A document of a line that no Zaqar wrote or took."""


class _Message(msgspec.Struct, frozen=True):
    id: str
    age: int | float


class _HandedOut(msgspec.Struct, frozen=True):
    messages: tuple[_Message, ...] = ()


class _Posted(msgspec.Struct, frozen=True):
    resources: tuple[str, ...] = ()


class CheckedRequests(Checked, kw_only=True):
    """The same of a log of requests; ``requests`` is how many there were."""

    requests: int = 0


def check_log(log: Iterable[LoggedRequest | None]) -> CheckedRequests:
    """Check the requests of one project, in the order in which the server answered them.

    ``log`` has ``None`` for a line without one. Raises ``WrongLine``.
    """
    reading = _RequestLogReader()
    for line, asked in enumerate(log, 1):
        if asked is None:
            continue
        try:
            reading.take(line, asked)
        except _WrongDocument as error:
            raise WrongLine(line, str(error)) from error
    return reading.checked


class _RequestLogReader:
    """What is known of queues and messages so far."""

    def __init__(self) -> None:
        self.checked = CheckedRequests(looked_at=Counter(), not_checked=Counter(), found=[])
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._targets: dict[str, set[str]] = {}
        self._posted: dict[str, tuple[str, float | None]] = {}
        self._counts: Counter[str] = Counter()

    def take(self, line: int, asked: LoggedRequest) -> None:
        """Take the next line."""
        self.checked.requests += 1
        path, _, query = asked.path.partition("?")
        _, *parts = [unquote(part) for part in path.split("/")]
        if parts[:1] != ["v2"]:
            self.checked.not_checked["requests whose path does not begin with /v2/"] += 1
            return
        if asked.status not in _OK or parts[1:2] != ["queues"] or len(parts) < 3:
            return
        queue, rest = parts[2], parts[3:]
        match asked.method, rest:
            case (("PUT" | "PATCH" | "DELETE"), []):
                self._set(queue, asked)
            case "POST", ["messages"]:
                self._post(queue, asked)
            case "POST", ["claims"]:
                self._handed_out(line, queue, asked)
            case "DELETE", ["messages"] if "pop=" in query:
                self._handed_out(line, queue, asked)

    def _set(self, queue: str, asked: LoggedRequest) -> None:
        if asked.method == "PATCH":
            if queue not in self._metadata or not isinstance(asked.request, list):
                return
            try:
                metadata = patched(self._metadata[queue], read_changes(asked.request))
            except (Invalid, Conflict, TypeError):
                self._metadata.pop(queue)  # another client changed it meanwhile
                return
        elif asked.method == "PUT" and asked.status != _CREATED:
            return
        else:
            metadata = _document(asked.request, "request", dict[str, Any]) if asked.method == "PUT" else {}
        self._metadata[queue] = metadata
        if metadata.get(DEAD_LETTER_QUEUE) is not None:
            # The move to a dead-letter queue takes its name apart at its dots.
            self._targets.setdefault(queue, set()).add(str(metadata[DEAD_LETTER_QUEUE]).split(".")[0])

    def _post(self, queue: str, asked: LoggedRequest) -> None:
        for resource in _document(asked.response, "response", _Posted).resources:
            self._posted[resource.rpartition("/")[2]] = queue, asked.t_s

    def _handed_out(self, line: int, queue: str, asked: LoggedRequest) -> None:
        for message in _document(asked.response, "response", _HandedOut).messages:
            for problem in self._problems(queue, message, asked.t_s):
                self.checked.found.append(LogProblem(line, message.id, problem))

    def _problems(self, queue: str, message: _Message, t_s: float | None) -> Iterator[str]:
        yield from self._count(queue, message.id)
        if message.id not in self._posted:
            self.checked.not_checked["destinations and ages: the message was posted before the log"] += 1
            return
        yield from self._place(queue, message.id)
        yield from self._age(message, t_s)

    def _count(self, queue: str, id: str) -> Iterator[str]:
        if queue not in self._metadata:
            self.checked.not_checked[f"counts: the log does not show how {queue} was created"] += 1
            return
        rule = dead_lettering(self._metadata[queue], REDIS)
        if rule is None or not isinstance(rule.max_claim_count, int | float):
            return
        self.checked.looked_at["counts"] += 1
        if self._counts[id] >= rule.max_claim_count:
            times = self._counts[id] + 1
            yield f"handed out {times} times; _max_claim_count of {queue} is {rule.max_claim_count}"
        self._counts[id] += 1

    def _place(self, queue: str, id: str) -> Iterator[str]:
        first = self._posted[id][0]
        within, ahead = {first}, [first]
        for each in ahead:
            new = self._targets.get(each, set()) - within
            within |= new
            ahead += new
        unknown = within - set(self._metadata)
        if queue in within:
            self.checked.looked_at["destinations"] += 1
        elif unknown:
            self.checked.not_checked[f"destinations: the log does not show how {min(unknown)} was created"] += 1
        else:
            yield f"handed out in {queue}; it was posted to {first}, and its dead letters go to " + (
                ", ".join(sorted(within - {first})) or "no queue"
            )

    def _age(self, message: _Message, t_s: float | None) -> Iterator[str]:
        posted_s = self._posted[message.id][1]
        if t_s is None or posted_s is None:
            self.checked.not_checked["ages: the log has no times"] += 1
            return
        self.checked.looked_at["ages"] += 1
        if abs(message.age - (t_s - posted_s)) > _AGE_TOLERANCE_S:
            yield f"its age is {message.age} s; it was posted {t_s - posted_s:g} s before"


def _document(document: Any, field: str, kind: type[_Kind]) -> _Kind:
    """Return the document of a request or an answer, an empty one without it. Raises ``_WrongDocument``."""
    try:
        return msgspec.convert({} if document is None else document, kind)
    except msgspec.ValidationError as error:
        raise _WrongDocument(f"{field}: {error}") from error
