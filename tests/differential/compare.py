"""Play one scenario on the simulator and compare it with the recording, or with a server.

python -m tests.differential.compare 4.3 'ttl/message ttl'
python -m tests.differential.compare 4.3 'ttl/message ttl' --server amqp://guest:guest@localhost:5672/,http://...
"""

from __future__ import annotations

import sys

import click

from tests import real_servers
from tests.differential import recordings
from tests.differential.differences import difference, same, shown
from tests.differential.player import play
from tests.differential.record import targets
from tests.differential.scenarios import load
from tests.differential.simulated import simulated


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("release", type=click.Choice(real_servers.RECORDED))
@click.argument("name")
@click.option("--server", help="AMQP_URL,HTTP_URL of a real server, instead of the recording.")
def main(release: str, name: str, server: str | None) -> None:
    """Compare."""
    scenario = next((each for each in load() if each.name == name), None)
    if scenario is None:
        raise click.UsageError(f"no scenario is named {name!r}")
    with simulated(release) as target:
        mine = play(scenario.operations, target)
    if server is None:
        theirs = recordings.read().get(name, ([], {}))[1].get(release)
        if theirs is None:
            raise click.UsageError(f"nothing is recorded of {name!r} for {release}; give a --server")
    else:
        theirs = play(scenario.operations, targets((f"{release}={server}",))[release])
    if same(mine, theirs):
        click.echo(shown(scenario.operations, theirs))
        return
    click.echo(difference(scenario, release, {"rabbitmq": theirs, "simulator": mine}))
    sys.exit(1)


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
