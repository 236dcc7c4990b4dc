/* One round from near: its stages, what happens in words, the tree, and its candidates as a table. */
(function (G) {
  "use strict";

  const LIVE_MS = 400; // between two trees of a run that is still growing

  G.Microscope = class {
    constructor(player) {
      this.player = player;
      this.key = "";
      player.parts.table.addEventListener("toggle", () => { this.forget(); if (player.run) player.showRound(); });
    }

    /** Draw again at the next call, also what is on show. */
    forget() {
      this.key = "";
      this.width = 0;
    }

    /** Draw the tree of a moment of the chosen lane, {k, phase, progress from 0 to 1 within it}. First in a step: Plotly
        asks for the page's layout, which is known as long as nothing else has changed. */
    draw({ k, phase, progress }) {
      const { player } = this, { run, lane } = player;
      const key = [lane.id, k, phase, phase === "draft" || phase === "build" ? Math.round(progress * 16) : 0,
        lane.rounds.length, lane.maxDepth, !!lane.closing].join();
      const now = performance.now();
      if (key === this.key || (player.follow && !run.done && now - (this.drawn || 0) < LIVE_MS)) return;
      this.drawn = now;
      this.key = key;
      this.stale = true;
      this.drawTree(lane.rounds[k], phase, progress);
    }

    /** Say what `draw` has drawn, where that is new. */
    tell({ k, phase, progress }) {
      G.updateStages(this.player.parts.stages, this.player.lane.rounds[k], phase, progress);
      if (this.stale) this.write(k, phase, progress);
      this.stale = false;
    }

    write(k, phase, progress) {
      const { player } = this, { run, lane, parts } = player, round = lane.rounds[k];
      const place = round ? "Round " + (k + 1) + " of " + lane.rounds.length : "";
      const words = G.describe(run, lane, k, phase, progress);
      parts.say.setAttribute("aria-live", player.playing || !run.done ? "off" : "polite");
      G.sayInto(parts.say, words);
      parts.scrub.setAttribute("aria-valuetext", (place && place + ", ") + parts.clock.textContent);
      parts.position.textContent = place || "No round";
      G.lock(parts.slow, !round);
      G.lock(parts.rare, G.nextSurprise(run, lane, k, 1) === undefined);
      G.lock(parts.rarer, G.nextSurprise(run, lane, k, -1) === undefined);
      G.sayInto(parts.why, phase === "done" ? G.why(run, lane, round) : []);
      const tops = round && G.tops(run, round);
      parts.tops.replaceChildren(...(tops ? [tops] : []));
      parts.tree.setAttribute("aria-label", "Candidate tree. " + G.plain(words));
      if (round && parts.table.open) parts.tableBody.replaceChildren(G.candidates(run, round));
    }

    drawTree(round, phase, progress) {
      const { run, lane, parts, root, theme, playing } = this.player;
      const alone = !round || !G.topRows(round).length;
      if (parts.tops.hidden !== alone) this.width = 0; // they stand beside the tree
      parts.tops.hidden = alone;
      this.width = this.width || parts.tree.clientWidth; // read once: it makes the browser lay the page out
      if (!this.width) return;
      parts.canvas.hidden = !round;
      if (!round) {
        Plotly.purge(parts.plot);
      } else {
        const least = playing ? this.height : 0; // what lies below the tree stays in its place while it plays
        const view = { width: this.width - 2, phase, progress, theme, size: theme.size, least };
        const scene = this.scene = G.treeScene(run, lane, round, view);
        this.height = scene.height;
        parts.plot.style.width = scene.width + "px";
        this.plot([{ ...scene.others, mode: "none" }, ...scene.marks], G.treeLayout(scene, theme, theme.size));
      }
      root.dataset.ready = "1";
    }

    /** As Plotly's `react`, which compares all with what was there; here all is new. */
    plot(data, layout) {
      const { plot } = this.player.parts;
      if (!plot.data) {
        Plotly.newPlot(plot, data, layout, { displayModeBar: false, responsive: false });
      } else {
        Object.assign(plot, { data, layout });
        Plotly.redraw(plot);
      }
    }

    /** Paint what `draw` has drawn. Last in a step: a canvas asks for the page's layout, too. */
    paint() {
      if (this.painted === this.scene) return;
      this.painted = this.scene;
      G.paint(this.player.parts.canvas, this.scene, this.player.theme);
    }
  };
})(window.Glance = window.Glance || {});
