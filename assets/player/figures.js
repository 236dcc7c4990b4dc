/* What a run says, as Plotly figures: pure functions of the run, the theme and the width. */
(function (G) {
  "use strict";

  const PATTERNS = ["", "/", "", "x"];
  const STAGES = { draft: ["sky", "/"], build: ["purple", "x"], verify: ["blue", ""], commit: ["green", "."] };
  const PAPER = { budget: 31, horizon: 15, gamma: 0.2 }; // Figure 4 of the paper, its target Qwen3-VL-8B
  const { LONG, STAGE_NAMES } = G;

  const name = (lane) => G.escape(lane.name);
  const range = (from, to, count) => Array.from({ length: count }, (_, i) => from + (to - from) * i / (count - 1));

  /** The lanes that draft, in order. */
  G.drafting = (run) => run.lanes.filter((lane) => G.drafted(lane).length);

  /** The rounds of a lane in which its head drafted: one that has outgrown its positions is silent. */
  G.drafted = (lane) => lane.rounds.filter((round) => round.draft_passes > 0);

  /** Accepted lengths of a lane, one for each of these rounds. */
  G.lengths = (lane) => G.drafted(lane).map((round) => round.accepted.length);

  /** How many of these rounds accepted LONG tokens or more, and how many there are. */
  G.longRounds = (lane) => [G.lengths(lane).filter((a) => a >= LONG).length, G.drafted(lane).length];

  /** E[a | H] of a fitted law, truncated at its horizon: `expected` of glance/law.py. */
  G.lawAt = function (law, entropy) {
    const p = 1 / (1 + Math.exp(law.slope * entropy - law.intercept));
    let sum = 0;
    for (let l = 1; l <= law.horizon; l++) sum += p ** l;
    return sum;
  };

  /** The paper's verification ceiling 2 ln N / H, and AdaEDL's lower bound read directly. */
  G.ceilingAt = (entropy) => Math.min(PAPER.horizon, 2 * Math.log(PAPER.budget) / entropy);
  G.floorAt = (entropy) => Math.max(0, 1 - Math.sqrt(PAPER.gamma * entropy));

  function layout(theme, width, height, extra) {
    const size = 12 * theme.size;
    const axis = { gridcolor: theme.grid, zeroline: false, fixedrange: true };
    const { xaxis, yaxis, ...rest } = extra;
    return {
      width, height, margin: { l: 46 * theme.size, r: 10, t: 10, b: 42 * theme.size }, dragmode: false, hovermode: "closest",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", color: theme.fg, size }, showlegend: false,
      hoverlabel: { bgcolor: theme.bg, bordercolor: theme.fg, font: { color: theme.fg, size }, align: "left" },
      xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...rest,
    };
  }

  /** How many rounds accepted 0, 1, 2, … tokens, as shares of each lane's rounds. */
  G.acceptanceFigure = function (run, theme, width) {
    const lanes = G.drafting(run), most = Math.max(LONG + 1, ...lanes.flatMap(G.lengths));
    const x = range(0, most, most + 1);
    const data = lanes.map((lane) => {
      const lengths = G.lengths(lane), counts = x.map((a) => lengths.filter((b) => b === a).length);
      return {
        type: "bar", name: name(lane), x, y: counts.map((n) => 100 * n / lengths.length), customdata: counts,
        marker: { color: theme[G.laneColour(lane)], pattern: { shape: PATTERNS[lane.order % 4], fillmode: "overlay", fgcolor: theme.bg, size: 6 } },
        hovertemplate: "%{customdata} of " + lengths.length + " rounds accepted %{x}<extra>" + name(lane) + "</extra>",
      };
    });
    const made = layout(theme, width, 220 * theme.size, {
      barmode: "group", bargap: 0.25,
      xaxis: { title: { text: "tokens accepted in a round, a" }, dtick: most > 12 ? 2 : 1, showgrid: false, range: [-0.6, most + 0.6] },
      yaxis: { title: { text: "% of rounds" }, rangemode: "tozero", nticks: 5 },
      shapes: [{ type: "rect", layer: "below", xref: "x", yref: "paper", x0: LONG - 0.5, x1: most + 0.6, y0: 0, y1: 1, line: { width: 0 }, fillcolor: theme.grid, opacity: 0.55 }],
      annotations: [{ xref: "x", yref: "paper", x: LONG - 0.5, y: 1, text: "a ≥ " + LONG, showarrow: false, xanchor: "left", yanchor: "bottom", font: { color: theme.muted } }],
    });
    made.margin.t = 20 * theme.size; // room for the label above all bars
    return { data, layout: made };
  };

  /** Accepted length against root entropy: every round, each lane's law with its interval, and the paper's brackets. */
  G.lawFigure = function (run, theme, width) {
    const lanes = G.drafting(run), rounds = lanes.flatMap(G.drafted);
    const far = Math.max(1, ...rounds.map((r) => r.entropy)) * 1.06;
    const high = Math.max(LONG, ...rounds.map((r) => r.accepted.length)) + 1;
    const grid = range(0.02, far, 70);
    const line = (x, y, style, extra) => ({ type: "scatter", mode: "lines", x, y, line: style, hoverinfo: "skip", ...extra });
    const data = [
      line(grid, grid.map(G.ceilingAt), { color: theme.muted, width: 1.6, dash: "dash" }),
      line(grid, grid.map(G.floorAt), { color: theme.muted, width: 1.6, dash: "dot" }),
    ];
    for (const lane of lanes) {
      const law = lane.closing && lane.closing.law, colour = theme[G.laneColour(lane)];
      if (!law) continue;
      const [h, low, top] = [0, 1, 2].map((i) => law.band.map((row) => row[i]));
      data.push(line([...h, ...[...h].reverse()], [...low, ...top.reverse()], { width: 0 }, { fill: "toself", fillcolor: colour + "30" }));
      const curve = range(h.length ? h[0] : 0, h.length ? h[h.length - 1] : far, 60); // no further than was met
      data.push(line(curve, curve.map((e) => G.lawAt(law, e)), { color: colour, width: 3 }));
    }
    for (const lane of lanes) {
      const drafted = G.drafted(lane);
      data.push({
        type: "scatter", mode: "markers", name: name(lane), cliponaxis: false,
        x: drafted.map((r) => r.entropy), y: drafted.map((r) => r.accepted.length),
        customdata: drafted.map((r) => [lane.order, lane.rounds.indexOf(r), G.isolate(G.escape(run.label(r.root, 24)))]),
        marker: { color: theme[G.laneColour(lane)], symbol: G.laneSymbol(lane), size: 9 * theme.size, opacity: 0.8, line: { color: theme.bg, width: 1 } },
        hovertemplate: "after %{customdata[2]}<br>H = %{x:.3f} nats, accepted %{y}<extra>" + name(lane) + "</extra>",
      });
    }
    return {
      data, layout: layout(theme, width, 290 * theme.size, {
        xaxis: { title: { text: "entropy at the root, H (nats)" }, range: [-0.025 * far, far] },
        yaxis: { title: { text: "tokens accepted, a" }, range: [-0.6, high], nticks: 7 },
      }),
    };
  };

  /** Milliseconds of each stage, a bar a lane. */
  G.stageFigure = function (run, theme, width) {
    const narrow = width < 420, total = (lane, stage) => lane.rounds.reduce((sum, r) => sum + (r.ms[stage] || 0), 0);
    const data = Object.entries(STAGES).map(([stage, [colour, pattern]]) => ({
      type: "bar", orientation: "h", name: STAGE_NAMES[stage], y: run.lanes.map((lane) => lane.order), x: run.lanes.map((lane) => total(lane, stage)), width: 0.7,
      marker: { color: theme[colour], line: { color: theme.bg, width: 1 }, pattern: { shape: pattern, fillmode: "overlay", fgcolor: theme.bg, size: 6 } },
      customdata: run.lanes.map((lane) => [G.ms(total(lane, stage)), G.fixed(100 * total(lane, stage) / (lane.total || 1), 0), name(lane)]),
      hovertemplate: STAGE_NAMES[stage] + ": %{customdata[0]}, %{customdata[1]} %<extra>%{customdata[2]}</extra>",
    }));
    const made = layout(theme, width, (52 + 36 * run.lanes.length) * theme.size, {
      barmode: "stack",
      xaxis: G.timeTicks(run.total, narrow ? 4 : 7),
      yaxis: {
        range: [run.lanes.length - 0.5, -0.5], showgrid: false, tickvals: run.lanes.map((lane) => lane.order),
        ticktext: run.lanes.map((lane) => (narrow ? "" : name(lane) + " ")),
      },
    });
    made.margin.l = (narrow ? 12 : 112) * theme.size;
    made.margin.b = 26 * theme.size;
    return { data, layout: made };
  };
})(window.Glance = window.Glance || {});
