"""Files of cases: what they may say, and what is said of wrong ones, with the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.testing.cases.case_reading import CaseFileError, read_cases
from simulator.testing.cases.given_case import GivenCase, fits, milliseconds

CASE = """
definitions: {queues: [{name: orders}, {name: dead}]}
cases:
  - name: one
    steps:
      - {do: publish, exchange: '', routing_key: orders}
      - do: expect
        queues: {orders: 1}
"""


def faults(asked: str) -> tuple[str, str, int]:
    """Return what has a step of faults go before the first one, and its line."""
    return "- {do: publish", f"- {{do: faults, set: [{{{asked}}}]}}\n      - {{do: publish", 6


def read(text: str, folder: Path) -> list[GivenCase]:
    path = folder / "cases.yml"
    path.write_text(text)
    return read_cases(path)


def test_a_case_has_the_definitions_of_its_file(tmp_path: Path) -> None:
    (case,) = read(CASE, tmp_path)
    assert (case.name, case.line, case.step_lines) == ("one", 4, (6, 7))
    assert set(case.topology.queues) == {"orders", "dead"}


def test_definitions_may_be_a_file_beside_it_and_one_virtual_host_of_several(tmp_path: Path) -> None:
    queues = [{"name": name, "vhost": name, "durable": True, "auto_delete": False, "arguments": {}} for name in "ab"]
    document = {"vhosts": [{"name": "a"}, {"name": "b"}], "queues": queues}
    (tmp_path / "export.json").write_text(json.dumps(document))
    text = "definitions: export.json\nvhost: b\ncases: [{name: x, steps: [{do: expect, queues: {b: 0}}]}]"
    (case,) = read(text, tmp_path)
    assert set(case.topology.queues) == {"b"}
    with pytest.raises(CaseFileError, match="several virtual hosts have queues: 'a', 'b'; name one: vhost"):
        read(text.replace("vhost: b\n", ""), tmp_path)


def test_each_row_is_a_case_and_keeps_the_types_of_its_values(tmp_path: Path) -> None:
    text = CASE.replace("name: one", "name: $n of $(n), $$5").replace("orders: 1", "orders: $n, dead: 0")
    cases = read(text + "    each: {n: [1, 2]}\n", tmp_path)
    assert [case.name for case in cases] == ["1 of 1, $5", "2 of 2, $5"]
    assert [case.steps[1].queues for case in cases] == [{"orders": 1, "dead": 0}, {"orders": 2, "dead": 0}]


def test_each_may_list_whole_rows(tmp_path: Path) -> None:
    text = CASE.replace("name: one", "name: $a$b") + "    each: [{a: x, b: 1}, {a: y, b: 2}]\n"
    assert [case.name for case in read(text, tmp_path)] == ["x1", "y2"]


def test_a_release_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    (case,) = read(CASE + "    releases: 3.10\n", tmp_path)
    assert case.releases == "3.10"


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (
            "- do: expect",
            "- {do: modify, queue: orders, annotations: {foo: 1}}\n      - do: expect",
            7,
            "annotations: 'foo' does not begin with 'x-'; RabbitMQ ends the session for it",
        ),
        (
            "- do: expect",
            "- {do: modify, queue: orders, annotations: {x-opt-f: 1.5}}\n      - do: expect",
            7,
            "annotations: x-opt-f is 1.5; it cannot be delivered",
        ),
        (
            "- do: expect",
            "- {do: modify, queue: orders}\n      - {do: get, queue: orders}\n      - do: expect",
            8,
            "get: the case has 'modify' for this queue, and AMQP 1.0 has no basic.get",
        ),
        ("routing_key", "routing_kay", 6, "unknown field 'routing_kay'; did you mean 'routing_key'?"),
        ("steps:", "stepps:", 5, "unknown field 'stepps'; did you mean 'steps'?"),
        ("do: publish", "do: publsh", 6, "do: no step 'publsh'; did you mean 'publish'?"),
        ("do: publish", "do: null", 6, "do: no step null; there are 'ack',"),
        ("do: publish", "do: [publish]", 6, 'do: no step ["publish"]; did you mean'),
        ("key: orders", "key: ord\x00ers", 6, r"not YAML: the character '\x00' is not allowed"),
        ("name: one", "name: $(n)\n    each: [{n: null}, {n: null}]", 4, "two cases are called 'null'"),
        ("key: orders", "key: orders, properties: {mesage_id: x}", 6, "'mesage_id'; did you mean 'message_id'"),
        (
            "key: orders",
            "key: orders, properties: {priority: 256}",
            6,
            "properties.priority: expected a whole number, at most 255",
        ),
        (
            "{do: publish",
            "{do: repeat, times: 2, steps: [{do: expect}]}\n      - {do: publish",
            6,
            "cannot be repeated",
        ),
        ("orders: 1", "order: 1", 8, "no queue 'order'; did you mean 'orders'?"),
        ("routing_key: orders", "routing_key: oders", 6, "no queue 'oders'; did you mean 'orders'?"),
        ("orders: 1", "orders: [{routingkey: x}]", 8, "unknown field 'routingkey'; did you mean 'routing_key'?"),
        ("orders: 1", "orders: [{deaths: [{cuont: 1}]}]", 8, "unknown field 'cuont'; did you mean 'count'?"),
        ("orders: 1", "orders: -1", 8, "-1 messages; expected 0 or more"),
        ("orders: 1", "orders: many", 8, "expected a whole number or a list, got a string"),
        (
            "orders: 1",
            "orders: [{properties: {mesage_id: x}}]",
            8,
            "no property 'mesage_id'; did you mean 'message_id'",
        ),
        ("orders: 1", "orders: [{times: 9999999}]", 8, "times: expected a whole number, at most 1000000"),
        ("queues: {orders: 1}", "lost: [{how: drpped}]", 8, "how: nothing is 'drpped'; did you mean 'dropped'"),
        ("queues: {orders: 1}", "at: 9999999d", 8, "'9999999d' is more than 1,000 years"),
        (
            "key: orders",
            "key: orders, properties: {expiration: '5'}",
            6,
            "a publish has the field expiration_ms beside",
        ),
        ("cases:", "casse:", 3, "unknown field 'casse'; did you mean 'cases'?"),
        ("definitions:", "definition:", 2, "unknown field 'definition'; did you mean 'definitions'?"),
        ("queues: {orders: 1}", "at: 5 minutes", 8, "'5 minutes' is not a time; expected milliseconds or text"),
        ("queues: {orders: 1}", "releases: '>=3.14'", 8, "there is no release '3.14'; did you mean"),
        (
            "queues: {orders: 1}",
            "releases: newest",
            8,
            "'newest' is not a condition on releases; expected one such as '4.3'",
        ),
        ("- do: expect", "- do: until\n        at: 5", 4, None),
        ("    steps:", "    each: {n: 1}\n    steps:", 5, "each: expected rows"),
        ("name: one", "name: $n\n    each: {m: [1]}", 5, "no $n in `each`; there are 'm' (write $$ for a dollar)"),
        ("{name: dead}", "{nam: dead}", 2, "queues[1].name: missing; expected a string"),
        ("cases:", "cases: [", 4, "not YAML: "),
        ("name: one", "name: one\n    name: two", 4, "the key is there twice"),
        (*faults("fault: close_chanel"), "fault: no fault 'close_chanel' in a case; did you mean 'close_channel'"),
        (*faults("fault: refuse_declare, queue: dead"), "fault: no fault 'refuse_declare' in a case; there are"),
        (*faults("fault: drop_confirm, nht: 2"), "unknown field 'nht'; did you mean 'nth'?"),
        (*faults("fault: close_channel, queue: oders"), "no queue 'oders'; did you mean 'orders'?"),
        (*faults("fault: drop_confirm, exchange: shop"), "no exchange 'shop'; "),
        (*faults("fault: close_channel, code: 320"), "code: expected one that ends a channel ("),
        (*faults("fault: delay_confirm"), "the field delay_ms is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    old: str, new: str, line: int, problem: str | None, tmp_path: Path
) -> None:
    text = CASE.replace(old, new, 1)
    if problem is None:
        text, problem = text.replace("        queues: {orders: 1}\n", ""), "the case 'one' expects nothing"
    with pytest.raises(CaseFileError) as raised:
        read(text, tmp_path)
    assert problem in raised.value.problem
    assert raised.value.line == line
    assert str(raised.value).startswith(f"{tmp_path / 'cases.yml'}:{raised.value.line}: ")


def test_time_only_goes_forward(tmp_path: Path) -> None:
    with pytest.raises(CaseFileError, match="5s has passed: it is 10,000 ms after the start") as raised:
        read(CASE + "      - {do: until, at: 10s}\n      - {do: expect, at: 5s}\n", tmp_path)
    assert raised.value.line == 10


def test_two_cases_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(CaseFileError, match="two cases are called 'one'"):
        read(CASE + "  - {name: one, steps: [{do: expect}]}\n", tmp_path)


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    bomb = "\n".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 9))
    with pytest.raises(CaseFileError, match="more than 1,000,000 values"):
        read(f"b0: &b0 [x]\n{bomb}\n", tmp_path)
    with pytest.raises(CaseFileError, match="nested too deeply, or within itself"):
        read("cases: &a [*a]", tmp_path)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("24h", 86_400_000), ("1h 30min", 5_400_000), ("1.5s", 1_500), ("250ms", 250), (7, 7), ("2 d", 172_800_000)],
)
def test_times(text: str | int, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(
    ("condition", "releases"),
    [
        ("4.3", {"4.3"}),
        (">=3.10 <4.0", {"3.10", "3.11", "3.12", "3.13"}),
        (["3.8", ">4.2"], {"3.8", "4.3"}),
        ("<=3.9", {"3.8", "3.9"}),
    ],
)
def test_conditions_on_releases(condition: str | list[str], releases: set[str]) -> None:
    known = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3")
    assert {release for release in known if fits(release, condition)} == releases
