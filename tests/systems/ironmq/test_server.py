"""The API on a port."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from simulator.server.http_server import run, serve
from simulator.systems.ironmq.http import app


def post(url: str) -> Any:
    """Post a message to a server, and reserve it."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        path, headers = "/3/projects/p/queues/q", {"Authorization": "OAuth token", "Content-Type": "application/json"}
        connection.request("POST", f"{path}/messages", json.dumps({"messages": [{"body": "sup"}]}), headers)
        assert connection.getresponse().read()
        connection.request("POST", f"{path}/reservations", "{}", headers)
        return json.loads(connection.getresponse().read())["messages"]
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_serves_until_it_is_told_to_stop(host: str) -> None:
    async def main() -> list[Any]:
        loop, stop, ready = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        urls: list[str] = []

        def announce(url: str) -> None:
            urls.append(url)
            ready.set()

        serving = loop.create_task(serve(app(), host=host, port=0, ready=announce, stop=stop))
        await asyncio.wait_for(ready.wait(), 10)
        answer = await asyncio.to_thread(post, urls[0])
        stop.set()
        await asyncio.wait_for(serving, 10)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(post, urls[0])
        return list(answer)

    (message,) = asyncio.run(main())
    assert message["body"] == "sup"


def test_sigterm_stops_it() -> None:
    answers: list[Any] = []

    def use(url: str) -> None:
        answers.extend(post(url))
        os.kill(os.getpid(), signal.SIGTERM)

    clients: list[threading.Thread] = []

    def ready(url: str) -> None:
        clients.append(threading.Thread(target=use, args=(url,)))
        clients[0].start()

    run(app(), host="127.0.0.1", port=0, ready=ready)
    clients[0].join(10)
    assert [message["body"] for message in answers] == ["sup"]


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        run(app(), host="127.0.0.1", port=taken.getsockname()[1], ready=print)
