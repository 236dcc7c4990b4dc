"""Beside the lanes: the same question to a production engine, where the host names one in GLANCE_ENGINE_URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from app.replay import status
from app.run import MAX_NEW_TOKENS, check_question, picture, whole
from glance.errors import BadInput
from glance.hosting import engine


def answer(path: str | None, page: Any, question: str, max_new_tokens: Any) -> Iterator[tuple[Any, str]]:
    """The engine's growing text, and a sentence about its speed and acceptance."""
    try:
        check_question(question)
        image, _ = picture(path, page)
        tokens = whole("New tokens", max_new_tokens, 1, MAX_NEW_TOKENS)
        yield "", "Asking the engine…"
        with closing(engine.ask(engine.address(), image, question, tokens)) as answers:
            for said in answers:
                yield said.text, said.sentence()
    except BadInput as problem:
        yield gr.skip(), str(problem)


def build(path: gr.File, page: gr.Number, question: gr.Textbox, max_new_tokens: gr.Slider) -> None:
    """The panel, or nothing where no engine is named."""
    if not os.environ.get(engine.VARIABLE):
        return
    with gr.Accordion("A production engine", open=False, elem_id="engine"):
        gr.Markdown(engine.NO_TREES)
        ask = gr.Button("Ask it the same", elem_id="ask-engine")
        text = gr.Textbox(label="Its answer", interactive=False, lines=3, elem_id="engine-text")
        words = status("", elem_id="engine-status")
        ask.click(
            answer, [path, page, question, max_new_tokens], [text, words],
            concurrency_id="engine", concurrency_limit=1, api_visibility="private", show_progress="hidden",
        )  # fmt: skip
