"""Exports in other files: values of ConfigMaps, Secrets and Helm, files of a folder, and what YAML is to Kubernetes."""

from __future__ import annotations

import base64
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError
from simulator.definitions.places import json_lines
from simulator.sources import definitions_from_file, definitions_from_text
from simulator.sources.yaml_documents import plain_scalar, yaml_documents
from tests.sources.reading import failing, parsed

EXPORT = """\
{"rabbitmq_version": "4.0.5",
 "vhosts": [{"name": "/"}],
 "queues": [
  {"name": "work", "vhost": "/",
   "arguments": {"x-dead-letter-exchange": "none"}},
  {"name": "rest", "vhost": "/"}
 ]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broker\ndata:\n  definitions.json: |\n{}"
VALUES = """\
replicaCount: 3
extraConfiguration: |
  load_definitions = /app/load_definition.json
loadDefinition:
  enabled: true
extraSecrets:
  load-definition:
    load_definition.json: |
{}"""


def lines(definitions: Definitions) -> list[int | None]:
    places = [definitions.place("queues", at) for at in range(len(definitions.document["queues"]))]
    return [None if each is None else each.line for each in places]


def indented(spaces: int, text: str = EXPORT) -> str:
    return textwrap.indent(text, " " * spaces)


def test_a_json_file_knows_the_line_of_each_object() -> None:
    read = parsed(EXPORT)
    assert lines(read) == [4, 6]
    assert str(read.place("queues")) == "given.yaml, line 3"
    assert read.place("queues", 2) is None


def test_lint_names_the_line_in_a_json_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(EXPORT, encoding="utf-8")
    assert main(["lint", str(path), "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith(f"::error file={path},line=4,title=DLX001")


@pytest.mark.parametrize("depth_max", [0, 1, 2, 9])
def test_lines_are_those_of_keys_and_values(depth_max: int) -> None:
    text = b"""{"a": [1, {"b]": "x{\\"",
      "c": []}],
     // "d": 1
     'e': {"f":
       null}}"""
    all_lines = {
        (): 1,
        ("a",): 1,
        ("a", 0): 1,
        ("a", 1): 1,
        ("a", 1, "b]"): 1,
        ("a", 1, "c"): 2,
        ("e",): 4,
        ("e", "f"): 4,
    }
    assert dict(json_lines(text, depth_max)) == {
        path: line for path, line in all_lines.items() if len(path) <= depth_max
    }


@pytest.mark.parametrize(("text", "spaces"), [(CONFIG_MAP, 4), (VALUES, 6)], ids=["ConfigMap", "values"])
def test_a_literal_block_has_the_lines_of_its_file(text: str, spaces: int) -> None:
    whole = text.format(indented(spaces))
    first = whole.splitlines().index(indented(spaces).splitlines()[3]) + 1
    read = parsed(whole)
    assert lines(read) == [first, first + 2]
    assert read.rabbitmq_version == "4.0.5"


def test_another_string_has_the_line_of_its_key() -> None:
    in_base64 = base64.b64encode(EXPORT.encode()).decode()
    secret = f"kind: Secret\ndata:\n  a: eA==\n  definitions: {in_base64}\n"
    assert lines(parsed(secret)) == [4, 4]
    folded = f"kind: Secret\nstringData:\n  definitions: {json.dumps(EXPORT)}\n"
    assert lines(parsed(folded)) == [3, 3]
    in_json = json.dumps({"kind": "ConfigMap", "data": {"d": EXPORT}}, indent=1)
    assert lines(parsed(in_json)) == [4, 4]


@pytest.mark.parametrize(
    ("export", "said"),
    [
        (EXPORT.replace('"work"', "7"), "given.yaml, line 10: name: expected a string, got 7"),
        (EXPORT.replace('"none"', "null"), "line 10: arguments.x-dead-letter-exchange: expected a value, got null"),
        (EXPORT.replace('"vhost": "/",', '"vhost" "/",'), "given.yaml, line 10: not JSON"),
        (
            '{"queues": [{"name": "q"}]}\n',
            "given.yaml, line 7: original_vhost_name: missing; expected the virtual host",
        ),
    ],
)
def test_what_is_wrong_in_an_embedded_export_has_its_line(export: str, said: str) -> None:
    assert said in failing(CONFIG_MAP.format(indented(4, export)))


def test_an_export_in_yaml() -> None:
    read = parsed("# by hand\nvhosts:\n- name: /\nqueues:\n- {name: a, vhost: /}\n- name: b\n  vhost: /\n")
    assert lines(read) == [5, 6]
    assert "line 3: arguments.x: expected a value" in failing(
        "vhosts: [{name: /}]\nqueues:\n- {name: a, vhost: /, arguments: {x: }}\n"
    )


QUEUE = """\
apiVersion: rabbitmq.com/v1beta1
kind: Queue
metadata: {{name: {0}}}
spec: {{name: {0}, durable: true, arguments: {{x-max-length: {1}}}, rabbitmqClusterReference: {{name: rabbit}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files: dict[str, Any] = {
        "a.json": EXPORT,
        "b.yaml": QUEUE.format("rest", 5),
        "c.yml": QUEUE.format("more", 6),
        "d.json": '{"private": true}',
        "kustomization.yaml": "kind: Kustomization\nresources: [b.yaml]\n",
        "empty.yaml": "# nothing\n---\n",
        "notes.txt": "not read",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_files_of_a_folder_are_laid_over_each_other(folder: Path) -> None:
    read = definitions_from_file(folder)
    found = {each["name"]: each.get("arguments", {}).get("x-max-length") for each in read.document["queues"]}
    assert found == {"work": None, "rest": 5, "more": 6}
    places = [read.place("queues", at) for at in range(3)]
    assert [Path(each.file).name for each in places if each is not None] == ["a.json", "b.yaml", "c.yml"]
    said = "\n".join(read.remarks)
    assert f"{folder / 'b.yaml'}, line 1: queue with vhost '/', name 'rest' replaces the one at" in said
    assert f"replaces the one at {folder / 'a.json'}, line 6" in said
    assert f"{folder / 'd.json'}: left out, since it describes no topology: a document (line 1)" in said
    assert "Kustomization (line 1); `kustomize build` writes what it makes" in said


def test_two_queues_of_one_name_in_one_file_are_both_kept_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text("---\n".join(QUEUE.format("orders", most) for most in (5, 6)), encoding="utf-8")
    assert [each["arguments"] for each in definitions_from_file(file).document["queues"]] == [
        {"x-max-length": 5},
        {"x-max-length": 6},
    ]
    main(["lint", str(file)])
    assert "DLX030 duplicate-object: the definitions have queue 'orders' 2 times" in capsys.readouterr().out


def test_two_objects_of_kubernetes_for_one_queue_are_both_kept_and_one_of_the_same_name_replaces(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.yaml").write_text(QUEUE.format("orders", 5), encoding="utf-8")
    for name, kept in (("other", [5, 6]), ("orders", [6])):
        later = QUEUE.format("orders", 6).replace("metadata: {name: orders}", f"metadata: {{name: {name}}}")
        (tmp_path / "b.yaml").write_text(later, encoding="utf-8")
        read = definitions_from_file(tmp_path)
        assert [each["arguments"]["x-max-length"] for each in read.document["queues"]] == kept
        assert ("replaces the one at" in " ".join(read.remarks)) == (kept == [6])


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.on }}\nkind: Queue\n{{- end }}\n",
        "# queues\n{{/* all */}}\nkind: Queue\n",
        "kind: Queue\nname: {{ .Values.q }}\n",
    ],
)
def test_a_template_of_helm_is_told_as_one(text: str) -> None:
    with pytest.raises(DefinitionsError, match="a template of Helm: `helm template` writes what it makes"):
        definitions_from_text(text.encode(), "queue.yaml")


@pytest.mark.parametrize(
    ("text", "line"),
    [(CONFIG_MAP.format(textwrap.indent(EXPORT, "    ")), 10), (EXPORT, 4), (QUEUE.format("work", 1), 1)],
)
def test_a_template_in_a_name_is_told(text: str, line: int) -> None:
    text = text.replace("name: work,", "name: '{{ .Values.q }}',").replace('"work"', '"{{ .Values.q }}"')
    (remark,) = (each for each in definitions_from_text(text.encode(), "f").remarks if "Helm" in each)
    assert f"line {line}: {{{{ .Values.q }}}} is a template of Helm, taken as it stands" in remark


def test_operator_objects_in_values_of_helm_are_told() -> None:
    in_list = textwrap.indent(QUEUE.format("work", 1), "    ").replace("    ", "  - ", 1)
    for text in (in_list, "  - |\n" + textwrap.indent(QUEUE.format("work", 1), "    ")):
        with pytest.raises(DefinitionsError, match="line 2: left out: objects of the topology operator in extraDeploy"):
            definitions_from_text(f"extraDeploy:\n{text}".encode(), "values.yaml")
        both = f"{VALUES.format(indented(6))}extraDeploy:\n{text}"
        assert "objects of the topology operator in extraDeploy" in " ".join(
            definitions_from_text(both.encode(), "values.yaml").remarks
        )


def test_a_broken_file_of_a_folder_is_no_topology_left_out(folder: Path) -> None:
    (folder / "e.json").write_text('{"queues":\n [}', encoding="utf-8")
    with pytest.raises(DefinitionsError, match=r"e\.json: line 2, column 3: not JSON"):
        definitions_from_file(folder)


def test_a_folder_without_a_topology_says_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Service\n", encoding="utf-8")
    with pytest.raises(DefinitionsError) as caught:
        definitions_from_file(tmp_path)
    why, _, expected = str(caught.value).partition("; expected ")
    assert why.endswith("a.yaml: left out, since it describes no topology: Service (line 1)")
    assert "a definitions export, " in expected


def test_a_folder_without_a_file_that_is_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(DefinitionsError, match=r"no file in it ends in \.json, \.yaml, \.yml$"):
        definitions_from_file(tmp_path)
    (tmp_path / "main.tf").write_text("", encoding="utf-8")
    with pytest.raises(DefinitionsError, match=r"ends in \.json, \.yaml, \.yml; of Terraform's, `terraform show -json"):
        definitions_from_file(tmp_path)


def test_a_name_that_is_not_like_one_of_an_export_is_not_suggested() -> None:
    with pytest.raises(DefinitionsError) as caught:
        definitions_from_text(b'{"name": "svc", "version": "1.0.0", "dependencies": {}}', "package.json")
    assert "did you mean" not in str(caught.value)


def test_a_virtual_host_that_is_not_defined_is_taken_to_be_there() -> None:
    queue = QUEUE.format("work", 5).replace("name: work,", "name: work, vhost: shop,")
    read = parsed(queue)
    assert read.vhosts == ("shop",)
    assert read.remarks == ("virtual host 'shop' is not defined here: it is taken to be there",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("y", True),
        ("No", False),
        ("~", None),
        ("0x1F", 31),
        ("010", 8),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("true ", "true "),
    ],
)
def test_plain_scalars_are_what_kubernetes_takes_them_for(text: str, value: object) -> None:
    assert plain_scalar(text) == value
    assert type(plain_scalar(text)) is type(value)


def test_merges_and_aliases_are_carried_out() -> None:
    text = b"base: &base {a: 1, b: 2}\nown:\n  <<: *base\n  b: 3\non: 'on'\n"
    (document,) = yaml_documents(text, "given.yaml")
    assert document.value == {"base": {"a": 1, "b": 2}, "own": {"a": 1, "b": 3}, "true": "on"}
    assert document.place("own", "b").line == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: &a [*a]\n", "nested more than 100 deep"),
        (b"a: !!binary eA==\n", "line 1: a: expected a value that JSON has"),
        (b"a: \xff\n", "line 1: not UTF-8"),
        (b"a: \x07\n", "line 1: not YAML"),
        (b"? [a]\n: b\n", "line 1: expected a key that is text"),
    ],
)
def test_yaml_that_is_no_json_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(DefinitionsError, match=said.replace("?", r"\?")):
        yaml_documents(text, "given.yaml")


def test_the_document_shows_what_lint_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    text = (root / "docs/how-to/sources.md").read_text(encoding="utf-8")
    shown = text.split("$ dlx lint examples/topologies/kubernetes\n")[1].split("```")[0]
    assert main(["lint", "examples/topologies/kubernetes"]) == 1
    assert capsys.readouterr().out.startswith(shown)
