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
from tests.plugins.known import known


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("files", nargs=-1, type=click.Choice(FILES))
@click.option("--release", "releases", multiple=True, type=click.Choice(real_servers.LIVE), help="Repeatable.")
@click.option("--only", default="", help="Cases whose name has this; shows what differs.")
@click.option("--show", is_flag=True, help="Show what differs.")
def main(files: tuple[str, ...], releases: tuple[str, ...], only: str, show: bool) -> None:
    """Compare."""
    any_new = False
    for file in files or FILES:
        for release in releases or real_servers.LIVE:
            same = differ = as_known = 0
            listed = known(file, release)
            for run in play(file, release, only):
                found = differences(run)
                new = {number: text for number, text in found.items() if (run.case.name, number) not in listed}
                same, differ, as_known = same + (not found), differ + bool(found), as_known + bool(found and not new)
                for number, text in new.items() if only or show else ():
                    click.echo(f"{file} {release} {run.case.name!r}, step {number}: {run.case.steps[number]}\n  {text}")
            if same or differ:
                click.echo(f"{file} {release}: same {same}, differ {differ} ({as_known} only as known)")
            any_new = any_new or differ > as_known
    sys.exit(any_new)


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
