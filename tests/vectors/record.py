"""Record the golden vectors from real servers, or check that servers still behave as recorded.

    python -m tests.vectors.record --release 4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/

Everything happens in the virtual hosts ``dlx-vectors*``, which are deleted in the end.
"""

from __future__ import annotations

import difflib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from tests import real_servers
from tests.vectors import cases
from tests.vectors.build import Case
from tests.vectors.outcomes import Outcome, Settings, run
from tests.vectors.server import Server

RECORDED = Path(__file__).parent / "recorded"
ATTEMPTS = 3  # a drift counts only if it is seen this often: a loaded machine can miss a deadline
WIDTH = 110

Vector = dict[str, Any]


class Recording(threading.Thread):
    """All given cases on one server; ``outcomes`` by case name, or ``error``."""

    def __init__(self, server: Server, chosen: list[Case], known: dict[str, Outcome]) -> None:
        super().__init__(name=f"release {server.release}")
        self.server, self.chosen, self.known = server, chosen, known
        self.outcomes: dict[str, Outcome] = {}
        self.error: str | None = None

    def run(self) -> None:
        """Settings are set up first and read last: servers publish them up to ten seconds late."""
        mine = [c for c in self.chosen if not c.releases or self.server.release in c.releases]
        current = "setting up"
        try:
            with self.server:
                slow = [(c, Settings(self.server, c, n)) for n, c in enumerate(c for c in mine if c.kind == "settings")]
                try:
                    for case, each in slow:
                        current = case.name
                        each.set_up()
                    for case in mine:
                        current = case.name
                        if case.kind != "settings":
                            self.outcomes[case.name] = self._attempt(case)
                    for case, each in slow:
                        current = case.name
                        self.outcomes[case.name] = each.outcome()
                finally:
                    for _, each in slow:
                        self.server.drop_vhost(each.vhost)
        except Exception as error:  # reported by the main thread
            self.error = f"{current}: {type(error).__name__}: {error}"

    def _attempt(self, case: Case) -> Outcome:
        for attempt in range(ATTEMPTS):
            outcome = run(self.server, case)
            if case.name not in self.known or same(outcome, self.known[case.name]):
                break
            time.sleep(attempt)
        return outcome


def read(group: str) -> list[Vector]:
    """The recorded vectors of a group."""
    path = RECORDED / f"{group}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def known_outcomes(release: str) -> dict[str, Outcome]:
    """What is recorded for a release, by case name."""
    found = {}
    for group in sorted(path.stem for path in RECORDED.glob("*.json")):
        for vector in read(group):
            for seen in vector["seen"]:
                if release in seen["releases"]:
                    found[vector["name"]] = seen["outcome"]
    return found


def merged(case: Case, old: Vector | None, new: dict[str, Outcome]) -> Vector:
    """The vector of a case: new outcomes by release over the old ones, equal ones together."""
    by_release: dict[str, Outcome] = {}
    for seen in (old or {}).get("seen", []):
        by_release.update(dict.fromkeys(seen["releases"], seen["outcome"]))
    by_release.update(new)
    seen = []
    for release in real_servers.RECORDED:
        if release not in by_release:
            continue
        outcome = by_release[release]
        for group in seen:
            if same(group["outcome"], outcome):
                group["releases"].append(release)
                break
        else:
            seen.append({"releases": [release], "outcome": outcome})
    return {**msgspec.to_builtins(case), "seen": seen}


def same(one: Outcome, other: Outcome) -> bool:
    """Equal including the order of fields, which is part of what is recorded."""
    return json.dumps(one) == json.dumps(other)


def pretty(value: Any, indent: int = 0) -> str:
    """JSON with everything on one line that fits on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(k, ensure_ascii=False)}: {pretty(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + pretty(v, indent + 1) for v in value) + "\n" + " " * indent + "]"


def write(group: str, vectors: list[Vector]) -> None:
    """Write a group beside its place, then rename."""
    RECORDED.mkdir(exist_ok=True)
    beside = RECORDED / f".{group}.json.new"
    beside.write_text(pretty(vectors) + "\n", encoding="utf-8")
    os.replace(beside, RECORDED / f"{group}.json")


def save(groups: dict[str, list[Case]], recordings: list[Recording]) -> None:
    """Merge what was recorded into the files; cases and groups that no longer exist disappear."""
    for path in RECORDED.glob("*.json"):
        if path.stem not in groups:
            path.unlink()
    for group, group_cases in groups.items():
        old = {vector["name"]: vector for vector in read(group)}
        vectors = []
        for case in group_cases:
            new = {r.server.release: r.outcomes[case.name] for r in recordings if case.name in r.outcomes}
            if new or case.name in old:
                vectors.append(merged(case, old.get(case.name), new))
        write(group, vectors)


def drift(groups: dict[str, list[Case]], recordings: list[Recording]) -> list[str]:
    """A readable difference for every outcome that is not the recorded one, and every changed case."""
    found = []
    for group, group_cases in groups.items():
        old = {vector["name"]: vector for vector in read(group)}
        for case in group_cases:
            expected = {k: v for k, v in old.get(case.name, {}).items() if k != "seen"}
            if expected != msgspec.to_builtins(case):
                found.append(f"{case.name}: the case differs from the recorded one; record it again")
    for recording in recordings:
        for name, outcome in sorted(recording.outcomes.items()):
            if name in recording.known and not same(recording.known[name], outcome):
                lines = difflib.unified_diff(
                    pretty(recording.known[name]).splitlines(),
                    pretty(outcome).splitlines(),
                    f"{name}: recorded for {recording.server.release}",
                    f"{name}: seen now",
                    lineterm="",
                )
                found.append("\n".join(lines))
            elif name not in recording.known:
                found.append(f"{name}: nothing is recorded for {recording.server.release}")
    return found


def servers(given: tuple[str, ...]) -> list[Server]:
    """``4.3=amqp://...,http://...`` -> Server."""
    found = []
    for text in given:
        release, equals, urls = text.partition("=")
        amqp_url, comma, http_url = urls.partition(",")
        if not equals or not comma or release not in real_servers.RECORDED:
            example = "4.3=amqp://guest:guest@localhost:5672/,http://localhost:15672/"
            raise click.UsageError(f"--release {text!r}: want RELEASE=AMQP_URL,HTTP_URL, such as {example}")
        found.append(Server(release, amqp_url, http_url))
    return found


def choose(groups: dict[str, list[Case]], only: tuple[str, ...], sample: int | None, seed: int) -> list[Case]:
    """The cases to run: all, those named, or a random sample."""
    everything = [case for group in groups.values() for case in group]
    unknown = set(only) - {case.name for case in everything}
    if unknown:
        raise click.UsageError(f"no case is named {', '.join(sorted(unknown))}")
    chosen = [case for case in everything if case.name in only] if only else everything
    if sample is not None and sample < len(chosen):
        picked = set(random.Random(seed).sample(range(len(chosen)), sample))
        chosen = [case for n, case in enumerate(chosen) if n in picked]
    return chosen


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--release", "given", multiple=True, required=True, help="RELEASE=AMQP_URL,HTTP_URL, repeatable.")
@click.option("--only", multiple=True, help="Only the case of this name; repeatable.")
@click.option("--sample", type=click.IntRange(min=1), help="Only this many cases, chosen at random.")
@click.option("--seed", default=0, show_default=True, help="Seed of the sample.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a server differs from the recording.")
def main(given: tuple[str, ...], only: tuple[str, ...], sample: int | None, seed: int, check: bool) -> None:
    """Record or check."""
    groups = cases.load()
    chosen = choose(groups, only, sample, seed)
    began = time.monotonic()
    recordings = [Recording(s, chosen, known_outcomes(s.release) if check else {}) for s in servers(given)]
    for recording in recordings:
        recording.start()
    for recording in recordings:
        recording.join()
        failed = recording.error or f"{len(recording.outcomes)} cases"
        click.echo(f"{recording.name}: {failed}, {time.monotonic() - began:.0f} s", err=True)
    if any(recording.error for recording in recordings):
        sys.exit(69)
    if not check:
        save(groups, recordings)
        return
    differences = drift(groups, recordings)
    for difference in differences:
        click.echo(difference + "\n")
    click.echo(f"{len(chosen)} cases checked, {len(differences)} differ", err=True)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
