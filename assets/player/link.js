/* A link to a moment: which recorded run, lane, round and time. It stands behind the # of the page's address. */
(function (G) {
  "use strict";

  /** The link to what is on show, or null where the page could not bring the run back: only recorded ones can be. */
  G.makeLink = function (player) {
    const { examples } = player.options, example = examples && examples[player.run.header.run];
    if (examples && !example) return null;
    const at = { lane: player.lane.id, round: player.moment().k + 1, t: player.t.toFixed(3) };
    return location.href.split("#")[0] + "#" + new URLSearchParams(example ? { example, ...at } : at);
  };

  function readLink() {
    const at = new URLSearchParams(location.hash.slice(1));
    return at.has("lane") ? Object.fromEntries(at) : null;
  }

  /** Go where the page's address points to, once the run that it names is there. Asked after every feed. */
  G.followLink = function (player) {
    if (player.link === undefined) {
      player.link = readLink();
      window.addEventListener("hashchange", () => {
        player.link = readLink();
        G.followLink(player);
        if (player.link) location.reload(); // another recorded run: the page brings it as on a first visit
      });
    }
    const { link, run } = player, { examples } = player.options;
    if (!link || !run || (examples && (!link.example || examples[run.header.run] !== link.example))) return;
    player.link = null;
    const order = run.lanes.findIndex((lane) => lane.id === link.lane), k = +link.round - 1, t = parseFloat(link.t);
    if (order < 0) return;
    player.pause();
    player.choose(order);
    if (t >= 0) player.seek(t);
    if (player.lane.rounds[k] && player.moment().k !== k) player.goTo(order, k); // recorded anew: the round counts
  };
})(window.Glance = window.Glance || {});
