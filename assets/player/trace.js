/* The trace: append-only NDJSON lines, taken in as they come and kept with running sums. */
(function (G) {
  "use strict";

  G.STAGE_NAMES = { draft: "Draft", build: "Build tree", verify: "Verify", commit: "Commit" };
  const STAGES = G.STAGES = Object.keys(G.STAGE_NAMES);
  G.LONG = 8; // accepted tokens of a long copy

  /** Number of entries of an ascending list that are at most t. */
  function countUpTo(ends, t) {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] <= t + 1e-6) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** Pieces, where several tokens write one character (a letter and its marks, the parts of an emoji, a flag) with all
      of it moved to the first of them, so that none is cut. */
  function joined(pieces) {
    let before = null;
    for (const piece of pieces) {
      if (before && piece.text.charCodeAt(0) > 0x2ff) {
        const whole = before.text + piece.text;
        let end = 0;
        for (const part of G.graphemes(whole)) {
          end += part.length;
          if (end >= before.text.length) break;
        }
        before.text = whole.slice(0, end);
        piece.text = whole.slice(end);
      }
      if (piece.text) before = piece;
    }
    return pieces;
  }

  class Lane {
    constructor(info, order) {
      Object.assign(this, { id: info.id, name: G.inert(info.name), drafter: info.drafter, order });
      this.rounds = [];
      this.start = [];
      this.end = [];
      this.sums = [{ decoded: 0, accepted: 0, target: 0, draft: 0, ms: 0 }];
      this.closing = null;
      this.maxDepth = 0;
      this.reach = 0; // the deepest candidate that was ever drafted
      this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    }

    /** Milliseconds of decoding so far. */
    get total() { return this.sums[this.sums.length - 1].ms; }

    add(round, run) {
      round.total = STAGES.reduce((sum, stage) => sum + (round.ms[stage] || 0), 0);
      round.layout = G.layoutTree(round);
      round.pieces = joined(round.emitted.map((id, i) => ({
        id, origin: i < round.accepted.length ? "draft" : "own", ...run.read(this.decoder, id),
      })));
      if (round.deferred && round.bonus !== null) round.pieces[round.pieces.length - 1].deferred = true;
      const last = this.sums[this.sums.length - 1];
      this.start.push(last.ms);
      this.end.push(last.ms + round.total);
      this.rounds.push(round);
      this.sums.push({
        decoded: last.decoded + round.emitted.length,
        accepted: last.accepted + round.accepted.length,
        target: last.target + 1 + Math.max(round.single_passes || 0, round.deferred ? 1 : 0),
        draft: last.draft + round.draft_passes,
        ms: last.ms + round.total,
      });
      this.maxDepth = Math.max(this.maxDepth, round.layout.depth);
      this.reach = Math.max(this.reach, ...round.depths);
    }

    /** Rounds that are finished at time t. */
    finished(t) { return countUpTo(this.end, t); }

    /** The round that is on show at time t, its phase, and how far it is within that (0 to 1). */
    at(t) {
      const k = this.finished(t), count = this.rounds.length;
      if (k >= count || (k > 0 && t - this.end[k - 1] < 1e-3)) return { k: Math.max(0, Math.min(k, count) - 1), phase: "done", progress: 1 };
      let into = t - this.start[k];
      for (const stage of STAGES) {
        const length = this.rounds[k].ms[stage] || 0;
        if (into < length) return { k, phase: stage === "commit" ? "done" : stage, progress: into / length };
        into -= length;
      }
      return { k, phase: "done", progress: 1 };
    }

    /** The numbers after k rounds, by the same definitions as the closing line's summary. */
    stats(k) {
      const sum = this.sums[k];
      const first = this.closing
        ? this.closing.ids.length - this.sums[this.sums.length - 1].decoded : 1;
      return {
        tokens: first + sum.decoded,
        target: sum.target,
        draft: sum.draft,
        ms: sum.ms,
        tau: k ? sum.decoded / k : NaN,
        perSecond: sum.ms ? 1e3 * sum.decoded / sum.ms : NaN,
      };
    }
  }

  class Run {
    constructor(header) {
      this.header = header;
      this.pieces = new Map();
      this.labels = new Map();
      this.ends = new Set(header.settings.eos_ids || []);
      this.take(header);
      this.lanes = header.lanes.map((info, i) => new Lane(info, i));
      this.byId = new Map(this.lanes.map((lane) => [lane.id, lane]));
      this.first = this.lanes.map((lane) => (
        { id: header.first, origin: "prefill", ...this.read(lane.decoder, header.first) }));
    }

    take(line) {
      for (const [id, piece] of Object.entries(line.pieces || {})) this.pieces.set(+id, G.bytesOf(piece));
    }

    add(line) {
      this.take(line);
      const lane = this.byId.get(line.lane);
      if (!lane) return;
      if (line.kind === "round") lane.add(line, this);
      if (line.kind === "end") lane.closing = line;
    }

    /** Text that a token completes; bytes of an unfinished character wait in the lane's decoder. */
    read(decoder, id) {
      const special = this.ends.has(id);
      const bytes = this.pieces.get(id);
      return { special, text: special || !bytes ? "" : decoder.decode(bytes, { stream: true }) };
    }

    /** A short label of one token by itself. */
    label(id, length) {
      const key = id + " " + length;
      if (!this.labels.has(key)) this.labels.set(key, this.ends.has(id) ? "end" : G.label(G.tokenText(this.pieces.get(id)), length));
      return this.labels.get(key);
    }

    /** The same for a sentence: without the blanks around a word. */
    words(id) {
      if (this.ends.has(id)) return "end of text";
      const text = G.tokenText(this.pieces.get(id));
      return G.label(text.trim() || text, 24);
    }

    get done() { return this.lanes.every((lane) => lane.closing); }
    get total() { return Math.max(1e-3, ...this.lanes.map((lane) => lane.total)); }
    get reference() { return this.lanes[0]; }
  }

  /** Reads a growing text and keeps the run. Only whole lines count; a text that does not go on starts a new run. */
  G.Reader = class {
    constructor() {
      this.run = null;
      this.text = "";
      this.offset = 0;
    }

    /** Returns {fresh, added}: whether a new run began, and how many lines came. */
    feed(text) {
      const result = { fresh: false, added: 0 };
      const lineEnd = text.indexOf("\n");
      if (lineEnd < 0) return result;
      if (!this.run || !text.startsWith(this.text)) {
        const header = JSON.parse(text.slice(0, lineEnd));
        if (header.kind !== "header") throw new Error("the first line is not a header");
        if (header.schema !== 1) throw new Error("schema " + header.schema + " is not known here");
        this.run = new Run(header);
        this.offset = lineEnd + 1;
        result.fresh = true;
      }
      const end = text.lastIndexOf("\n");
      this.text = text.slice(0, end + 1);
      if (end < this.offset) return result;
      for (const line of text.slice(this.offset, end).split("\n")) {
        if (!line) continue;
        this.run.add(JSON.parse(line));
        result.added += 1;
      }
      this.offset = end + 1;
      return result;
    }
  };
})(window.Glance = window.Glance || {});
