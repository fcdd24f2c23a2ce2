"""Names of queues, exchanges, routing keys and consumers: mostly short words, now and then what is just allowed.

A name has 255 bytes at most, which need not be characters of ASCII. Names of queues begin with ``q``, as the patterns
of policies ask for it.
"""

from __future__ import annotations

from hypothesis import strategies as st

LONGEST = 255
QUEUES = ["q1", "q2", "q3", "q4", "q5"]
ODD_QUEUES = ["qö", "q" + "é" * 127, "q" * LONGEST, "q 1", "q/%2f", "q'\"<&>", "q€🐇"]
EXCHANGES = ["x1", "x2", "x3"]
ODD_EXCHANGES = ["xö", "x" * LONGEST, "x /%", "x€🐇"]
ODD_KEYS = ["ö", "k" * LONGEST, "€🐇", " ", "k..k", ".", "q1 "]
TAGS = ["k1", "k2", "k3"]
ODD_TAGS = ["ö", "t" * LONGEST, " "]


@st.composite
def some(draw: st.DrawFn, plain: list[str], odd: list[str], number: int) -> list[str]:
    """So many names of the plain ones in their order; in a few scripts one of them is an odd one."""
    found = plain[:number]
    if draw(st.integers(0, 7)) == 0:
        found[draw(st.integers(0, number - 1))] = draw(st.sampled_from(odd))
    return found
