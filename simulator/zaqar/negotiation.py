"""Which answers a client accepts, as Zaqar reads the header ``Accept``: it has JSON to offer, and nothing else."""

from __future__ import annotations

_MAIN, _SUB = "application", "json"


def accepts_json(accept: str | None) -> bool:
    """Return whether the header lets JSON through; without one, or with an empty one, it does.

    The most specific range decides. Types are compared with case, and a header with one bad range accepts nothing.
    """
    if not accept:
        return True
    try:
        ranges = [_range(text) for text in accept.split(",")]
    except ValueError:
        return False
    fitting = [
        (main != "*", sub != "*", plain, weight)
        for main, sub, plain, weight in ranges
        if main in ("*", _MAIN) and sub in ("*", _SUB)
    ]
    return bool(fitting) and max(fitting)[-1] > 0


def shows_errors(accept: str | None) -> bool:
    """Return whether an error is told in JSON; one that is not has an empty body."""
    return accepts_json(accept) or "+json" in (accept or "")


def _range(text: str) -> tuple[str, str, bool, float]:
    """Read a range: type, subtype, whether it has no parameters of its own, weight. Raises ``ValueError``."""
    kind, *parameters = (part.strip() for part in text.split(";"))
    main, slash, sub = ("*/*" if kind == "*" else kind).partition("/")
    given = dict(part.partition("=")[::2] for part in parameters)
    weight = float(given.pop("q", "1"))
    if not slash or not 0 <= weight <= 1:
        raise ValueError(text)
    return main, sub, not given, weight
