"""Several files read as one stream."""

from __future__ import annotations

from rltop.sources.events import Chunk, Reset
from rltop.sources.feed import DirectFeed, SequenceFeed


def drain(feed):
    events = []
    for _ in range(50):
        taken = feed.take(1 << 20)
        events += taken
        if not taken and feed.is_exhausted:
            break
    return events


def test_files_come_one_after_the_other_and_the_last_one_is_followed(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text(f"{path.name}\n")
    feed = SequenceFeed([str(path) for path in paths], DirectFeed)
    events = drain(feed)
    assert [event.data for event in events if isinstance(event, Chunk)] == [b"a\n", b"b\n", b"c\n"]
    assert [event.is_restart for event in events if isinstance(event, Reset)] == [False, False]
    generations = [event.generation for event in events]
    assert generations == [0, 1, 1, 2, 2]
    with paths[-1].open("a") as file:
        file.write("more\n")
    assert [event.data for event in drain(feed)] == [b"more\n"]


def test_an_earlier_file_that_is_gone_does_not_stop_the_rest(tmp_path):
    last = tmp_path / "c"
    last.write_text("c\n")
    events = drain(SequenceFeed([str(tmp_path / "gone"), str(last)], DirectFeed))
    assert [event.data for event in events if isinstance(event, Chunk)] == [b"c\n"]


def test_a_file_that_cannot_be_read_is_named_and_the_next_one_is_read(tmp_path):
    last = tmp_path / "m.jsonl"
    last.write_text("rows\n")
    (tmp_path / "m.jsonl.2").mkdir()
    (tmp_path / "m.jsonl.1").symlink_to("m.jsonl.1")
    feed = SequenceFeed([f"{last}.2", f"{last}.1", str(last)], DirectFeed)
    assert [event.data for event in drain(feed) if isinstance(event, Chunk)] == [b"rows\n"]
    assert ["m.jsonl.2 is a directory" in one for one in feed.status.left_out] == [True, False]
    assert feed.status.left_out[1].endswith("m.jsonl.1: too many levels of symbolic links")
