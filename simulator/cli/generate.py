"""``dlx generate`` makes logs of any size from definitions and a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from simulator.cli.command_parts import DataError, Unavailable, example, writing
from simulator.cli.given_logs import definitions_option, read_noted
from simulator.cli.given_server import server_options
from simulator.cli.given_source import Source
from simulator.cli.options import release_option
from simulator.cli.progress import progress
from simulator.cli.spark_job import run_on_spark

if TYPE_CHECKING:
    from simulator.generate.log import Wish
    from simulator.generate.traffic import Diversity

FAULTS = "faults.json"
USUAL_EVENTS = 100_000


@click.command(
    epilog=example(
        "dlx generate --definitions definitions.json --events 1000000 --diversity high --faults 20 --out big"
    )
)
@definitions_option("Definitions of the topology that the messages go through.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory of the log.",
)
@click.option("--events", type=click.IntRange(min=1), default=USUAL_EVENTS, show_default=True, help="Rows of the log.")
@release_option("RabbitMQ release whose rules the broker follows.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same log.")
@click.option(
    "--diversity",
    type=click.Choice(["low", "high"]),
    default="low",
    show_default=True,
    help="high: nearly each message has keys, copies, headers and an expiration of its own.",
)
@click.option(
    "--faults",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help=f"Rows to alter, so that a replay has something to find; {FAULTS} lists them.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many processes work at once; each takes about 250 MB. [default: one for each processor]",
)
@click.option("--master", metavar="URL", help="Spark master to run on. [default: in this process and others like it]")
@server_options
def generate(
    given_definitions: Source,
    out: Path,
    events: int,
    rules: str | None,
    seed: int,
    diversity: Diversity,
    faults: int,
    processes: int | None,
    master: str | None,
) -> None:
    """Generate a log: the trace of a broker through which random traffic goes.

    The log is a set of captures in Parquet, for dlx replay. Every message in it went the way that the
    rules of the release prescribe, except for the rows altered with --faults.
    """
    from simulator.capture import CaptureError
    from simulator.definitions import DefinitionsError
    from simulator.generate.log import NothingHappensError, ProcessEndedError, Wish

    try:
        definitions, rules = read_noted(given_definitions, rules, ())
        with writing(out):
            _write(Wish(definitions.to_json(), events, rules, seed, diversity, faults), out, processes, master)
    except ProcessEndedError as error:
        raise Unavailable(f"{error}: --processes 1") from error
    except (CaptureError, DefinitionsError, NothingHappensError) as error:
        raise DataError(str(error)) from error


def _write(wish: Wish, out: Path, processes: int | None, master: str | None) -> None:
    """Write all files beside their place, and then put them there."""
    from simulator.files import folder_beside
    from simulator.generate.log import generate as generate_here
    from simulator.generate.log import generate_on_spark

    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out}: is not empty; a log needs a directory of its own")
    with folder_beside(out) as folder, progress("generating") as show:
        if master is None:
            planted = generate_here(wish, folder, lambda rows: show("generating", rows, wish.events), processes)
        else:
            planted = run_on_spark(master, "dlx generate", lambda spark: generate_on_spark(spark, wish, folder))
        if wish.faults:
            (folder / FAULTS).write_bytes(msgspec.json.format(msgspec.json.encode(planted)))
    files = "1 file" if wish.parts == 1 else f"{wish.parts} files"
    click.echo(f"{wish.events:,} rows in {files}: {out}/log-*.parquet")
