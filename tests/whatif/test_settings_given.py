"""Settings as people write them, and what they hear when there is no such thing."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.definitions import Definitions
from simulator.whatif.settings_given import SettingError, read_setting, with_settings

DOCUMENT: dict[str, Any] = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": "jobs", "vhost": "/", "arguments": {"x-queue-type": "quorum"}},
        {"name": "jobs.eu=west", "vhost": "/", "arguments": {}},
    ],
    "policies": [{"name": "burst", "vhost": "/", "pattern": "^b", "definition": {"max-length": 9}}],
    "parameters": [
        {"component": "operator_policy", "vhost": "/", "name": "all",
         "value": {"pattern": "", "definition": {"expires": 5}}},
    ],
}  # fmt: skip


def definitions() -> Definitions:
    return Definitions(DOCUMENT, "definitions.json")


def changed(*texts: str) -> dict[str, Any]:
    return with_settings(definitions(), [read_setting(each, definitions()) for each in texts]).document


def test_values_have_the_type_that_they_look_like() -> None:
    found = changed("queue:jobs.x-delivery-limit=2", "queue:jobs.x-overflow=reject-publish")
    assert found["queues"][0]["arguments"] == {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-overflow": "reject-publish",
    }


def test_names_may_hold_dots_and_equals_signs() -> None:
    assert changed("queue:jobs.eu=west.x-message-ttl=7")["queues"][1]["arguments"] == {"x-message-ttl": 7}


def test_policies_and_operator_policies_take_settings_and_lose_them() -> None:
    found = changed("policy:burst.max-length=5", "operator-policy:all.expires=")
    assert found["policies"][0]["definition"] == {"max-length": 5}
    assert found["parameters"][0]["value"]["definition"] == {}


def test_the_given_definitions_stay_as_they_are() -> None:
    changed("policy:burst.max-length=5")
    assert DOCUMENT["policies"][0]["definition"] == {"max-length": 9}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue:job.x-message-ttl=1", "there is no queue 'job'; did you mean 'jobs'"),
        ("queue:jobs.x-mesage-ttl=1", "RabbitMQ knows no queue argument 'x-mesage-ttl'; did you mean 'x-message-ttl'"),
        (
            "policy:burst.x-max-length=1",
            "RabbitMQ knows no field of a policy 'x-max-length'; did you mean 'max-length'",
        ),
        ("policy:bursts.max-length=1", "there is no policy 'bursts'; did you mean 'burst'"),
        ("queue:jobs", "expected KIND:NAME.KEY=VALUE"),
        ("exchange:jobs.x=1", "expected KIND:NAME.KEY=VALUE"),
    ],
)
def test_what_there_is_not_is_refused_with_the_nearest(text: str, said: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_setting(text, definitions())
    assert said in str(refused.value)
