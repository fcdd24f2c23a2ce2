"""Celery with a real worker process: results, retries, priorities, and dead-lettering by the arguments of its queues.

`tests/clients/run celery` runs it with a Celery of its own and names the broker.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
READY_SECONDS = 60
RESULT_SECONDS = 30


@pytest.fixture(scope="module", params=["classic", "quorum"])
def tasks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module of the tasks, with a worker that runs them from queues of this type."""
    if "DLX_CLIENTS_URL" not in os.environ:
        pytest.fail("no broker: run `tests/clients/run celery`, which has Celery and names one")
    if request.param == "quorum" and os.environ["DLX_CLIENTS_RELEASE"] == "3.8":
        pytest.skip("Celery's countdown on quorum queues needs their message TTL, which RabbitMQ has since 3.10")
    os.environ |= {"DLX_CELERY_TYPE": request.param, "DLX_CELERY_RUN": f"celery-{uuid.uuid4().hex[:8]}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.delitem(sys.modules, "celery_app.tasks", raising=False)
        module = importlib.import_module("celery_app.tasks")
    with module.app.connection() as connection:
        module.dead(connection.channel()).declare()
    with (tmp_path_factory.mktemp("worker") / "log").open("w+") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_app.tasks", "worker", "--pool", "solo", "-Q", module.TASKS],
            cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _wait_until_it_answers(module, worker, log)
            yield module
        finally:
            worker.terminate()
            worker.wait(RESULT_SECONDS)


def _wait_until_it_answers(module: ModuleType, worker: subprocess.Popen[bytes], log: Any) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not module.app.control.ping(timeout=0.5):
        if worker.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            pytest.fail(f"the worker does not answer:\n{log.read()[-4000:]}")


def dead_letter(tasks: ModuleType) -> Any:
    """The next message of the dead-letter queue."""
    deadline = time.monotonic() + RESULT_SECONDS
    with tasks.app.connection() as connection:
        queue = tasks.dead(connection.channel())
        while (message := queue.get(no_ack=True)) is None:
            assert time.monotonic() < deadline, f"nothing arrived in {tasks.DEAD}"
            time.sleep(0.05)
    return message


def only_death(message: Any) -> dict[str, Any]:
    """Its one x-death entry, without the time."""
    (death,) = message.headers["x-death"]
    assert death.pop("time")
    return death


def test_a_task_returns_its_result(tasks: ModuleType) -> None:
    results = [tasks.add.delay(number, 1) for number in range(20)]
    assert [result.get(timeout=RESULT_SECONDS) for result in results] == list(range(1, 21))


def test_a_chain_passes_results_on(tasks: ModuleType) -> None:
    assert (tasks.add.s(1, 2) | tasks.add.s(3)).delay().get(timeout=RESULT_SECONDS) == 6


def test_a_retried_task_waits_for_its_countdown(tasks: ModuleType) -> None:
    start = time.monotonic()
    assert tasks.succeeds_at_last.delay(2, countdown_s=1).get(timeout=RESULT_SECONDS) == 2
    assert time.monotonic() - start >= 2


def test_a_countdown_on_quorum_queues_is_a_ladder_of_expiring_queues(tasks: ModuleType) -> None:
    """Three seconds are two rungs, of two seconds and of one; a classic queue leaves the waiting to the worker."""
    start = time.monotonic()
    deaths = tasks.deaths.apply_async(countdown=3).get(timeout=RESULT_SECONDS)
    assert time.monotonic() - start >= 3
    rungs = [("celery_delayed_0", "expired", 1), ("celery_delayed_1", "expired", 1)]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == (
        rungs if tasks.TYPE == "quorum" else []
    )


def test_a_task_that_is_rejected_is_dead_lettered(tasks: ModuleType) -> None:
    tasks.rejected.delay()
    message = dead_letter(tasks)
    assert message.headers["task"] == "celery_app.tasks.rejected"
    assert only_death(message) == {
        "reason": "rejected", "queue": tasks.TASKS, "exchange": tasks.TASKS, "routing-keys": [tasks.TASKS], "count": 1,
    }  # fmt: skip


def test_a_task_that_fails_is_dead_lettered(tasks: ModuleType) -> None:
    with pytest.raises(ValueError, match="this task fails"):
        tasks.fails.delay().get(timeout=RESULT_SECONDS)
    message = dead_letter(tasks)
    assert message.headers["task"] == "celery_app.tasks.fails"
    assert only_death(message)["reason"] == "rejected"


def test_a_task_nobody_takes_in_time_expires(tasks: ModuleType) -> None:
    tasks.add.apply_async((1, 1), queue=tasks.WAITING, expiration=0.2)
    death = only_death(dead_letter(tasks))
    assert death.pop("original-expiration") == "200"
    assert death == {
        "reason": "expired", "queue": tasks.WAITING, "exchange": tasks.WAITING, "routing-keys": [tasks.WAITING],
        "count": 1,
    }  # fmt: skip


def test_a_full_queue_drops_its_oldest_task(tasks: ModuleType) -> None:
    for number in range(4):
        tasks.add.apply_async((number, 0), queue=tasks.WAITING)
    message = dead_letter(tasks)
    assert message.payload[0] == [0, 0]
    assert only_death(message)["reason"] == "maxlen"
    with tasks.app.connection() as connection:
        assert connection.default_channel.queue_purge(tasks.WAITING) == 3


def test_a_worker_told_to_takes_another_queue_by_priority(tasks: ModuleType) -> None:
    """How many priorities a quorum queue knows depends on the release."""
    results = [tasks.turn.apply_async(queue=tasks.WAITING, priority=priority) for priority in (1, 9, 5)]
    assert tasks.app.control.add_consumer(tasks.WAITING, reply=True, timeout=5)
    turns = [result.get(timeout=RESULT_SECONDS) for result in results]
    assert sorted(turns) == [1, 2, 3]
    if tasks.TYPE == "classic":
        assert turns == [3, 1, 2]
    tasks.app.control.cancel_consumer(tasks.WAITING, reply=True, timeout=5)
