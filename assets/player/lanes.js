/* One card a decoder: verdict, numbers, progress, and its text with every token marked by origin. */
(function (G) {
  "use strict";

  const COLOURS = { autoregressive: "grey", eagle3: "orange", glance: "blue" };
  const SPARE = ["sky", "purple", "green", "vermillion"];
  const SIGNS = { // each as Plotly names it, and as the path of an icon
    autoregressive: ["circle", "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2z"],
    eagle3: ["triangle-up", "M8 1.5 15 14H1z"],
    glance: ["square", "M2 2h12v12H2z"],
  };
  const DIAMOND = ["diamond", "M8 .5 15.5 8 8 15.5 .5 8z"];

  /** The name of a lane's colour in the theme; the same lane has the same colour in every part. */
  G.laneColour = (lane) => COLOURS[lane.id] || SPARE[lane.order % SPARE.length];

  /** Its sign's name in Plotly. */
  G.laneSymbol = (lane) => (SIGNS[lane.id] || DIAMOND)[0];

  /** A small sign in a lane's colour and shape. */
  G.laneMark = function (lane) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("class", "gl-mark");
    svg.setAttribute("aria-hidden", "true");
    svg.style.fill = "var(--gl-" + G.laneColour(lane) + ")";
    path.setAttribute("d", (SIGNS[lane.id] || DIAMOND)[1]);
    svg.append(path);
    return svg;
  };

  const REASONS = {
    eos: "the answer is complete", length: "the cap on new tokens was reached",
    "stop string": "a stop string was reached", stopped: "stopped by hand", failed: "the lane failed",
  };
  G.reason = (reason) => REASONS[reason] || reason;

  function verdict(lane) {
    if (lane.order === 0) return ["reference", "reference"];
    const identity = lane.closing && lane.closing.identity;
    if (!identity) return ["open", "not finished"];
    switch (identity.verdict) {
      case "identical": return ["good", "✓ byte-identical"];
      case "differs": return ["bad", "✗ differs at token " + identity.index];
      case "so far": return ["open", "✓ identical so far"];
      default: return ["open", identity.verdict];
    }
  }

  const STATS = [
    ["tokens", "tokens", "Tokens of the answer so far; the first one comes from the prefill"],
    ["target", "target passes", "Forward passes of the target, the shared prefill not counted"],
    ["draft", "draft passes", "Sequential forward passes of the drafter"],
    ["tau", "τ", "Tokens for one round: mean accepted length plus one; a last round that the end cuts counts only what it wrote"],
    ["perSecond", "tok/s", "Tokens a second of decoding, prefill not counted"],
  ];

  /** The cards. onPick(laneIndex, roundIndex) is called when a round is clicked in the text. */
  G.Lanes = class {
    constructor(host, run, onPick) {
      this.run = run;
      this.cards = run.lanes.map((lane) => this.build(lane));
      host.replaceChildren(...this.cards.map((card) => card.element));
      host.onclick = (event) => {
        const span = event.target.closest("[data-r]");
        if (span) onPick(+span.closest(".gl-lane").dataset.order, +span.dataset.r);
      };
    }

    build(lane) {
      const card = { lane, shown: 0, selected: null };
      card.badge = G.el("span", { class: "gl-badge" });
      card.speed = G.el("span", { class: "gl-speedup" });
      card.versus = G.el("span", {
        class: "gl-versus", title: "Tokens a second of decoding over those of " + this.run.reference.name,
      });
      card.values = {};
      const stats = G.el("dl", { class: "gl-stats" }, ...STATS.map(([key, name, title]) => {
        card.values[key] = G.el("dd");
        return G.el("div", { title }, G.el("dt", {}, name), card.values[key]);
      }));
      card.bar = G.el("progress", { max: 1, value: 0, "aria-label": lane.name + ": progress" });
      card.text = G.el("div", {
        class: "gl-text", dir: "auto", tabindex: 0, role: "region", "aria-label": lane.name + ": answer",
      });
      card.text.append(this.token(this.run.first[lane.order]));
      card.foot = G.el("p", { class: "gl-foot" });
      card.element = G.el("section", {
        class: "gl-lane", "data-lane": lane.id, "data-order": lane.order, "aria-label": lane.name,
        style: "--gl-lane: var(--gl-" + G.laneColour(lane) + ")",
      },
      G.el("h2", {}, G.laneMark(lane), G.el("span", {}, lane.name), card.badge),
      G.el("div", { class: "gl-hero" }, card.speed, card.versus), stats, card.bar, card.text, card.foot);
      return card;
    }

    token(piece) {
      if (piece.special) return G.el("span", { class: "gl-stop", title: "end-of-text token" }, "end");
      return G.el("span", {
        class: "gl-" + piece.origin + (piece.deferred ? " gl-deferred" : ""),
        title: piece.deferred ? "Two logits nearly tied: this token came from an ordinary one-token pass" : false,
      }, G.inert(piece.text));
    }

    /** Show every lane as it stood at time t. `follow` keeps the newest line in sight. */
    update(t, follow) {
      const written = this.cards.filter((card) => this.updateCard(card, card.lane.finished(t)));
      if (follow) for (const { text } of written) text.scrollTop = text.scrollHeight; // after all writing: it needs a layout
    }

    /** Returns whether something changed. */
    updateCard(card, k) {
      const { lane } = card;
      const key = [k, lane.rounds.length, !!lane.closing, lane.order ? this.run.reference.rounds.length : 0, !!this.run.reference.closing].join();
      if (key === card.key) return false;
      card.key = key;
      this.setText(card, k);
      const stats = lane.stats(k), all = lane.rounds.length;
      card.values.tokens.textContent = stats.tokens;
      card.values.target.textContent = stats.target;
      card.values.draft.textContent = stats.draft;
      card.values.tau.textContent = G.fixed(stats.tau, 2);
      card.values.perSecond.textContent = G.fixed(stats.perSecond, stats.perSecond < 10 ? 1 : 0);
      const cap = this.run.header.settings.max_new_tokens || stats.tokens;
      card.bar.value = lane.closing ? stats.tokens / Math.max(1, lane.closing.ids.length) : Math.min(1, stats.tokens / cap);
      const reference = this.run.reference.stats(this.run.reference.rounds.length).perSecond;
      const speedup = stats.perSecond / reference;
      card.speed.textContent = !lane.order ? "1×" : Number.isFinite(speedup) ? speedup.toFixed(2) + "×" : "–";
      card.versus.textContent = lane.order ? "decode speed" : "decode speed (the yardstick)";
      const [kind, words] = verdict(lane);
      card.badge.className = "gl-badge gl-" + kind;
      card.badge.textContent = words;
      card.badge.title = lane.closing ? G.inert(lane.closing.identity.sentence) : "";
      card.element.dataset.verdict = lane.closing ? lane.closing.identity.verdict : "open";
      this.setFoot(card, k === all && !!lane.closing, stats);
      return true;
    }

    setText(card, k) {
      const { text, lane } = card;
      while (card.shown > k) { text.lastChild.remove(); card.shown--; }
      for (; card.shown < k; card.shown++) {
        text.append(G.el("span", { class: "gl-round", "data-r": card.shown },
          ...lane.rounds[card.shown].pieces.filter((p) => p.special || p.text).map((p) => this.token(p))));
      }
    }

    /** How much sooner this lane's answer is complete than the reference's when every prefill counts. Of two answers that
        are not the same, whole one, the times say nothing. */
    endToEnd(lane) {
      const { run } = this, { reference } = run;
      if (!reference.closing || !lane.closing || lane.closing.identity.verdict !== "identical") return null;
      const all = (one) => run.header.prefill_ms + one.closing.begin_ms + one.total;
      return all(reference) / all(lane);
    }

    setFoot(card, finished, stats) {
      const { closing } = card.lane, words = [];
      if (finished) {
        words.push("Done in " + G.ms(stats.ms) + ": " + G.reason(closing.reason) + ".");
        const whole = this.endToEnd(card.lane);
        if (whole) words.push("Prefill included " + G.fixed(whole, 2) + "×.");
        words.push("SHA\u2011256 " + closing.sha256.slice(0, 10) + "…");
        if (closing.identity.verdict === "differs") words.push(closing.identity.sentence);
        if (closing.note) words.push("⚠ " + closing.note);
      }
      card.foot.textContent = G.inert(words.join(" "));
    }

    /** Outline the selected round in its lane's text. */
    select(order, round) {
      for (const card of this.cards) {
        const span = card.lane.order === order ? card.text.querySelector('[data-r="' + round + '"]') : null;
        card.element.classList.toggle("gl-chosen", card.lane.order === order);
        if (span === card.selected) continue;
        if (card.selected) card.selected.classList.remove("gl-selected");
        if (span) span.classList.add("gl-selected");
        card.selected = span;
      }
    }

    /** Scroll the outlined round into sight; last in a step, since it needs a layout. */
    reveal() {
      for (const { text, selected } of this.cards) {
        if (!selected) continue;
        const top = selected.getBoundingClientRect().top - text.getBoundingClientRect().top + text.scrollTop;
        if (top < text.scrollTop || top + 24 > text.scrollTop + text.clientHeight) text.scrollTop = top - text.clientHeight / 2;
      }
    }
  };
})(window.Glance = window.Glance || {});
