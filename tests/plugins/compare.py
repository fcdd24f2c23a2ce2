"""Play the recorded cases on the simulator, and count for each plugin and release what is as recorded.

python -m tests.plugins.compare
python -m tests.plugins.compare delayed random --release 4.3
python -m tests.plugins.compare delayed --only 'as DLX'        # shows each answer that differs
"""

from __future__ import annotations

import sys

import click

from tests import real_servers
from tests.plugins.cases import FILES, play
from tests.plugins.differences import differences


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("files", nargs=-1, type=click.Choice(FILES))
@click.option("--release", "releases", multiple=True, type=click.Choice(real_servers.LIVE), help="Repeatable.")
@click.option("--only", default="", help="Cases whose name has this; shows what differs.")
@click.option("--show", is_flag=True, help="Show what differs.")
def main(files: tuple[str, ...], releases: tuple[str, ...], only: str, show: bool) -> None:
    """Compare."""
    any_differs = False
    for file in files or FILES:
        for release in releases or real_servers.LIVE:
            same = differ = 0
            for run in play(file, release, only):
                found = differences(run)
                same, differ = same + (not found), differ + bool(found)
                for number, text in found.items() if only or show else ():
                    click.echo(f"{file} {release} {run.case.name!r}, step {number}: {run.case.steps[number]}\n  {text}")
            if same or differ:
                click.echo(f"{file} {release}: same {same}, differ {differ}")
            any_differs = any_differs or differ > 0
    sys.exit(any_differs)


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
