"""The page's few lines of JavaScript: what only the browser knows or can do."""

# On a phone the lanes stand above the button: Run brings them back into sight.
SHOW_LANES = """() => {
  const lanes = document.querySelector('#view');
  if (lanes.getBoundingClientRect().top < 0) lanes.scrollIntoView();
  return [];
}"""

# What is still on its way from a run that was asked to end would come back over the saved one.
AFTER_RUN = """async (file) => {
  while (document.querySelector('#go:disabled')) await new Promise((done) => setTimeout(done, 30));
  return file;
}"""

# The server refused to look.
UNANSWERED = "() => { document.querySelector('#view .gl-root').player.options.unanswered(); return []; }"

# Gradio makes the picture a button without a name.
NAME_PICTURE = """() => {
  const name = () => document.querySelectorAll('#seen button:not([aria-label]) .image-frame').forEach(
    (frame) => frame.closest('button').setAttribute('aria-label', 'The picture that the model sees'));
  new MutationObserver(name).observe(document.querySelector('#ask'), { childList: true, subtree: true });
  name();
}"""

# Run and Stop lock themselves; the keyboard's place goes to the one that is free. The page's style knows of a run by a
# class: to ask `:has(#go:disabled)` after every token costs more than the page has time for.
WATCH_RUN = """() => {
  const [go, stop] = ['go', 'stop'].map((id) => document.getElementById(id));
  let last = null;
  document.addEventListener('pointerdown', () => { last = null; });
  document.addEventListener('focusin', ({ target }) => {
    last = (target === go || target === stop) && target.matches(':focus-visible') ? target : null;
  });
  new MutationObserver(() => {
    document.body.classList.toggle('gl-running', go.disabled);
    const other = last === go ? stop : go;
    if (last && last.disabled && !other.disabled) other.focus({ preventScroll: true });
  }).observe(go.parentElement, { attributes: true, attributeFilter: ['disabled'], subtree: true });
}"""


def not_begun(waiting: str) -> str:
    """A run that was refused a place says nothing itself, so the status would go on saying `waiting`."""
    return f"(said) => said === {waiting!r} ? 'The run did not begin; press Run to try again.' : said"
