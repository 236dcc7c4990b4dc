"""ZeroGPU with a stand-in for its package: the run really happens in a forked process, and only strings cross."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr
import pytest
from PIL import Image

from app import zero
from app.models import Models
from glance.attention import Attention
from glance.errors import BadCheckpoint, BadInput

SETTINGS = {"max_new_tokens": 16, "budget": 31, "temperature": 0.0, "seed": 0, "lanes": ()}


class Fake:
    """The package's decorator: remembers the duration, forks for each call, lets nothing but strings through."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def GPU(self, duration):
        def decorate(task):
            def call(request: str) -> Iterator[str]:
                assert type(request) is str
                self.asked.append(duration(request) if callable(duration) else duration)
                context = multiprocessing.get_context("fork")
                mine, theirs = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(task, request, theirs), daemon=True)
                worker.start()
                theirs.close()
                try:
                    while True:
                        try:
                            line = mine.recv()
                        except EOFError:
                            return
                        assert type(line) is str
                        yield line
                finally:
                    worker.terminate()
                    worker.join()

            return call

        return decorate


def _work(task, request, out) -> None:
    for line in task(request):
        out.send(line)
    out.close()


@dataclass(frozen=True)
class Prompt:
    size: tuple[int, int]
    question: str
    ids_sha256: str = "5" * 64


class Inner:
    """An engine that tells where it ran, until it is stopped."""

    def __init__(self, rounds: int = 3) -> None:
        self.rounds, self.raced, self.notes = rounds, False, {}

    def prompt(self, image, question):
        if not question:
            raise BadInput("Type a question.")
        return Prompt(image.size, question)

    def seen(self, image):
        return image

    def race(self, prompt, settings, stopped):
        self.raced = True
        if prompt.question == "too long":
            raise BadInput("This prompt is too long.")
        if prompt.question == "damaged":
            raise BadCheckpoint("The target's logits are not finite.")
        done = 0
        while done < self.rounds and not stopped():
            yield json.dumps({"round": done, "pid": os.getpid(), "size": prompt.size, "settings": settings})
            done += 1
            time.sleep(0.01)
        yield json.dumps({"end": "stopped" if done < self.rounds else "whole"})

    def look(self, prompt, answer, emitted):
        if emitted >= len(answer):
            raise BadInput("This answer does not fit.")
        values = (0.25, os.getpid(), *prompt.size, *answer)
        return Attention(1, len(values), values, 0.5, (1, 5), emitted, emitted)


def run(made, question="What?", stopped=lambda: False):
    """The lines of a run, as JSON."""
    return (json.loads(x) for x in made.race(made.prompt(Image.new("RGB", (5, 4)), question), SETTINGS, stopped))


def test_the_run_is_in_the_worker_and_the_parent_is_unchanged():
    inner, fake = Inner(), Fake()
    lines = list(run(zero.ZeroEngine(inner, fake.GPU)))
    assert [x.get("round") for x in lines] == [0, 1, 2, None] and lines[-1] == {"end": "whole"}
    assert lines[0]["pid"] != os.getpid() and not inner.raced
    assert lines[0]["size"] == [5, 4] and lines[0]["settings"] == {**SETTINGS, "lanes": []}


def test_stop_reaches_the_worker():
    lines = list(run(zero.ZeroEngine(Inner(rounds=10**6), Fake().GPU), stopped=lambda: True))
    assert lines[-1] == {"end": "stopped"}


def test_a_closed_run_ends_the_worker():
    lines = run(zero.ZeroEngine(Inner(rounds=10**6), Fake().GPU))
    pid = next(lines)["pid"]
    lines.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_refusals_come_back_as_they_are():
    made = zero.ZeroEngine(Inner(), Fake().GPU)
    with pytest.raises(BadInput, match="Type a question"):
        made.prompt(Image.new("RGB", (5, 4)), "")
    with pytest.raises(BadInput, match="This prompt is too long"):
        list(run(made, "too long"))
    with pytest.raises(BadInput, match="logits are not finite"):
        list(run(made, "damaged"))


def test_a_look_is_in_the_worker_too():
    fake = Fake()
    made = zero.ZeroEngine(Inner(), fake.GPU)
    prompt = made.prompt(Image.new("RGB", (5, 4)), "What?")
    assert prompt.ids_sha256 == Inner().prompt(Image.new("RGB", (5, 4)), "What?").ids_sha256
    found = made.look(prompt, (7, 8, 9), 2)
    assert found.values[1] != os.getpid() and found.values[2:] == (5, 4, 7, 8, 9)
    assert isinstance(found, Attention) and found.layers == (1, 5) and found.tokens == 2
    assert fake.asked == [zero.START]
    with pytest.raises(BadInput, match="does not fit"):
        made.look(prompt, (7, 8, 9), 3)


def test_the_hosts_words_are_passed_on_without_markup():
    def no_gpu(duration):
        def call(request):
            raise gr.Error("You have exceeded your quota.<br><a href='x'>Log in</a> for more.")
            yield

        return lambda task: call

    with pytest.raises(BadInput, match=r"not to be had: You have exceeded your quota. Log in for more\."):
        list(run(zero.ZeroEngine(Inner(), no_gpu)))
    made = zero.ZeroEngine(Inner(), no_gpu)
    with pytest.raises(BadInput, match="quota"):
        made.look(made.prompt(Image.new("RGB", (5, 4)), "What?"), (7, 8, 9), 2)


@pytest.mark.parametrize(("tokens", "lanes"), [(16, 3), (128, 3), (512, 3), (512, 2)])
def test_the_duration_grows_with_the_request_and_stays_small(tokens, lanes):
    def asked(tokens, lanes):
        return zero.seconds(json.dumps({"settings": {"max_new_tokens": tokens, "lanes": ["x"] * lanes}}))

    assert 8 < asked(tokens, lanes) <= zero.LONGEST
    assert asked(tokens // 2, lanes) < asked(tokens, lanes) and asked(tokens, 1) < asked(tokens, lanes)


def test_elsewhere_the_engine_stays_as_it_is_and_the_package_is_not_asked_for():
    inner = Inner()
    assert not zero.ON and zero.engine(inner) is inner and not hasattr(zero, "spaces")


def test_models_load_in_the_thread_that_asks():
    """The emulated GPU exists in the importing thread alone."""
    threads = []
    models = Models(lambda: threads.append(threading.current_thread()) or Inner())
    models.load_now()
    assert threads == [threading.current_thread()] and models.ready
    models.start()
    models.get()
    assert len(threads) == 1
