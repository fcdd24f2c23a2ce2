"""The parts of the documents that come from the code: the columns of a capture and of definitions, what
explanations cost in a replay, the rules that a trace can show, and what differs between releases; and the JSON
Schema of definitions.

    python docs/generate.py           write them
    python docs/generate.py --check   exit with 1 when one is stale, naming it

A part stands in its document between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import rabbitmq_coverage

import simulator
from dlx.releases import RELEASES, SUBJECTS, VERSIONS, Row
from dlx.releases.rows import rows_of, subjects_of
from dlx.releases.texts import change_texts, is_set, members_text, subject_text, value_text
from simulator.analysis.lint.linting import GROUPS
from simulator.analysis.lint.rule import RULES as LINT_RULES
from simulator.capture.schema import COLUMNS, SCHEMA_VERSION
from simulator.cli.main import COMMANDS, cli
from simulator.definitions.schema import definitions_schema
from simulator.files import write_whole
from simulator.replay.coverage.catalogue import ALSO_NEVER_SHOWN, NEVER_SHOWN, PATH_RULES, RELEASE_ROWS, RULES
from simulator.replay.repair.hypotheses import COSTS, REMARKS
from simulator.server.management.management_releases import Api
from simulator.spark_sources.definitions_rows import COLUMNS as DEFINITIONS_COLUMNS

DOCS = Path(__file__).parent
EXERCISED = Path(simulator.__file__).parents[1] / "tests" / "replay" / "exercised.json"
_SUBJECTS = (*SUBJECTS, *subjects_of(Api))
SCHEMA = "reference/definitions.schema.json"
HELP_WIDTH = 100
_UNDECIDED = " (?)"


def columns() -> str:
    """The columns of a capture."""
    rows = [(f"`{name}`", f"`{_type(kind)}`", "yes" if nullable else "", doc) for name, kind, nullable, doc in COLUMNS]
    return f"Version {SCHEMA_VERSION} of the schema.\n\n" + _table(("Column", "Type", "Null?", "Holds"), rows)


def definitions_columns() -> str:
    """The columns of the data source for definitions."""
    return _table(
        ("Column", "Type", "Holds"), ((f"`{name}`", f"`{kind}`", doc) for name, kind, doc in DEFINITIONS_COLUMNS)
    )


def repair_costs() -> str:
    """What the explanations of a repair cost."""
    kinds = [(kind, _number(cost.once), _number(cost.each), cost.why) for kind, cost in COSTS.items()]
    remarks = [(remark, _number(cost.once), _number(cost.each), cost.why) for remark, cost in REMARKS.items()]
    head = ("Once", "Each message", "Because")
    return _table(("Explanation", *head), kinds) + "\n\n" + _table(("More, or less", *head), remarks)


def exercised_rules() -> str:
    """The rules that a trace can show, each with the captures that exercise it."""
    shown = msgspec.json.decode(EXERCISED.read_bytes(), type=dict[str, list[str]])
    subjects = {**PATH_RULES, "Release rows": {row.name: row.meaning for row in RELEASE_ROWS}}
    found = {name for rules in shown.values() for name in rules}
    parts = [f"Together the captures exercise {len(found)} of {len(RULES)} rules."]
    for subject, rules in subjects.items():
        rows = [(f"`{name}`", meaning, _captures(name, shown)) for name, meaning in rules.items()]
        parts += [f"### {subject}", _table(("Rule", "What it says", "Exercised in"), rows)]
    return "\n\n".join(parts)


def _captures(rule: str, shown: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(_short(folder) for folder, rules in shown.items() if rule in rules) or "none"


def _short(folder: str) -> str:
    """The folder of a capture, by its kind and release."""
    return folder.removeprefix("examples/captured-").replace("tests/replay/captures/", "corners ")


def never_shown() -> str:
    """What no trace can show, with the reason."""
    rows = [(f"`{name}`", why) for name, why in NEVER_SHOWN.items()]
    return _table(("Rule", "No trace can show it, because"), [*rows, *ALSO_NEVER_SHOWN.items()])


def _number(cost: float) -> str:
    return f"{cost:g}"


def changes() -> str:
    """What changed in each release, the newest first."""
    return "\n\n".join(_changes_in(name) for name in reversed(RELEASES[1:]))


def _changes_in(release: str) -> str:
    before, now = (VERSIONS[name] for name in (RELEASES[RELEASES.index(release) - 1], release))
    found = [
        (f"`{row.name}`", row.meaning, *change_texts(row, before, now, "`"))
        for subject in _SUBJECTS
        for row in rows_of(subject)
        if row.value_in(before) != row.value_in(now)
    ]
    head = ("Behaviour", "What it decides", f"In {before}", f"In {now}")
    return f"### What changed in {release}\n\n" + _table(head, found)


def subjects() -> str:
    """By subject: each behaviour with its value in each release, what it decides, and how that is known."""
    return "\n\n".join(map(_subject, _SUBJECTS))


def _subject(subject: type) -> str:
    file = subject.__module__.replace(".", "/") + ".py"
    rows = rows_of(subject)
    head = ("Behaviour", *(f"{name} ({VERSIONS[name]})" for name in RELEASES))
    values = [(f"`{row.name}`", *_values(row)) for row in rows if not is_set(row)]
    known = [(f"`{row.name}`", row.meaning, row.evidence) for row in rows]
    parts = [
        f"### {subject_text(subject)}",
        f"From [`{file}`](../../{file}).",
        _table(head, values) if values else "",
        *map(_set, filter(is_set, rows)),
        _table(("Behaviour", "What it decides", "Evidence"), known),
    ]
    return "\n\n".join(filter(None, parts))


def _values(row: Row) -> list[str]:
    """The value in each release, with a mark where nothing decides that it is the right one."""
    pairs = zip(RELEASES, row.values, strict=True)
    return [value_text(value) + (_UNDECIDED if name in row.undecided else "") for name, value in pairs]


def _set(row: Row) -> str:
    """What a behaviour whose value is a set holds, and in which releases."""
    members = sorted(frozenset().union(*row.values))
    rows = [
        (members_text({member}, "`"), *("×" if member in held else "" for held in row.values)) for member in members
    ]
    heads = (name + (_UNDECIDED if name in row.undecided else "") for name in RELEASES)
    return _table((f"`{row.name}`", *heads), rows)


def lint_rules() -> str:
    """Each rule of lint with its document."""
    assert GROUPS  # importing them makes the rules
    parts: list[str] = []
    for rule in sorted(LINT_RULES.values(), key=lambda rule: rule.code):
        told = rule.document
        sections = (f"*Why:* {told.why}", f"*Example:* {told.example}", f"*Fix:* {told.fix}")
        parts += [f"### {rule.code} {rule.name}", told.what, *sections]
    return "\n\n".join(parts)


def amqp_methods() -> str:
    """Every method of AMQP 0-9-1, and whether dlx has it."""
    return _table(("Method", "", "How"), ((f"`{name}`", mark, how) for name, mark, how in rabbitmq_coverage.methods()))


def arguments() -> str:
    """Every argument and policy key, and what it does in dlx in each release."""
    return "\n\n".join(
        f"### {title}\n\n{_marked('Name', RELEASES, rabbitmq_coverage.arguments(row))}"
        for title, row in rabbitmq_coverage.ARGUMENTS.items()
    )


def endpoints() -> str:
    """Every endpoint that servers name, and whether dlx has it."""
    return _marked("Endpoint", tuple(rabbitmq_coverage.recorded()), rabbitmq_coverage.endpoints())


def _marked(head: str, releases: Sequence[str], lines: Iterable[rabbitmq_coverage.Line]) -> str:
    rows = [(f"`{line.name}`", *(line.marks[name] for name in releases), line.how) for line in lines]
    return _table((head, *releases, "How"), rows)


def commands() -> str:
    """What each command prints at ``--help``."""
    return "\n\n".join(map(_command, sorted(COMMANDS)))


def _command(name: str) -> str:
    context = click.Context(cli, info_name="dlx", terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH)
    command = cli.get_command(context, name)
    assert command is not None
    own = click.Context(command, context, name, help_option_names=["-h", "--help"], terminal_width=HELP_WIDTH)
    return f"## dlx {name}\n\n{COMMANDS[name][1]}\n\n```text\n{command.get_help(own)}\n```"


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "how-to/capture.md": {"columns": columns},
    "reference/commands.md": {"commands": commands},
    "evidence/coverage.md": {"rules": exercised_rules, "never-shown": never_shown},
    "reference/replay-verdicts.md": {"repair-costs": repair_costs},
    "how-to/lint.md": {"rules": lint_rules},
    "reference/rabbitmq-coverage.md": {"methods": amqp_methods, "arguments": arguments, "endpoints": endpoints},
    "reference/releases.md": {"changes": changes, "subjects": subjects},
    "how-to/spark.md": {"definitions columns": definitions_columns},
}


def generated(document: str, text: str) -> str:
    """Return the document with its parts generated again. Raises ``ValueError`` where a part's place is missing."""
    if document == SCHEMA:
        return msgspec.json.format(msgspec.json.encode(definitions_schema()), indent=2).decode() + "\n"
    for name, make in PARTS[document].items():
        place = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise ValueError(f"{document}: no place for {name}: <!-- generated: {name} --> … <!-- end -->")
        part = f"\n{make()}\n\n"
        text = place.sub(lambda found, part=part: found[1] + part + found[2], text)
    return text


def stale() -> list[str]:
    """The documents that differ from what the code says."""
    texts = {document: _text(document) for document in (*PARTS, SCHEMA)}
    return [document for document, text in texts.items() if generated(document, text) != text]


def _text(document: str) -> str:
    path = DOCS / document
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _type(kind: Any) -> str:
    return str(kind).replace("element: ", "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    parser.add_argument("--check", action="store_true", help="only say which documents are stale")
    documents = stale()
    if parser.parse_args().check:
        for document in documents:
            print(f"docs/{document} is stale: run python docs/generate.py", file=sys.stderr)
        return 1 if documents else 0
    for document in documents:
        path = DOCS / document
        text = generated(document, _text(document))
        write_whole(path, text)
        print(f"docs/{document}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
