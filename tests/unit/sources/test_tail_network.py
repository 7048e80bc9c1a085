"""A file on a network mount, of which a look may tell what was true a while ago."""

from __future__ import annotations

from tail_scene import FIRST, OTHER, PATH, Scene


def test_an_old_size_on_a_network_is_not_a_truncation(reopened: Scene) -> None:
    node = reopened.fs.write(PATH, FIRST)
    reopened.poll()
    node.stale_size = 10
    reopened.poll(times=60)
    assert reopened.resets == []
    node.stale_size = None
    reopened.fs.write(PATH, OTHER)
    reopened.poll()
    assert (reopened.text(), reopened.resets) == (FIRST + OTHER, [])


def test_a_network_file_cut_short_is_believed_in_the_end(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    reopened.fs.truncate(PATH, 25)
    reopened.poll(times=80)
    assert reopened.resets == []
    reopened.poll(times=20)
    assert reopened.text(1) == FIRST[:25]


def test_another_content_on_a_network_must_be_seen_twice(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    reopened.fs.truncate(PATH)
    reopened.fs.write(PATH, OTHER)
    reopened.poll(times=3, every_s=1.0)
    assert reopened.resets == []
    assert "checking again" in reopened.tail.status.message
    reopened.poll(times=2, every_s=1.0)
    assert len(reopened.resets) == 1


def test_an_inode_that_migrates_is_the_same_file(reopened: Scene) -> None:
    node = reopened.fs.write(PATH, FIRST)
    reopened.poll()
    node.inode = 4711
    reopened.fs.write(PATH, OTHER)
    reopened.poll()
    assert (reopened.text(), reopened.resets) == (FIRST + OTHER, [])


def test_nothing_is_held_open_on_a_network(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll(times=3)
    assert reopened.fs.handles == {}


def test_the_folder_is_asked_now_and_then_on_a_network(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll(times=130)
    assert reopened.fs.calls.count("scandir") == 2


def test_a_name_that_the_folder_gives_to_another_file_is_reported(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    old = reopened.fs.names[PATH]
    reopened.fs.rename(PATH, PATH + ".1")
    new = reopened.fs.write(PATH, OTHER)
    node_of = reopened.fs.node_of
    reopened.fs.node_of = lambda target: old if target == PATH else node_of(target)  # type: ignore[method-assign]
    reopened.poll(times=70)
    assert new.inode != old.inode
    assert "newer file" in reopened.tail.status.message
    reopened.fs.node_of = node_of  # type: ignore[method-assign]
    reopened.settle()
    assert reopened.text(1) == OTHER
