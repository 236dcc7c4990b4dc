/* What the drafter thought: its likeliest tokens after the root beside the target's. */
(function (G) {
  "use strict";

  /** Rows {id, q, p} of the tokens that either side rates highest, by the target's rating, then the drafter's. */
  G.topRows = function (round) {
    const side = (ids, logs) => new Map((ids || []).map((id, i) => [id, Math.exp(logs[i])]));
    const draft = side(round.draft_top, round.draft_top_log_q), target = side(round.target_top, round.target_top_log_p);
    return [...new Set([...target.keys(), ...draft.keys()])]
      .map((id) => ({ id, q: draft.get(id), p: target.get(id) }))
      .sort((a, b) => (b.p || 0) - (a.p || 0) || (b.q || 0) - (a.q || 0));
  };

  function bar(kind, value, who) {
    if (value === undefined) return G.el("td", { class: "gl-none", title: "not among the likeliest of " + who }, "–");
    return G.el("td", { class: "gl-bar gl-bar-" + kind, style: "--gl-share:" + (100 * value).toFixed(1) + "%" },
      G.el("span", {}, value < 0.0005 ? "<0.1%" : (100 * value).toFixed(value < 0.0995 ? 1 : 0) + "%"));
  }

  /** The bars as a table, or null for a trace that has no such figures. */
  G.tops = function (run, round) {
    const rows = G.topRows(round), drafted = (round.draft_top || []).length > 0;
    if (!rows.length) return null;
    const next = round.emitted[0];
    const line = ({ id, q, p }) => G.el("tr", { class: id === next ? "gl-next" : false },
      G.el("th", { scope: "row" }, G.el("bdi", {}, run.label(id, 14)), id === next ? G.el("i", { title: "this came next" }, " ✓") : ""),
      ...(drafted ? [bar("draft", q, "the drafter")] : []), bar("target", p, "the target"));
    return G.el("table", { class: "gl-topstable" },
      G.el("caption", {}, "What comes after ", G.el("bdi", { class: "gl-word" }, "“" + run.words(round.root) + "”"), "?"),
      G.el("thead", {}, G.el("tr", {}, G.el("th", { scope: "col" }, "Token"),
        ...(drafted ? [G.el("th", { scope: "col" }, "Drafter")] : []), G.el("th", { scope: "col" }, "Target"))),
      G.el("tbody", {}, ...rows.map(line)));
  };
})(window.Glance = window.Glance || {});
