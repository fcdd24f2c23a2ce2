"""``dlx replay --form zaqar``: requests to Zaqar and its answers, against what its rules rule out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from simulator.cli.checked_logs import show_checked
from simulator.cli.command_parts import DataError
from simulator.scenario.error_words import in_our_words
from simulator.systems.zaqar.request_log import CheckedRequests, LoggedRequest, WrongLine, check_log

_ASSUMED = "Zaqar on redis, and requests of one project, in the order in which it answered them"


def replay_zaqar(logs: tuple[Path, ...], *, as_json: bool = False) -> int:
    """Check logs, print what cannot be, and return the exit code. Raises ``DataError`` for a line that is wrong."""
    checked = [(path, _checked(path)) for path in logs]
    return show_checked(
        [(path, each, f"{each.requests} requests") for path, each in checked], _ASSUMED, as_json=as_json
    )


def _checked(path: Path) -> CheckedRequests:
    try:
        return check_log(_read(path))
    except WrongLine as error:
        raise DataError(f"{path}: {in_our_words(str(error))}") from error


def _read(path: Path) -> Iterator[LoggedRequest | None]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            yield None
            continue
        try:
            yield msgspec.json.decode(line, type=LoggedRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            expected = "expected an object with method, path, status, request, response and t_s"
            raise DataError(f"{path}: line {number}: {in_our_words(str(error))}; {expected}") from error
