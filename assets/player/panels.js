/* The sections under the microscope. A closed section costs nothing: its panel is called when it opens.

   A panel has begin(run) on a fresh run (draws nothing yet), and, while its section is open, update(run) when lines
   came or the run ended, select(lane, k) when the chosen round has settled, and redraw() when theme or width changed. */
(function (G) {
  "use strict";

  const SETTLED_MS = 120, SOON_MS = 200, LIVE_MS = 700; // SOON: the first frames of a fresh run come first
  const SECTIONS = [
    ["findings", "Findings", "What this run says"],
    ["overlay", "Overlay", "On the picture"],
    ["audit", "Audit", "Same bytes? The audit card"],
    ["take", "Take", "Take it away"],
  ];

  /** The sections' elements by name, each {section, host}. */
  G.buildSections = () => Object.fromEntries(SECTIONS.map(([name, , title]) => {
    const host = G.el("div", { class: "gl-panel-body" });
    const section = G.el("details", { class: "gl-panel", "data-panel": name, open: name === "findings" },
      G.el("summary", {}, title), host);
    return [name, { section, host }];
  }));

  G.Panels = class {
    constructor(player, sections) {
      this.player = player;
      this.shelf = [];
      for (const [name, type] of SECTIONS) {
        const { section, host } = sections[name];
        const place = { section, panel: new G[type](host, player), lines: -1, chosen: null };
        section.addEventListener("toggle", () => this.refresh(place, true));
        this.shelf.push(place);
      }
    }

    get list() { return this.shelf.map((place) => place.panel); }

    begin(run) {
      for (const place of this.shelf) {
        place.lines = -1;
        place.chosen = null;
        place.panel.begin(run);
      }
    }

    /** Lines came: soon for a finished run, now and then for a growing one. */
    update() {
      if (this.soon) return;
      this.soon = setTimeout(() => {
        this.soon = 0;
        for (const place of this.shelf) this.refresh(place, false);
      }, this.player.run.done ? SOON_MS : LIVE_MS);
    }

    /** The chosen round may have changed; panels hear of it once it stays. */
    select() {
      clearTimeout(this.settling);
      this.settling = setTimeout(() => this.shelf.forEach((place) => this.tell(place)), SETTLED_MS);
    }

    redraw() {
      for (const { section, panel } of this.shelf) if (section.open) panel.redraw();
    }

    refresh(place, opened) {
      const { player } = this, lines = player.run ? player.lines : -1;
      if (!place.section.open || lines < 0) return;
      if (place.lines !== lines) {
        place.lines = lines;
        place.panel.update(player.run);
      } else if (opened) {
        place.panel.redraw();
      }
      this.tell(place);
    }

    tell(place) {
      const { player } = this;
      if (!place.section.open || !player.run || player.playing || player.follow) return;
      const { lane } = player, { k } = player.moment(), chosen = lane.id + " " + k + " " + player.run.header.run;
      if (!lane.rounds[k] || chosen === place.chosen || place.lines < 0) return;
      place.chosen = chosen;
      place.panel.select(lane, k);
    }
  };
})(window.Glance = window.Glance || {});
