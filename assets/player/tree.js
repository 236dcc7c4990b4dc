/* The candidate tree of one round: where its nodes lie, and what its picture is made of. */
(function (G) {
  "use strict";

  G.MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
  G.SANS = "system-ui, sans-serif";
  const HEAD = 40, BOTTOM = 26, SIDE = 56; // pixels, at the usual size of type
  const TALL = 29, SHORT = 16.5; // a row with labels above its nodes, and one with a label beside its only node
  const OWN = 42; // room that the target's own token takes above the branch that it leaves

  /** Columns are depths, rows are branches. The likeliest child keeps its parent's row, so that the drafter's
      favourite is a straight line and a less likely acceptance visibly leaves it. The target's own token lies one
      row above the node that it follows, or straight ahead where the tree ends there.
      @returns y (pixels, by node; the last is the root's), rank (1 = the drafter's first choice after its parent) */
  G.layoutTree = function (round) {
    const n = round.tokens.length;
    const children = Array.from({ length: n + 1 }, () => []); // children[n]: of the root
    round.parents.forEach((parent, i) => children[parent < 0 ? n : parent].push(i));
    const rank = new Array(n).fill(1), accepted = new Set(round.accepted);
    for (const list of children) {
      list.sort((a, b) => round.log_q[b] - round.log_q[a] || a - b);
      list.forEach((child, i) => { rank[child] = i + 1; });
    }
    const tip = round.accepted.length ? round.accepted[round.accepted.length - 1] : n;
    const y = new Array(n + 1).fill(0), stack = [[n, false]];
    let bottom = 0, ownY = 0;
    while (stack.length) {
      const [node, placed] = stack.pop(), below = children[node];
      if (placed) { y[node] = y[below[0]]; continue; }
      if (!below.length) {
        y[node] = bottom += node === n || rank[node] === 1 || accepted.has(node) ? TALL : SHORT;
        if (node === tip) ownY = bottom;
        continue;
      }
      if (node === tip && round.bonus !== null) {
        ownY = bottom + TALL;
        bottom += OWN;
      }
      stack.push([node, true]);
      for (let i = below.length - 1; i >= 0; i--) stack.push([below[i], false]);
    }
    const depth = Math.max(0, ...round.depths);
    const ownDepth = (tip === n ? 0 : round.depths[tip]) + 1;
    const leaf = children.map((list) => !list.length);
    return { y, rank, leaf, ownY, ownDepth, tip, bottom, depth: Math.max(depth, ownDepth) };
  };

  const ringSize = (entropy) => 20 + 12 * Math.min(3, Math.max(0, entropy));

  /** Height of a round's figure at the usual size of type. */
  function figureHeight(round) {
    const { y, bottom } = round.layout, root = y[y.length - 1] + ringSize(round.entropy) / 2 + 36;
    return Math.max(172, HEAD + BOTTOM + Math.max(bottom, root));
  }

  /** An elbow from parent to child with rounded corners, as points. */
  function elbow([xs, ys], x0, y0, x1, y1, bend) {
    const turn = x0 + bend;
    if (y0 === y1) { xs.push(x0, x1, null); ys.push(y0, y1, null); return; }
    const down = Math.sign(y1 - y0), r = Math.min(9, Math.abs(y1 - y0) / 2);
    xs.push(x0, turn - r, turn - r * 0.3, turn, turn, turn + r * 0.3, turn + r, x1, null);
    ys.push(y0, y0, y0 + down * r * 0.3, y0 + down * r, y1 - down * r, y1 - down * r * 0.3, y1, y1, null);
  }

  /** What the picture of a round is made of, in pixels (y is negative downwards, as in the figure).
      @param view {width, phase: draft|build|verify|done, progress: 0..1 within the phase, theme, least: pixels of
      height at least, size: factor of the type, 1 where left out}
      @returns others: a Plotly trace of the candidates that were not accepted, with what hovers over them; marks: those of
      all other nodes; edges: {x, y, color, width, dash: pixels};
      labels: {x, y, text, where: above|below|right, font: {size, color, mono, bold}}; bands: [x0, x1]; width, height */
  G.treeScene = function (run, lane, round, view) {
    const { theme, phase, progress } = view;
    const n = round.tokens.length, L = round.layout, done = phase === "done";
    const size = view.size || 1, side = SIDE * size;
    const height = Math.max(view.least || 0, figureHeight(round) * size);
    const columns = lane.maxDepth + 1;
    const level = Math.min(132 * size, Math.max(60 * size, (view.width - 2 * side - 12) / (columns - 0.5)));
    const width = Math.max(view.width, level * (columns - 0.5) + 2 * side); // half a level more: labels beside leaves
    const bend = (depth) => depth ? level * 0.28 : Math.max(34 * size, level * 0.28);
    const X = (depth) => side + depth * level;
    const Y = (y) => -(HEAD + y) * size;
    const at = (i) => (i < 0 || i === n ? [X(0), Y(L.y[n])] : [X(round.depths[i]), Y(L.y[i])]);
    const accepted = new Set(done ? round.accepted : []);
    const shown = visibleNodes(round, phase, progress);
    const chars = Math.max(4, Math.floor((level - 6) / (7.4 * size)));
    const checking = phase === "verify";
    const marks = [], labels = [], bands = [];

    const grey = [[], []], green = [[], []], dashed = [[], []];
    for (const i of shown) {
      elbow(accepted.has(i) ? green : grey, ...at(round.parents[i]), ...at(i), bend(round.depths[i] - 1));
    }
    const q = (i) => Math.exp(round.log_q[i]);
    const others = nodes(shown.filter((i) => !accepted.has(i)), (i) => 6 + 6 * q(i), {
      color: done ? theme.bg : checking ? theme.blue : theme.sky, line: { color: done ? theme.faint : theme.blue, width: 1.5 },
    }, { size: 11.5 * size, color: done ? theme.muted : theme.fg, mono: true });
    const strong = { size: 13 * size, color: theme.fg, mono: true, bold: true };
    marks.push(nodes(shown.filter((i) => accepted.has(i)), (i) => 10 + 6 * q(i), {
      color: theme.green, line: { color: theme.bg, width: 1.5 },
    }, strong));
    pushRoot();
    if (done && round.bonus !== null) pushOwn();

    for (let d = 1; d < columns; d += 2) bands.push([X(d) - level / 2, X(d) + level / 2]);
    for (let d = 0; d < columns; d++) {
      write(X(d), -14 * size, d ? "+" + d : "root", { size: 11 * size, color: theme.muted }, "middle");
    }
    const edges = [
      { points: grey, color: checking ? theme.blue : theme.line, width: checking ? 2 : 1.2, dash: done ? [3, 3] : [] },
      { points: green, color: theme.green, width: 5, dash: [] },
      { points: dashed, color: theme.vermillion, width: 3.5, dash: [8, 4] },
    ].filter(({ points }) => points[0].length);
    return { others, marks, edges, labels, bands, width, height, level };

    function nodes(list, diameter, marker, font) {
      const trace = {
        type: "scatter", mode: "markers", showlegend: false, cliponaxis: false,
        x: list.map((i) => at(i)[0]), y: list.map((i) => at(i)[1]),
        marker: { ...marker, opacity: 1, symbol: "circle", size: list.map((i) => diameter(i) * size) },
        customdata: list.map((i) => [
          G.isolate(G.escape(run.label(round.tokens[i], 40))), G.fixed(q(i), 3), G.fixed(Math.exp(round.log_p[i]), 3),
          round.depths[i], L.rank[i], accepted.has(i) ? "accepted" : done ? "not on the target’s path" : "candidate",
        ]),
        hovertemplate: "<b>%{customdata[0]}</b><br>drafter q = %{customdata[1]}"
          + (done ? "<br>target p = %{customdata[2]}" : "")
          + "<br>depth %{customdata[3]}, the drafter’s choice no. %{customdata[4]} there<br>%{customdata[5]}<extra></extra>",
      };
      for (const i of list) {
        const [x, y] = at(i), gap = diameter(i) * size * 0.625 + 1;
        // Right of a leaf its row is always empty; above a node may stand another node's label.
        if (!font.bold && L.leaf[i]) write(x + gap + 0.6 * font.size, y, run.label(round.tokens[i], chars), font, "right");
        else write(x, y + gap, run.label(round.tokens[i], chars), font, "above");
      }
      return trace;
    }
    function mark(x, y, extra) {
      marks.push({ type: "scatter", mode: "markers", x: [x], y: [y], showlegend: false, cliponaxis: false, hoverinfo: "skip", ...extra });
    }
    function write(x, y, text, font, where) {
      labels.push({ x, y, text: G.isolate(text), font, where });
    }
    function pushRoot() {
      const [x, y] = at(-1), ring = ringSize(round.entropy) * size, small = { size: 11 * size, color: theme.muted };
      mark(x, y, {
        marker: { size: ring, color: "rgba(0,0,0,0)", line: { color: theme.purple, width: 3 } }, hoverinfo: "text",
        hovertemplate: "root <b>" + G.isolate(G.escape(run.label(round.root, chars))) + "</b><br>target’s entropy " + G.fixed(round.entropy, 3)
          + " nats<br>margin " + G.fixed(round.margin, 2) + " (top-1 minus top-2 logit)<extra></extra>",
      });
      mark(x, y, { marker: { size: 12 * size, color: theme.purple } });
      write(x, y + ring / 2, run.label(round.root, chars), strong, "above");
      write(x, y - ring / 2 - 2, "H " + G.fixed(round.entropy, 2), small, "below");
      write(x, y - ring / 2 - 2 - 1.3 * small.size, "Δ " + G.fixed(round.margin, 2), small, "below");
    }
    function pushOwn() {
      const [x0, y0] = at(L.tip), x = X(L.ownDepth), y = Y(L.ownY);
      elbow(dashed, x0, y0, x, y, bend(L.ownDepth - 1));
      mark(x, y, {
        marker: { symbol: "diamond", size: 16 * size, color: theme.vermillion, line: { color: theme.bg, width: 1.5 } },
        hoverinfo: "text",
        hovertemplate: "<b>" + G.isolate(G.escape(run.label(round.bonus, 40))) + "</b><br>the target’s own token"
          + (round.deferred ? "<br>two logits nearly tied: taken from an ordinary pass" : "") + "<extra></extra>",
      });
      write(x, y + 7 * size, run.label(round.bonus, chars), strong, "above");
      if (round.deferred) write(x, y - 8, "≈ deferred", { size: 11 * size, color: theme.fg }, "below");
    }
  };

  /** The layout of the figure of a scene: one unit is one pixel. */
  G.treeLayout = function ({ width, height }, theme, size) {
    return {
      width, height, margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: "closest", dragmode: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: G.SANS, color: theme.fg },
      xaxis: { range: [0, width], visible: false, fixedrange: true },
      yaxis: { range: [-height, 0], visible: false, fixedrange: true },
      hoverlabel: { bgcolor: theme.bg, bordercolor: theme.fg, font: { family: G.MONO, color: theme.fg, size: 12.5 * size }, align: "left" },
    };
  };

  const PLACES = { above: "top center", below: "bottom center", right: "middle right", middle: "middle center" };

  /** The whole round as one Plotly figure, for a picture that leaves the page; the view as `G.treeScene` takes it. */
  G.treeFigure = function (run, lane, round, view) {
    const scene = G.treeScene(run, lane, round, view), { others, marks, edges, labels, bands, width, height } = scene;
    const plain = { type: "scatter", hoverinfo: "skip", showlegend: false, cliponaxis: false };
    const lines = edges.map(({ points: [x, y], color, width: thick, dash }) => (
      { ...plain, mode: "lines", x, y, line: { color, width: thick, dash: dash.length ? dash.map((d) => d + "px").join() : "solid" } }));
    const each = (of) => labels.map(of);
    const texts = {
      ...plain, mode: "text", x: each((l) => l.x), y: each((l) => l.y), textposition: each((l) => PLACES[l.where]),
      text: each(({ text, font }) => font.bold ? "<b>" + G.escape(text) + "</b>" : G.escape(text)),
      textfont: { size: each((l) => l.font.size), color: each((l) => l.font.color), family: each((l) => l.font.mono ? G.MONO : G.SANS) },
    };
    const layout = G.treeLayout(scene, view.theme, view.size || 1);
    layout.shapes = bands.map(([x0, x1]) => (
      { type: "rect", layer: "below", xref: "x", yref: "paper", y0: 0, y1: 1, line: { width: 0 }, x0, x1, fillcolor: view.theme.band }));
    return { data: [...lines, others, ...marks, texts], layout, width, height };
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
