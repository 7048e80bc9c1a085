"""ms-swift: TRL's keys plus its own for speed and memory."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, key_tables, spellings
from rltop.structs import replace
from rltop.trainers import transformers, trl

_OWN_KEYS = ("train_speed(*", "memory(GiB)")

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="ms-swift",
    fingerprints=tuple(
        known._replace(weight=known.weight + 20, all_of=(*known.all_of, own))
        for own in _OWN_KEYS
        for known in (*trl.FINGERPRINTS, *transformers.FINGERPRINTS)
    ),
    aliases=(
        *trl.DIALECT.aliases,
        *spellings(key_tables(__file__)["keys"]),
    ),
    hidden=(*trl.DIALECT.hidden, "elapsed_time", "remaining_time"),
)
