"""Which answers a client accepts, as Zaqar reads the header ``Accept``: it has JSON to offer, for errors XML as well.

Source: Falcon 4.4, mediatypes.best_match, default_serialize_error.
"""

from __future__ import annotations

from simulator.systems.zaqar.requests import JSON

_XML = "application/xml"
_FOR_ERRORS = (JSON, "text/xml", _XML)
"""The first of those that a client likes best."""


def accepts_json(accept: str | None) -> bool:
    """Return whether the header lets JSON through; without one, or with an empty one, it does.

    The most specific range decides. Types are compared with case, and a header with one bad range accepts nothing.
    """
    return _weight(JSON, accept) > 0


def type_of_errors(accept: str | None) -> str | None:
    """Return the type in which a client is told of errors; with ``None`` they have an empty body."""
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
