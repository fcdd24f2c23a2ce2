"""``dlx test`` runs cases that say what queues have to hold, on the simulator and on servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from dlx.releases import DEFAULT, release
from simulator.cli.command_parts import DataError, Unavailable, example, print_json, writing
from simulator.cli.given_server import given_urls, server_options
from simulator.cli.options import RELEASE, GivenFile, note_remarks, stand_ins
from simulator.cli.progress import progress
from simulator.definitions import Definitions
from simulator.files import write_whole
from simulator.scenario.steps import scenario_schema
from simulator.testing.cases.file_format import CaseFile
from simulator.testing.cases.given_case import fits

if TYPE_CHECKING:
    from simulator.testing.cases.given_case import GivenCase
    from simulator.testing.cases.running import CaseResult, Target

_STYLES = {"passed": "green", "failed": "bold red", "not run": "yellow"}


@click.command(
    epilog=example(
        "dlx test orders.yml --release 3.13 --release 4.3",
        "dlx test orders.yml --broker amqp://localhost:5672/ --junit out/orders.xml",
    )
)
@click.argument("paths", metavar="FILE...", type=GivenFile("Download it first."), nargs=-1)
@click.option(
    "--release",
    "releases",
    type=RELEASE,
    multiple=True,
    help=f"Simulate this release of RabbitMQ; repeatable.  [default: {DEFAULT}, if no --broker is given]",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="AMQP_URL[|MANAGEMENT_URL]",
    help="Run on this server, in virtual hosts that are deleted afterwards; repeatable.",
)
@click.option(
    "--as-release",
    type=RELEASE,
    help="Expect the servers to behave like this release of RabbitMQ, whatever they run, and simulate it beside them.",
)
@click.option("--only", metavar="TEXT", help="Run the cases whose name contains this text.")
@click.option("--junit", "junit_path", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit's XML here.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what holds, differs and was not run here, as Markdown; with --as-release.",
)
@server_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a file of cases, and end.")
def test(
    paths: tuple[Path, ...],
    releases: tuple[str, ...],
    brokers: tuple[str, ...],
    as_release: str | None,
    only: str | None,
    junit_path: Path | None,
    report_path: Path | None,
    as_json: bool,
    schema: bool,
) -> int:
    """Run cases: what is published, what consumers do, and what queues then have to hold.

    A FILE is YAML or JSON. Its cases have definitions, the steps of a scenario (`dlx simulate rabbitmq`) and
    between them what is expected: how many messages each queue holds or which ones, with x-death, headers and
    properties; what was lost and why; which publishes were unroutable or refused. docs/how-to/test.md has an example.

    The simulator lets time pass in an instant. On a server time is real, so cases in which more than 10 s pass are
    not run there, and the answer says so, unless its clock can be moved (`dlx serve --clock virtual`). Nor does a
    server say what was lost and why.

    The command exits with 1 if a case does not hold.
    """
    if schema:
        told = scenario_schema(CaseFile, "A file of cases, for dlx test")
        print_json(told)
        return 0
    if not paths:
        raise click.MissingParameter(param_hint="'FILE...'", param_type="argument")
    if report_path is not None and as_release is None:
        raise click.BadParameter("give --as-release: the release that brokers are held to", param_hint="--report")
    if as_release is not None and not brokers:
        raise click.BadParameter("give the --broker that is held to it", param_hint="--as-release")
    cases = _cases(paths, only)
    targets = _targets(releases, brokers, as_release)
    note_remarks(dict.fromkeys(_stand_ins(cases, targets)))
    results = [result for target in targets for result in _run(cases, target, other=as_release is not None)]
    if junit_path is not None:
        from simulator.testing.cases.reports import junit

        _write(junit_path, junit(results))
    if report_path is not None and as_release is not None:
        from simulator.testing.cases.reports import conformance_report

        _write(report_path, conformance_report(results, as_release))
    if as_json:
        print_json(results)
    else:
        _show(Console(highlight=False), results)
    return int(any(result.status == "failed" for result in results))


def _cases(paths: Sequence[Path], only: str | None) -> list[GivenCase]:
    from simulator.testing.cases.case_reading import CaseFileError, read_cases

    try:
        cases = [case for path in paths for case in read_cases(path)]
    except CaseFileError as error:
        raise DataError(str(error)) from error
    chosen = [case for case in cases if only is None or only in case.name]
    if not chosen:
        raise click.BadParameter(f"no case's name contains {only!r}", param_hint="--only")
    return chosen


def _stand_ins(cases: Sequence[GivenCase], targets: Sequence[Target]) -> Iterator[str]:
    """Yield what simulators have in place of what the definitions of the cases name and leave out."""
    for target in (each for each in targets if each.longest_ms is None):
        for case in (each for each in cases if fits(target.release, each.releases)):
            yield from stand_ins(Definitions(case.document, case.source), release(target.release))


def _targets(releases: Sequence[str], brokers: Sequence[str], as_release: str | None) -> list[Target]:
    from simulator.testing.cases.on_simulator import OnSimulator

    named = list(dict.fromkeys(releases)) or [DEFAULT] * (not brokers)
    if as_release is None:
        return [*map(OnSimulator, named), *map(_server, brokers)]
    simulated = dict.fromkeys([*named, as_release])  # a case that does not hold there says nothing of a broker
    return [*map(OnSimulator, simulated), *(_other(urls, as_release) for urls in brokers)]


def _server(urls: str) -> Target:
    from simulator.testing.brokers.backends import backend
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
    from simulator.testing.brokers.running_server import RunningServer
    from simulator.testing.cases.on_server import OnServer

    if not urls.startswith(("amqp://", "amqps://")):
        from simulator.capture.access import hidden

        raise click.BadParameter(f"expected the URL of a server, got {hidden(urls)!r}", param_hint="--broker")
    try:
        found = backend(given_urls(urls))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--broker") from error
    except BrokerUnavailableError as error:
        raise Unavailable(str(error)) from error
    assert isinstance(found, RunningServer)  # a URL names nothing else
    return OnServer(found.server)


def _other(urls: str, release: str) -> Target:
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
    from simulator.testing.cases.on_other_broker import other_broker

    if not urls.startswith(("amqp://", "amqps://")):
        from simulator.capture.access import hidden

        raise click.BadParameter(f"expected the URL of a server, got {hidden(urls)!r}", param_hint="--broker")
    try:
        return other_broker(given_urls(urls), release)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--broker") from error
    except BrokerUnavailableError as error:
        raise Unavailable(str(error)) from error


def _run(cases: Sequence[GivenCase], target: Target, *, other: bool) -> list[CaseResult]:
    from simulator.testing.cases.running import run_case

    if target.longest_ms is None:
        return [run_case(case, target) for case in cases]
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
    from simulator.testing.cases.on_other_broker import run_on_other

    run = run_on_other if other else run_case
    results: list[CaseResult] = []
    try:
        with progress(target.name, "cases") as show, ThreadPoolExecutor(target.at_a_time) as pool:
            for result in pool.map(lambda case: run(case, target), cases):
                results.append(result)
                show(target.name, len(results), len(cases))
    except (BrokerUnavailableError, OSError) as error:
        raise Unavailable(str(error)) from error
    return results


def _write(path: Path, text: str) -> None:
    with writing(path):
        write_whole(path, text)


def _show(console: Console, results: Sequence[CaseResult]) -> None:
    for result in results:
        if result.status == "failed":
            for line in _print_failures(result):
                console.print(line, soft_wrap=True)
            console.print()
    for why, count in Counter(f"{each.target}: {each.why_not}" for each in results if each.why_not).items():
        console.print(Text.assemble(("not run", _STYLES["not run"]), f" {count} at {why}"), soft_wrap=True)
    open_ = Counter(f"{each.target}: {what}" for each in results for what in each.not_checked)
    for what, count in open_.items():
        console.print(Text(f"not checked in {count} at {what}"), soft_wrap=True)
    for target in dict.fromkeys(each.target for each in results):
        console.print(_summary(target, [each for each in results if each.target == target]), soft_wrap=True)


def _print_failures(result: CaseResult) -> Iterator[Text]:
    yield Text.assemble(("failed", _STYLES["failed"]), f" {result.name} ({result.target})")
    yield Text(f"  {result.source}:{result.failed_line}")
    for failure in result.failures:
        yield Text(f"  {failure}", "red")
    for line in result.stories:
        yield Text(f"    {line}")


def _summary(target: str, results: Sequence[CaseResult]) -> Text:
    counts = Counter(each.status for each in results)
    parts = [(f"{count} {status}", _STYLES[status]) for status, count in sorted(counts.items())]
    joined = [piece for part in parts for piece in (part, ", ")][:-1]
    return Text.assemble(f"{target}: ", *joined)
