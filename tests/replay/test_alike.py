"""What is alike gets one number, by columns, as it would value by value."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.replay.rows.columns import alike_rows, alike_sequences, alike_within, firsts

NUMBERS = st.sampled_from([0, 1, 2, 2**31 - 1])
ROWS = st.lists(st.tuples(st.sampled_from([0, 1, -1, 2**62]), NUMBERS), min_size=1, max_size=20)
SEQUENCES = st.lists(st.lists(NUMBERS, min_size=1, max_size=4), min_size=1, max_size=20)


def numbered(values):
    known = {}
    return [known.setdefault(tuple(value), len(known)) for value in values]


@given(ROWS)
def test_equal_rows_have_the_same_number(rows):
    columns = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    assert alike_rows(*columns).tolist() == numbered(rows)


@given(SEQUENCES)
def test_equal_sequences_have_the_same_number(sequences):
    values = np.array([value for each in sequences for value in each], np.int64)
    lengths = np.array([len(each) for each in sequences], np.int64)
    numbers = alike_sequences(values, lengths)
    assert numbers.tolist() == numbered(sequences)
    assert [numbers.tolist().index(number) for number in range(int(numbers.max()) + 1)] == firsts(numbers).tolist()


@given(SEQUENCES)
def test_values_are_numbered_within_each_group(groups):
    values = np.array([value for each in groups for value in each], np.int64)
    group = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    numbers = [list(dict.fromkeys(each)).index(value) for each in groups for value in each]
    assert alike_within(group, values).tolist() == numbers
