/* The audit card: are the bytes the same, how close did it come, and on what terms was it asked. */
(function (G) {
  "use strict";

  const ROW = 28, VIEW = 10, SPARE = 6; // pixels of a row of ids, rows in sight, rows kept above and below
  const CUT = ["stopped", "failed"]; // reasons of a lane that did not come to its own end
  const NEAR_TIE = 0.05; // as in glance/identity.py
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

  const quote = (run, id) => id === undefined || id === null ? "the end" : { token: run.words(id) };
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
        const { margin } = (lane.closing && lane.closing.identity) || {};
        return [lane.name + " differs from " + run.reference.name + " at token " + index + ": ", quote(run, got), " instead of ", quote(run, expected),
          margin == null || drawn(run) ? ". " : "; the target’s two best logits were " + margin.toPrecision(2) + " apart there"
            + (margin < NEAR_TIE ? ", which rounding alone can turn around. " : ". ")];
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

  G.Audit = class {
    constructor(host, player) {
      Object.assign(this, { host, player });
    }

    begin() {}

    redraw() {}

    select() {}

    update(run) {
      const say = G.el("p", { class: "gl-audit-say" });
      G.sayInto(say, G.auditWords(run));
      this.run = run;
      this.said = G.el("p", { class: "gl-said", role: "status" });
      const close = G.closest(run, 5).map((m) => row("#" + m.index, token(run, m.id), token(run, m.rival), m.margin.toPrecision(3)));
      this.host.replaceChildren(say,
        G.el("div", { class: "gl-audit" },
          G.el("section", {}, G.el("h3", {}, "SHA-256 of each lane’s bytes"), this.hashes(run), this.said),
          G.el("section", {}, G.el("h3", {}, "The closest calls"), close.length
            ? table(["Token", "Written", "Runner-up", "Logits apart"], close) : G.el("p", {}, "No margin was recorded.")),
          G.el("section", {}, G.el("h3", {}, "On what terms"),
            G.el("dl", {}, ...G.auditTerms(run).flatMap(([name, ...words]) => [G.el("dt", {}, name), G.el("dd", {}, words.join(""))]))),
          G.el("section", { class: "gl-wide" }, G.el("h3", {}, "Ids side by side"), this.idList(run))));
    }

    hashes(run) {
      return table(["Lane", "SHA-256", ""], run.lanes.map((lane) => {
        const { closing } = lane, name = G.el("span", { class: "gl-who" }, G.laneMark(lane), lane.name);
        if (!closing) return row(name, "not finished", "");
        const copy = G.el("button", { type: "button", "aria-label": "Copy the whole SHA-256 of " + lane.name }, "Copy");
        copy.onclick = () => this.copy(closing.sha256, lane);
        return row(name, G.el("code", { title: G.inert(closing.sha256) }, G.inert(closing.sha256.slice(0, 12)) + "…"), copy);
      }));
    }

    async copy(text, lane) {
      try {
        await navigator.clipboard.writeText(text);
        this.said.textContent = "Copied the SHA-256 of " + lane.name + ".";
      } catch {
        this.said.textContent = G.inert(text); // no clipboard here: it can be selected by hand
      }
    }

    /** A list in which only the rows in sight exist. */
    idList(run) {
      const ids = run.lanes.map((lane) => G.idsOf(run, lane)), count = Math.max(...ids.map((list) => list.length));
      const apart = run.lanes.slice(1).map((lane) => G.difference(run, lane)).filter(Boolean).map((d) => d.index);
      const cell = (id, other) => G.el("span", { role: "cell", class: id !== other ? "gl-other" : false },
        ...(id === undefined ? ["–"] : [G.el("i", {}, String(id)), " ", token(run, id)]));
      const make = (i) => G.el("div", { role: "row", "aria-rowindex": i + 2, style: "top:" + i * ROW + "px" },
        G.el("span", { role: "rowheader" }, "#" + i), ...ids.map((list) => cell(list[i], ids[0][i])));
      const body = G.el("div", { role: "rowgroup", class: "gl-idrows", style: "height:" + count * ROW + "px" });
      const box = G.el("div", {
        class: "gl-ids", role: "table", tabindex: 0, "aria-rowcount": count + 1, "aria-label": "Token ids of every lane",
        style: "--gl-lanes:" + run.lanes.length + ";height:" + (Math.min(count, VIEW) + 1) * ROW + "px",
      }, G.el("div", { role: "row", class: "gl-idhead" }, G.el("span", { role: "columnheader" }, "Token"),
        ...run.lanes.map((lane) => G.el("span", { role: "columnheader" }, lane.name))), body);
      const show = () => {
        const from = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE), to = Math.min(count, from + VIEW + 2 * SPARE);
        if (from === body.from) return;
        body.from = from;
        body.replaceChildren(...Array.from({ length: to - from }, (_, i) => make(from + i)));
      };
      box.addEventListener("scroll", show);
      show();
      if (!apart.length) return box;
      const jump = G.el("button", { type: "button" }, "Show the first difference");
      jump.onclick = () => { box.scrollTop = (Math.min(...apart) - 3) * ROW; show(); };
      return G.el("div", {}, jump, box);
    }
  };
})(window.Glance = window.Glance || {});
