"""The list of faults fits the tree, and docs/evidence/mutants.md names exactly those listed. No fault is tried here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutants import listed
from tests.mutants.document import HEAD, document, rows
from tests.mutants.listed import BadListError, Fault
from tests.mutants.trial import WIDE, Result

ROOT = Path(__file__).parent.parent.parent
SUBJECTS = listed.subjects()
FAULTS = [fault for subject in SUBJECTS for fault in subject.fault]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_still_fits_the_tree(fault: Fault) -> None:
    listed.check([fault], ROOT)
    compile(fault.applied(ROOT), fault.file, "exec")


def test_there_are_many_and_most_are_in_the_rules() -> None:
    rules = sum(fault.file.startswith("dlx/") for fault in FAULTS)
    assert len(FAULTS) >= 60
    assert 0.5 * len(FAULTS) < rules < 0.8 * len(FAULTS)


def test_no_two_faults_are_the_same() -> None:
    assert len({(fault.file, fault.applied(ROOT)) for fault in FAULTS}) == len(FAULTS)


def test_the_tests_tried_for_every_fault_are_there() -> None:
    assert [name for name in WIDE if not (ROOT / name).exists()] == []


def test_the_document_names_exactly_the_faults_of_the_list() -> None:
    text = (ROOT / "docs" / "evidence" / "mutants.md").read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    found = rows(text)
    assert [row[:3] for row in found] == [(fault.name, fault.wrong, fault.file) for fault in FAULTS]
    assert [name for name, _, _, by in found if by == "**nothing**"] == []
    files = {by.strip("`").partition("::")[0] for *_, by in found}
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_document_says_what_it_was_made_of() -> None:
    subject = listed.Subject(title="One | two", fault=tuple(FAULTS[:3]))
    outcomes = ("caught", "survived", "hung")
    results = [Result(fault=f, outcome=o, by="t::x[a|b]") for f, o in zip(subject.fault, outcomes, strict=True)]
    text = document([subject], results, 5_000)
    assert "3 faults in 1 files: 3 in the rules (`dlx/`), 0 in the broker (`simulator/`). 1 are caught." in text
    assert [row[3] for row in rows(text)] == ["`t::x[a|b]`", "**nothing**", "**nothing**"]
    assert [row[:3] for row in rows(text)] == [(f.name, f.wrong, f.file) for f in FAULTS[:3]]


GOOD = {"name": "n", "wrong": "W.", "file": "code.py", "text": "a = 1", "put": "a = 2", "tests": ["test.py"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"file": "gone.py"}, "fault n: there is no file gone.py"),
        ({"text": "= 1"}, "fault n: its text occurs 2 times in code.py, not once"),
        ({"text": "c"}, "fault n: its text occurs 0 times in code.py, not once"),
        ({"put": "a = 1"}, "fault n: put is the same as text, it changes nothing"),
        ({"tests": ["gone.py"]}, "fault n: no tests gone.py"),
        ({"tests": []}, "fault n: no tests are named"),
        ({"extra": 1}, "one.toml: Object contains unknown field `extra` - at `$.fault[0]`"),
        ({"hangs": "yes"}, "one.toml: Expected `bool`, got `str` - at `$.fault[0].hangs`"),
    ],
)
def test_a_bad_list_is_named(change: dict[str, object], says: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "test.py").touch()
    # What is JSON here is TOML, too.
    lines = [f"{key} = {json.dumps(value)}" for key, value in (GOOD | change).items()]
    (tmp_path / "one.toml").write_text("\n".join(['title = "T"', "[[fault]]", *lines]))
    with pytest.raises(BadListError) as error:
        listed.check([fault for subject in listed.subjects(tmp_path) for fault in subject.fault], tmp_path)
    assert str(error.value) == says


def test_a_name_is_used_once(tmp_path: Path) -> None:
    text = "\n".join(["[[fault]]", *(f"{key} = {json.dumps(value)}" for key, value in GOOD.items())])
    (tmp_path / "one.toml").write_text(f'title = "T"\n{text}\n{text}')
    with pytest.raises(BadListError, match="two faults have the name n"):
        listed.subjects(tmp_path)


def test_a_list_without_faults_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadListError, match="no faults in"):
        listed.subjects(tmp_path)
