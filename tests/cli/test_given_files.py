"""A URL where a command reads a file: it is told apart, and how to get the file is said."""

from __future__ import annotations

import pytest

from simulator.cli.main import main

EXPORT = "rabbitmqctl export_definitions definitions.json"
BROKER = "http://guest:guest@localhost:15672/"
SHOWN = "http://guest:...@localhost:15672/"


@pytest.mark.parametrize(
    ("args", "url", "advice"),
    [
        (["record", "--definitions", BROKER, "true"], SHOWN, "http://USER@HOST:15672 --out definitions.json"),
        (["serve", "--definitions", BROKER], SHOWN, EXPORT),
        (["replay", "amqp://localhost", "--definitions", "d.json"], "amqp://localhost", "dlx capture --url"),
        (["convert", "amqps://localhost", "--out", "x.parquet"], "amqps://localhost", "dlx capture --url"),
        (["replay", "https://x/y.jsonl", "--form", "histories"], "https://x/y.jsonl", "file is needed"),
        (["compare", "https://x/y.json"], "https://x/y.json", "file is needed"),
        (["simulate", "zaqar", "https://x/y.json"], "https://x/y.json", "file is needed"),
    ],
)
def test_a_url_is_wrong_usage(args: list[str], url: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{url} is a URL, and a file is needed here" in err
    assert advice in err
