/* The candidate tree of one round: where its nodes lie, and its Plotly figure. */
(function (G) {
  "use strict";

  const MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
  const TOP = 56, BOTTOM = 22, SIDE = 52;

  /** Columns are depths, rows are branches. The likeliest child keeps its parent's row, so that the drafter's
      favourite is a straight line and a less likely acceptance visibly leaves it. The target's own token lies one
      row above the node that it follows, or straight ahead where the tree ends there. */
  G.layoutTree = function (round) {
    const n = round.tokens.length;
    const children = Array.from({ length: n + 1 }, () => []); // children[n]: of the root
    round.parents.forEach((parent, i) => children[parent < 0 ? n : parent].push(i));
    for (const list of children) list.sort((a, b) => round.log_q[b] - round.log_q[a] || a - b);
    const tip = round.accepted.length ? round.accepted[round.accepted.length - 1] : n;
    const row = new Array(n + 1).fill(0);
    let rows = 0, ownRow = 0;
    const stack = [[n, false]];
    while (stack.length) {
      const [node, placed] = stack.pop();
      const below = children[node];
      if (placed) { row[node] = row[below[0]]; continue; }
      if (node === tip) ownRow = rows;
      if (!below.length) { row[node] = rows++; continue; }
      if (node === tip && round.bonus !== null) rows += 1.5; // room for the label of the row below
      stack.push([node, true]);
      for (let i = below.length - 1; i >= 0; i--) stack.push([below[i], false]);
    }
    const depth = Math.max(0, ...round.depths);
    const ownDepth = (tip === n ? 0 : round.depths[tip]) + 1;
    const leaf = children.map((list) => !list.length);
    return { row, leaf, ownRow, ownDepth, tip, rows: Math.max(1, rows), depth: Math.max(depth, ownDepth) };
  };

  G.rowHeight = (rows) => rows <= 22 ? 25 : rows <= 40 ? 19 : 15;
  G.treeHeight = (rows) => Math.max(170, TOP + BOTTOM + 24 + rows * G.rowHeight(rows));

  /** An elbow from parent to child with rounded corners, as points. */
  function elbow(xs, ys, x0, y0, x1, y1, bend) {
    const turn = x0 + bend;
    if (y0 === y1) { xs.push(x0, x1, null); ys.push(y0, y1, null); return; }
    const down = Math.sign(y1 - y0), r = Math.min(9, Math.abs(y1 - y0) / 2);
    xs.push(x0, turn - r, turn - r * 0.3, turn, turn, turn + r * 0.3, turn + r, x1, null);
    ys.push(y0, y0, y0 + down * r * 0.3, y0 + down * r, y1 - down * r, y1 - down * r * 0.3, y1, y1, null);
  }

  /** The figure of a round.
      @param view {width, phase: draft|build|verify|done, progress: 0..1 within the phase, theme} */
  G.treeFigure = function (run, lane, round, view) {
    const { theme, phase, progress } = view;
    const n = round.tokens.length, L = round.layout, done = phase === "done";
    const rowPx = G.rowHeight(lane.maxRows), height = G.treeHeight(lane.maxRows);
    const columns = lane.maxDepth + 1;
    const level = Math.min(118, Math.max(60, (view.width - 2 * SIDE - 16) / columns));
    const width = Math.max(view.width, level * columns + 2 * SIDE);
    const X = (depth) => SIDE + depth * level;
    const Y = (row) => -(TOP + 12 + row * rowPx);
    const at = (i) => (i < 0 || i === n ? [X(0), Y(L.row[n])] : [X(round.depths[i]), Y(L.row[i])]);
    const accepted = new Set(done ? round.accepted : []);
    const shown = visibleNodes(round, phase, progress);
    const chars = Math.max(4, Math.floor((level - 6) / 7.4));
    const data = [];

    const grey = [[], []], green = [[], []];
    for (const i of shown) {
      const [x0, y0] = at(round.parents[i]), [x1, y1] = at(i);
      elbow(...(accepted.has(i) ? green : grey), x0, y0, x1, y1, level * 0.28);
    }
    const checking = phase === "verify";
    data.push(line(grey, { color: checking ? theme.blue : theme.line, width: checking ? 2 : 1.2, dash: done ? "dot" : "solid" }));
    data.push(line(green, { color: theme.green, width: 5 }));

    const others = shown.filter((i) => !accepted.has(i));
    const path = shown.filter((i) => accepted.has(i));
    const q = (i) => Math.exp(round.log_q[i]);
    data.push(nodes(others, {
      size: others.map((i) => 6 + 8 * q(i)), symbol: "circle",
      color: done ? theme.bg : checking ? theme.blue : theme.sky,
      line: { color: done ? theme.faint : theme.blue, width: 1.5 },
    }, { size: rowPx < 18 ? 10 : 11.5, color: done ? theme.muted : theme.fg }, false));
    data.push(nodes(path, {
      size: path.map((i) => 10 + 8 * q(i)), symbol: "circle", color: theme.green, line: { color: theme.bg, width: 1.5 },
    }, { size: 13, color: theme.fg }, true));
    pushRoot();
    if (done && round.bonus !== null) pushOwn();

    const bands = [];
    for (let d = 1; d < columns; d += 2) {
      bands.push({
        type: "rect", layer: "below", xref: "x", yref: "paper", y0: 0, y1: 1, line: { width: 0 },
        x0: X(d) - level / 2, x1: X(d) + level / 2, fillcolor: theme.band,
      });
    }
    data.push({
      type: "scatter", mode: "text", hoverinfo: "skip", showlegend: false, cliponaxis: false,
      x: Array.from({ length: columns }, (_, d) => X(d)), y: new Array(columns).fill(-14),
      text: Array.from({ length: columns }, (_, d) => d ? "+" + d : "root"),
      textfont: { size: 11, color: theme.muted },
    });
    return {
      data, width, height, level,
      layout: {
        width, height, margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: "closest", dragmode: false,
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: theme.fg }, shapes: bands,
        xaxis: { range: [0, width], visible: false, fixedrange: true },
        yaxis: { range: [-height, 0], visible: false, fixedrange: true },
        hoverlabel: { bgcolor: theme.bg, bordercolor: theme.fg, font: { family: MONO, color: theme.fg, size: 12.5 }, align: "left" },
      },
    };

    function line([x, y], style) {
      return { type: "scatter", mode: "lines", x, y, line: style, hoverinfo: "skip", showlegend: false };
    }
    function text(id, bold) {
      const label = G.isolate(G.escape(run.label(id, chars)));
      return bold ? "<b>" + label + "</b>" : label;
    }
    function nodes(list, marker, font, bold) {
      return {
        type: "scatter", mode: "markers+text", showlegend: false, cliponaxis: false,
        x: list.map((i) => at(i)[0]), y: list.map((i) => at(i)[1]),
        text: list.map((i) => (!bold && L.leaf[i] ? " " : "") + text(round.tokens[i], bold)),
        // Right of a leaf its row is always empty; above a node may stand another node's label.
        textposition: list.map((i) => !bold && L.leaf[i] ? "middle right" : "top center"),
        textfont: { family: MONO, ...font }, marker,
        customdata: list.map((i) => [
          G.isolate(G.escape(run.label(round.tokens[i], 40))), G.fixed(q(i), 3), G.fixed(Math.exp(round.log_p[i]), 3),
          round.depths[i], i + 1, accepted.has(i) ? "accepted" : done ? "not on the target’s path" : "candidate",
        ]),
        hovertemplate: "<b>%{customdata[0]}</b><br>drafter q = %{customdata[1]}"
          + (done ? "<br>target p = %{customdata[2]}" : "")
          + "<br>depth %{customdata[3]}, candidate %{customdata[4]}<br>%{customdata[5]}<extra></extra>",
      };
    }
    function mark(x, y, extra) {
      return { type: "scatter", mode: "markers", x: [x], y: [y], showlegend: false, cliponaxis: false, hoverinfo: "skip", ...extra };
    }
    function write(x, y, words, font, where) {
      return mark(x, y, { mode: "text", text: [words], textposition: where, textfont: font });
    }
    function pushRoot() {
      const [x, y] = at(-1), ring = 20 + 12 * Math.min(3, Math.max(0, round.entropy));
      data.push(mark(x, y, {
        marker: { size: ring, color: "rgba(0,0,0,0)", line: { color: theme.purple, width: 3 } }, hoverinfo: "text",
        hovertemplate: "root " + text(round.root, true) + "<br>target’s entropy " + G.fixed(round.entropy, 3)
          + " nats<br>top-1 minus top-2 logit " + G.fixed(round.margin, 2) + "<extra></extra>",
      }));
      data.push(mark(x, y, { marker: { size: 12, color: theme.purple } }));
      data.push(write(x, y + ring / 2, text(round.root, true), { family: MONO, size: 13, color: theme.fg }, "top center"));
      data.push(write(x + level * 0.28 - 3, y - ring / 2 - 2, "H = " + G.fixed(round.entropy, 2), { size: 11, color: theme.muted }, "bottom left"));
    }
    function pushOwn() {
      const [x0, y0] = at(L.tip), x = X(L.ownDepth), y = Y(L.ownRow), edge = [[], []];
      elbow(...edge, x0, y0, x, y, level * 0.28);
      data.push(line(edge, { color: theme.vermillion, width: 3.5, dash: "8px,4px" }));
      data.push(mark(x, y, {
        marker: { symbol: "diamond", size: 16, color: theme.vermillion, line: { color: theme.bg, width: 1.5 } },
        hoverinfo: "text",
        hovertemplate: "<b>" + G.isolate(G.escape(run.label(round.bonus, 40))) + "</b><br>the target’s own token"
          + (round.deferred ? "<br>two logits nearly tied: taken from an ordinary pass" : "") + "<extra></extra>",
      }));
      data.push(write(x, y + 7, text(round.bonus, true), { family: MONO, size: 13, color: theme.fg }, "top center"));
      if (round.deferred) data.push(write(x, y - 8, "≈ tie gate", { size: 11, color: theme.fg }, "bottom center"));
    }
  };

  /** Which nodes a phase shows: sequential drafters grow by depth while they draft, a block head's tree is built
      best-first after its single pass. */
  function visibleNodes(round, phase, progress) {
    const all = round.tokens.map((_, i) => i);
    if (phase === "verify" || phase === "done") return all;
    if (round.draft_passes > 1) {
      if (phase === "build") return all;
      const grown = Math.floor(progress * (round.draft_passes + 1));
      return all.filter((i) => round.depths[i] <= grown);
    }
    return phase === "build" ? all.slice(0, Math.ceil(progress * all.length)) : [];
  }
})(window.Glance = window.Glance || {});
