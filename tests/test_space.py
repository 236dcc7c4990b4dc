"""Folders to push: what goes in, what the cards say, and that the assembled app answers by itself."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from glance import presets
from glance.cli import app
from glance.errors import BadInput
from glance.examples import shipped
from glance.hosting import gallery, space

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}  # that a card may name
PINS = dict(pin.split("==") for pin in space.pins())


def front_matter(readme: Path) -> dict[str, object]:
    """The YAML between the first two rules of a card."""
    return yaml.safe_load(readme.read_text(encoding="utf-8").split("---\n")[1])


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    out = tmp_path_factory.mktemp("space") / "live"
    space.live(out)
    return out


def test_the_cards_name_the_pinned_gradio(live):
    for readme in (space.ROOT / "README.md", live / "README.md"):
        card = front_matter(readme)
        assert card["sdk"] == "gradio" and card["sdk_version"] == PINS["gradio"]
        assert card["python_version"] == "3.12" and card["app_file"] == "app.py"
        assert len(card["short_description"]) <= 60  # the hub's limit
        assert {card["colorFrom"], card["colorTo"]} <= COLOURS


def test_everything_needed_goes_in_and_nothing_else(live):
    files = {str(path.relative_to(live)) for path in live.rglob("*") if path.is_file()}
    assert {path.split("/")[0] for path in files} == {*space.PARTS, "README.md", "requirements.txt"}
    assert {"app/main.py", "glance/presets.py", "assets/mini/target/config.json", "assets/player/player.js"} <= files
    assert not [path for path in files if re.search(r"__pycache__|\.py[ci]$|^tests|\.git|screenshots", path)]
    assert max((live / path).stat().st_size for path in files) < 10_000_000  # above, the hub wants large-file storage


def test_the_requirements_fit_zerogpu(live):
    lines = (live / "requirements.txt").read_text().splitlines()
    assert space.TORCH in lines and "spaces" in lines
    assert not [line for line in lines if line.startswith("gradio")]  # the Space installs the card's version itself
    assert set(lines) - {space.TORCH, "spaces"} < set(space.pins())


def test_a_preset_of_the_hub_is_named_in_the_card_and_chosen(tmp_path, monkeypatch):
    parts = presets.Preset("org/target", "org/head", None, "bfloat16", 9.0, "Apache-2.0")
    monkeypatch.setitem(presets.PRESETS, "big", parts)
    out = tmp_path / "big"
    result = CliRunner().invoke(app, ["space", "--out", str(out), "--preset", "big", "--with", "quantize=4bit"])
    assert result.exit_code == 0, result.output
    card = front_matter(out / "README.md")
    assert card["models"] == card["preload_from_hub"] == ["org/target", "org/head"]
    for variable in ('"GLANCE_PRESET", "big"', '"GLANCE_QUANTIZE", "4bit"'):
        assert f"os.environ.setdefault({variable})" in (out / "app.py").read_text()
    ast.parse((out / "app.py").read_text())
    assert "hf upload" in result.output


def test_a_part_named_in_the_environment_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GLANCE_BLOCK_HEAD", "me/head")
    space.live(tmp_path / "live")
    assert 'os.environ.setdefault("GLANCE_BLOCK_HEAD", "me/head")' in (tmp_path / "live/app.py").read_text()
    assert front_matter(tmp_path / "live/README.md")["models"] == ["me/head"]
    monkeypatch.setenv("GLANCE_BLOCK_HEAD", str(tmp_path))
    with pytest.raises(BadInput, match="A Space cannot read"):
        space.live(tmp_path / "other")
    monkeypatch.setenv("GLANCE_BLOCK_HEAD", "none")
    space.live(tmp_path / "without")
    assert 'os.environ.setdefault("GLANCE_BLOCK_HEAD", "none")' in (tmp_path / "without/app.py").read_text()


def test_refusals(tmp_path):
    (tmp_path / "kept").write_text("mine")
    for words, sentence in (
        (["--out", str(tmp_path)], "name a new one"),
        (["--out", str(tmp_path / "x"), "--preset", "huge"], "no preset 'huge'"),
        (["--out", str(tmp_path / "x"), "--with", f"target={tmp_path}"], "push it to the hub and name its id"),
        (["--out", str(tmp_path / "x"), "--with", "block_head=/nonexistent"], "name its id, like owner/name"),
        (["--out", str(tmp_path / "x"), "--with", "eagle3_head=./head"], "name its id, like owner/name"),
        (["--out", str(tmp_path / "x"), "--with", "target=none"], "name its id, like owner/name"),
    ):
        result = CliRunner().invoke(app, ["space", *words])
        assert result.exit_code == 2 and sentence in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_assembled_app_answers_from_its_own_folder(live, tmp_path):
    """Nothing of the repository is reachable: another folder, its own PYTHONPATH, a run through the API's function."""
    picture = live / "assets/examples/signs-96.png"
    script = (
        "import app.main as m, glance, json\n"
        f"assert glance.__file__.startswith({str(live)!r})\n"
        f"*_, trace = m.compare({str(picture)!r}, 'What does it say?', max_new_tokens=4)\n"
        "print(json.dumps([json.loads(line)['kind'] for line in trace.splitlines()]))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(live), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kinds = json.loads(done.stdout.splitlines()[-1])
    assert kinds[0] == "header" and kinds.count("end") == 3 and "round" in kinds


def test_the_static_space_holds_every_recorded_run(tmp_path):
    out = tmp_path / "static"
    assert CliRunner().invoke(app, ["space", "--out", str(out), "--static"]).exit_code == 0
    runs = shipped()
    index = (out / "index.html").read_text(encoding="utf-8")
    for run in runs:
        assert f'href="{run.name}.html"' in index and (out / f"{run.name}{run.image.suffix}").is_file()
        assert json.loads(run.trace.splitlines()[0])["run"] in (out / f"{run.name}.html").read_text(encoding="utf-8")
    card = front_matter(out / "README.md")
    assert card["sdk"] == "static" and card["app_file"] == "index.html" and "sdk_version" not in card
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", index)
    assert len(list(out.iterdir())) == 2 * len(runs) + 2


def test_a_question_cannot_become_markup(tmp_path):
    run = shipped()[0]
    gallery.build(tmp_path / "g", [type(run)(run.name, run.image, "<img src=x onerror=alert(1)>", run.trace)])
    assert "<img src=x" not in (tmp_path / "g/index.html").read_text()


def test_the_code_is_clean_for_every_python_of_a_space():
    """Syntax of 3.10 in what a Space runs, and nothing of the standard library that came later."""
    later = re.compile(r"^\s*(?:import tomllib|from datetime import .*\bUTC\b|from enum import .*\bStrEnum\b)|"
                       r"\b(?:ExceptionGroup|typing\.Self|itertools\.batched|asyncio\.TaskGroup)\b", re.M)  # fmt: skip
    files = [space.ROOT / "app.py", *(p for part in ("app", "glance") for p in (space.ROOT / part).rglob("*.py"))]
    assert len(files) > 40
    for file in files:
        text = file.read_text(encoding="utf-8")
        ast.parse(text, str(file), feature_version=(3, 10))
        assert not later.search(text), file
        stdlib_typing = re.findall(r"^from typing import (.+)$", text, re.M)
        assert not {"Self", "Never", "assert_never", "override", "Unpack"} & set(re.findall(r"\w+", str(stdlib_typing)))


def test_every_shipped_file_fits_into_a_space():
    """Without LFS a Space takes files below 10 MB."""
    files = [file for file in (space.ROOT / "assets").rglob("*") if file.is_file()]
    assert len(files) > 40
    assert not [file for file in files if file.stat().st_size >= 10_000_000]
