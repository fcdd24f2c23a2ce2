"""Records a RabbitMQ server on which a policy is changed twice while messages are under way.

    python -m tests.replay.changed.record 4.3 amqp://guest:guest@HOST http://guest:guest@HOST:15672/

writes ``4.3/log.parquet`` here, with the definitions before and after each change, and the times of the changes in
seconds since 1970. It makes a virtual host, and deletes it again.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika

from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import capture

VHOST = "changed-definitions"
POLICIES = [
    {"message-ttl": ttl_ms, "dead-letter-exchange": "", "dead-letter-routing-key": key}
    for ttl_ms, key in ((600, "done"), (600, "other"), (300, "other"))
]
TO_WAIT = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait", "x-queue-type": "quorum"}
QUEUES: dict[str, dict[str, Any]] = {"work": TO_WAIT, "wait": {}, "done": {}, "other": {}}
PERIOD_S = 6


class _Api:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url = f"{parts.scheme}://{parts.hostname}:{parts.port}/api"
        self._basic = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()

    def __call__(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"content-type": "application/json", "authorization": f"Basic {self._basic}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()


def _traffic(url: str, api: _Api, folder: Path, ended: threading.Event) -> None:
    times = []
    try:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for queue, arguments in QUEUES.items():
                channel.queue_declare(queue, durable=True, arguments=arguments)
            for period, definition in enumerate(POLICIES):
                policy = {"pattern": "^wait$", "definition": definition, "apply-to": "queues", "priority": 0}
                api("PUT", f"policies/{VHOST}/waiting", policy)
                times.append(round(time.time(), 3))
                (folder / f"definitions-{period}.json").write_bytes(api("GET", f"definitions/{VHOST}"))
                _work(connection, channel, period)
            connection.sleep(1)
    finally:
        (folder / "times.json").write_text(json.dumps(times[1:]))
        ended.set()


def _work(connection: Any, channel: Any, period: int) -> None:
    until = time.monotonic() + PERIOD_S
    number = 0
    while time.monotonic() < until:
        number += 1
        channel.basic_publish("", "work", b"x", pika.BasicProperties(message_id=f"{period}-{number}"))
        for queue in ("work", "done", "other"):
            method, _, _ = channel.basic_get(queue)
            if method is not None and queue == "work":
                channel.basic_reject(method.delivery_tag, requeue=False)
            elif method is not None:
                channel.basic_ack(method.delivery_tag)
        connection.sleep(0.05)


def main() -> None:
    release, amqp_url, management_url = sys.argv[1:]
    folder = Path(__file__).parent / release
    folder.mkdir(exist_ok=True)
    api, url, ended = _Api(management_url), f"{amqp_url}/{VHOST}", threading.Event()
    api("PUT", f"vhosts/{VHOST}", {})
    try:
        api("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        traffic = threading.Thread(target=_traffic, args=(url, api, folder, ended))
        until = CaptureLimits(stop=ended.is_set, seconds=120)
        report = capture(
            url, folder / "log.parquet", management_url=management_url, until=until, on_ready=traffic.start
        )
        traffic.join()
        print(f"{release}: {report.rows} rows")
    finally:
        api("DELETE", f"vhosts/{VHOST}")


if __name__ == "__main__":
    main()
