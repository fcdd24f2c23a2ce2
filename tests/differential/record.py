"""Record what real servers answer to the scenarios, or check that they still answer so.

    python -m tests.differential.record --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Everything happens in virtual hosts ``dlx-diff-*``, which are deleted. With ``--times 3`` a scenario must answer the
same three times, or it is not recorded.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import click

from tests import real_servers
from tests.differential import recordings
from tests.differential.differences import difference, same
from tests.differential.operations import Scenario
from tests.differential.player import Target, play
from tests.differential.scenarios import load
from tests.differential.transcript import Transcript

ATTEMPTS = 3  # a drift counts only if it is seen this often: a loaded machine can miss a deadline


class FlakyError(Exception):
    """A scenario did not answer the same every time."""


def targets(given: tuple[str, ...]) -> dict[str, Target]:
    """``4.3=amqp://...,http://...`` -> by release."""
    found = {}
    for text in given:
        release, equals, urls = text.partition("=")
        amqp_url, comma, http_url = urls.partition(",")
        if not equals or not comma or release not in real_servers.RECORDED:
            example = "4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/"
            raise click.UsageError(f"--release {text!r}: want RELEASE=AMQP_URL,HTTP_URL, such as {example}")
        found[release] = Target(amqp_url, http_url)
    return found


def choose(only: tuple[str, ...]) -> list[Scenario]:
    """The scenarios whose names begin with one of these, or all."""
    scenarios = load()
    chosen = [each for each in scenarios if not only or each.name.startswith(only)]
    if not chosen:
        raise click.UsageError(f"no scenario's name begins with {' or '.join(only)}")
    return chosen


def steady(scenario: Scenario, release: str, target: Target, times: int) -> Transcript:
    """What the server answers ``times`` times; raises ``FlakyError`` if that differs."""
    first = play(scenario.operations, target)
    for _ in range(times - 1):
        again = play(scenario.operations, target)
        if not same(first, again):
            raise FlakyError(difference(scenario, release, {"first": first, "again": again}))
    return first


def drift(scenario: Scenario, release: str, target: Target, recorded: Transcript | None) -> str | None:
    """How the server differs from the recording, every time of ``ATTEMPTS``."""
    if recorded is None:
        return f"{scenario.name}: nothing is recorded for {release}"
    for attempt in range(ATTEMPTS):
        found = play(scenario.operations, target._replace(patience=1 + 2 * attempt))
        if same(found, recorded):
            return None
    return difference(scenario, release, {"recorded": recorded, "server": found})


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--release", "given", multiple=True, required=True, help="RELEASE=AMQP_URL,HTTP_URL, repeatable.")
@click.option("--only", multiple=True, help="Only scenarios whose names begin so; repeatable.")
@click.option("--times", default=1, show_default=True, help="Play each so often; all must be the same.")
@click.option("--workers", default=6, show_default=True, help="Scenarios at a time on each server.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a server differs from the recording.")
def main(given: tuple[str, ...], only: tuple[str, ...], times: int, workers: int, check: bool) -> None:
    """Record or check."""
    servers, chosen = targets(given), choose(only)
    began, known = time.monotonic(), recordings.read()
    found: dict[str, recordings.Recording] = {}
    failures = []

    def one(scenario: Scenario, release: str) -> None:
        """Play one scenario on one server, and keep its transcript or say what failed."""
        try:
            if check:
                recorded = known.get(scenario.name, ([], {}))[1].get(release)
                if (drifted := drift(scenario, release, servers[release], recorded)) is not None:
                    failures.append(drifted)
            else:
                found.setdefault(scenario.name, {})[release] = steady(scenario, release, servers[release], times)
        except FlakyError as error:
            failures.append(str(error))
        except Exception as error:
            failures.append(f"{scenario.name} on {release}: {error!r}")

    with ThreadPoolExecutor(workers * len(servers)) as pool:
        for scenario in chosen:
            for release in servers:
                if release in scenario.releases:
                    pool.submit(one, scenario, release)
    if not check:
        recordings.save(load(), found)
    for failure in failures:
        click.echo(failure + "\n")
    click.echo(f"{len(chosen)} scenarios, {len(failures)} failed, {time.monotonic() - began:.0f} s", err=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
