"""The attribute ``_retry_policy``: how Zaqar would repeat notifications of subscriptions. It is checked, not followed.

Source: zaqar/transport/validation.py, Validator._validate_retry_policy.
"""

from __future__ import annotations

from typing import Any

from simulator.systems.zaqar.limits import Invalid

_INTEGERS = (
    "retries_with_no_delay",
    "minimum_delay_retries",
    "minimum_delay",
    "maximum_delay",
    "maximum_delay_retries",
)
_BACKOFFS = ("linear", "arithmetic", "exponential", "geometric")
_MINIMUM_DELAY_S, _MAXIMUM_DELAY_S = 5, 30
_DELAYS_APART_S = 10


def check_retry_policy(policy: Any) -> None:
    """Raise ``Invalid`` for a retry policy that no queue can have; ``TypeError`` for delays that cannot be compared.

    An empty value of any type passes, as it does in Zaqar.
    """
    if not policy:
        return
    if not isinstance(policy, dict):
        raise Invalid("retry_policy must be a dict.")
    for name in _INTEGERS:
        if policy.get(name) and not isinstance(policy[name], int):
            raise Invalid(f"Retry policy: {name} must be a integer.")
    backoff = policy.get("retry_backoff_function")
    if backoff and not isinstance(backoff, str):
        raise Invalid("retry_backoff_function must be a string.")
    if backoff and backoff not in _BACKOFFS:
        raise Invalid("invalid retry_backoff_function.")
    overrides = policy.get("ignore_subscription_override")
    if overrides and not isinstance(overrides, bool):
        raise Invalid("ignore_subscription_override must be a boolean.")
    minimum_s, maximum_s = policy.get("minimum_delay", _MINIMUM_DELAY_S), policy.get("maximum_delay", _MAXIMUM_DELAY_S)
    if maximum_s < minimum_s:
        raise Invalid("minimum_delay must less than maximum_delay.")
    if maximum_s - minimum_s < _DELAYS_APART_S:
        raise Invalid("invalid minimum_delay and maximum_delay.")
