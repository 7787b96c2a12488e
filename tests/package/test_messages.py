from __future__ import annotations

import re

import pytest
from messages import naming


def test_a_pattern_finds_every_part_in_any_order() -> None:
    pattern = naming("train.txt", "line 3", -1)
    assert re.search(pattern, "line 3 of train.txt:\nthe label is -1")
    assert not re.search(pattern, "line 3 of train.txt: the label is 1")


def test_a_sentence_is_no_part() -> None:
    with pytest.raises(ValueError, match="a label is a finite grade"):
        naming("a label is a finite grade")
