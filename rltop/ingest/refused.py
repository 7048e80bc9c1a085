"""Files that a trainer leaves and that are no metric stream: what they are, and what to do instead.

Owns the signatures and the words; a file of one of these is never decoded.
"""

from __future__ import annotations

from pathlib import PurePath

_SIGNATURES = (
    (b"SQLite format 3\0", "an SQLite database (Trackio, MLflow or an experience buffer)"),
    (b"PAR1", "a parquet table: samples or completions"),
    (b":SWL", "a SwanLab run"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x93NUMPY", "a numpy array"),
)
_REMEDIES = {
    ".db": "have the trainer write JSON lines or TensorBoard events as well",
    ".parquet": "name the metrics that belong to it",
    ".swanlab": "SwanLab writes its file late: turn on TensorBoard, or a JSON lines logger, as well",
    ".xz": "unpack it: xz -dc FILE | rltop -",
    ".zip": "unpack it and name what is in it",
}
_SUFFIXES = {
    ".db": "an SQLite database",
    ".sqlite": "an SQLite database",
    ".sqlite3": "an SQLite database",
    ".parquet": "a parquet table: samples or completions",
    ".swanlab": "a SwanLab run",
    ".xz": "compressed with xz",
    ".zip": "a zip archive",
}
_OF_SIGNATURE = {
    b"SQLite format 3\0": ".db",
    b"PAR1": ".parquet",
    b":SWL": ".swanlab",
    b"\xfd7zXZ\0": ".xz",
    b"PK\x03\x04": ".zip",
}


def name_refused(name: str) -> str:
    """What a file of this name is that no decoder reads; empty where its name does not tell."""
    return _SUFFIXES.get(PurePath(name).suffix.lower(), "")


def why_refused(head: bytes) -> tuple[str, str]:
    """What a file is by its first bytes, and what to do; both empty where it may hold metrics."""
    for signature, what in _SIGNATURES:
        if head.startswith(signature):
            return what, _REMEDIES.get(_OF_SIGNATURE.get(signature, ""), "name the file that the trainer logs to")
    return "", ""
