"""The page: what is on it, and which function answers which event."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from app import engine_panel, model_panel, run, scripts, zero
from app.early import Early
from app.look import MAX_TRACE, answer, where
from app.models import Models
from app.replay import TOUR, picker, replay, status
from app.theme import THEME
from app.turns import WAITING
from glance.errors import BadInput
from glance.examples import FOLDER as EXAMPLES
from glance.examples import Example, shipped
from glance.export import PLAYER
from glance.images import page_count
from glance.lanes import LANES
from glance.saved import text_of
from glance.trace import TraceError, read

TITLE = """# GLANCE
One picture, one question, three decoders. The same bytes out, with fewer passes of the target model.
<a id="ask-link" href="#ask">Ask about your own picture ↓</a>"""

SMALL = """The model that comes with this page is small. It reads clean printed images of the kind shown in the
examples; other pictures need a larger model, and the decoding works the same way with it."""

GUIDE = """
- **Autoregressive** runs the *target* once for each token. **EAGLE-3** drafts step by step, eight passes of a small
  head a round. **GLANCE** drafts a whole block in one pass from the target's own picture-and-text states.
- Each **round**, the target checks a tree of candidates in one pass and follows the branch that it would have written
  itself. So every lane writes the same bytes; only the number of passes differs. The badge on a lane says whether
  they are identical, and where not.
- **τ** is tokens for one round: the mean accepted length plus one for the target's own token; a last round that the end
  of the answer cuts counts only what it wrote. The **budget** is the number of candidates in a tree, its root not
  counted. **Target passes** leave out the prefill, which all lanes share.
- How much is accepted depends on the picture, the question, the temperature and the language: drafters guess best what
  is like the answers that they learnt from. A number on this page is about its own run.
- **H** at the root is the entropy of the target's next-token distribution in nats: the wider the ring, the less
  certain the target is, and the harder it is to guess what it will write. **Δ** is the margin: how far the logit of
  its first choice lies above the second.
- All times are measured. The lanes take turns, always the one whose own clock is furthest behind, so none disturbs
  another; playing back and stepping happen in your browser. *Slow motion* stretches one round to a few seconds.
- **Surprise** goes to the next round that is worth a look: the target was unusually unsure, a long run was copied, or
  a branch was right that the drafter did not like best.
- Keys in the player: ← → one round, Home and End, Space to play, S for slow motion, N and P for the next and the
  previous surprising round. In the tour: Page Down, Page Up, Escape.
"""

WAIT = "Waiting for a turn…"
MUCH = 2  # times smaller on a side
SETTINGS = ("max_new_tokens", "budget", "temperature", "seed")
SAVED = """A saved run, played from its file. The picture is not in the file: choose it here to see where the target
looked, or to ask again."""

models = Models()
if zero.ON:
    models.load_now()  # before the fork, and in the thread in which the GPU is emulated
stops = run.Stops()
gr.set_static_paths([PLAYER, EXAMPLES, TOUR])


def look(path: str | None, page: Any) -> tuple[Any, int, str]:
    """The picture as the model will see it, the number of pages, and a status sentence; raises `BadInput`."""
    pages = page_count(path)
    image, notes = run.picture(path, page)
    if models.ready:
        whole, image = image, models.get().seen(image)
        if whole.width >= MUCH * image.width:
            notes = (*notes, f"the model sees {image.width}×{image.height} pixels of it, too few for small print")
    return image, pages, f"Ready: {', '.join(notes)}." if notes else "Ready. Type a question and press Run."


def page_box(page: int, pages: int) -> gr.Number:
    """The choice of a page, where there is one."""
    return gr.Number(page, visible=pages > 1, label=f"Page (of {pages})")


def show_upload(path: str | None, kept: str | None) -> tuple[Any, ...]:
    """Show the first page of a new file; a bad file leaves the previous one in place."""
    try:
        image, pages, words = look(path, 1)
    except BadInput as problem:
        gr.Warning(str(problem))
        return kept, gr.skip(), gr.skip(), gr.skip(), str(problem)
    return gr.skip(), path, image, page_box(1, pages), words


def show_page(path: str | None, page: Any) -> tuple[Any, str]:
    """Show another page of the file; one that does not exist leaves the previous one in sight.

    A box that is empty, between two numbers, asks for none.
    """
    if page is None:
        return gr.skip(), gr.skip()
    try:
        image, _, words = look(path, page)
    except BadInput as problem:
        gr.Warning(str(problem))
        return gr.skip(), str(problem)
    return image, words


def begin(request: gr.Request) -> tuple[Any, ...]:
    """Lock Run, free Stop, and forget an earlier press of Stop."""
    stops.arm(request.session_hash)
    return gr.Button(interactive=False), gr.Button(interactive=True), WAIT


def free(request: gr.Request) -> tuple[Any, Any]:
    """Free Run and lock Stop; a run that found no place has left its flag."""
    stops.drop(request.session_hash)
    return gr.Button(interactive=True), gr.Button(interactive=False)


def press_stop(request: gr.Request) -> Any:
    """Ask the session's run to end before its next round. The run itself says when it has."""
    stops.press(request.session_hash)
    return gr.Button(interactive=False)


def decode(
    chosen: str | None, kept: str | None, page: Any, question: str, max_new_tokens: Any, budget: Any,
    temperature: Any, seed: Any, lanes: list[str] | None, request: gr.Request,
) -> Iterator[tuple[Any, Any, str]]:  # fmt: skip
    """Run the lanes and stream the growing trace. A file just chosen counts before its picture is on show."""
    flag = stops.flag(request.session_hash)
    try:
        settings = run.settings_from(max_new_tokens, budget, temperature, seed, lanes)
        for update in run.decode(models, chosen or kept, page, question, settings, flag.is_set):
            if update.warning:
                gr.Warning(update.status)
            yield update.trace or gr.skip(), update.seen or gr.skip(), update.status
    except BadInput as problem:
        gr.Warning(str(problem))
        yield gr.skip(), gr.skip(), str(problem)
    finally:
        stops.drop(request.session_hash)


def compare(
    image: str, question: str, page: float = 1, max_new_tokens: float = 256, budget: float = 31,
    temperature: float = 0, seed: float = 0, lanes: str = "",
) -> Iterator[str]:  # fmt: skip
    """Answer a question about an image or a PDF page with several decoders, side by side.

    The answer is the run as NDJSON: a header line, a line a round, and a closing line a lane with its text, its
    tokens a round (tau), and whether it wrote the same bytes as the first lane.

    Args:
        image: an image or a PDF; as a tool's input, its public web address or a data URL.
        question: what to ask about it.
        page: page of a PDF, from 1.
        max_new_tokens: cap on the answer, at most 512.
        budget: candidates in a tree, root not counted, at most 63.
        temperature: 0 is greedy; at most 1.5.
        seed: of the draws at a temperature above 0.
        lanes: two or more of autoregressive, eagle3, glance, with commas between; empty for all.

    Yields:
        The run so far. The last one is the whole run.
    """
    text = ""
    try:
        settings = run.settings_from(max_new_tokens, budget, temperature, seed, (lanes or "").split(","))
    except BadInput as problem:
        raise gr.Error(str(problem), print_exception=False) from None
    with closing(run.decode(models, image, page, question, settings)) as updates:
        for update in updates:
            if update.warning:
                raise gr.Error(update.status, print_exception=False)
            text = update.trace or text
            yield text


def open_saved(path: str) -> tuple[Any, ...]:
    """Play a saved run, with those of its settings that the page has. Its picture is not in the file, so the one on
    show goes."""
    try:
        text = text_of(path, MAX_TRACE)
    except TraceError as problem:
        gr.Warning(str(problem))
        return *[gr.skip()] * 6, str(problem), *[gr.skip()] * 5
    header = read(text[: text.index("\n") + 1]).header
    values, words = [header.settings.get(name) for name in SETTINGS], SAVED
    lanes = [lane["id"] for lane in header.lanes if lane["id"] in LANES]
    try:
        run.settings_from(*values, lanes)
    except BadInput as problem:
        values, lanes = [gr.skip()] * len(SETTINGS), gr.skip()
        words = f"{SAVED} This page cannot take its settings and keeps its own. {problem}"
    return None, None, None, gr.Number(1, visible=False), header.question, text, words, *values, lanes


def keep(path: str | None, page: Any, question: str, text: str | None) -> tuple[Any, ...]:
    """What the visitor has before the tour begins."""
    return path, page, question, text


def give_back(
    recorded: set[tuple[str, str]], mine: tuple[Any, ...] | None, path: str | None, question: str
) -> tuple[Any, ...]:
    """What the visitor had before the tour, unless a file or a question of theirs has come since.

    Args:
        recorded: file name and question of each recorded run: what the tour leaves on the page.
    """
    if not mine or (path and Path(path).name, question) not in recorded:
        return (gr.skip(),) * 7
    path, page, question, text = mine
    words = "This is what you had before the tour."
    try:
        image, pages, _ = look(path, page) if path else (None, 1, "")
    except BadInput as problem:  # the box held no page that there is, or the file was too old to be kept
        path, image, page, pages, words = None, None, 1, 1, str(problem)
    return path, path, image, page_box(page, pages), question, text, words


def look_at(text: str | None, path: str | None, page: Any, event: gr.EventData) -> Any:
    """Tell the player where the target looked in the round that it asks about."""
    asked = event._data or {}
    found = where(models, text, asked.get("lane"), asked.get("round"), path, page)
    return gr.HTML(answer=answer(found, asked.get("ticket")))


def make_room(request: gr.Request) -> Any:
    """End the session's run, if there is one, before a saved one opens."""
    leave(request)
    return "The saved run opens when the run under way has ended." if stops.holds(request.session_hash) else gr.skip()


def leave(request: gr.Request) -> None:
    """End the run of a visitor who has gone or chosen another one, also one that has not begun yet."""
    stops.press(request.session_hash)


def _choose(example: Example) -> tuple[Any, ...]:
    image = str(example.image)
    return image, image, image, gr.Number(value=1, visible=False), example.question, example.trace, "A recorded run."


def limits() -> str:
    """What to expect of the model that answers; the recorded runs are always the small one's."""
    preset, target = os.environ.get("GLANCE_PRESET", "mini"), Path(os.environ.get("GLANCE_TARGET", "")).name
    if preset == "mini" and not target:
        return SMALL
    return f"`{target or preset}` answers here, unless another model was loaded. The recorded runs are of a small one."


def build(examples: tuple[Example, ...] | None = None) -> gr.Blocks:
    """The page with these recorded runs, by default the shipped ones; the first plays at once."""
    examples = shipped() if examples is None else examples
    first = examples[0] if examples else None
    picture = str(first.image) if first else None
    hello = "This is a recorded run. Press Run to ask the model itself." if first else "Choose a picture and press Run."
    with gr.Blocks(
        title="GLANCE: visual speculative decoding", fill_width=True, delete_cache=(3600, 3600), analytics_enabled=False
    ) as demo:
        gr.Markdown(TITLE, elem_id="head")
        with gr.Row():
            with gr.Column(scale=1, min_width=270, elem_id="ask"):
                upload = gr.File(
                    picture, label="Image or PDF (✕ to change)", file_types=["image", ".pdf"], height=150,
                    elem_id="upload",
                )  # fmt: skip
                page = gr.Number(1, label="Page", precision=0, visible=False, elem_id="page")
                seen = gr.Image(
                    picture, label="What the model sees", interactive=False, height=210, buttons=["fullscreen"],
                    elem_id="seen",
                )  # fmt: skip
                question = gr.Textbox(first.question if first else "", label="Question", lines=2, elem_id="question")
                with gr.Accordion("Settings", open=False):
                    tokens = gr.Slider(1, run.MAX_NEW_TOKENS, 128, step=1, label="New tokens, at most")
                    budget = gr.Slider(1, run.MAX_BUDGET, 31, step=1, label="Budget (candidates in a tree)")
                    temperature = gr.Slider(0, run.MAX_TEMPERATURE, 0, step=0.1, label="Temperature (0 is greedy)")
                    seed = gr.Number(0, label="Seed", precision=0, elem_id="seed")
                    lanes = gr.CheckboxGroup(
                        [(name, lane) for lane, name in LANES.items()], value=list(LANES),
                        label="Decoders (two or more)",
                        info="The first one is the yardstick for speed and bytes.", elem_id="lanes",
                    )  # fmt: skip
                with gr.Row():
                    go = gr.Button("Run", variant="primary", elem_id="go", min_width=90)
                    stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=90)
                words = status(hello, elem_id="status")
                saved = gr.UploadButton(
                    "Open a saved run", file_types=[".ndjson", ".json"], size="sm", elem_id="open", variant="secondary"
                )
                gr.Markdown(limits(), elem_classes="gl-note")
            with gr.Column(scale=4, min_width=320, elem_id="watch"):
                if len(examples) > 1:
                    recorded = picker(examples, elem_id="examples")
                view = replay(first.trace if first else None, examples, elem_id="view")
                with gr.Accordion("How to read this", open=False):
                    gr.Markdown(GUIDE)
                engine_panel.build(upload, page, question, tokens)
                model_panel.build(models)
        # The last file that could be read: what Run uses, also after a bad one was refused.
        source = gr.File(picture, visible="hidden")

        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        # Of several keystrokes or files the last one counts.
        latest = {**private, "trigger_mode": "always_last"}
        upload.upload(show_upload, [upload, source], [upload, source, seen, page, words], **latest)
        page.input(show_page, [source, page], [seen, words], **latest)
        begun = go.click(begin, None, [go, stop, words], queue=False, js=scripts.SHOW_LANES, **private)
        ran = begun.then(
            decode, [upload, source, page, question, tokens, budget, temperature, seed, lanes], [view, seen, words],
            concurrency_id="model", concurrency_limit=WAITING, **private,
        )  # fmt: skip
        for ended in (ran.success, ran.failure):
            ended(free, None, [go, stop], queue=False, **private)
        ran.failure(None, words, words, js=scripts.not_begun(WAIT), **private)
        stop.click(press_stop, None, stop, queue=False, **private)
        demo.load(None, None, None, js=scripts.NAME_PICTURE)
        demo.load(None, None, None, js=scripts.WATCH_RUN)
        demo.unload(leave)
        shown = [upload, source, seen, page, question, view, words]
        its = [*shown, tokens, budget, temperature, seed, lanes]
        room = saved.upload(make_room, None, words, queue=False, **private)
        room.then(open_saved, saved, its, js=scripts.AFTER_RUN, **private)
        looked = view.look(
            look_at, [view, source, page], view, concurrency_id="model", concurrency_limit=WAITING,
            trigger_mode="multiple", **private,  # a question that was given up must not keep the next one back
        )  # fmt: skip
        looked.failure(None, None, None, js=scripts.UNANSWERED)
        mine = gr.State()
        view.keep(keep, [source, page, question, view], mine, queue=False, **private)
        of_tour = {(example.image.name, example.question) for example in examples}
        view.back(partial(give_back, of_tour), [mine, source, question], shown, queue=False, **private)
        if len(examples) > 1:

            def choose(event: gr.EventData) -> tuple[Any, ...]:
                return _choose(examples[event.index])

            recorded.leave(leave, queue=False, **private)
            # "always_last" would ask again for the first click's run.
            recorded.pick(choose, None, shown, queue=False, trigger_mode="multiple", **private)
        _endpoint()
    demo.queue(max_size=24)
    return demo


def _endpoint() -> None:
    """The API: the same run without the page, through components that check the file's path."""
    image = gr.File(label="Image or PDF", visible=False)
    text = gr.Textbox(label="Question", visible=False)
    numbers = [
        gr.Number(value, label=label, visible=False)
        for label, value in (
            ("Page of a PDF, from 1", 1), ("New tokens, at most", 256), ("Budget: candidates in a tree", 31),
            ("Temperature (0 is greedy)", 0), ("Seed", 0),
        )
    ]  # fmt: skip
    lanes = gr.Textbox("", label="Lanes, with commas between; empty for all", visible=False)
    gr.Button(visible=False).click(
        compare, [image, text, *numbers, lanes], gr.Textbox(label="The run as NDJSON", visible=False),
        api_name="compare", concurrency_id="model", concurrency_limit=WAITING,
    )  # fmt: skip


demo = build()


def launch(**arguments: Any) -> None:
    """Serve the page and load the model meanwhile. Address, port and root path come from the GRADIO_* variables."""
    models.start()
    demo.launch(
        theme=THEME, max_file_size="20mb", ssr_mode=False, run_history=False, footer_links=["api", "settings"],
        app_kwargs={"middleware": [Middleware(Early)]}, **arguments,
    )  # fmt: skip
