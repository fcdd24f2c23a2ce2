"""Ask live servers what they answer to the inputs of ``cases/``, and keep it in ``answers.json``.

    python -m tests.faults.record [--dlx-broker AMQP_URL]... [--only TEXT]

What other releases answered stays. With ``--only``, the answers to the cases with that in
their names are printed instead.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dlx.releases.versions import numbers
from tests.faults import targets
from tests.faults.cases import CASES
from tests.live.servers import given

ANSWERS = Path(__file__).parent / "answers.json"


def together(answers: dict[str, list[str]]) -> dict[str, list[str]]:
    """The answers by releases, those that answer the same under one key: ``"3.8 3.10"``."""
    kept: dict[tuple[str, ...], list[str]] = {}
    for release in sorted(answers, key=numbers):
        kept.setdefault(tuple(answers[release]), []).append(release)
    return {" ".join(releases): list(lines) for lines, releases in kept.items()}


def by_release(told: dict[str, list[str]]) -> dict[str, list[str]]:
    """What ``together`` put together, by release again."""
    return {release: lines for releases, lines in told.items() for release in releases.split()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dlx-broker", action="append", default=[], metavar="AMQP_URL")
    parser.add_argument("--only", metavar="TEXT")
    options = parser.parse_args()
    asked = [targets.live(server) for server in given(options.dlx_broker)]
    names = [name for name in CASES if (options.only or "") in name]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda target: target.answers(names), asked))
    told = {name: {t.release: got[name] for t, got in zip(asked, found, strict=True)} for name in names}
    if options.only is None:
        recorded = json.loads(ANSWERS.read_text())
        told = {name: by_release(recorded.get(name, {})) | answers for name, answers in told.items()}
    text = json.dumps({name: together(answers) for name, answers in told.items()}, indent=1, ensure_ascii=False) + "\n"
    if options.only is None:
        ANSWERS.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
