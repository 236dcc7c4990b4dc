"""What the commands write: whole or not at all, never over what they read, and refused before the work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from glance import outputs
from glance.errors import BadInput
from glance.options import keep
from tests import tiny
from tests.app import fake


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.ndjson"
    path.write_text("".join(fake.lines()), encoding="utf-8")
    return path


@pytest.mark.parametrize("words", [["replay", "--out"], ["rounds", "--csv"], ["lab", "law", "--json"]], ids=str)
def test_no_command_writes_over_the_run_that_it_reads(run, saved, words):
    text = saved.read_bytes()
    *command, option = words
    result = run(*command, str(saved), option, str(saved))
    assert result.exit_code == 2 and "name another file" in result.output
    assert saved.read_bytes() == text


def test_a_picture_is_not_written_over_by_its_run(run, tmp_path):
    path = tmp_path / "picture.png"
    tiny.picture().save(path)
    picture = path.read_bytes()
    result = run("compare", str(path), "What?", "--max-new-tokens", "4", "--json", str(path))
    assert result.exit_code == 2 and "name another file" in result.output
    assert path.read_bytes() == picture


@pytest.mark.parametrize(
    "command", [["bench"], ["calibrate"], ["lab", "reading"], ["lab", "sweep"], ["compare", "picture.png", "What?"]]
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    tiny.picture().save("picture.png")
    monkeypatch.setattr("glance.presets.load", lambda *a, **k: pytest.fail("the work has begun"))
    for place in ("nowhere/x.json", "."):
        result = run(*command, "--json", place)
        assert result.exit_code == 2 and "name a file in a folder that exists" in result.output


def test_an_earlier_file_stays_where_the_new_one_has_no_room(tmp_path, monkeypatch):
    path = tmp_path / "replay.html"
    path.write_text("earlier")

    def full(self, text, **options):
        with self.open("w") as file:
            file.write(text[:3])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(path), "write_text", full)
        with pytest.raises(BadInput, match=r"could not be written \(No space left on device\); make room, or name"):
            outputs.write_text(path, "a new page")
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]
    outputs.write_text(path, "a new page")
    assert path.read_text() == "a new page" and list(tmp_path.iterdir()) == [path]


def test_a_device_gets_a_sentence_too(run, saved):
    result = run("replay", str(saved), "--out", "/dev/full")
    assert result.exit_code == 2 and "make room" in result.output


def test_a_pipe_and_a_link_are_written_through(saved, tmp_path):
    reading, writing = os.pipe()
    pipe = Path(f"/dev/fd/{writing}")
    outputs.write_text(outputs.check_output(pipe, saved), "through")
    assert os.read(reading, 99) == b"through"
    link, there = tmp_path / "link.json", tmp_path / "there.json"
    link.symlink_to(there)
    outputs.write_text(outputs.check_output(link, saved), "linked")
    assert link.is_symlink() and there.read_text() == "linked"


def test_a_file_of_mine_in_a_folder_of_others_is_refused_before_the_work(tmp_path, monkeypatch):
    """It could be written over, not replaced."""
    path = tmp_path / "mine.json"
    path.write_text("earlier")
    monkeypatch.setattr("os.access", lambda place, mode: Path(place) == path)
    with pytest.raises(BadInput, match="name a file in a folder of yours"):
        outputs.check_output(path)


def test_an_export_leaves_what_lies_in_its_folder(run, tmp_path):
    mine = tmp_path / "glance" / "model-00001-of-00009.safetensors"
    mine.parent.mkdir()
    mine.write_text("my weights")
    result = run("export", "--format", "dflash", "--out", str(tmp_path))
    assert result.exit_code == 2 and "name a new one" in result.output
    assert mine.read_text() == "my weights"
    shutil.rmtree(mine.parent)
    assert run("export", "--format", "dflash", "--out", str(tmp_path)).exit_code == 0
    modes = {file.stat().st_mode & 0o777 for file in mine.parent.glob("*.safetensors")}
    assert modes == {0o644}, "an engine may run as another user"


def test_a_figure_that_is_no_number_is_no_measurement(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        keep(tmp_path / "x.json", {"tau": float("nan")}, [], {})
    assert list(tmp_path.iterdir()) == []
