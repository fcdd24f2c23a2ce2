"""``dlx serve activemq``: the command, and what it shows over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from simulator.cli.serve import serve
from simulator.clock import VirtualClock
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.activemq.stomp_server import StompServer
from tests.systems.activemq.live.cases import configuration, policies, strategy
from tests.systems.activemq.live.stomp_cases import connect, frame, nack, send, subscribe, wait
from tests.systems.activemq.live.stomp_player import Server, Step, Talk

INDIVIDUAL = configuration(policies(strategy('<individualDeadLetterStrategy queuePrefix="DEAD."/>')))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The command in virtual time: its port of STOMP, and the URL of its page."""
    file = tmp_path_factory.mktemp("broker") / "activemq.xml"
    file.write_text(INDIVIDUAL)
    command = [
        sys.executable,
        "-c",
        "from dlx.entry_points import main; main()",
        "serve",
        "activemq",
        str(file),
        "--clock",
        "virtual",
    ]
    with subprocess.Popen(
        [*command, "--port", "0", "--management-port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = re.fullmatch(r"stomp://127\.0\.0\.1:(\d+) (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())
        assert ready is not None
        yield int(ready[1]), ready[2]
        process.terminate()
        assert process.wait(20) == 0


def got(url: str, body: bytes | None = None) -> tuple[int, Any]:
    """What is answered."""
    try:
        with urlopen(Request(url, body), timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_clients_and_the_page_see_the_same(running: tuple[int, str]) -> None:
    port, url = running
    status, time = got(f"{url}clock")
    assert (status, time["virtual"]) == (200, True)
    soon = time["now_us"] // 1000 + 60_000
    steps = [
        connect(), send("A", "/queue/orders", receipt="1"), send("B", "/queue/orders", expires=str(soon), receipt="2"),
        subscribe(to="/queue/orders", number="1", activemq__prefetchSize="1", receipt="3"), nack("A", receipt="4"),
        frame("UNSUBSCRIBE", id="1", receipt="5"),
    ]  # fmt: skip
    answers = Talk(Server(port), quiet_s=0.02).play(steps)
    assert [each["frame"] for after in answers[2:] for each in after if "closed" not in each][:3] == [
        "RECEIPT",
        "RECEIPT",
        "MESSAGE",
    ]
    shown = {each["name"]: each["messages"] for each in got(f"{url}queues")[1]}
    assert shown == {"queue://orders": 1, "queue://DEAD.orders": 1}
    assert [each["body"] for each in got(f"{url}queues/DEAD.orders")[1]] == ["A"]
    assert got(f"{url}clock/advance", b'{"minutes": 5}') == (200, {**time, "now_us": time["now_us"] + 300_000_000})
    dead = got(f"{url}queues/DEAD.orders")[1]
    assert [each["body"] for each in dead] == ["A", "B"]
    assert "Message Expired" in dead[1]["properties"]["dlqDeliveryFailureCause"]
    events = [each["event"] for each in got(f"{url}events?message={dead[0]['message']}")[1]]
    assert events == ["published", "routed", "delivered", "rejected", "dead-lettered", "routed"]
    assert got(f"{url}queues/nobody")[0] == 404
    assert got(f"{url}clock/advance", b'{"minutes": -1}')[0] == 400
    assert got(f"{url}clock/advance", b'{"fortnights": 1}')[0] == 400
    assert got(f"{url}clock/advance", b"[]")[0] == 400
    with urlopen(url, timeout=20) as page:
        assert "queue://DEAD.orders" in page.read().decode()


class BriefSilence(Server):
    """A broker whose heart-beats are waited for by nothing but reading."""

    def wait(self, ms: int) -> None:
        pass


@pytest.mark.parametrize(("asked", "what"), [("0,20", {"beat": True}), ("20,0", {"connection": "a", "closed": True})])
def test_heart_beats_go_by_the_clock_on_the_wall(asked: str, what: dict[str, Any]) -> None:
    async def main() -> list[Any]:
        server = StompServer(BrokerSettings(), VirtualClock())
        port = int((await server.listen("127.0.0.1", 0)).rpartition(":")[2])
        steps: list[Step] = [connect(heart_beat=asked), wait(0), wait(0), wait(0)]
        answers = await asyncio.to_thread(Talk(BriefSilence(port), quiet_s=0.2).play, steps)
        await server.stop()
        return [each for after in answers for each in after]

    assert what in asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["activemq", "--release", "4.3"], 2, "--release: activemq does not take this; it takes "),
        (["activemq", "--profile", "redis"], 2, "--profile: activemq does not take this"),
        (["ironmq", "activemq.xml"], 2, "activemq.xml: ironmq does not take this"),
        (["rabbitmq", "definitions.json"], 2, "definitions.json: rabbitmq takes its file as --definitions FILE"),
        (["activemq", "wrong.xml"], 65, "wrong.xml: line 1, column 8: "),
        (["activemq", "absent.xml"], 65, "absent.xml: No such file"),
    ],
)
def test_what_cannot_be_served_is_said(
    given: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.xml").write_text("<beans>")
    result = CliRunner().invoke(serve, given)
    assert (result.exit_code, said in result.output) == (code, True), result.output
