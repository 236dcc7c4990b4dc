/* "What this run says": acceptance, the entropy law, time by stage, and how sure the target was of every token. */
(function (G) {
  "use strict";

  const CONFIG = { displayModeBar: false, responsive: false };
  const DARKEST = 2; // nats; a token of this entropy and above has the full shade
  const NEEDED = 10; // rounds for a law, as in glance/law.py
  const paper = window.matchMedia("print");

  const lanePart = (lane, ...words) => G.el("li", {}, G.laneMark(lane), G.el("b", {}, lane.name), ...words);
  const signed = (x) => (x < 0 ? "−" : "") + Math.abs(x).toFixed(2);

  /** The law of a lane in words. */
  G.lawWords = function (lane) {
    const law = lane.closing && lane.closing.law;
    if (!lane.closing) return "not finished; the law is fitted when the lane is done";
    if (!law) {
      return lane.rounds.length < NEEDED ? "no law from " + G.plural(lane.rounds.length, "round") + "; it takes " + NEEDED
        : "no law was fitted to these rounds";
    }
    return "logit p = " + signed(law.intercept) + (law.slope < 0 ? " + " : " − ") + Math.abs(law.slope).toFixed(2) + " H; 95 % interval of the slope "
      + signed(law.low) + " to " + signed(law.high) + "; correlation " + signed(law.r) + "; " + G.plural(law.rounds, "round");
  };

  /** Each token of a lane's answer as {piece, k, entropy, margin}; k is −1 for the first, which the prefill gave. Older
      traces know the entropy of each round's first token only. */
  G.answerTokens = function (run, lane) {
    const { first_entropy: entropy, first_margin: margin } = run.header;
    const all = [{ piece: run.first[lane.order], k: -1, entropy, margin }];
    lane.rounds.forEach((round, k) => {
      const entropies = (round.entropies || []).length ? round.entropies : [round.entropy];
      const margins = (round.margins || []).length ? round.margins : [round.margin];
      round.pieces.forEach((piece, i) => all.push({ piece, k, entropy: entropies[i], margin: margins[i] }));
    });
    return all;
  };

  G.Findings = class {
    constructor(host, player) {
      this.host = host;
      this.player = player;
      this.plots = [];
    }

    begin() {
      clearTimeout(this.waiting);
      this.shown = null;
      delete this.host.dataset.drawn; // the figures are still those of the last run
    }

    update(run) {
      if (this.shown !== run) this.build(run);
      this.write(run);
      this.draw();
    }

    redraw() {
      if (this.shown) this.draw();
    }

    build(run) {
      this.plots.forEach((plot) => Plotly.purge(plot));
      this.shown = run;
      this.tokensOf = null;
      const card = (title, key, label) => {
        this[key] = G.el("div", { class: "gl-figure", role: "img", "aria-label": label });
        this[key + "Words"] = G.el("ul", { class: "gl-facts" });
        return G.el("section", { class: "gl-finding" }, G.el("h3", {}, title), G.el("div", { class: "gl-drawn" }, this[key]), this[key + "Words"]);
      };
      this.text = G.el("div", { class: "gl-shaded", dir: "auto", role: "group", "aria-label": "Tokens of the answer; arrow keys move, Enter shows the round" });
      this.read = G.el("p", { class: "gl-read", role: "status" });
      this.who = G.el("span");
      this.partly = G.el("span");
      const key = (kind, words) => G.el("li", {}, G.el("i", { class: "gl-line gl-line-" + kind }), words);
      const cards = [
        card("Accepted length of the rounds", "acceptance", "Histogram of accepted lengths; the figures stand below it"),
        card("Accepted length against how sure the target was", "law", "Accepted length against root entropy; the fits stand below it"),
        card("Where the time goes", "stages", "Time by stage; the figures stand below it"),
        G.el("section", { class: "gl-finding" }, G.el("h3", {}, "How sure the target was of each token", this.who),
          this.text, this.read,
          G.el("p", { class: "gl-shade-key" }, "0", G.el("i"), DARKEST + " nats or more; a stronger shade and a thicker line is less sure. ", this.partly)),
      ];
      this.fitted = key("fit", "this run’s law, shaded its 95 % interval");
      cards[1].append(G.el("ul", { class: "gl-legend" }, this.fitted,
        key("ceiling", "the paper’s ceiling, 2 ln 31 / H"), key("floor", "the paper’s lower bound (AdaEDL, read directly)")),
      G.el("p", { class: "gl-aside" }, "The two grey brackets are the paper’s, of a target of 8 billion parameters. A point is a round: click it."));
      cards[2].append(G.el("ul", { class: "gl-legend" }, ...Object.entries(G.STAGE_NAMES).map(([stage, words]) =>
        G.el("li", { class: "gl-stage-" + stage }, G.el("i", { class: "gl-swatch" }), words))));
      const [acceptance, law, stages, tokens] = cards;
      this.ring = G.el("div", { class: "gl-ring", hidden: true });
      this.law.after(this.ring);
      this.host.replaceChildren(G.el("div", { class: "gl-findings" }, G.el("div", {}, acceptance, stages), law), tokens);
      this.plots = [this.acceptance, this.law, this.stages];
      this.text.onclick = (event) => this.goTo(event.target.closest("[data-i]"));
      this.text.onkeydown = (event) => this.key(event);
      for (const kind of ["pointerover", "focusin"]) {
        this.text.addEventListener(kind, (event) => this.tell(event.target.closest("[data-i]")));
      }
    }

    /** The figures as words, which also stand for the pictures. */
    write(run) {
      const lanes = G.drafting(run), none = () => [G.el("li", {}, "Nothing has been drafted.")];
      const facts = (host, list) => host.replaceChildren(...(list.length ? list : none()));
      facts(this.acceptanceWords, lanes.map((lane) => {
        const [long, all] = G.longRounds(lane), mean = G.lengths(lane).reduce((a, b) => a + b, 0) / all;
        const silent = lane.rounds.length - all;
        return lanePart(lane, ": mean a = " + mean.toFixed(2) + "; P(a ≥ " + G.LONG + ") = " + (100 * long / all).toFixed(1) + " % (" + long + " of " + G.plural(all, "round") + ")"
          + (silent ? "; " + G.plural(silent, "round") + " without a draft left out" : ""));
      }));
      this.fitted.hidden = !lanes.some((lane) => lane.closing && lane.closing.law);
      facts(this.lawWords, lanes.map((lane) => lanePart(lane, ": " + G.lawWords(lane))));
      facts(this.stagesWords, run.lanes.map((lane) => {
        const sum = (stage) => lane.rounds.reduce((ms, round) => ms + (round.ms[stage] || 0), 0);
        const draft = sum("draft") + sum("build");
        return lanePart(lane, ": " + G.ms(lane.total) + (draft > 0 && lane.rounds.some((r) => r.draft_passes)
          ? ", " + (100 * draft / lane.total).toFixed(0) + " % of it drafting" : ""));
      }));
    }

    /** One figure a task, so that no frame of the player waits for all of them; what is printed waits for none. */
    draw() {
      clearTimeout(this.waiting);
      const { player } = this, run = this.shown, { theme, lines } = player;
      if (!this.law.clientWidth) return;
      const figures = [[this.acceptance, G.acceptanceFigure], [this.law, G.lawFigure], [this.stages, G.stageFigure]];
      const next = () => {
        const [plot, figure] = figures.shift();
        const { data, layout } = figure(run, theme, plot.clientWidth);
        Plotly.react(plot, data, layout, CONFIG);
        if (plot === this.law) this.listen(plot);
        if (figures.length && paper.matches) next();
        else if (figures.length) this.waiting = setTimeout(next, 0);
        else this.host.dataset.drawn = run.header.run + " " + lines;
        if (plot === this.law) this.mark();
      };
      delete this.host.dataset.drawn;
      this.writeTokens(player.lane);
      next();
    }

    listen(plot) {
      if (plot.listening) return;
      plot.listening = true;
      plot.on("plotly_click", (event) => {
        const [order, k] = event.points[0].customdata || [];
        if (k !== undefined) this.player.goTo(order, k);
      });
    }

    select(lane, k) {
      this.chosen = { lane, k };
      if (this.tokensOf && this.tokensOf.lane !== lane) this.writeTokens(lane);
      this.mark();
    }

    /** Frame the chosen round among the points and in the text. */
    mark() {
      const { lane, k } = this.chosen || {}, round = lane && this.player.run.lanes[lane.order] === lane && lane.rounds[k];
      const { _fullLayout: drawn } = this.law;
      this.ring.hidden = !drawn || !round || !round.draft_passes;
      if (!this.ring.hidden) { // an element of its own, as the playhead: a new trace would draw the whole figure
        const x = drawn.xaxis._offset + drawn.xaxis.d2p(round.entropy), y = drawn.yaxis._offset + drawn.yaxis.d2p(round.accepted.length);
        this.ring.style.transform = "translate(" + x + "px, " + y + "px)";
      }
      for (const token of this.text.children) token.classList.toggle("gl-selected", !!round && +token.dataset.k === k);
    }

    writeTokens(lane) {
      const tokens = G.answerTokens(this.shown, lane), grown = this.tokensOf && this.tokensOf.lane === lane;
      const from = grown ? this.tokensOf.tokens.length : 0;
      if (from === tokens.length) return;
      this.tokensOf = { lane, tokens };
      this.who.textContent = " (" + lane.name + ")";
      this.partly.textContent = tokens.every((t) => t.entropy == null) ? "This trace does not say how sure it was."
        : tokens.some((t) => t.entropy == null) ? "Striped: this trace does not say." : "";
      if (!grown) {
        this.text.replaceChildren();
        this.read.textContent = "Point at a token to read its entropy.";
      }
      for (let i = from; i < tokens.length; i++) {
        if (tokens[i].piece.special || tokens[i].piece.text) this.text.append(this.token(lane, tokens[i], i));
      }
    }

    token(lane, token, i) {
      const { piece, k, entropy } = token, share = Math.min(1, entropy / DARKEST);
      return G.el("span", {
        class: (piece.special ? "gl-stop " : "") + (entropy == null ? "gl-unknown" : "gl-shade"),
        tabindex: this.text.firstChild ? -1 : 0, role: "button", "data-i": i, "data-k": k,
        style: entropy == null ? null : "--gl-share:" + share.toFixed(3) + ";--gl-thick:" + Math.round(4 * share) + "px",
        "aria-label": this.words(lane, token, i),
      }, piece.special ? "end" : G.inert(piece.text));
    }

    words(lane, { piece, k, entropy, margin }, i) {
      const text = piece.special ? "end of text" : G.isolate("“" + G.label(piece.text, 24) + "”");
      return "Token " + i + ", " + text + (k < 0 ? ", from the prefill" : ", round " + (k + 1)) + ": "
        + (entropy == null ? "entropy not recorded" : "H = " + entropy.toFixed(3) + " nats")
        + (margin == null ? "" : ", two best logits " + margin.toFixed(2) + " apart");
    }

    tell(token) {
      if (token) this.read.textContent = token.getAttribute("aria-label");
    }

    goTo(token) {
      if (token && +token.dataset.k >= 0) this.player.goTo(this.tokensOf.lane.order, +token.dataset.k);
    }

    key(event) {
      const token = event.target.closest("[data-i]"), list = this.text.children;
      if (!token) return;
      const to = { ArrowRight: token.nextElementSibling, ArrowLeft: token.previousElementSibling, Home: list[0], End: list[list.length - 1] }[event.key];
      if (event.key === "Enter" || event.key === " ") this.goTo(token);
      else if (to) {
        token.tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
      } else if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      event.stopPropagation();
    }
  };
})(window.Glance = window.Glance || {});
