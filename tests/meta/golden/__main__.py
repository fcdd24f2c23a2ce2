"""Print one line for each output of dlx: its name and a hash of what it says.

    python -m tests.meta.golden > before.txt      # then change the code
    python -m tests.meta.golden > after.txt
    diff before.txt after.txt

Two runs of one tree print the same. ``--only PREFIX`` takes the outputs whose names begin so, ``--keep DIR``
writes each output to a file, so that two trees can be compared by ``diff -r``. ``--spark`` adds what Spark answers.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.meta.golden.outputs import Output, outputs


@click.command(help=__doc__)
@click.option("--only", "prefixes", multiple=True, metavar="PREFIX", help="Outputs whose names begin so; repeatable.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Directory for the outputs themselves.")
@click.option("--spark", is_flag=True, help="Also what Spark answers, which needs Java.")
@click.option("--list", "only_names", is_flag=True, help="Print the names alone.")
def main(prefixes: tuple[str, ...], keep: Path | None, spark: bool, only_names: bool) -> None:
    """Print a line for each output that is wanted."""
    with TemporaryDirectory(prefix="dlx-golden-") as scratch:
        for output in outputs(Path(scratch), spark=spark):
            if prefixes and not output.name.startswith(prefixes):
                continue
            click.echo(output.name if only_names else f"{output.name}\t{_hash_of(output, keep)}")
            sys.stdout.flush()


def _hash_of(output: Output, keep: Path | None) -> str:
    text = output.make()
    if keep is not None:
        path = keep / output.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


if __name__ == "__main__":
    main()
