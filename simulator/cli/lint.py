"""``dlx lint`` says what definitions get wrong about dead letters: where messages are lost, by which setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlx.releases import release
from simulator.cli.command_parts import DataError, example
from simulator.cli.given_files import GivenFile
from simulator.cli.given_release import release_option
from simulator.cli.given_source import ServerURL, Source, read_source, source_argument
from simulator.cli.json_files import read_object
from simulator.cli.lint_formats import FORMATS, explained
from simulator.definitions import DefinitionsError
from simulator.nearest_names import suggestion
from simulator.questions.findings import Finding
from simulator.questions.lint_rules.linting import LintReport
from simulator.questions.lint_rules.linting import lint as linted
from simulator.questions.lint_rules.rule import RULES

FAIL_ON = {"lost": ("error",), "warning": ("error", "warning")}
Key = tuple[str, str, str, str]


def _explain(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Print a rule's document, and end."""
    if value is None:
        return
    found = next((each for each in RULES.values() if value.lower() in (each.code.lower(), each.name)), None)
    if found is None:
        known = [*RULES, *(each.name for each in RULES.values())]
        raise click.BadParameter(f"no rule {value!r}; {suggestion(value, known)}")
    click.echo(explained(found))
    context.exit()


@click.command(
    epilog=example(
        "dlx lint definitions.json --release 4.3",
        "dlx lint http://guest:guest@localhost:15672/ --format sarif",
    )
)
@source_argument
@release_option("RabbitMQ release whose rules apply.")
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="text for people; json, sarif, junit and github (annotations) for machines.",
)
@click.option(
    "--baseline", type=GivenFile(), metavar="FILE", help="Leave out what FILE has, which --format json wrote."
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    help="Exit with 1 only where messages are lost, or only for errors and warnings. [default: any finding]",
)
@click.option(
    "--explain",
    metavar="RULE",
    callback=_explain,
    is_eager=True,
    expose_value=False,
    help="Print what a rule does, why, an example and the fix, and end: DLX001 or missing-dlx.",
)
def lint(
    source: Source, over: ServerURL | None, rules: str, form: str, baseline: Path | None, fail_on: str | None
) -> int:
    """Find what definitions get wrong about dead letters, with the setting that does it and what to change.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), `-` for standard input, or
    the management URL of a running server.

    An error is a way to lose messages: --format json has the history that loses one. A warning is a setting that
    does not do what it says, or a risk. What the answer rests on (what consumers must not do, what was not checked)
    is printed with it. Exit code 0: no findings; 1: findings.
    """
    definitions = read_source(source, over)
    known = _known(baseline)
    try:
        report = linted(definitions, release(rules))
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    fresh = tuple(each for each in report.findings if _key(each) not in known)
    hidden = len(report.findings) - len(fresh)
    click.echo(FORMATS[form](_with(report, fresh), str(source), hidden), nl=False)
    counted = FAIL_ON.get(fail_on or "", ("error", "warning", "note"))
    return int(any(each.severity in counted for each in fresh))


def _with(report: LintReport, findings: tuple[Finding, ...]) -> LintReport:
    return LintReport(report.release, findings, report.assumed, report.unchecked, report.queues)


def _key(finding: Finding) -> Key:
    """Return what makes a finding the same one the next time."""
    return finding.code, finding.about.kind, finding.about.vhost, finding.about.name


def _known(baseline: Path | None) -> set[Key]:
    """Return the findings of an earlier run. Raises ``DataError`` for a file that is none."""
    if baseline is None:
        return set()
    findings = read_object(baseline).get("findings")
    if not isinstance(findings, list):
        raise DataError(f"{baseline}: findings: expected a list, as `dlx lint --format json` writes it")
    return {_read_key(baseline, place, each) for place, each in enumerate(findings)}


def _read_key(baseline: Path, place: int, finding: Any) -> Key:
    fields = [finding.get(name) if isinstance(finding, dict) else None for name in ("code", "kind", "vhost", "object")]
    for name, value in zip(("code", "kind", "vhost", "object"), fields, strict=True):
        if not isinstance(value, str):
            raise DataError(f"{baseline}: findings[{place}].{name}: expected a string")
    code, kind, vhost, about = fields
    return str(code), str(kind), str(vhost), str(about)
