/* The time line: one row a lane, one bar a round, drafting faint and the target's pass solid. */
(function (G) {
  "use strict";

  const ROW = 34, TOP = 6, BOTTOM = 24;

  const height = (run, theme) => TOP + (BOTTOM + ROW * run.lanes.length) * theme.size;
  const STILL = 4; // pixels that a click may move

  /** @param onSeek(ms, laneIndex, clicked) called while dragging, and with `clicked` at the end of a mere click. */
  G.Timeline = class {
    constructor(host, onSeek) {
      this.plot = G.el("div", { class: "gl-time" });
      this.head = G.el("div", { class: "gl-playhead" });
      this.pick = G.el("div", { class: "gl-pick" });
      this.host = host;
      this.run = null;
      this.span = 1; // milliseconds that the drawn axis covers; a live run may be ahead of it
      host.replaceChildren(this.plot, this.pick, this.head);
      const place = (event) => {
        const m = this.metrics(), box = this.plot.getBoundingClientRect();
        const row = Math.floor((event.clientY - box.top - m.top) / (m.height / this.run.lanes.length));
        return [(event.clientX - box.left - m.left) / m.width * this.span,
          row >= 0 && row < this.run.lanes.length ? row : null];
      };
      let from = null, moved = false, first;
      host.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !this.metrics()) return;
        host.setPointerCapture(event.pointerId); // what is shown for a press may push the time line from under it
        from = event.clientX;
        moved = false;
        first = place(event);
        onSeek(...first, false);
      });
      host.addEventListener("pointermove", (event) => {
        if (from === null || !event.buttons) { from = null; return; }
        moved = moved || Math.abs(event.clientX - from) > STILL;
        if (moved) onSeek(...place(event), false);
      });
      host.addEventListener("pointerup", () => {
        if (from !== null && !moved) onSeek(...first, true);
        from = null;
      });
    }

    /** Where the plot area lies in its box, or null before the first drawing. */
    metrics() {
      const layout = this.plot._fullLayout;
      if (!layout || !this.run) return null;
      const { l, t, w, h } = layout._size;
      return { left: l, top: t, width: w, height: h };
    }

    /** Room for the rows of a run that is not drawn yet, so that what lies below stays in its place. */
    clear(run, theme) {
      this.run = null;
      this.plot.style.minHeight = height(run, theme) + "px";
    }

    draw(run, theme) {
      const width = this.plot.clientWidth;
      if (!width) return null;
      this.run = run;
      this.span = run.total;
      const below = BOTTOM * theme.size, rows = run.lanes.length;
      const narrow = width < 560, left = narrow ? 12 : 112 * theme.size;
      const scale = (width - left - 12) / run.total;
      const data = [];
      for (const lane of run.lanes) {
        const colour = theme[G.laneColour(lane)];
        const y = new Array(lane.rounds.length).fill(lane.order);
        const drafting = lane.rounds.map((r) => (r.ms.draft || 0) + (r.ms.build || 0));
        const info = lane.rounds.map((r) => [
          r.index + 1, G.plural(r.emitted.length, "token"), G.fixed(r.entropy, 2),
          G.STAGES.filter((s) => r.ms[s] > 0).map((s) => s + " " + G.ms(r.ms[s])).join(", ")]);
        const bar = {
          type: "bar", orientation: "h", y, customdata: info, showlegend: false, width: 0.78,
          hovertemplate: "round %{customdata[0]}: %{customdata[1]}<br>%{customdata[3]}"
            + "<br>root entropy %{customdata[2]} nats<extra>" + G.escape(lane.name) + "</extra>",
        };
        const edge = { color: theme.bg, width: lane.rounds.length > 150 ? 0.4 : 1 };
        data.push({ ...bar, base: lane.start, x: drafting, marker: { color: colour, opacity: 0.4, line: edge } });
        data.push({
          ...bar, base: lane.start.map((s, i) => s + drafting[i]), x: lane.rounds.map((r, i) => r.total - drafting[i]),
          marker: { color: colour, line: edge },
        });
        // Bars' own texts are resized or dropped one by one; a text trace keeps one size.
        const roomy = lane.rounds.map((r, i) => i).filter((i) => (lane.rounds[i].total - drafting[i]) * scale >= 9 * theme.size);
        data.push({
          type: "scatter", mode: "text", hoverinfo: "skip", showlegend: false, y: roomy.map(() => lane.order),
          x: roomy.map((i) => lane.end[i] - (lane.rounds[i].total - drafting[i]) / 2),
          text: roomy.map((i) => String(lane.rounds[i].emitted.length)),
          textfont: { size: 11 * theme.size, color: theme.on[G.laneColour(lane)] },
        });
      }
      return Plotly.react(this.plot, data, {
        width, height: height(run, theme), margin: { l: left, r: 12, t: TOP, b: below },
        barmode: "overlay", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
        font: { family: "system-ui, sans-serif", color: theme.fg, size: 12 * theme.size }, hovermode: "closest",
        hoverlabel: { bgcolor: theme.bg, bordercolor: theme.fg, font: { family: "system-ui, sans-serif", color: theme.fg, size: 12.5 * theme.size }, align: "left" },
        xaxis: { range: [0, run.total], ...G.timeTicks(run.total, narrow ? 5 : 9), gridcolor: theme.grid, zeroline: false, fixedrange: true },
        yaxis: {
          range: [rows - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false, showticklabels: !narrow,
          tickvals: run.lanes.map((lane) => lane.order), ticktext: run.lanes.map((lane) => G.escape(lane.name) + " "),
        },
      }, { displayModeBar: false, responsive: false });
    }

    /** Move the playhead. It is an element of its own: moving it costs nothing, a relayout costs a redraw. */
    place(t) {
      const m = this.metrics();
      if (m) this.head.style.transform = "translateX(" + (m.left + m.width * Math.min(1, t / this.span)) + "px)";
    }

    /** Frame the selected round. */
    select(lane, k) {
      const m = this.metrics();
      this.pick.hidden = !m || !lane.rounds[k] || lane.end[k] > this.span + 1e-6;
      if (this.pick.hidden) return;
      const row = m.height / this.run.lanes.length, scale = m.width / this.span;
      Object.assign(this.pick.style, {
        left: m.left + lane.start[k] * scale - 1 + "px", width: Math.max(4, lane.rounds[k].total * scale + 1) + "px",
        top: m.top + row * (lane.order + 0.11) - 2 + "px", height: row * 0.78 + 4 + "px",
      });
    }
  };
})(window.Glance = window.Glance || {});
