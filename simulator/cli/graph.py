"""``dlx graph`` draws a topology: where messages and dead letters go, and where they are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from dlx.nearest_names import suggestion
from dlx.releases import release
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.topology_graph import NODES_SHOWN, topology_graph
from simulator.cli.command_parts import DataError, example, writing
from simulator.cli.given_source import Source, read_source, source_argument
from simulator.cli.options import chosen_release, release_option
from simulator.definitions import DefinitionsError
from simulator.files import write_whole
from simulator.pictures import dot, html, mermaid, svg
from simulator.pictures.graph import Graph, around, at_most

WRITERS: Mapping[str, Callable[[Graph], str]] = {
    "svg": svg.as_svg,
    "html": html.as_html,
    "mermaid": mermaid.as_mermaid,
    "dot": dot.as_dot,
}


@click.command(
    epilog=example(
        "dlx graph definitions.json --format html --out topology.html",
        "dlx graph definitions.json --queue orders --format mermaid",
        "dlx graph http://localhost:15672/ --out topology.svg",
    )
)
@source_argument
@click.option(
    "--format", "form", type=click.Choice([*WRITERS]), default="svg", show_default=True, help="What to write."
)
@click.option("--queue", metavar="NAME", help="Draw only this queue, what leads to it and where its dead letters go.")
@click.option("--vhost", metavar="NAME", help="Draw only this virtual host.")
@release_option("RabbitMQ release whose rules apply.")
@click.option(
    "--most",
    type=click.IntRange(1),
    default=NODES_SHOWN,
    show_default=True,
    metavar="N",
    help="Boxes to draw at most: first the queues that lose messages, with what is around them.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="File to write.")
def graph(
    source: Source,
    over: Source | None,
    form: str,
    queue: str | None,
    vhost: str | None,
    rules: str | None,
    most: int,
    out: Path | None,
) -> None:
    """Draw a topology: exchanges, queues and their limits, where dead letters go, and where they are lost.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or
    folder of YAML or JSON that describes a topology, `-` for standard input, or the management URL of a
    running server. Dead letters are dashed, with the reasons that a queue's settings allow. Losses
    are red, with the reason; each was played on a simulated broker, except that of one copy while
    another arrives. Where only a consumer can lose a message, by rejecting it in a queue without
    dead-letter exchange, nothing is red.

    SVG and HTML need no network. Mermaid is for documents that draw it, dot for Graphviz.
    """
    definitions = read_source(source, over)
    try:
        found = topology_graph(Snapshot(definitions, release(chosen_release(definitions, rules))), vhost)
    except DefinitionsError as error:
        raise DataError(": ".join(filter(None, (definitions.source, error.where, error.problem)))) from error
    if queue is not None:
        found = _of_queue(found, queue)
    found = at_most(found, most, f"To see them: --queue NAME, or --most {len(found.nodes)} for all.")
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    text = WRITERS[form](found)
    if out is None:
        click.echo(text, nl=False)
    else:
        with writing(out):
            write_whole(out, text.encode())


def _of_queue(found: Graph, name: str) -> Graph:
    having = [node for node in found.nodes if node.kind == "queue" and node.name == name]
    if not having:
        known = [node.name for node in found.nodes if node.kind == "queue"]
        raise click.BadParameter(
            f"no queue {name!r}; {suggestion(name, known, '`dlx settings SOURCE` lists them')}", param_hint="'--queue'"
        )
    if len(having) > 1:
        named = ", ".join(node.vhost for node in having)
        raise click.UsageError(f"several virtual hosts have a queue {name!r}: name one with --vhost ({named})")
    return around(found, having[0])
