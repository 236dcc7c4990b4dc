/* The guided tour: a card whose steps drive the player. Its texts are files of their own, fetched when it opens. */
(function (G) {
  "use strict";

  const OPENED_MS = 400; // a section that opens, and those above it, have their height by then
  const PATIENCE_MS = 20_000;
  const BUSY_MS = 300, BUSY = "A run is under way. This step comes when it has ended, so that nothing of it is lost.";
  const WAIT = "One moment…", LOST = "The run of this step did not arrive. Go to another step and back to ask again.";
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

  const most = (rounds, value) => rounds.reduce((best, round, k) => value(round) > value(rounds[best]) ? k : best, 0);
  const turned = (round) => round.accepted.some((i) => round.layout.rank[i] > 1);
  /** Which round a step is about. A lane without such a round shows its longest acceptance. */
  const RULES = {
    first: () => 0,
    longest: (rounds) => most(rounds, (r) => r.accepted.length),
    unsure: (rounds) => most(rounds.slice(0, -1), (r) => r.entropy), // the end of the answer cuts the last one
    branch: (rounds) => most(rounds, (r) => turned(r) ? 100 + r.accepted.length : r.accepted.length),
    fewest: (rounds) => most(rounds, (r) => -r.emitted.length),
  };

  /** A step's file: lines of "name: value", then the text, then the speaker's notes, with lines of --- between. */
  G.parseStep = function (file) {
    const [head, text, notes = ""] = file.replace(/\r/g, "").split(/^---$/m);
    const fields = head.trim().split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
    const paragraphs = (part) => part.trim().split(/\n{2,}/).filter(Boolean).map((p) => p.replace(/\n/g, " "));
    return { ...Object.fromEntries(fields), text: paragraphs(text), notes: paragraphs(notes) };
  };

  /** Figures that a text may name in braces: those of the round, and of each lane as {glance.tau}. */
  G.figures = function (run, lane, k) {
    const round = lane.rounds[k], figures = {};
    if (round) {
      Object.assign(figures, {
        round: k + 1, rounds: lane.rounds.length, candidates: round.tokens.length, accepted: round.accepted.length,
        tokens: round.emitted.length, passes: round.draft_passes, entropy: G.fixed(round.entropy, 2),
        margin: G.fixed(round.margin, 2), draft: G.ms(round.ms.draft), verify: G.ms(round.ms.verify),
      });
    }
    const rate = (one) => one.stats(one.rounds.length).perSecond;
    for (const one of run.lanes) {
      const stats = one.stats(one.rounds.length);
      Object.assign(figures, {
        [one.id + ".tokens"]: stats.tokens, [one.id + ".target"]: stats.target, [one.id + ".draft"]: stats.draft,
        [one.id + ".tau"]: G.fixed(stats.tau, 2), [one.id + ".speedup"]: G.fixed(rate(one) / rate(run.reference), 2) + "×",
      });
    }
    figures.prefill = G.ms(run.header.prefill_ms);
    return figures;
  };

  G.fill = (text, figures) => text.replace(/\{([\w.]+)\}/g, (whole, name) => name in figures ? figures[name] : whole);

  G.Tour = class {
    constructor(player) {
      this.player = player;
      this.files = player.options.tour || [];
      this.button = player.parts.tour;
      this.button.hidden = !this.files.length;
      this.button.addEventListener("click", () => this.open());
      this.onKey = (event) => this.key(event);
    }

    get shown() { return !!this.card; }

    async open() {
      if (this.shown) return;
      const card = this.build();
      this.kept = !!this.asked; // a run that is still to come from the time before takes the place of what was kept then
      document.addEventListener("keydown", this.onKey);
      this.button.setAttribute("aria-expanded", "true");
      try {
        this.steps = this.steps || (await Promise.all(this.files.map(async (address) => {
          const answer = await fetch(address);
          if (!answer.ok) throw new Error();
          return answer.text();
        }))).map(G.parseStep);
      } catch {
        this.parts.text.textContent = "The tour did not arrive. Close it and open it again.";
        return;
      }
      if (this.card === card) this.go(0);
    }

    build() {
      const act = (words, kind, does) => {
        const button = G.el("button", { type: "button", class: kind }, words);
        button.addEventListener("click", does);
        return button;
      };
      this.parts = {
        count: G.el("span", { class: "gl-count" }), title: G.el("h2", { id: "gl-tour-title" }, "Guided tour"),
        text: G.el("div", { class: "gl-tour-text", "aria-live": "polite" }, WAIT), notes: G.el("div"),
        back: act("Back", "gl-back", () => this.go(this.at - 1)), next: act("Next", "gl-play", () => this.go(this.at + 1)),
      };
      const { count, title, text, notes, back, next } = this.parts;
      this.parts.more = G.el("details", { class: "gl-notes" }, G.el("summary", {}, "Speaker notes"), notes);
      this.card = G.el("div", { class: "gl-root gl-tour", role: "dialog", "aria-labelledby": "gl-tour-title" },
        G.el("div", { class: "gl-tour-head" }, count, act("Close", "gl-close", () => this.close())),
        title, text, this.parts.more, G.el("div", { class: "gl-tour-foot" }, back, next));
      document.body.append(this.card);
      next.focus();
      return this.card;
    }

    close() {
      if (!this.shown) return;
      document.removeEventListener("keydown", this.onKey);
      this.point(null);
      this.card.remove();
      this.card = this.pending = null;
      const { run, options } = this.player;
      if (this.kept && options.back && run !== this.before && this.example) options.back(); // a run of the visitor's own stays
      this.button.setAttribute("aria-expanded", "false");
      this.button.focus();
    }

    /** Page keys are what a presenter's remote control sends. */
    key(event) {
      const does = { Escape: () => this.close(), PageDown: () => this.go(this.at + 1), PageUp: () => this.go(this.at - 1) }[event.key];
      if (!does) return;
      event.preventDefault();
      if (this.steps || event.key === "Escape") does();
    }

    go(at) {
      if (at < 0 || !this.steps) return;
      if (at >= this.steps.length) { this.close(); return; }
      this.at = at;
      this.pending = this.steps[at];
      this.card.dataset.step = at + 1;
      this.show(this.pending, null);
      this.bring();
    }

    get example() {
      const { run, options } = this.player;
      return run && (options.examples || {})[run.header.run];
    }

    /** Bring the run of the step that waits. One at a time: the next is asked for when the one before is here. */
    bring() {
      const { pending: step } = this, { run, options } = this.player;
      if (this.asked || !step) return;
      clearTimeout(this.patience);
      if (!step.example || this.example === step.example || !options.open) { this.start(); return; }
      if (options.busy && options.busy()) {
        this.parts.text.replaceChildren(G.el("p", {}, BUSY));
        this.patience = setTimeout(() => this.bring(), BUSY_MS);
        return;
      }
      if (!this.kept || run && !this.example) { // also what the visitor ran since the tour began
        this.kept = true;
        this.before = run;
        if (options.keep) options.keep();
      }
      if (!options.open(step.example)) { this.start(); return; }
      this.asked = step.example;
      this.patience = setTimeout(() => this.lost(), PATIENCE_MS);
    }

    /** The run that was asked for does not come. The step on show may be another one by now. */
    lost() {
      const { pending: step, asked } = this;
      this.asked = null;
      if (!step) return;
      if (step.example === asked) this.parts.text.replaceChildren(G.el("p", {}, LOST)); else this.bring();
    }

    /** A run has come, the one that was asked for or another. */
    arrived() {
      const asked = !!this.asked && this.example === this.asked;
      if (asked) {
        clearTimeout(this.patience);
        this.asked = null;
      }
      if (asked && !this.shown && this.player.options.back) this.player.options.back(); // it was closed meanwhile
      if (!this.pending) return;
      if (this.example === this.pending.example) this.start(); else if (asked) this.bring();
    }

    /** Begin the step that waits, with the run on show. */
    start() {
      const { pending: step, player } = this, { run } = player;
      if (!run) return;
      this.pending = null;
      const lane = run.byId.get(step.lane) || player.lane;
      const k = lane.rounds.length ? RULES[step.round || "longest"](lane.rounds) : 0;
      this.show(step, G.figures(run, lane, k));
      this.point(step.point);
      if (!lane.rounds.length) return;
      player.goTo(lane.order, k);
      if (calm.matches) return;
      if (step.action === "slow") player.playSlowly();
      if (step.action === "play") { player.seek(0); player.play(true); }
    }

    show(step, figures) {
      const { count, title, text, notes, more, back, next } = this.parts, last = this.at === this.steps.length - 1;
      const paragraphs = (list) => list.map((p) => G.el("p", {}, G.fill(p, figures || {})));
      count.textContent = this.at + 1 + " of " + this.steps.length;
      title.textContent = step.title;
      text.replaceChildren(...(figures ? paragraphs(step.text) : [WAIT]));
      notes.replaceChildren(...(figures ? paragraphs(step.notes) : []));
      more.hidden = !step.notes.length;
      G.lock(back, this.at === 0);
      next.textContent = last ? "Finish" : "Next";
    }

    /** Frame what the step speaks of, and bring it into sight. */
    point(name) {
      clearTimeout(this.scrolling);
      const { parts } = this.player, old = document.querySelector(".gl-pointed");
      if (old) old.classList.remove("gl-pointed");
      if (!name) return;
      const place = parts.sections[name], element = place ? place.section
        : name === "ask" ? document.querySelector("#ask") : name === "race" ? parts.timeWrap.parentElement : parts[name];
      if (!element) return;
      if (place) place.section.open = true;
      element.classList.add("gl-pointed");
      const wide = window.innerWidth > 768; // on a phone the card covers what lies below
      this.card.classList.toggle("gl-tour-right", name === "ask"); // what it points to lies on the left
      const run = !wide && name === "ask" && document.querySelector("#go"); // what is to be pressed stands right above it
      const whole = run || wide && element.closest(".gl-microscope") || element;
      const to = { block: run ? "end" : "start", behavior: calm.matches ? "auto" : "smooth" };
      this.scrolling = setTimeout(() => whole.scrollIntoView(to), place ? OPENED_MS : 0);
    }
  };
})(window.Glance = window.Glance || {});
