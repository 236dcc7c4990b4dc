/* The fixed parts of the player's page: buttons, tabs, legend, stage bar, and the keyboard. */
(function (G) {
  "use strict";

  const ICONS = {
    first: "M3 3h2v10H3zM13 3v10L6 8z", previous: "M12 3v10L4 8z", play: "M4 2.5v11L13 8z",
    pause: "M4 3h3v10H4zM9 3h3v10H9z", next: "M4 3v10l8-5z", last: "M3 3v10l7-5zM11 3h2v10h-2z",
    slow: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM7.2 4h1.6v3.7l2.5 1.5-.8 1.3-3.3-2z",
    tour: "M1.5 3.2C3.6 2.2 5.9 2.3 8 3.6c2.1-1.3 4.4-1.4 6.5-.4v9.6c-2.1-.9-4.3-.8-6.5.6-2.2-1.4-4.4-1.5-6.5-.6zM7.3 4.9C5.9 4 4.4 3.7 2.9 4.1v7c1.5-.3 3-.1 4.4.7zM8.7 4.9v6.9c1.4-.8 2.9-1 4.4-.7v-7c-1.5-.4-3-.1-4.4.8z",
    projector: "M1.5 2.5h13v8.5h-13zM3 4v5.5h10V4zM5 12.5h6V14H5z",
    rare: "M6 3l1.6 3.300 3.6.5-2.6 2.5.6 3.6L6 11.200l-3.200 1.7.6-3.6L.8 6.800l3.6-.5zM12.5 4.5v7L16 8z",
    rarer: "M10 3l1.6 3.300 3.6.5-2.6 2.5.6 3.6L10 11.200l-3.200 1.7.6-3.6-2.6-2.5 3.6-.5zM3.5 4.5v7L0 8z",
  };

  function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", ICONS[name]);
    svg.append(path);
    return svg;
  }

  function button(action, label, key, words) {
    return G.el("button", { type: "button", "data-action": action, "aria-label": label, title: key ? label + " (" + key + ")" : label },
      icon(action), ...(words ? [G.el("span", {}, words)] : []));
  }

  const LEGEND = [
    ["draft", "accepted draft token"], ["own", "target’s own token"], ["prefill", "first token, from the prefill"],
    ["rejected", "candidate not taken"], ["root", "root; ring = entropy"],
  ];

  /** Build the page inside the root element and return its parts by name. */
  G.buildShell = function (root, speeds) {
    const parts = {
      about: G.el("p", { class: "gl-about" }),
      lanes: G.el("div", { class: "gl-lanes" }),
      play: button("play", "Play", "Space", "Play"),
      live: button("last", "Follow the newest round", null, "Newest"),
      scrub: G.el("input", { type: "range", class: "gl-scrub", min: 0, max: 1, value: 0, step: "any", "aria-label": "Time" }),
      clock: G.el("span", { class: "gl-clock" }),
      speed: G.el("select", { "aria-label": "Speed" }, ...speeds.map(([value, name]) => G.el("option", { value, selected: value === "0.25" }, name))),
      timeWrap: G.el("div", { class: "gl-timewrap", "aria-hidden": "true" }),
      tabs: G.el("div", { class: "gl-tabs", role: "radiogroup", "aria-label": "Decoder whose rounds are shown" }),
      position: G.el("strong", { class: "gl-position" }),
      rarer: button("rarer", "Previous surprising round", "P"),
      rare: button("rare", "Next surprising round", "N", "Surprise"),
      projector: button("projector", "Larger type, for a projector", null, "Projector"),
      tour: button("tour", "Guided tour", null, "Tour"),
      slow: button("slow", "Play this round in slow motion", "S", "Slow motion"),
      stages: G.el("div", { class: "gl-stages" }),
      tree: G.el("div", { class: "gl-tree", role: "img", tabindex: 0, "aria-label": "Candidate tree" }),
      canvas: G.el("canvas", { class: "gl-canvas" }),
      plot: G.el("div", { class: "gl-plot" }),
      say: G.el("p", { class: "gl-say", role: "status", "aria-live": "polite" }, "Waiting for a run…"),
      why: G.el("p", { class: "gl-why" }),
      tops: G.el("div", { class: "gl-tops" }),
      tableBody: G.el("div", { class: "gl-tablebody", tabindex: 0 }),
    };
    parts.live.dataset.action = "live";
    parts.live.classList.add("gl-live");
    parts.live.hidden = true;
    parts.play.classList.add("gl-play");
    parts.tree.append(G.el("div", { class: "gl-paper" }, parts.canvas, parts.plot));
    parts.table = G.el("details", { class: "gl-table" }, G.el("summary", {}, "Candidates of this round as a table"), parts.tableBody);
    const legend = G.el("ul", { class: "gl-legend", "aria-label": "Legend" },
      ...LEGEND.map(([kind, words]) => G.el("li", {}, G.el("i", { class: "gl-key gl-key-" + kind }), words)));
    parts.sections = G.buildSections();
    for (const [name, { host }] of Object.entries(parts.sections)) parts[name] = host;
    root.dataset.idle = "1";
    root.replaceChildren(
      G.el("p", { class: "gl-idle" }, "Choose a picture, ask a question and press Run: the decoders answer here, side by side."),
      G.el("div", { class: "gl-top" }, parts.about, G.el("div", { class: "gl-tools" }, parts.tour, parts.projector)),
      parts.lanes, legend,
      G.el("div", { class: "gl-controls", role: "group", "aria-label": "Playback" },
        button("first", "To the start", "Home"), button("previous", "Previous round", "←"), parts.play,
        button("next", "Next round", "→"), button("last", "To the end", "End"), parts.live, parts.clock,
        G.el("label", { class: "gl-speed" }, "Speed ", parts.speed)),
      G.el("div", { class: "gl-race" }, parts.scrub, parts.timeWrap,
        G.el("p", { class: "gl-hint" }, "One bar a round: faint is drafting, solid is the target’s pass, the number is the tokens gained.")),
      G.el("div", { class: "gl-microscope" },
        G.el("div", { class: "gl-round-head" }, parts.tabs, parts.position,
          G.el("div", { class: "gl-moves" }, parts.rarer, parts.rare, parts.slow)),
        parts.stages, parts.say, parts.why, G.el("div", { class: "gl-scene" }, parts.tree, parts.tops), parts.table),
      ...Object.values(parts.sections).map(({ section }) => section));
    return parts;
  };

  G.bindControls = function (player) {
    const { root, parts } = player;
    const actions = {
      first: () => { player.pause(); player.seek(0); },
      previous: () => player.step(-1),
      play: () => player.play(!player.playing),
      next: () => player.step(1),
      last: () => { player.pause(); player.seek(Infinity); },
      live: () => { player.pause(); player.follow = true; player.seek(Infinity); },
      slow: () => player.playSlowly(),
      rare: () => player.surprise(1),
      rarer: () => player.surprise(-1),
    };
    G.bindProjector(parts.projector);
    root.addEventListener("click", (event) => {
      const pressed = event.target.closest("button[data-action]");
      if (pressed && player.run && actions[pressed.dataset.action]) actions[pressed.dataset.action]();
      const tab = event.target.closest("[role=radio]");
      if (tab) player.choose(+tab.dataset.order);
    });
    parts.scrub.addEventListener("input", () => { player.pause(); player.seek(+parts.scrub.value); });
    parts.speed.addEventListener("change", () => { player.speed = +parts.speed.value; });
    const keys = {
      ArrowRight: "next", ArrowLeft: "previous", Home: "first", End: "last", " ": "play", s: "slow", n: "rare", p: "rarer",
    };
    root.tabIndex = -1; // a click on what takes no focus of its own gives the player the keys
    root.addEventListener("keydown", (event) => {
      if (!player.run || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("[role=radio]") && moveTab(player, event)) return;
      const range = event.target === parts.scrub;
      if (!range && event.target.closest("select, input, textarea, table, .gl-ids, .gl-tablebody")) return;
      if (event.key === " " && event.target.closest("button, summary")) return; // it presses them
      const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      actions[action]();
    });
  };

  function moveTab(player, event) {
    const direction = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!direction) return false;
    event.preventDefault();
    const count = player.run.lanes.length;
    player.choose((player.focus + direction + count) % count);
    player.parts.tabs.children[player.focus].focus();
    return true;
  }

  G.buildTabs = function (player) {
    player.parts.tabs.replaceChildren(...player.run.lanes.map((lane) => G.el("button",
      { type: "button", role: "radio", "data-order": lane.order }, G.laneMark(lane), lane.name)));
    G.markTab(player);
  };

  G.markTab = (player) => [...player.parts.tabs.children].forEach((tab, i) => {
    tab.setAttribute("aria-checked", i === player.focus);
    tab.tabIndex = i === player.focus ? 0 : -1;
  });

  G.markPlaying = function (player) {
    const { play } = player.parts, on = player.playing;
    play.replaceChildren(icon(on ? "pause" : "play"), G.el("span", {}, on ? "Pause" : "Play"));
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    player.root.dataset.playing = on ? "1" : "";
  };

  function stageWords(round, stage) {
    const rows = round.tokens.length + 1;
    const how = stage === "draft" ? G.plural(round.draft_passes, "pass", "passes")
      : stage === "verify" ? (rows > 1 ? rows + " rows in 1 pass" : "1 pass") : "";
    return " " + G.ms(round.ms[stage]) + (how ? " · " + how : "");
  }

  /** The stages of the round: their measured times in words, and a bar in proportion to them. */
  G.updateStages = function (host, round, phase, progress) {
    const shown = round ? G.STAGES.filter((stage) => round.ms[stage] > 0) : [];
    if (host.round !== round) {
      host.round = round;
      const words = shown.map((stage) => G.el("li", { class: "gl-stage-" + stage },
        G.el("i"), G.el("b", {}, G.STAGE_NAMES[stage]), stageWords(round, stage)));
      const bar = shown.map((stage) => G.el("div", { class: "gl-stage-" + stage, style: "flex-grow:" + round.ms[stage].toFixed(4) }, G.el("i")));
      host.replaceChildren(G.el("ul", {}, ...words), G.el("div", { class: "gl-stagebar", "aria-hidden": "true" }, ...bar));
    }
    const [words, bar] = host.children, now = shown.indexOf(phase);
    shown.forEach((stage, i) => {
      words.children[i].classList.toggle("gl-now", i === now);
      bar.children[i].firstChild.style.width = (now < 0 || i < now ? 100 : i === now ? 100 * progress : 0) + "%";
    });
  };
})(window.Glance = window.Glance || {});
