"""``dlx replay --form zaqar``: requests to Zaqar and its answers, against what its rules rule out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from simulator.cli.command_parts import DataError
from simulator.cli.wrong_values import in_our_words
from simulator.replay.zaqar_log import Asked, Checked, check_log

EXIT_FINDINGS = 1


def replay_zaqar(logs: tuple[Path, ...], *, as_json: bool = False) -> int:
    """Check logs, print what cannot be, and return the exit code. Raises ``DataError`` for a line that is wrong."""
    checked = [(path, check_log(_read(path))) for path in logs]
    if as_json:
        documents = [{"log": str(path), **msgspec.to_builtins(each)} for path, each in checked]
        click.echo(msgspec.json.encode(documents).decode())
    else:
        for path, each in checked:
            _show(path, each)
    return EXIT_FINDINGS if any(each.found for _, each in checked) else 0


def _read(path: Path) -> Iterator[Asked]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=Asked)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            expected = "expected an object with method, path, status, request, response and t_s"
            raise DataError(f"{path}: line {number}: {in_our_words(str(error))}; {expected}") from error


def _show(path: Path, checked: Checked) -> None:
    for found in checked.found:
        click.echo(f"{path}: line {found.line}: message {found.message}: {found.problem}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(checked.looked_at.items())) or "nothing"
    number = len(checked.found)
    click.echo(f"{path}: {checked.requests} requests; looked at {counts}; {number or 'none'} of them cannot be")
    for what, count in checked.not_checked.items():
        click.echo(f"Not checked: {what} ({count} times)")
    click.echo("Assumed: Zaqar on redis, and requests of one project, in the order in which it answered them")
