/* The audit card: are the bytes the same, how close did it come, and on what terms was it asked. */
(function (G) {
  "use strict";

  const ROW = 28, VIEW = 10, SPARE = 6; // pixels of a row of ids, rows in sight, rows kept above and below
  const CUT = ["stopped", "failed"]; // reasons of a lane that did not come to its own end
  const MANY = ["No decoder", "The one decoder", "Both decoders", "All three decoders"];

  /** Ids of a lane as far as they have come. */
  G.idsOf = (run, lane) => lane.closing ? lane.closing.ids : [run.header.first, ...lane.rounds.flatMap((r) => r.emitted)];

  /** The smallest margins that the reference met: {index, id, rival, margin}, closest first. `rival` is the runner-up,
      where the trace knows it. */
  G.closest = function (run, count) {
    const met = [{ index: 0, id: run.header.first, rival: null, margin: run.header.first_margin }];
    for (const round of run.reference.rounds) {
      const margins = (round.margins || []).length ? round.margins : [round.margin];
      const rival = (round.target_top || []).find((id) => id !== round.emitted[0]);
      round.emitted.forEach((id, i) => met.push({ index: met.length, id, rival: i || rival === undefined ? null : rival, margin: margins[i] }));
    }
    return met.filter((m) => m.margin != null).sort((a, b) => a.margin - b.margin || a.index - b.index).slice(0, count);
  };

  /** The first place where a lane's ids leave the reference's, or null. An answer that ends early differs only once both
      are finished. */
  G.difference = function (run, lane) {
    const ours = G.idsOf(run, lane), theirs = G.idsOf(run, run.reference), shared = Math.min(ours.length, theirs.length);
    let index = 0;
    while (index < shared && ours[index] === theirs[index]) index++;
    const over = (one) => one.closing && !CUT.includes(one.closing.reason);
    if (index === shared && !(ours.length !== theirs.length && over(lane) && over(run.reference))) return null;
    return { index, got: ours[index], expected: theirs[index] };
  };

  const quote = (run, id) => id === undefined || id === null ? "the end" : { token: run.label(id, 24) };
  const drawn = (run) => run.header.settings.temperature > 0;

  /** How probability divides between two tokens whose logits lie `margin` apart, in percent. */
  G.shares = function (margin) {
    const digits = margin < 3 ? 0 : 1, share = (100 / (1 + Math.exp(-margin))).toFixed(digits);
    return +share > 99.9 ? "over 99.9 to under 0.1" : share + " to " + (100 - share).toFixed(digits);
  };

  /** How near the reference came to another token. Between draws the two best logits decide nothing. */
  function closeness(run) {
    const [first] = G.closest(run, 1);
    if (!first || drawn(run)) return ["."];
    return ["; the closest call was ", quote(run, first.id), ...(first.rival === null ? [] : [" over ", quote(run, first.rival)]),
      " at token " + first.index + ": " + first.margin.toPrecision(2) + " logits apart, " + G.shares(first.margin) + " between the two."];
  }

  /** The whole card in one sentence, as parts for G.sayInto. */
  G.auditWords = function (run) {
    const others = run.lanes.slice(1), who = MANY[run.lanes.length] || "All " + run.lanes.length + " decoders";
    const shared = Math.min(...run.lanes.map((lane) => G.idsOf(run, lane).length));
    const apart = others.map((lane) => [lane, G.difference(run, lane)]).filter(([, found]) => found);
    if (apart.length) {
      return apart.flatMap(([lane, { index, got, expected }]) => {
        const { margin, tie } = (lane.closing && lane.closing.identity) || {};
        return [lane.name + " differs from " + run.reference.name + " at token " + index + ": ", quote(run, got), " instead of ", quote(run, expected),
          margin == null || drawn(run) ? ". " : "; the target’s two best logits were " + margin.toPrecision(2) + " apart there"
            + (tie == null ? ". " : tie ? ", which rounding alone can turn around. " : ", further than rounding should move them: probably a bug. ")];
      });
    }
    if (!run.done) return ["Not finished: the first " + G.plural(shared, "token") + " of every decoder are the same so far."];
    if (!others.length) return ["One decoder ran, so there is nothing to compare", ...closeness(run)];
    if (run.lanes.some((lane) => CUT.includes(lane.closing.reason))) {
      return ["Stopped early: as far as all came, the first " + G.plural(shared, "token") + ", they are the same", ...closeness(run)];
    }
    if (new Set(run.lanes.map((lane) => lane.closing.sha256)).size > 1) {
      return ["The tokens are the same and the recorded SHA-256 are not: this trace was changed after it was recorded."];
    }
    return [who + " wrote the same " + G.plural(shared, "token") + ", byte for byte", ...closeness(run)];
  };

  /** What the tie gate did, and the arithmetic, as rows of [name, words]. */
  G.auditTerms = function (run) {
    const { provenance: made, settings } = run.header, threshold = settings.tie_threshold || 0;
    const gate = run.lanes.map((lane) => [lane, lane.rounds.filter((r) => r.deferred).length]).filter(([, n]) => n);
    const known = (key) => typeof made[key] === "string" && made[key] ? G.inert(made[key]) : "not recorded";
    return [
      ["Tie gate", threshold > 0 ? "below " + threshold + " logits it asks for an ordinary one-token pass; " : "off in this run; ",
        gate.length ? gate.map(([lane, n]) => lane.name + " deferred " + G.plural(n, "token")).join(", ") : "nothing was deferred"],
      ["Arithmetic", known("dtype")],
      ["Attention kernel", known("attention")],
      ["Device", known("device")],
      ["Decoding", drawn(run) ? "drawn at temperature " + settings.temperature + ", the same draws in every lane" : "greedy: always the likeliest token"],
    ];
  };

  const table = (head, rows) => G.el("table", {}, G.el("thead", {}, G.el("tr", {}, ...head.map((h) => G.el("th", { scope: "col" }, h)))), G.el("tbody", {}, ...rows));
  const row = (...cells) => G.el("tr", {}, ...cells.map((cell) => G.el("td", {}, cell)));
  const token = (run, id) => G.el("bdi", {}, id === null || id === undefined ? "–" : run.label(id, 24));

  /** A list of token ids in which only the rows in sight exist. It grows in place: focus and scroll position stay. */
  class IdList {
    constructor(run) {
      this.run = run;
      this.rows = new Map(); // the rows that exist: index -> {key, element}
      this.body = G.el("div", { role: "rowgroup", class: "gl-idrows" });
      this.box = G.el("div", {
        class: "gl-ids", role: "table", tabindex: 0, "aria-label": "Token ids of every lane", style: "--gl-lanes:" + run.lanes.length,
      }, G.el("div", { role: "row", class: "gl-idhead" }, G.el("span", { role: "columnheader" }, "Token"),
        ...run.lanes.map((lane) => G.el("span", { role: "columnheader" }, lane.name))), this.body);
      this.jump = G.el("button", { type: "button", hidden: true }, "Show the first difference");
      this.jump.onclick = () => { this.box.scrollTop = (this.apart - 3) * ROW; this.show(); };
      this.box.addEventListener("scroll", () => this.show());
      this.element = G.el("div", {}, this.jump, this.box);
    }

    update() {
      const { run, box } = this;
      this.ids = run.lanes.map((lane) => G.idsOf(run, lane));
      this.count = Math.max(...this.ids.map((list) => list.length));
      this.apart = Math.min(...run.lanes.slice(1).map((lane) => (G.difference(run, lane) || { index: Infinity }).index));
      this.jump.hidden = this.apart === Infinity;
      box.setAttribute("aria-rowcount", this.count + 1);
      box.style.height = (Math.min(this.count, VIEW) + 1) * ROW + "px";
      this.body.style.height = this.count * ROW + "px";
      this.show();
    }

    show() {
      const from = Math.max(0, Math.floor(this.box.scrollTop / ROW) - SPARE), to = Math.min(this.count, from + VIEW + 2 * SPARE);
      for (const [i, { key, element }] of this.rows) {
        if (i >= from && i < to && key === this.key(i)) continue;
        element.remove();
        this.rows.delete(i);
      }
      for (let i = from; i < to; i++) {
        if (this.rows.has(i)) continue;
        const element = this.make(i), after = this.rows.get(i - 1);
        if (after) after.element.after(element); else this.body.prepend(element);
        this.rows.set(i, { key: this.key(i), element });
      }
    }

    key(i) { return this.ids.map((list) => list[i]).join(); }

    make(i) {
      const { run, ids } = this;
      const cell = (id, other) => G.el("span", { role: "cell", class: id !== other ? "gl-other" : false },
        ...(id === undefined ? ["–"] : [G.el("i", {}, String(id)), " ", token(run, id)]));
      return G.el("div", { role: "row", "aria-rowindex": i + 2, style: "top:" + i * ROW + "px" },
        G.el("span", { role: "rowheader" }, "#" + i), ...ids.map((list) => cell(list[i], ids[0][i])));
    }
  }

  G.Audit = class {
    constructor(host, player) {
      Object.assign(this, { host, player });
    }

    begin() {
      this.run = null;
    }

    redraw() {}

    select() {}

    update(run) {
      if (this.run !== run) this.build(run);
      G.sayInto(this.say, G.auditWords(run));
      run.lanes.forEach((lane, i) => this.hash(lane, this.hashes[i]));
      const close = G.closest(run, 5).map((m) => row("#" + m.index, token(run, m.id), token(run, m.rival), m.margin.toPrecision(3)));
      this.close.replaceChildren(close.length
        ? table(["Token", "Written", "Runner-up", "Logits apart"], close) : G.el("p", {}, "No margin was recorded."));
      this.terms.replaceChildren(...G.auditTerms(run).flatMap(([name, ...words]) => [G.el("dt", {}, name), G.el("dd", {}, words.join(""))]));
      this.ids.update();
    }

    build(run) {
      this.run = run;
      this.say = G.el("p", { class: "gl-audit-say" });
      this.said = G.el("p", { class: "gl-said", role: "status" });
      this.hashes = run.lanes.map((lane) => row(G.el("span", { class: "gl-who" }, G.laneMark(lane), lane.name), "not finished", ""));
      this.close = G.el("div");
      this.terms = G.el("dl");
      this.ids = new IdList(run);
      this.host.replaceChildren(this.say, G.el("div", { class: "gl-audit" },
        G.el("section", {}, G.el("h3", {}, "SHA-256 of each lane’s bytes"), table(["Lane", "SHA-256", ""], this.hashes), this.said),
        G.el("section", {}, G.el("h3", {}, "The closest calls"), this.close),
        G.el("section", {}, G.el("h3", {}, "On what terms"), this.terms),
        G.el("section", { class: "gl-wide" }, G.el("h3", {}, "Ids side by side"), this.ids.element)));
    }

    /** Fill the row of a lane that has come to its end. */
    hash({ name, closing }, line) {
      const [, code, act] = line.children;
      if (!closing || act.firstElementChild) return;
      const copy = G.el("button", { type: "button", "aria-label": "Copy the whole SHA-256 of " + name }, "Copy");
      copy.onclick = () => this.copy(closing.sha256, name);
      code.replaceChildren(G.el("code", { title: G.inert(closing.sha256) }, G.inert(closing.sha256.slice(0, 12)) + "…"));
      act.replaceChildren(copy);
    }

    async copy(text, name) {
      try {
        await navigator.clipboard.writeText(text);
        this.said.textContent = "Copied the SHA-256 of " + name + ".";
      } catch {
        this.said.textContent = G.inert(text); // no clipboard here: it can be selected by hand
      }
    }
  };
})(window.Glance = window.Glance || {});
