/* A round in words: one sentence, and the table of its candidates. */
(function (G) {
  "use strict";

  const word = (text) => ({ token: text });

  /** The sentence of a round as parts: strings, and {token} for text of the model. */
  G.describe = function (run, lane, k, phase, progress) {
    if (!lane.rounds.length) {
      return [lane.closing ? lane.name + ": no round was needed; the first token, from the prefill, ended the answer."
        : lane.name + ": no round yet."];
    }
    const round = lane.rounds[k], n = round.tokens.length;
    const start = "Round " + (k + 1) + " of " + lane.rounds.length + " (" + lane.name + "). ";
    const root = word(run.words(round.root)), entropy = G.fixed(round.entropy, 2) + " nats";
    if (phase === "draft") {
      return [start, round.draft_passes > 1
        ? "The head drafts step by step after " : "The head drafts a whole block at once after ", root,
      round.draft_passes > 1
        ? ": pass " + Math.min(round.draft_passes, Math.floor(progress * round.draft_passes) + 1) + " of " + round.draft_passes + "…" : ": one pass…"];
    }
    if (phase === "build") return [start, "The likeliest paths become the tree: " + G.plural(n, "candidate") + "…"];
    if (phase === "verify") {
      return [start, n ? "The target checks " + (n === 1 ? "the candidate" : "all " + n + " candidates") + " in one pass…"
        : "The target computes one token…"];
    }
    const parts = [start, "After ", root, " the target’s entropy is " + entropy + ", its margin " + G.fixed(round.margin, 2)];
    if (!n) {
      parts.push(round.bonus === null ? ". " : "; one pass, one token: ");
      if (round.bonus !== null) parts.push(word(run.words(round.bonus)), ". ");
    } else {
      const drafted = round.draft_passes ? " drafted in " + G.plural(round.draft_passes, "pass", "passes") : "";
      parts.push(". Of " + G.plural(n, "candidate") + drafted + " the target accepted ");
      if (round.accepted.length) parts.push(String(round.accepted.length) + ", ", word(accepted(run, round)));
      else parts.push("none");
      if (round.bonus !== null) {
        parts.push(round.accepted.length ? ", and added its own " : ", and wrote its own ", word(run.words(round.bonus)));
      }
      parts.push(": " + G.plural(round.emitted.length, "token") + " from one target pass. ");
    }
    if (round.deferred && round.bonus !== null) parts.push("Two logits nearly tied, so the last token came from an ordinary one-token pass. ");
    if (lane.closing && k === lane.rounds.length - 1) parts.push("This was the last round: " + G.reason(lane.closing.reason) + ". ");
    return parts;
  };

  function accepted(run, round) {
    const text = round.pieces.slice(0, round.accepted.length).map((p) => p.special ? "end" : p.text).join("");
    return G.label(text.trim() || text, 72);
  }

  /** Why the round is worth a look, in parts; empty where it is a common one. */
  G.why = function (run, lane, round) {
    const { above } = G.surprising(run, lane), reasons = round ? G.surprises(run, lane, round, above) : [];
    return reasons.flatMap((reason, i) => [i ? "; " : "Worth a look: ", ...reason]).concat(reasons.length ? ["."] : []);
  };

  /** Parts as nodes; the model's text stands in <bdi>, so that it cannot reorder the sentence. */
  G.sayInto = (element, parts) => element.replaceChildren(...parts.map(
    (p) => typeof p === "string" ? p : G.el("bdi", { class: "gl-word" }, "“" + p.token + "”")));

  G.plain = (parts) => parts.map((p) => typeof p === "string" ? p : "“" + G.isolate(p.token) + "”").join("");

  /** The candidates of a round as a table, in the order in which the drafter chose them. */
  G.candidates = function (run, round) {
    const accepted = new Set(round.accepted);
    const head = ["#", "Depth", "After", "Token", "Drafter q", "Target p", "Outcome"];
    const body = round.tokens.map((id, i) => {
      const parent = round.parents[i] < 0 ? round.root : round.tokens[round.parents[i]];
      return G.el("tr", { class: accepted.has(i) ? "gl-yes" : false },
        ...[i + 1, round.depths[i]].map((v) => G.el("td", {}, String(v))),
        ...[parent, id].map((v) => G.el("td", {}, G.el("bdi", {}, run.label(v, 24)))),
        ...[round.log_q[i], round.log_p[i]].map((v) => G.el("td", {}, G.fixed(Math.exp(v), 3))),
        G.el("td", {}, (accepted.has(i) ? "✓ accepted" : "not taken") + (round.layout.rank[i] > 1 ? "" : " · favourite")));
    });
    if (!body.length) return G.el("p", {}, "This round has no candidates: the target computed its next token by itself.");
    return G.el("table", {},
      G.el("thead", {}, G.el("tr", {}, ...head.map((h) => G.el("th", { scope: "col" }, h)))), G.el("tbody", {}, ...body));
  };

  /** What was asked, of what, in one line. */
  G.about = function (run) {
    const h = run.header, images = h.prompt.image || [];
    const bits = [
      "prompt " + G.plural(h.prompt.tokens, "token") + (images.length ? " (" + G.plural(images.reduce((n, i) => n + i.tokens, 0), "image token") + ")" : ""),
      "prefill " + G.ms(h.prefill_ms) + ", shared",
      "budget " + h.settings.budget,
      h.settings.temperature > 0 ? "temperature " + h.settings.temperature + ("seed" in h.settings ? ", seed " + h.settings.seed : "") : "greedy",
    ];
    for (const key of ["preset", "dtype", "device"]) {
      if (typeof h.provenance[key] === "string") bits.push(h.provenance[key]);
    }
    return bits.join(" · ");
  };
})(window.Glance = window.Glance || {});
