"""The reader of recorded traces notices every difference, and knows what is none of its own."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.systems.activemq.vectors import check, recognises

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))
DOCUMENTS = {path.stem: json.loads(path.read_text()) for path in VECTORS}
Change = Callable[[dict[str, Any]], Any]


def of(document: dict[str, Any], event: str, number: int = 0) -> dict[str, Any]:
    return [each for each in document["trace"] if each["event"] == event][number]


def letter(document: dict[str, Any]) -> dict[str, Any]:
    return of(document, "dlq_message")["message"]


CHANGES: list[tuple[str, Change]] = [
    ("01_default", lambda d: d.update(deliveries=8)),
    ("01_default", lambda d: d.update(on_dlq=0)),
    ("01_default", lambda d: d.update(left_on_source=1)),
    ("01_default", lambda d: of(d, "delivered", 3)["message"].update(JMSXDeliveryCount=5)),
    ("01_default", lambda d: of(d, "delivered", 3)["message"].update(redeliveryCounter=5)),
    ("01_default", lambda d: of(d, "delivered", 0)["message"].update(JMSRedelivered=True)),
    ("01_default", lambda d: of(d, "delivered", 3)["message"].update(gap_since_rollback_ms=1035)),
    ("01_default", lambda d: of(d, "delivered", 3)["message"].update(gap_since_rollback_ms=990)),
    ("01_default", lambda d: d["client_policy"].update(maximumRedeliveries=5)),
    ("01_default", lambda d: d["client_policy"].update(maximumRedeliveries=7)),
    ("01_default", lambda d: letter(d)["properties"].update(dlqDeliveryFailureCause="other")),
    ("01_default", lambda d: letter(d)["properties"].pop("originalExpiration")),
    ("01_default", lambda d: letter(d).update(originalDestination="queue://other")),
    ("01_default", lambda d: letter(d).update(id="ID:..-5:1:1:1:2")),
    ("01_default", lambda d: letter(d).update(JMSPriority=5)),
    ("06a_individual_queue", lambda d: d.update(broker_policy="default")),
    ("07a_durable_individual", lambda d: d.update({"on_DLQT.IND.T1.c2:s2": 1})),
    ("07a_durable_individual", lambda d: d.update(deliveries_c2=1)),
    ("08a_processExpired_true", lambda d: d.update(dlq_depth_after_2s_before_any_touch=0)),
    ("08c_expired_default", lambda d: letter(d)["properties"].update(originalExpiration=1)),
    ("13a_listener_exception_auto", lambda d: d["trace"].remove(of(d, "onMessage", 2))),
    ("14_broker_redelivery_plugin", lambda d: letter(d)["properties"].update(redeliveryDelay=1000)),
    ("19_collision_avoidance", lambda d: of(d, "delivered", 4)["message"].update(gap_since_rollback_ms=290)),
    ("20_policy_precedence", lambda d: d["winner"].update({"P.A.X": "D3.Astar."})),
    ("21_client_policy_map", lambda d: d["deliveries_by_entries"].update({"M.A": 2})),
    ("21_client_policy_map", lambda d: d.update(what=d["what"].replace("M.A max 2", "M.A max 3"))),
    ("17_poison_on_dlq", lambda d: d["client_policy"].update(maximumRedeliveries=1)),
    ("22b_nonblocking_order", lambda d: d.update(what="nonBlockingRedelivery=false")),
    ("24_abrupt_disconnect", lambda d: d.update(on_dlq=2)),
    ("25_nonblocking_batch", lambda d: d.update(async_exceptions=[])),
    ("26b_dead_letter_expires", lambda d: d.update(dlq_ttls_depth_after=1)),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=[f"{n}-{name}" for n, (name, _) in enumerate(CHANGES)])
def test_a_difference_is_noticed(name: str, change: Change) -> None:
    document = copy.deepcopy(DOCUMENTS[name])
    change(document)
    with pytest.raises(AssertionError):
        check(document, name)


@pytest.mark.parametrize(
    "document",
    [None, [], 1, "ActiveMQ", {}, {"broker": "ActiveMQ"}, {"broker": "RabbitMQ", "broker_policy": "", "trace": []}],
)
def test_other_documents_are_not_recognised(document: Any) -> None:
    assert not recognises(document)


def test_its_own_are() -> None:
    assert DOCUMENTS
    assert all(recognises(document) for document in DOCUMENTS.values())
