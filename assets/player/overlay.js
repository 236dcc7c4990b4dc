/* On the picture: which visual tokens the target attended to while it wrote the tokens of a round. Asked for, never
   by itself, since the model has to run for it. */
(function (G) {
  "use strict";

  const TOP = 3; // cells that are framed and named in words

  const percent = (share) => (100 * share).toFixed(share < 0.001 ? 3 : share < 0.1 ? 2 : 1) + " %";

  /** The cells with the most attention, best first: {row, column, value}. */
  function strongest(found) {
    const order = found.values.map((value, i) => ({ value, row: Math.floor(i / found.columns), column: i % found.columns }));
    return order.sort((a, b) => b.value - a.value).slice(0, TOP);
  }

  /** The values as a layer of one pixel a cell: the more attention, the less one sees through it. */
  function heat(found, colour) {
    const canvas = G.el("canvas", { width: found.columns, height: found.rows });
    const pen = canvas.getContext("2d"), most = Math.max(...found.values);
    pen.fillStyle = colour;
    found.values.forEach((value, i) => {
      pen.globalAlpha = 0.8 * value / most;
      pen.fillRect(i % found.columns, Math.floor(i / found.columns), 1, 1);
    });
    return canvas;
  }

  const ROUNDING = 1e-3; // logits, as in glance/family.py: closer ones can change places in fp32 too

  G.Overlay = class {
    constructor(host, player) {
      this.player = player;
      this.found = new Map();
      this.ask = G.el("button", { type: "button" }, "Where did the target look?");
      this.remove = G.el("button", { type: "button", hidden: true }, "Remove");
      this.said = G.el("p", { class: "gl-said", role: "status" });
      this.figure = G.el("div", { class: "gl-overlay" });
      this.ask.addEventListener("click", () => this.look());
      this.remove.addEventListener("click", () => this.clear());
      host.replaceChildren(
        G.el("p", {}, "For the round on show, the places in the picture that the target attended to most when it chose the round’s tokens. "
          + "The model runs once more for it. Attention is a hint, not a proof: what a model attends to is not always what it uses."),
        G.el("div", { class: "gl-buttons" }, this.ask, this.remove), this.said, this.figure);
      host.parentElement.hidden = !player.options.ask; // a page without a server has no model to ask
    }

    key(lane, k) { return lane.id + " " + k; }

    begin() {
      this.found.clear();
      this.clear();
    }

    clear() {
      this.about = null;
      G.hide(this.remove, true, this.ask);
      this.said.textContent = "";
      this.figure.replaceChildren();
    }

    update() {}

    /** Another round: its own answer if there is one already, else none, for the old one would mislead. */
    select(lane, k) {
      const found = this.found.get(this.key(lane, k));
      if (this.about !== this.key(lane, k)) this.clear();
      if (found) this.show(lane, k, found);
    }

    redraw() {
      if (this.figure.firstChild) this.draw(this.found.get(this.about));
    }

    async look() {
      const { player } = this, { options } = player;
      if (this.looking) return;
      player.pause();
      const { lane, run } = player, { k } = player.moment(), picture = options.picture();
      if (!lane.rounds[k]) return;
      this.say(lane, k, "Looking… The model may have to load, or to finish another run first.");
      this.wait(true);
      let found;
      try {
        found = { ...await options.ask({ lane: lane.id, round: k }), picture };
      } catch {
        found = { sentence: "No answer came; the server may be busy or out of reach. Ask again." };
      }
      this.wait(false);
      if (player.run !== run) return;
      if (found.values) this.found.set(this.key(lane, k), found);
      if (player.lane !== lane || player.moment().k !== k) return;
      if (found.values) this.show(lane, k, found); else this.say(lane, k, G.inert(found.sentence));
    }

    /** Words about a round, which stay until another is on show; those and the figure of another round go. */
    say(lane, k, words) {
      const about = this.key(lane, k);
      if (this.about !== about) this.clear();
      this.about = about;
      this.said.textContent = words;
    }

    wait(on) {
      this.looking = on;
      G.lock(this.ask, on);
    }

    show(lane, k, found) {
      const first = strongest(found).map((cell) => "row " + (cell.row + 1) + ", column " + (cell.column + 1) + " (" + percent(cell.value) + ")");
      this.say(lane, k, lane.name + ", round " + (k + 1) + ": " + percent(found.share)
        + " of the attention went to the picture, the rest to the question and the answer. Strongest at " + first.join("; ")
        + "." + this.doubt(lane.rounds[k], found));
      this.draw(found);
      this.remove.hidden = false;
    }

    /** What to know where this model would have chosen other tokens: rounding takes those apart that are nearly tied. */
    doubt(round, found) {
      const others = found.tokens - found.agreeing, step = Math.max(ROUNDING, this.player.run.header.settings.tie_threshold || 0);
      if (!others || found.sampled) return "";
      if (others <= (round.margins || []).filter((margin) => margin <= step).length) {
        return " Note: " + G.plural(others, "token") + " of these were nearly tied with another, and this pass rounds the other way.";
      }
      return " Note: the model that is loaded here would have chosen other tokens, so the run was made with another one.";
    }

    draw(found) {
      const most = Math.max(...found.values), picture = G.el("div", { class: "gl-seen" });
      if (found.picture) picture.append(G.el("img", { src: found.picture, alt: "" }));
      picture.append(heat(found, this.player.theme.vermillion));
      for (const cell of strongest(found)) {
        picture.append(G.el("i", {
          style: "left:" + 100 * cell.column / found.columns + "%;top:" + 100 * cell.row / found.rows + "%;width:"
            + 100 / found.columns + "%;height:" + 100 / found.rows + "%",
        }));
      }
      const legend = G.el("div", { class: "gl-scale" }, G.el("span", {}, "0"), G.el("i"), G.el("span", {}, percent(most)));
      const words = "Share of all attention that one visual token got (" + found.rows + " × " + found.columns
        + " of them; " + percent(found.share / found.values.length) + " if it were even). Mean over " + G.plural(found.tokens, "row")
        + ", all heads and layers " + found.layers.join(", ") + ", whose states the draft head reads. The " + TOP + " strongest are framed.";
      this.figure.replaceChildren(picture, legend, G.el("p", {}, words));
    }
  };
})(window.Glance = window.Glance || {});
