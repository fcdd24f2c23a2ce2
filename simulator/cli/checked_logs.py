"""What the check of logs of another system found, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from simulator.systems.checked_log import Checked

EXIT_FINDINGS = 1


def show_checked(checked: Sequence[tuple[Path, Checked, str]], assumed: str, *, as_json: bool) -> int:
    """Print the findings, and return the exit code.

    Args:
        checked: each log, what was found in it, and what was read in words (``6 requests``).
        assumed: what the answer rests on.
        as_json: for machines.
    """
    if as_json:
        documents = [{"log": str(path), **msgspec.to_builtins(each)} for path, each, _ in checked]
        click.echo(msgspec.json.encode(documents).decode())
    else:
        for path, each, read in checked:
            _show(path, each, read, assumed)
    return EXIT_FINDINGS if any(each.found for _, each, _ in checked) else 0


def _show(path: Path, checked: Checked, read: str, assumed: str) -> None:
    for found in checked.found:
        click.echo(f"{path}: line {found.line}: message {found.message}: {found.problem}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(checked.looked_at.items())) or "nothing"
    number = len(checked.found)
    click.echo(f"{path}: {read}; checked {counts}; impossible: {number or 'none'}")
    for what, count in checked.not_checked.items():
        click.echo(f"Not checked: {what} ({count} times)")
    click.echo(f"Assumed: {assumed}")
