/* Which rounds are worth stopping at, and why, in words. */
(function (G) {
  "use strict";

  const UNSURE = 0.5; // nats below which no root counts as unsure, however calm the rest of the run is
  const TIMES = 2; // how much likelier than the accepted branch the drafter's favourite must have been
  const ORDER = ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

  /** The 90th percentile (nearest rank) of the root entropies of a run, in nats. */
  G.unsureAbove = function (run) {
    const all = run.lanes.flatMap((lane) => lane.rounds.map((round) => round.entropy)).sort((a, b) => a - b);
    return all.length ? all[Math.ceil(0.9 * all.length) - 1] : Infinity;
  };

  /** The accepted node that its favourite sibling outweighed most, and how many times; null below TIMES. `first` where
      all before it were favourites, so that a chain of these comes as far as this node and no further. */
  function overtaken(round) {
    let found = null, first = true;
    for (const node of round.accepted) {
      const favourite = round.tokens.findIndex((_, i) => round.parents[i] === round.parents[node] && round.layout.rank[i] === 1);
      const times = Math.exp(round.log_q[favourite] - round.log_q[node]);
      if (times >= TIMES && !(found && found.times >= times)) found = { node, times, first };
      first = first && favourite === node;
    }
    return found;
  }

  /** Why a round is surprising: a list of sentences, each in parts as `G.describe` makes them; empty where it is not. */
  G.surprises = function (run, lane, round, above) {
    const found = [], { rank } = round.layout;
    if (round.entropy > above && round.entropy >= UNSURE) {
      found.push(["the target was unsure of what follows: " + G.fixed(round.entropy, 2)
        + " nats, where nine roots in ten of this run have at most " + G.fixed(above, 2)]);
    }
    const copied = round.accepted.length;
    if (copied >= G.LONG) found.push(["a long copy: " + copied + " drafted tokens in a row were right"]);
    else if (copied > 1 && copied === lane.reach) found.push(["the drafter was right to the bottom of its tree: " + copied + " tokens in a row"]);
    const turn = overtaken(round);
    if (turn) {
      const place = ORDER[rank[turn.node]], before = round.parents[turn.node] < 0 ? round.root : round.tokens[round.parents[turn.node]];
      found.push(["after ", { token: run.words(before) }, " the drafter’s " + (place ? place + " choice" : "choice no. " + rank[turn.node])
        + " was right; its favourite looked " + G.fixed(turn.times) + " times as likely to it, "
        + (turn.first ? "so a single chain would have stopped there" : "and a single chain would have stopped even before")]);
    }
    return found;
  };

  /** Indices of a lane's surprising rounds, kept until another line comes. */
  G.surprising = function (run, lane) {
    const count = run.lanes.reduce((sum, one) => sum + one.rounds.length, 0);
    if (!lane.surprising || lane.surprising.count !== count) {
      const above = G.unsureAbove(run);
      const list = lane.rounds.flatMap((round, k) => G.surprises(run, lane, round, above).length ? [k] : []);
      lane.surprising = { count, above, list };
    }
    return lane.surprising;
  };

  /** The nearest surprising round of a lane after (+1) or before (-1) round k, or undefined. */
  G.nextSurprise = function (run, lane, k, direction) {
    const { list } = G.surprising(run, lane);
    return direction > 0 ? list.find((i) => i > k) : list.findLast((i) => i < k);
  };
})(window.Glance = window.Glance || {});
