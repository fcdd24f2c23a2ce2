"""``dlx lint`` says what definitions get wrong about dead letters: where messages are lost, by which setting."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dlx.releases import Release, release
from simulator.analysis.clients import Clients
from simulator.analysis.findings import SEVERITIES
from simulator.analysis.lint.fixes import policy_commands
from simulator.analysis.lint.linting import LintReport
from simulator.analysis.lint.linting import lint as lint_definitions
from simulator.analysis.lint.rule import RULES, rule_named
from simulator.analysis.losses import PUBLISHED
from simulator.analysis.snapshot import Snapshot
from simulator.cli.command_parts import DataError, Unavailable, data_errors, example, schema_option
from simulator.cli.given_source import (
    Source,
    StandardInput,
    named,
    read_recording_of,
    read_source,
    sources_argument,
)
from simulator.cli.lint_others import is_of_another_system, lint_others
from simulator.cli.options import GivenFile, chosen_release, release_option
from simulator.cli.project_options import GivenClients, client_options, config_beside, config_option
from simulator.definitions import Definitions
from simulator.definitions.schema import definitions_schema
from simulator.definitions.secrets import note_on_secrets
from simulator.lint_reports.baseline import Known, known_findings
from simulator.lint_reports.formats import FORMATS, Linted, explained, statistics
from simulator.lint_reports.project import Settled, reported, settled

if TYPE_CHECKING:
    from simulator.record.facts import Recorded
    from simulator.record.recording import Recording

FAIL_ON = {"lost": ("error",), "warning": ("error", "warning")}


class _Rules(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    """Codes or names of rules, with commas between several."""

    name = "RULE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the codes. Fails with the nearest name for what is no rule."""
        if not isinstance(value, str):
            return value
        try:
            return [rule_named(each.strip()).code for each in value.split(",")]
        except KeyError as error:
            self.fail(str(error.args[0]), param, ctx)


def _explain(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Print a rule's document, and end."""
    if value is None:
        return
    try:
        found = rule_named(value)
    except KeyError as error:
        raise click.BadParameter(error.args[0]) from error
    click.echo(explained(found))
    context.exit()


@click.command(
    epilog=example(
        "dlx lint definitions.json --release 4.3",
        "dlx lint http://localhost:15672/ --format sarif",
        "dlx lint */definitions.json --fail-on lost",
        "dlx lint rules.tab",
        "dlx lint activemq.xml",
    )
)
@sources_argument
@release_option("RabbitMQ release whose rules apply.")
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="text for people; json, sarif, junit and github (annotations) for machines.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "--baseline", type=GivenFile(), metavar="FILE", help="Leave out what FILE has, which --format json wrote."
)
@click.option("--select", type=_Rules(), multiple=True, help="Tell only what these rules find; repeatable.")
@click.option("--ignore", type=_Rules(), multiple=True, help="Leave out what these rules find; repeatable.")
@config_option("Suppressions, severities, and what clients do.")
@click.option(
    "--publish",
    "publishes",
    nargs=2,
    multiple=True,
    metavar="EXCHANGE ROUTING_KEY",
    help="Exchange and routing key that publishers use, and no others; repeatable. [default: keys that together reach "
    "every binding]",
)
@client_options
@click.option("--all", "one_by_one", is_flag=True, help="Print findings that are equal up to names one by one.")
@click.option("--statistics", "counts_only", is_flag=True, help="Print only how often each rule found something.")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    help="Exit with 1 only where messages are lost, or only for errors and warnings. [default: any finding]",
)
@click.option(
    "--fix",
    type=click.Choice(["policy"]),
    help="Print the policies that mend findings, as commands that are safe on a running server, in place of findings.",
)
@click.option(
    "--explain",
    metavar="RULE",
    callback=_explain,
    is_eager=True,
    expose_value=False,
    help="Print what a rule does, why, an example and the fix, and end: DLX001 or missing-dlx.",
)
@schema_option("Print the JSON Schema of definitions files, for editors, and end.", definitions_schema)
def lint(
    sources: tuple[Source, ...],
    over: Source | None,
    rules: str | None,
    form: str,
    baseline: Path | None,
    select: tuple[list[str], ...],
    ignore: tuple[list[str], ...],
    config: Path | None,
    publishes: tuple[tuple[str, str], ...],
    on_failure: tuple[str, ...],
    declare_before_publish: bool,
    republish_x_death: bool,
    one_by_one: bool,
    counts_only: bool,
    fail_on: str | None,
    fix: str | None,
) -> int:
    """Find what definitions get wrong about dead letters, with the setting that does it and what to change.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or folder of
    YAML or JSON that describes a topology, `-` for standard input, or the management URL of a running server. Of
    several, each has a report of its own.

    An error is a way to lose messages: --format json has the history that loses one. A warning is a setting that
    does not do what it says, or a risk, such as a loss that more than 100 messages have to wait for. The likeliest
    comes first. Findings that are equal up to names are printed once, with a count; --all and the formats for
    machines have each of them. The report also says what the answer rests on: what consumers must not do, and what
    was not checked. Exit code 0: no findings; 1: findings; of several sources, the worst.

    Of the folder of a recording, each finding is seen (it happened), follows (clients did all that it takes) or is
    assumed (clients were not seen to do that), in this order. Losses that were seen come first, with what the recording
    tells of publishes, then what the broker refused to clients. --baseline leaves out no loss that was seen.

    A SOURCE that is a rules table of IBM MQ's dead-letter queue handler is linted as such: rules that are never
    reached, no rule for the rest, tries that cannot happen, messages that come back without end. So is an activemq.xml:
    which messages its strategies and plugins lose.
    """
    if any(is_of_another_system(source) for source in sources):
        for name, given in (("baseline", baseline), ("select", select), ("ignore", ignore), ("config", config),
                            ("publish", publishes), ("on-failure", on_failure),
                            ("declare-before-publish", declare_before_publish),
                            ("republish-x-death", republish_x_death),
                            ("all", one_by_one), ("statistics", counts_only), ("fix", fix)):  # fmt: skip
            if given:
                raise click.UsageError(f"--{name}: only for definitions")
        return lint_others(sources, form, FAIL_ON.get(fail_on or "", SEVERITIES))
    if counts_only and form != "text":
        raise click.UsageError(f"--statistics: not with --format {form}, which has every finding")
    if isinstance(over, StandardInput) and len(sources) > 1:
        raise click.UsageError("--over: standard input can be read once; give it as a file for several SOURCEs")
    with data_errors():
        known = known_findings(baseline)
    codes = _chosen(select, ignore)
    stated = GivenClients(on_failure, declare_before_publish, republish_x_death)
    reports, statuses, projects = [], [0], dict[Path | None, Settled]()
    for source in sources:
        try:
            path = config or config_beside(source if isinstance(source, Path) else None)
            one = None if path is None else path.resolve()
            if one not in projects:
                with data_errors():
                    found_there = settled(path)
                clients = stated.over(found_there.clients, publishes)
                projects[one] = msgspec.structs.replace(found_there, clients=clients)
            report = _linted(source, over, rules, known, projects[one], codes)
            reports.append(msgspec.structs.replace(report, one_by_one=one_by_one))
        except (DataError, Unavailable) as error:
            if len(sources) == 1:
                raise
            error.show()
            statuses.append(error.exit_code)
    if reports and fix is not None:
        click.echo("\n".join(policy_commands(each.report.findings) for each in reports), nl=False)
    elif reports:
        click.echo(statistics(reports) if counts_only else FORMATS[form](reports, len(sources) > 1), nl=False)
    if len(reports) == len(sources):  # else it may be about what could not be read
        for idle in (said for project in projects.values() for said in project.idle()):
            click.echo(idle, err=True)
    counted = FAIL_ON.get(fail_on or "", SEVERITIES)
    found = any(severity in counted for linted in reports for severity in linted.severities)
    return max(*statuses, int(found))


def _chosen(select: Iterable[list[str]], ignore: Iterable[list[str]]) -> frozenset[str]:
    """Return the codes of the rules whose findings are printed."""
    selected = {code for codes in select for code in codes} or set(RULES)
    return frozenset(selected.difference(*ignore))


def _linted(
    source: Source, over: Source | None, rules: str | None, known: Known, project: Settled, codes: frozenset[str]
) -> Linted:
    """Lint one source, and leave out what is known or suppressed. Raises ``DataError`` and ``Unavailable``."""
    name = named(source)
    definitions = read_source(source, over)
    secrets = note_on_secrets(definitions.document) if isinstance(source, Path) and over is None else None
    if secrets is not None:
        click.echo(f"note: {name} {secrets}", err=True)
    rules_of = release(chosen_release(definitions, rules))
    recording = read_recording_of(source)
    seen = None
    if recording is None:
        report = lint_definitions(definitions, rules_of, project.clients)
    else:
        report, seen = _judged(recording, definitions, rules_of, project.clients)
    for said in (each for each in report.unchecked if each.startswith(PUBLISHED)):
        click.echo(f"warning: {name}: {said}", err=True)
    return reported(name, report, known, project, codes, recorded=seen)


def _judged(
    recording: Recording, definitions: Definitions, rules: Release, clients: Clients
) -> tuple[LintReport, Recorded]:
    """Return what lint finds with what each finding rests on, and what the recording says on its own."""
    from simulator.record.basis import Judge, broken_promises, published_by_name
    from simulator.record.facts import facts_of, recorded

    again = any(each.with_x_death for each in recording.published)
    clients = msgspec.structs.replace(clients, republish_x_death=clients.republish_x_death or again)
    snapshot = Snapshot(definitions, rules)
    named = published_by_name(recording, snapshot)
    report = lint_definitions(definitions, rules, clients, broken_promises(recording), named)
    judge = Judge(recording, snapshot, report.losses)
    findings = tuple(judge.judged(each) for each in report.findings)
    facts = facts_of(recording, rules, snapshot.flows, judge.unexplained)
    return msgspec.structs.replace(report, findings=findings), recorded(recording, facts)
