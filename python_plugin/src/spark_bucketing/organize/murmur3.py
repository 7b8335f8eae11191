"""Compute Spark's hash(): Murmur3_x86_32 with seed 42, where the hash of each value is the seed for the next value.

Source: org.apache.spark.unsafe.hash.Murmur3_x86_32, and Murmur3Hash of Catalyst. Unlike standard Murmur3, Spark mixes
each byte after the last whole word as a separate signed word.
"""

from __future__ import annotations

from collections.abc import Sequence

_SEED = 42
_MASK = 0xFFFFFFFF


def hash_of(*values: int | str | None) -> int:
    """Return Spark's hash() of BIGINT, STRING and NULL values, from -2**31 to 2**31 - 1."""
    state = _SEED
    for value in values:
        if isinstance(value, str):
            state = _hash_bytes(value.encode(), state)
        elif value is not None:
            state = _finish(_mix(_mix(state, value & _MASK), (value >> 32) & _MASK), 8)
    return _signed(state)


def hash_of_int(value: int) -> int:
    """Return Spark's hash() of an INT."""
    return _signed(_finish(_mix(_SEED, value & _MASK), 4))


def task_of(key: int, tasks: int) -> int:
    """Return the task, from 0 to tasks - 1, to which REPARTITION(tasks, key) sends rows with this INT."""
    return hash_of_int(key) % tasks


def shuffle_keys(tasks: int) -> Sequence[int]:
    """Return one integer key for each task, such that REPARTITION(tasks, key) sends rows with the key to the task.

    The macro shuffle_keys returns the same keys.
    """
    found: dict[int, int] = {}
    # Among forty keys per task, every task finds at least one.
    for key in range(40 * tasks):
        found.setdefault(task_of(key, tasks), key)
        if len(found) == tasks:
            break
    return [found[task] for task in sorted(found)]


def _hash_bytes(data: bytes, seed: int) -> int:
    whole = len(data) - len(data) % 4
    state = seed
    for start in range(0, whole, 4):
        state = _mix(state, int.from_bytes(data[start : start + 4], "little"))
    for byte in data[whole:]:
        state = _mix(state, (byte - 256 if byte > 127 else byte) & _MASK)
    return _finish(state, len(data))


def _mix(state: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    word = word * 0x1B873593 & _MASK
    state ^= word
    state = (state << 13 | state >> 19) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def _finish(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _signed(state: int) -> int:
    return state - (1 << 32) if state >> 31 else state
