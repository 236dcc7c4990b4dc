"""Colours, fonts and the page's own style. Nothing is fetched from outside."""

import gradio as gr

from app.replay import STYLE as VIEWER

THEME = gr.themes.Default(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
).set(
    body_text_color_subdued="*neutral_600",
    body_text_color_subdued_dark="*neutral_300",
    block_label_text_color="*neutral_600",
    block_label_text_color_dark="*neutral_300",
    button_primary_background_fill="#0072b2",
    button_primary_background_fill_hover="#005a8c",
    button_primary_background_fill_dark="#0072b2",
    button_primary_background_fill_hover_dark="#1f86c4",
    button_primary_text_color="#ffffff",
    button_primary_text_color_dark="#ffffff",
)


def _pinned(body: str) -> str:
    """Status and Stop at the foot of the window, for a layout in which they stand far below the lanes."""
    return f"""
{body} #status {{ position: fixed; z-index: 1000; inset: auto 0 0; padding: 10px 126px 10px 14px;
  background: var(--background-fill-primary); border-top: 1px solid var(--border-color-primary); }}
{body} #stop {{ position: fixed; z-index: 1001; right: 12px; bottom: 9px; width: 104px; }}
{body} .gl-tour.gl-root {{ bottom: 100px; max-height: calc(100vh - 114px); }}
"""


_PAGE = """
html { overflow-y: scroll; }
/* The player before Gradio has built the page: where it will stand then. */
#early { position: absolute; z-index: 1001; inset: 0 0 auto; min-height: 100vh; box-sizing: border-box;
  padding: 144px max(32px, 50% - 748px) 40px calc(max(48px, 50% - 732px) + max(270px, (min(100%, 1560px) - 80px) / 5));
  background: var(--bg); font-family: system-ui, sans-serif; }
#early > b { position: absolute; left: max(32px, 50% - 748px); top: 16px; font: 600 26px/34px system-ui, sans-serif; }
#early > span { position: absolute; left: max(32px, 50% - 748px); top: 72px; font-size: 15px; }
.dark #early { background: var(--bg-dark); }
#early [data-action=tour] { visibility: hidden; } /* its card needs the rest of the page */
.gradio-container { width: 100%; max-width: 1560px !important; margin: 0 auto !important; }
#head .prose { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 14px; }
#head h1 { margin: 0; font-size: 26px; letter-spacing: -.01em; }
#head p { margin: 0; color: var(--body-text-color-subdued); font-size: 15px; }
#ask-link { display: none; }
#status .html-container, #view .html-container, #examples .html-container { padding: 0; }
#status .gl-status { min-height: 2.9em; margin: 0; font-size: 14.5px; line-height: 1.45; color: var(--body-text-color);
  overflow-wrap: anywhere; }
#seen .image-container { padding-top: 28px; }
.gl-note p { font-size: 12.5px; color: var(--body-text-color-subdued); }
#go, #stop { min-height: 44px; }
.gl-picker { display: flex; gap: 8px; overflow-x: auto; padding: 3px; }
#examples button { display: flex; align-items: center; gap: 9px; flex: 1 0 150px; max-width: 260px; min-height: 54px;
  padding: 5px 10px 5px 5px; border: 1px solid var(--border-color-primary); border-radius: 10px; cursor: pointer;
  background: var(--background-fill-primary); color: var(--body-text-color); font-size: 13px; line-height: 1.3;
  text-align: left; }
#examples button[aria-pressed=true] { border-color: #0072b2; box-shadow: 0 0 0 1px #0072b2; }
#examples button:focus-visible { outline: 3px solid #e69f00; outline-offset: 1px; }
#examples img { width: 56px; height: 44px; object-fit: cover; object-position: top; border-radius: 6px;
  background: #fff; flex: none; margin: 0; }
#examples span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
@media (max-width: 768px) {
  #early { padding: 217px 16px 40px; }
  #early > b { left: 16px; }
  .gradio-container > .main, .gradio-container main { padding-left: 8px !important; padding-right: 8px !important; }
  #ask-link { display: inline; }
  #ask { order: 2; }
  #watch { order: 1; }
}
/* A run that is over makes room for the next one: what still stands there is not its answer. */
body.gl-running #view .gl-root[data-done] > .gl-lanes { opacity: .4; transition: opacity .3s .3s; }
body.gl-large .gradio-container { max-width: none !important; --text-xs: 14px; --text-sm: 16px; --text-md: 18px;
  --text-lg: 21px; --input-text-size: 18px; --block-label-text-size: 16px; --block-info-text-size: 16px;
  --checkbox-label-text-size: 18px; --button-large-text-size: 20px; --button-small-text-size: 17px;
  --block-title-text-size: 18px; --section-header-text-size: 20px; }
body.gl-large .row:has(> #watch) { flex-direction: column; }
body.gl-large .row:has(> #watch) > * { width: 100%; flex: none; }
body.gl-large #ask { order: 2; }
body.gl-large #ask-link { display: inline; }
body.gl-large #head h1 { font-size: 34px; }
body.gl-large #head p, body.gl-large #status .gl-status { font-size: 20px; }
body.gl-large .gl-note p { font-size: 16px; }
body.gl-large #upload .file-preview { font-size: 17px; }
body.gl-large #examples button { font-size: 17px; flex-basis: 200px; max-width: 320px; min-height: 68px; }
body.gl-large #examples img { width: 74px; height: 58px; }
@media print {
  html { overflow: visible; }
  #ask > :not(#seen), #seen .icon-button-wrapper, #watch > :not(#view), #ask-link, footer { display: none !important; }
  gradio-app, .gradio-container, .gradio-container :has(#view) { display: block !important;
    overflow: visible !important; }
}
"""

# During a run on a phone, and with the projector's large letters.
_RUNNING = f"@media (max-width: 768px) {{{_pinned('body.gl-running')}}}{_pinned('body.gl-large.gl-running')}"

# In a style element of the page: Gradio rewrites what it gets as `css`, and loses container queries on the way.
STYLE = VIEWER.read_text(encoding="utf-8") + _PAGE + _RUNNING
