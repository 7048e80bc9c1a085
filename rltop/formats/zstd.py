"""zstd by the package zstandard, imported where something is compressed so; the standard library has none yet."""

from __future__ import annotations

from types import ModuleType

from rltop.errors import SourceError


def zstandard_package() -> ModuleType:
    """The package.

    Raises:
        SourceError: it cannot be imported, though it is a dependency.
    """
    try:
        import zstandard  # noqa: PLC0415 - no other format pays for it
    except ImportError:
        raise SourceError(
            "compressed with zstd, but the package zstandard cannot be imported",
            "reinstall rltop: zstandard is a dependency",
        ) from None
    return zstandard


def unpack(data: bytes, most: int) -> bytes:
    """The first `most` bytes of what was packed.

    Raises:
        SourceError: the package cannot be imported.
        ValueError: the data is damaged.
    """
    package = zstandard_package()
    try:
        # Not `decompress`: it makes room for whatever length the frame itself claims.
        out: bytes = package.ZstdDecompressor().stream_reader(data).read(most)
    except package.ZstdError as error:
        raise ValueError(str(error)) from error
    return out
