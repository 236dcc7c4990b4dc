"""A run as the app shows it, without a page: statuses, stops, failures, settings, the background load."""

import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from app import main, run
from app.models import FamilyEngine, Models
from app.replay import PLOTLY, SCRIPTS, STYLE
from glance import trace
from glance.errors import BadCheckpoint, BadInput
from glance.examples import CHOSEN, shipped
from glance.lanes import LANES
from tests import tiny
from tests.app import fake

SETTINGS = run.settings_from(128, 31, 0, 0)


class Engine:
    """Yields given lines; notes when they are closed."""

    def __init__(self, lines=(), seconds=0.0, notes=()):
        self.lines, self.seconds, self.closed, self.notes = lines, seconds, False, dict(notes)

    def prompt(self, image, question):
        return question

    def seen(self, image):
        return image.resize((64, 64))

    def race(self, prompt, settings, stopped):
        try:
            for line in self.lines:
                if isinstance(line, Exception):
                    raise line
                time.sleep(self.seconds)
                yield line
        finally:
            self.closed = True


@pytest.fixture
def picture(tmp_path) -> str:
    path = tmp_path / "a.png"
    Image.new("RGB", (80, 60)).save(path)
    return str(path)


def decode(engine, path, question="What is it?", **arguments):
    return run.decode(Models(lambda: engine), path, 1, question, SETTINGS, **arguments)


def test_a_run_from_end_to_end(picture):
    lines = fake.lines()
    updates = list(decode(Engine(lines, 0.001), picture))
    assert next(u for u in updates if u.seen).seen.size == (64, 64)
    assert updates[-1].trace == "".join(lines)
    assert "same bytes" in updates[-1].status
    texts = [u.trace for u in updates if u.trace]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert all(text.endswith("\n") for text in texts)
    assert not any(u.warning for u in updates)


def test_the_real_engine_behind_it(picture):
    engine = FamilyEngine(tiny.family())
    settings = run.settings_from(12, 8, 0, 0)
    updates = list(run.decode(Models(lambda: engine), picture, 1, "What is it?", settings))
    assert "same bytes" in updates[-1].status, updates[-1].status
    lanes = trace.read(updates[-1].trace).lanes
    assert [lane.id for lane in lanes] == ["autoregressive", "eagle3", "glance"]
    assert len({lane.end.sha256 for lane in lanes}) == 1
    pressed = threading.Event()
    for update in run.decode(
        Models(lambda: engine), picture, 1, "What?", run.settings_from(400, 8, 0, 0), pressed.is_set
    ):
        if update.trace:
            pressed.set()
    assert update.status.startswith("Stopped")
    assert {lane.end.reason for lane in trace.read(update.trace).lanes} == {"stopped"}


def test_what_there_is_to_know_of_a_head_is_told(picture):
    """A lane that is missing, or a head from elsewhere: of the lanes that were asked for."""
    engine = Engine(fake.lines(), notes={"eagle3": "No head.", "glance": "Trained on text."})
    *_, all_lanes = decode(engine, picture)
    assert all_lanes.status.endswith("again. No head. Trained on text.")
    engine.lines = fake.lines()
    chosen = run.settings_from(128, 31, 0, 0, ["autoregressive", "glance"])
    *_, two = run.decode(Models(lambda: engine), picture, 1, "What?", chosen)
    assert two.status.endswith("again. Trained on text.")


def test_another_preset_is_named(monkeypatch):
    for name in ("GLANCE_PRESET", "GLANCE_TARGET"):
        monkeypatch.delenv(name, raising=False)
    assert main.limits() == main.SMALL
    monkeypatch.setenv("GLANCE_PRESET", "qwen3-vl-8b")
    assert "`qwen3-vl-8b` answers here" in main.limits()
    monkeypatch.setenv("GLANCE_TARGET", "/home/host/runs/mine")
    assert "`mine` answers here" in main.limits()  # where it lies is no visitor's business


def test_loading_is_told_rarely(picture, monkeypatch):
    """A screen reader speaks at every change."""
    clock, told = iter(range(100)), threading.Event()
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(Models, "wait", lambda models, seconds: told.is_set())
    statuses = []
    for update in run._loading(Models(lambda: told.wait(60)), lambda: len(statuses) > 25):
        statuses.append(update.status)
    told.set()
    assert len(statuses) == 26 and len(set(statuses)) == 3


def test_loading_is_told_at_once(picture):
    told = threading.Event()

    def load():
        told.wait(60)
        return Engine(fake.lines())

    updates = run.decode(Models(load), picture, 1, "What?", SETTINGS)
    assert next(updates).status.startswith("Loading the model")
    told.set()
    assert "same bytes" in list(updates)[-1].status


def test_updates_are_rare_enough(picture):
    started = time.monotonic()
    texts = [u for u in decode(Engine(fake.lines(), 0.005), picture) if u.trace]
    assert len(texts) <= (time.monotonic() - started) / run.UPDATE_SECONDS + 3


def test_closing_ends_the_lines(picture):
    engine = Engine(fake.lines(), 0.2)
    updates = decode(engine, picture)
    next(u for u in updates if u.trace)
    updates.close()
    assert engine.closed


def test_stopped_before_it_began(picture):
    engine = Engine(fake.lines())
    updates = list(decode(engine, picture, stopped=lambda: True))
    assert updates[-1].status == "Stopped before the run began." and not engine.closed


def test_a_difference_is_told(picture):
    assert "not every lane" in list(decode(Engine(fake.lines(differs=True)), picture))[-1].status


def test_a_failure_keeps_the_part(picture):
    lines = fake.lines()
    last = list(decode(Engine([*lines[:20], RuntimeError("secret path")]), picture))[-1]
    assert last.warning and last.trace == "".join(lines[:20])
    assert "RuntimeError" in last.status and "secret" not in last.status


@pytest.mark.parametrize("question", ["", "  \n", None])
def test_empty_question(picture, question):
    (update,) = decode(Engine(), picture, question)
    assert update.warning and "question is empty" in update.status and update.trace is None


def test_no_picture():
    (update,) = decode(Engine(), None)
    assert update.warning and "choose an image or a PDF" in update.status


def test_a_refusing_engine(picture):
    def refuse(image, question):
        raise BadInput("No.")

    engine = Engine()
    engine.prompt = refuse
    assert list(decode(engine, picture))[-1] == run.Update("No.", warning=True)


def test_models_that_do_not_load(picture):
    calls = []

    def load():
        calls.append(1)
        raise BadCheckpoint("The head lacks a tensor.")

    models = Models(load)
    for tries in (1, 2):  # a second run tries again
        updates = list(run.decode(models, picture, 1, "What?", SETTINGS))
        assert updates[-1].status == "The head lacks a tensor." and updates[-1].warning
        assert len(calls) == tries


def test_models_load_once():
    calls = []

    def load():
        calls.append(1)
        time.sleep(0.05)
        return Engine()

    models = Models(load)
    assert not models.ready
    threads = [threading.Thread(target=models.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert models.ready and len(calls) == 1


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((None, 31, 0, 0), "New tokens"), ((0, 31, 0, 0), "New tokens"), ((7.5, 31, 0, 0), "New tokens"),
        ((10**9, 31, 0, 0), "New tokens"), ((float("nan"), 31, 0, 0), "New tokens"), ((float("inf"), 31, 0, 0), "New"),
        ((64, -1, 0, 0), "Budget"), ((64, "many", 0, 0), "Budget"), ((64, 31, None, 0), "Temperature"),
        ((64, 31, float("nan"), 0), "Temperature"), ((64, 31, 9, 0), "Temperature"),
        ((64, 31, 10**400, 0), "Temperature"), ((64, 31, 0, -1), "Seed"),
    ],
)  # fmt: skip
def test_odd_settings_get_a_sentence(values, word):
    with pytest.raises(BadInput, match=rf"^{word}.*\.$"):
        run.settings_from(*values)


def test_numbers_as_text_are_read():
    settings = {"max_new_tokens": 7, "budget": 8, "temperature": 0.5, "seed": 1, "lanes": ()}
    assert run.settings_from("7", 8.0, "0.5", 1) == settings


def test_all_lanes_chosen_means_all_that_the_model_has():
    assert run.lanes_from(LANES) == ()  # the page's boxes are all ticked at first, and a model may lack a head


def test_lanes_come_in_their_usual_order():
    assert run.lanes_from(["glance", " autoregressive", "glance", ""]) == ("autoregressive", "glance")
    assert run.lanes_from(None) == run.lanes_from([]) == ()
    with pytest.raises(BadInput, match=r"^One lane alone is no race; choose at least two\.$"):
        run.lanes_from(["glance"])
    with pytest.raises(BadInput, match=r"^There is no lane 'x'; choose among autoregressive, eagle3, glance\.$"):
        run.lanes_from(["glance", "x"])


def test_the_engine_runs_the_chosen_lanes(picture):
    engine = FamilyEngine(tiny.family())
    settings = run.settings_from(4, 8, 0, 0, ["glance", "eagle3"])
    last = list(run.decode(Models(lambda: engine), picture, 1, "What is it?", settings))[-1]
    assert [lane["id"] for lane in trace.read(last.trace).header.lanes] == ["eagle3", "glance"]


def test_stops():
    stops = run.Stops()
    flag = stops.arm("a")
    stops.press("b")
    assert not flag.is_set()
    stops.press("a")
    assert flag.is_set() and stops.flag("a") is flag
    assert not stops.arm("a").is_set()
    stops.drop("a")
    stops.drop("a")


def test_who_leaves_before_the_run_begins_is_noticed(picture, monkeypatch):
    """The page's heartbeat ends with its tab, whether or not the run's own stream was open yet."""
    monkeypatch.setattr(main, "models", Models(lambda: Engine(fake.lines())))
    request = SimpleNamespace(session_hash="gone")
    main.begin(request)
    main.leave(request)
    updates = list(main.decode(None, picture, 1, "What is it?", 8, 8, 0, 0, [], request))
    assert updates[-1][-1] == "Stopped before the run began."
    main.leave(request)
    assert "gone" not in main.stops._flags, "leaving must not remember a session without a run"
    assert any(fn.fn is main.leave for fn in main.demo.fns.values() if any(t[1] == "unload" for t in fn.targets))


def test_no_path_of_the_server_is_told(picture):
    def load():
        raise BadCheckpoint(f"The target {run.HERE}assets/mini/target cannot be loaded: there is no such folder.")

    last = list(run.decode(Models(load), picture, 1, "What?", SETTINGS))[-1]
    assert last.status == "The target assets/mini/target cannot be loaded: there is no such folder."


def test_examples_of_a_folder(tmp_path):
    names = [f"{family}-{seed}" for family, seed in CHOSEN[:3]]
    for name in reversed(names):
        (tmp_path / f"{name}.ndjson").write_text("".join(fake.lines(question=name)), encoding="utf-8")
        Image.new("RGB", (64, 64)).save(tmp_path / f"{name}.png")
    assert [e.question for e in shipped(tmp_path)] == names
    assert shipped(tmp_path / "missing") == ()


def test_shipped_examples_are_real_traces():
    for example in shipped():
        read = trace.read(example.trace)
        assert read.header.provenance.get("torch"), f"{example.name} was not recorded by the engine"
        assert all(lane.end for lane in read.lanes)


def test_the_page_waits_for_no_model():
    code = "import sys, app.main; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    root = Path(run.__file__).parents[1]
    assert subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True).strip() == "[]"


def test_the_player_is_complete_and_fetches_nothing():
    assert PLOTLY.exists() and PLOTLY.with_name("plotly-basic.LICENSE.txt").exists()
    for path in (*SCRIPTS, STYLE):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text and "innerHTML" not in text and "eval(" not in text, path.name


def test_made_up_runs_are_valid():
    text = "".join(fake.lines())
    assert trace.write(trace.read(text)).count("\n") == text.count("\n")
    assert json.loads(text.splitlines()[0])["kind"] == "header"
