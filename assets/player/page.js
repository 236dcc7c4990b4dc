/* The player on Gradio's page. It starts from what the page's own HTML holds, before Gradio has built the rest, and
   moves into its block when that is there. */
(function (G) {
  "use strict";

  const BEAT_MS = 5000, PATIENCE_MS = 180000; // a busy server finishes the runs that came before

  /** What the page can do for the player, from the properties of Gradio's block. */
  function optionsFrom(props) {
    const base = window.gradio_config.root || "";
    // From the page's own root, so that it also works under a sub-path and behind a proxy. The tag of the contents
    // keeps a browser from mixing files of two versions: Gradio serves them without cache headers.
    const served = (folder) => (name) => base + "/gradio_api/file=" + folder + "/" + name + "?v=" + props.version;
    return {
      examples: JSON.parse(props.examples),
      file: served(props.folder),
      tour: props.tour.split(" ").filter(Boolean).map(served(props.tourfolder)),
      open: (name) => {
        const button = document.querySelector('.gl-picker [data-name="' + CSS.escape(name) + '"]');
        if (button) button.click();
        return !!button;
      },
      busy: () => document.body.classList.contains("gl-running"),
      picture: () => { const image = document.querySelector("#seen img"); return image && image.src; },
      ask: () => Promise.reject(new Error("the page is not complete yet")),
    };
  }

  /** Questions to the server, one at a time. The answer repeats the ticket, since equal values would not be noticed.
      Where none can come, the asker is told: Gradio keeps silent about a connection that is gone. */
  function answerBy(options, look, watchAnswer) {
    let tickets = 0, answered = () => {};
    watchAnswer((text) => { const found = JSON.parse(text); if (found.ticket === tickets) answered(found); });
    options.ask = (what) => new Promise((done, failed) => {
      const beat = setInterval(() => fetch(window.gradio_config.root + "/gradio_api/queue/status").catch(end(failed)), BEAT_MS);
      const patience = setTimeout(end(failed), PATIENCE_MS);
      function end(how) { return (found) => { clearInterval(beat); clearTimeout(patience); how(found); }; }
      answered = end(done);
      options.unanswered = end(failed);
      look({ ...what, ticket: ++tickets });
    });
  }

  /** Which recorded run is on show, if it is one. */
  function markExample({ run, options }) {
    const name = run && options.examples[run.header.run];
    for (const button of document.querySelectorAll(".gl-picker button")) button.setAttribute("aria-pressed", button.dataset.name === name);
  }

  /** As Gradio will decide it. */
  function wearTheme() {
    const wanted = new URLSearchParams(location.search).get("__theme") || "system";
    const dark = wanted === "system" ? window.matchMedia("(prefers-color-scheme: dark)").matches : wanted === "dark";
    document.body.classList.toggle("dark", dark);
  }

  /** A script's arrival, by its address. */
  const script = (address) => new Promise((done, failed) => {
    const element = G.el("script", { src: address });
    element.onload = done;
    element.onerror = () => failed(new Error("a part of it did not arrive"));
    document.head.append(element);
  });

  /** Play the run that stands in the page, in an element that waits in front of it. */
  G.startPage = async function (early, plotly) {
    const block = window.gradio_config.components.find(({ props }) => props.elem_id === "view");
    if (!block) { early.remove(); return; } // a page that asks for a password first
    const root = early.querySelector(".gl-root"), { props, value } = block.props;
    wearTheme();
    G.page = { root, early };
    try {
      await script(plotly);
    } catch (error) {
      root.textContent = "The player could not be loaded (" + error.message + "); reload the page.";
      return;
    }
    const player = root.player = G.mount(root, optionsFrom(props));
    player.feed(value);
    G.followLink(player);
    if (G.page.arrived) G.page.arrived(player);
  };

  /** Gradio's block is there: take the player into it. watch(name, does) is Gradio's, `ask` holds the block's events. */
  G.moveIn = function (element, props, watch, ask) {
    const { root, early } = G.page;
    element.querySelector(".gl-root").replaceWith(root);
    early.remove();
    G.page.arrived = (player) => {
      const update = () => { player.feed(props.value); markExample(player); G.followLink(player); };
      answerBy(player.options, ask.look, (does) => watch("answer", () => does(props.answer)));
      Object.assign(player.options, { keep: ask.keep, back: () => document.querySelector("#go:disabled") || ask.back() });
      watch("value", update);
      update();
    };
    if (root.player) G.page.arrived(root.player);
  };
})(window.Glance = window.Glance || {});
