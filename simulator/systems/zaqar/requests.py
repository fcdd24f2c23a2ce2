"""A request to Zaqar's HTTP API, the call that it makes and the answer; how bodies and parameters are read.

Refusals have the words that Zaqar 23.0.1 gave, or has in its source. It reads the header
``Accept`` as Falcon does: it has JSON to offer, for errors XML as well.

Source for ``Accept``: Falcon 4.4, mediatypes.best_match, default_serialize_error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote_plus

import msgspec

from simulator.systems.zaqar.store import Shown, Store

JSON = "application/json"
TITLE_API = "Invalid API request"
TITLE_BODY = "Invalid request body"

_TRUE = frozenset({"true", "True", "t", "yes", "y", "1", "on"})
_FALSE = frozenset({"false", "False", "f", "no", "n", "0", "off"})
_INTEGERS = range(-(2**63), 2**63)
_LEVELS_MAX = 947
"""As many levels of JSON as a running server read: what Python's limit of 1000 calls leaves it."""
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
"""A bracket that counts, or a text, in which none does."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        method: such as ``PUT``.
        path: decoded, such as ``/v2/queues/jobs``.
        query: what stands behind the question mark, as it came.
        headers: by their names in small letters.
        body: ``None`` if the request has no body.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class ZaqarAnswer(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        status: such as 201.
        document: the JSON document; ``None``: no body.
        location: the header ``Location``.
        headers: any others by name.
        bare: whether there is no ``Content-Type``; an answer without a body has one as well, unless it is a 204.
        media_type: that of the body; of an error it may be one of XML, in which the document is told then.
    """

    status: int
    document: Any = None
    location: str | None = None
    headers: Mapping[str, str] = {}
    bare: bool = False
    media_type: str = JSON


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was let in.

    Attributes:
        store: the driver.
        request: as it came.
        project, client: from the headers ``X-PROJECT-ID`` and ``Client-ID``.
        now_us: microseconds since 1970.
        queue, item: the queue, and the id of the message or claim, where the path names one.
    """

    store: Store
    request: Request
    project: str
    client: str
    now_us: int
    queue: str = ""
    item: str = ""


Handlers = dict[str, Callable[[Call], ZaqarAnswer]]
"""What answers, by method. The service makes answers of their ``Invalid`` and ``NotFoundError``."""


def formatted(message: Shown, base: str, claim_id: str | None) -> dict[str, Any]:
    """Return a message as answers show it, without its claim count. ``base`` is the path of its queue."""
    claim = f"?claim_id={claim_id}" if claim_id else ""
    return {
        "id": message["id"],
        "href": f"{base}/messages/{message['id']}{claim}",
        "ttl": message["ttl"],
        "age": message["age"],
        "body": message["body"],
    }


class RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        title: str,
        description: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        link: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {title}: {description}")
        parts = {"title": title, "description": description, "link": link}
        document = {name: part for name, part in parts.items() if part is not None}
        self.answer = ZaqarAnswer(status, document, headers={**(headers or {}), "Vary": "Accept"})


def bad_api(description: str) -> RequestError:
    """Return the refusal of a request that asks for what cannot be."""
    return RequestError(400, TITLE_API, description)


def bad_body(description: str) -> RequestError:
    """Return the refusal of a body that cannot be read."""
    return RequestError(400, TITLE_BODY, description)


def not_found(description: str) -> RequestError:
    """Return the refusal for something that does not exist."""
    return RequestError(404, "Not found", description)


def unavailable(what: str) -> RequestError:
    """Return the refusal for a driver that failed; ``what`` is such as ``Claim could not be created.``"""
    return RequestError(503, "Service temporarily unavailable", f"{what} Please try again in a few seconds.")


def unreadable() -> RequestError:
    """Return the answer to a body that Zaqar fails to read."""
    return unavailable("Request body could not be read.")


def unforeseen(error: TypeError | IndexError) -> RequestError:
    """Return the answer to a value that Zaqar does not expect: Python's own complaint."""
    return RequestError(500, "Internal server error", str(error))


class Parameters:
    """The parameters of a query. Those without a value count as absent; commas that are not escaped separate values.

    Of several values, whether by commas or by repeating the parameter, the last one counts.
    """

    def __init__(self, query: str) -> None:
        self._values: dict[str, list[str]] = {}
        self._lists: set[str] = set()
        for parameter in query.split("&"):
            name, _, text = parameter.partition("=")
            if text:
                name = unquote_plus(name)
                if name in self._values or "," in text:
                    self._lists.add(name)
                values = self._values.setdefault(name, [])
                values.extend(unquote_plus(part) for part in text.split(",") if part)

    def text(self, name: str) -> str | None:
        """Return the value of a parameter; ``None`` without one. Raises ``RequestError`` for nothing but commas."""
        values = self._values.get(name)
        if values is None:
            return None
        try:
            return values[-1]
        except IndexError as error:
            raise unforeseen(error) from error

    def list(self, name: str) -> list[str] | None:
        """Return all values of a parameter, none for nothing but commas; ``None`` without one."""
        return self._values.get(name)

    def check_filters(self, known: Sequence[str]) -> None:
        """Check that no other parameter than the known ones is a list: Zaqar makes a number of each, and ignores it.

        Raises ``RequestError``.
        """
        if not self._lists <= set(known):
            problem = "int() argument must be a string, a bytes-like object or a real number, not 'list'"
            raise unforeseen(TypeError(problem))

    def integer(self, name: str) -> int | None:
        """Return the value as an integer. Raises ``RequestError``."""
        value = self.text(name)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise _bad_parameter(name, "The value must be an integer.") from None

    def boolean(self, name: str) -> bool | None:
        """Return the value as a truth value. Raises ``RequestError``."""
        value = self.text(name)
        if value is not None and value not in _TRUE | _FALSE:
            raise _bad_parameter(name, 'The value of the parameter must be "true" or "false".')
        return None if value is None else value in _TRUE


def query_text(parameters: Mapping[str, Any]) -> str:
    """Write the parameters as they stand in a link, with the question mark."""
    values = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in parameters.items()}
    return "?" + "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in values.items())


def read_json(body: bytes | None) -> Any:
    """Read the document of a body, which must be an object or an array. Raises ``RequestError``."""
    if body is None:
        raise bad_body("Request body can not be empty")
    try:
        text = body.decode()
        if _too_deep(text):
            raise RecursionError
        document = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise unreadable() from None
    except OverflowError:
        raise bad_body("JSON contains integer that is too large.") from None
    except ValueError:
        raise bad_body("Request body could not be parsed.") from None
    if not isinstance(document, dict | list):
        raise bad_body("Request body could not be parsed.")
    return document


def an_object(document: Any) -> dict[str, Any]:
    """Return the document, which must be an object. Raises ``RequestError``."""
    if not isinstance(document, dict):
        raise bad_body("Document type not supported.")
    return document


def an_array(document: Any) -> list[Any]:
    """Return the document, which must be an array. Raises ``RequestError``."""
    if not isinstance(document, list):
        raise bad_body("Document type not supported.")
    return document


def fields(document: Any, spec: Sequence[tuple[str, type | None, Any]]) -> dict[str, Any]:
    """Return the known fields of an object.

    ``spec`` has their name, type (``None``: any), and default (``None``: the field must be there).

    Raises ``RequestError``.
    """
    found: dict[str, Any] = {}
    for name, type_, default in spec:
        try:
            value = document[name]
        except KeyError:
            if default is None:
                raise bad_body(f'Missing "{name}" field.') from None
            value = default
        except TypeError as error:  # the document has no fields at all
            raise unforeseen(error) from error
        if type_ is not None and not isinstance(value, type_):
            raise bad_body(f'The value of the "{name}" field must be a {type_.__name__}.')
        found[name] = value
    return found


def _too_deep(text: str) -> bool:
    """Return whether Zaqar's interpreter gives up: its parser calls itself for each level."""
    if text.count("[") + text.count("{") <= _LEVELS_MAX:
        return False
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > _LEVELS_MAX:
            return True
    return False


def _integer(text: str) -> int:
    number = int(text)
    if number not in _INTEGERS:
        raise OverflowError
    return number


def _bad_parameter(name: str, problem: str) -> RequestError:
    return RequestError(400, "Invalid parameter", f'The "{name}" parameter is invalid. {problem}')


_XML = "application/xml"
_FOR_ERRORS = (JSON, "text/xml", _XML)
"""The first of those that a client likes best."""


def accepts_json(accept: str | None) -> bool:
    """Return whether the header lets JSON through; without one, or with an empty one, it does.

    The most specific range decides. Types are compared with case, and a header with one bad range accepts nothing.
    """
    return _weight(JSON, accept) > 0


def type_of_errors(accept: str | None) -> str | None:
    """Return the type in which a client gets errors; with ``None`` they have an empty body."""
    best = max(_FOR_ERRORS, key=lambda kind: _weight(kind, accept))
    if _weight(best, accept) > 0:
        return best
    asked = (accept or "").lower()
    return JSON if "+json" in asked else _XML if "+xml" in asked else None


def _weight(kind: str, accept: str | None) -> float:
    """Return how much a client likes a type, from 0, not at all, to 1."""
    if not accept:
        return 1
    try:
        ranges = [_range(text) for text in accept.split(",")]
    except ValueError:
        return 0
    of_kind, _, of_sub = kind.partition("/")
    fitting = [
        (main != "*", sub != "*", plain, weight)
        for main, sub, plain, weight in ranges
        if main in ("*", of_kind) and sub in ("*", of_sub)
    ]
    return max(fitting)[-1] if fitting else 0


def _range(text: str) -> tuple[str, str, bool, float]:
    """Read a range: type, subtype, whether it has no parameters of its own, weight. Raises ``ValueError``."""
    kind, *parameters = (part.strip() for part in text.split(";"))
    main, slash, sub = ("*/*" if kind == "*" else kind).partition("/")
    given = dict(part.partition("=")[::2] for part in parameters)
    weight = float(given.pop("q", "1"))
    if not slash or not 0 <= weight <= 1:
        raise ValueError(text)
    return main, sub, not given, weight
