"""The engine's panel without a page: what it streams, and that it is not there unless the host names an engine."""

from __future__ import annotations

import gradio as gr
import pytest
from PIL import Image

from app import engine_panel
from glance.hosting import engine
from tests.test_engine_lane import WORDS, Server


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 6)).save(path)
    return str(path)


def test_it_streams_text_and_a_sentence(picture, monkeypatch):
    server = Server()
    monkeypatch.setenv(engine.VARIABLE, server.url)
    shown = list(engine_panel.answer(picture, 1, "What is it?", 32))
    server.shutdown()
    server.server_close()
    assert [text for text, _ in shown[:3]] == ["", WORDS[0], WORDS[0] + WORDS[1]]
    assert shown[-1][0] == "".join(WORDS) and "τ 3.50" in shown[-1][1]


@pytest.mark.parametrize(
    ("question", "page", "tokens", "word"),
    [("", 1, 32, "question is empty"), ("?", 0, 32, "Page must be"), ("?", 1, 0, "New tokens must be"),
     ("?", 1, 32, engine.VARIABLE)],
)  # fmt: skip
def test_refusals_are_sentences(picture, monkeypatch, question, page, tokens, word):
    monkeypatch.delenv(engine.VARIABLE, raising=False)
    shown = list(engine_panel.answer(picture, page, question, tokens))
    assert word in shown[-1][1]


@pytest.mark.parametrize("named", [True, False])
def test_it_is_there_only_where_an_engine_is_named(monkeypatch, named):
    monkeypatch.setenv(engine.VARIABLE, "http://127.0.0.1:1/v1" if named else "")
    with gr.Blocks() as page:
        engine_panel.build(gr.File(), gr.Number(), gr.Textbox(), gr.Slider())
    ids = [block.elem_id for block in page.blocks.values() if block.elem_id]
    assert ids == (["engine", "ask-engine", "engine-text", "engine-status"] if named else [])
