"""Publisher confirms that fall together become one, and never claim what was not confirmed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.server.amqp.outbox import Confirms


def test_a_run_becomes_one() -> None:
    confirms = Confirms()
    assert all(confirms.confirm(number) for number in (1, 2, 3))
    assert confirms.take() == (3, True)
    assert confirms.take() is None
    assert confirms.confirm(4)
    assert confirms.take() == (4, False)


@given(st.permutations(range(1, 12)), st.sets(st.integers(1, 11)), st.lists(st.booleans(), min_size=11, max_size=11))
def test_a_client_learns_what_became_of_each_publish(order: list[int], refused: set[int], taken: list[bool]) -> None:
    confirms = Confirms()
    answered: dict[int, str] = {}

    def hear(number: int, multiple: bool, how: str) -> None:
        for one in range(1, number + 1) if multiple else (number,):
            answered.setdefault(one, how)

    for number, take in zip(order, taken, strict=True):
        if number in refused:
            confirms.refuse(number)
            hear(number, False, "nack")
        elif not confirms.confirm(number):
            hear(number, False, "ack")
        found = confirms.take() if take else None
        if found:
            hear(*found, "ack")
        assert set(answered) <= set(order[: order.index(number) + 1])
    found = confirms.take()
    if found:
        hear(*found, "ack")
    assert answered == {number: "nack" if number in refused else "ack" for number in range(1, 12)}
