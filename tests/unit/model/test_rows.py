"""What is said of rows that could not be used."""

from __future__ import annotations

from rltop.model.rows import Counts


def test_a_row_without_a_step_is_named_without_the_texts_of_keys_and_tokens():
    counts = Counts()
    counts.miss_step({"username": "someone", "key": "0123456789abcdef", "values": [1, 2]}, 1)
    assert counts.first_stepless == 'line 1: username "someone", key (text), values (2 values)'
    other = Counts()
    other.miss_step({"api_token": "hf_0123", "num_tokens": 12.0, "at": "3 of 9"}, 2)
    assert other.first_stepless == 'line 2: api_token (text), num_tokens, at "3 of 9"'
