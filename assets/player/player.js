/* The player: one time t in milliseconds of measured decoding, which lanes, time line and tree all follow. */
(function (G) {
  "use strict";

  const SPEEDS = [["0.02", "0.02×"], ["0.1", "0.1×"], ["0.25", "0.25×"], ["1", "1× real time"], ["4", "4×"]];
  const READABLE_MS = 900; // a round that stays on screen this long shows its phases while playing
  const HOLD_MS = 700;
  const SLOW_SECONDS = { draft: 1.1, build: 0.8, verify: 1.1, commit: 0.5 };
  const SETTLE_MS = 1000; // a growing run that is silent this long is drawn as it stands
  const THUMB = 20; // width of the range's thumb, as in the style sheet
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)"), paper = window.matchMedia("print");

  /** After the next frame is on screen. */
  const soon = (does) => requestAnimationFrame(() => setTimeout(does));

  class Player {
    constructor(root, options) {
      this.root = root;
      this.options = options;
      this.reader = new G.Reader();
      this.t = 0;
      this.focus = 0;
      this.speed = 0.25;
      this.playing = false;
      this.follow = false;
      this.slow = null;
      this.parts = G.buildShell(root, SPEEDS);
      this.microscope = new G.Microscope(this);
      this.timeline = new G.Timeline(this.parts.timeWrap, (t, row, clicked) => this.pick(t, row, clicked));
      G.bindControls(this);
      this.sections = new G.Panels(this, this.parts.sections);
      this.panels = this.sections.list;
      this.lines = 0;
      this.tour = new G.Tour(this);
      this.width = root.clientWidth;
      new ResizeObserver(() => {
        if (root.clientWidth === this.width) return; // a text of another height changes no figure
        this.width = root.clientWidth;
        this.redraw();
      }).observe(root);
      let dark = false;
      paper.addEventListener("change", () => { // paper is white and of another width, and no observer hears of it in time
        if (paper.matches) dark = document.body.classList.contains("dark");
        if (dark) document.body.classList.toggle("dark", !paper.matches);
        this.redraw();
      });
      const classes = () => document.body.className + " " + document.documentElement.className;
      let worn = classes();
      const themes = new MutationObserver(() => {
        if (classes() === worn) return; // set once more to what it was
        worn = classes();
        this.redraw();
      });
      for (const element of [document.body, document.documentElement]) {
        themes.observe(element, { attributes: true, attributeFilter: ["class"] });
      }
    }

    get run() { return this.reader.run; }
    get theme() { return this.palette = this.palette || G.readTheme(this.root); }
    get lane() { return this.run.lanes[this.focus]; }

    /** Take the text of a trace, whole or as far as it has come. */
    feed(text) {
      if (!text) return;
      let news;
      try {
        news = this.reader.feed(text);
      } catch (error) {
        this.parts.say.textContent = "This trace cannot be shown: " + error.message + ".";
        return;
      }
      this.text = text;
      if (!this.run || !(news.fresh || news.added)) return;
      if (news.fresh) this.begin();
      const { done } = this.run;
      this.lines = (news.fresh ? 0 : this.lines) + news.added;
      this.root.dataset.lines = this.lines;
      if (done) this.root.dataset.done = "1"; else delete this.root.dataset.done;
      G.hide(this.parts.live, done, this.parts.play);
      this.parts.scrub.max = this.run.total;
      if (news.fresh && done && !calm.matches) {
        this.seek(0);
        this.play(true);
        soon(() => this.drawTimeline()); // the lanes move first
      } else {
        const now = performance.now();
        if (done || !this.timeline.run || now - (this.drawnTime || 0) > 700) {
          this.drawnTime = now;
          this.drawTimeline();
        }
        this.seek(this.follow ? this.run.total : this.t);
      }
      clearTimeout(this.settling);
      if (done) this.follow = false; else this.settling = setTimeout(() => this.settle(), SETTLE_MS);
      this.sections.update();
      if (news.fresh) this.tour.arrived();
    }

    /** No line came for a while, and perhaps none will: draw what the last ones were too soon for. */
    settle() {
      this.drawTimeline();
      this.seek(this.t);
    }

    begin() {
      const { run } = this;
      this.pause();
      this.follow = true;
      this.t = 0;
      this.microscope.forget();
      delete this.root.dataset.ready;
      delete this.root.dataset.idle;
      this.root.dataset.run = run.header.run;
      const wanted = run.lanes.findIndex((lane) => lane.id === "glance");
      this.focus = wanted < 0 ? run.lanes.length - 1 : wanted;
      this.timeline.clear(run, this.theme);
      this.lanes = new G.Lanes(this.parts.lanes, run, (order, round) => this.goTo(order, round));
      G.buildTabs(this);
      this.parts.about.replaceChildren(G.el("bdi", { class: "gl-question" }, G.inert(run.header.question)), G.el("span", {}, G.about(run)));
      this.sections.begin(run);
    }

    redraw() {
      if (!this.run || !this.root.clientWidth) return;
      this.palette = null;
      this.microscope.forget();
      this.drawTimeline();
      this.seek(this.t);
      this.sections.redraw();
    }

    drawTimeline() {
      if (!this.timeline.draw(this.run, this.theme)) return;
      const m = this.timeline.metrics();
      this.parts.scrub.style.marginLeft = m.left - THUMB / 2 + "px";
      this.parts.scrub.style.width = m.width + THUMB + "px";
    }

    /** Show the state at time t. */
    seek(t) {
      if (!this.run) return;
      const { run, parts } = this;
      this.t = Math.max(0, Math.min(run.total, t));
      const moment = this.moment();
      this.microscope.draw(moment);
      parts.scrub.value = this.t;
      this.lanes.update(this.t, this.playing || this.follow);
      this.timeline.place(this.t);
      parts.clock.textContent = G.ms(this.t) + " of " + G.ms(run.total);
      this.tell(moment);
    }

    /** While rounds pass faster than one can look, a tree stays for a moment; lanes and time line go on. */
    hold(k) {
      const now = performance.now(), { held } = this;
      if (!held || held.lane !== this.lane || k < held.k || now - held.since > HOLD_MS) {
        this.held = { lane: this.lane, k, since: now };
      }
      return this.held.k;
    }

    /** Which round of the chosen lane is on show at t, and in which phase. */
    moment() {
      const { lane, t } = this, k = lane.finished(t), round = lane.rounds[k];
      const quick = round && round.total / this.speed < READABLE_MS && !(k > 0 && t - lane.end[k - 1] < 1e-3);
      if (quick && this.playing && !this.slow) return { k: this.hold(Math.max(0, k - 1)), phase: k ? "done" : "draft", progress: 0 };
      return lane.at(t);
    }

    showRound() {
      const moment = this.moment();
      this.microscope.draw(moment);
      this.tell(moment);
    }

    /** All that names the round on show. */
    tell(moment) {
      const { lane, root } = this, { k, phase } = moment;
      root.dataset.chosen = lane.id;
      root.dataset.round = lane.rounds[k] ? k : "";
      root.dataset.phase = phase;
      root.dataset.t = this.t.toFixed(3);
      this.lanes.select(this.focus, k);
      this.timeline.select(lane, k);
      this.microscope.tell(moment);
      if (!this.playing && !this.follow) {
        this.sections.select();
        this.lanes.reveal();
      }
      this.microscope.paint();
    }

    choose(order) {
      this.focus = order;
      G.markTab(this);
      this.showRound();
    }

    /** Show round k of a lane, finished. A click on what an earlier run left may name one that is not here. */
    goTo(order, k) {
      if (!this.run.lanes[order] || !this.run.lanes[order].rounds[k]) return;
      this.pause();
      this.choose(order);
      this.seek(this.lane.end[k]);
    }

    /** A touch of the time line: a click on a bar shows its round as in a click on the text, a drag shows the moment. */
    pick(t, row, clicked) {
      this.pause();
      if (row !== null) this.choose(row);
      const k = this.lane.finished(t);
      if (clicked && row !== null && this.lane.rounds[k]) this.goTo(row, k);
      else this.seek(t);
    }

    /** The chosen lane's next (+1) or previous (-1) surprising round. */
    surprise(direction) {
      const k = G.nextSurprise(this.run, this.lane, this.moment().k, direction);
      if (k !== undefined) this.goTo(this.focus, k);
    }

    /** One round of the chosen lane forward or back. */
    step(direction) {
      this.pause();
      const { k, phase } = this.moment(), { lane } = this;
      if (!lane.rounds.length) return;
      const finished = lane.finished(this.t);
      let next = direction > 0 ? finished : phase === "done" && finished > k ? k - 1 : finished - 1;
      next = Math.min(lane.rounds.length - 1, next);
      this.seek(next < 0 ? 0 : lane.end[next]);
    }

    play(on) {
      if (!this.run) return;
      if (!on) { this.pause(); return; }
      this.follow = false;
      this.slow = null;
      if (this.t >= this.run.total - 1e-3) this.seek(0);
      this.start();
    }

    /** One round stretched to a few seconds; the stages keep their order, the figures stay the measured ones. */
    playSlowly() {
      const { k } = this.moment(), { lane } = this, round = lane.rounds[k];
      if (!round) return;
      this.pause();
      let from = lane.start[k];
      this.slow = { at: 0, plan: [] };
      for (const stage of G.STAGES) {
        const length = round.ms[stage] || 0;
        if (length > 0) this.slow.plan.push({ from, length, seconds: SLOW_SECONDS[stage] });
        from += length;
      }
      this.slow.end = lane.end[k];
      this.start();
    }

    start() {
      this.held = null;
      this.playing = true;
      this.last = performance.now();
      G.markPlaying(this);
      this.frame = requestAnimationFrame((now) => this.tick(now));
    }

    pause() {
      this.follow = false;
      if (!this.playing) { this.slow = null; return; }
      this.playing = false;
      this.slow = null;
      cancelAnimationFrame(this.frame);
      G.markPlaying(this);
      this.microscope.forget();
      if (this.run) this.seek(this.t);
    }

    tick(now) {
      if (!this.playing || !this.root.isConnected) return;
      const passed = Math.min(100, Math.max(0, now - this.last));
      this.last = now;
      const target = this.slow ? this.slowTime(passed / 1000) : this.t + passed * this.speed;
      const end = this.slow ? this.slow.end : this.run.total;
      this.seek(Math.min(target, end));
      if (target >= end) { this.pause(); return; }
      this.frame = requestAnimationFrame((next) => this.tick(next));
    }

    slowTime(seconds) {
      const { slow } = this;
      slow.at += seconds;
      let left = slow.at;
      for (const part of slow.plan) {
        if (left < part.seconds) return part.from + part.length * left / part.seconds;
        left -= part.seconds;
      }
      return slow.end;
    }
  }

  /** Make an element the player; returns it with feed(text), seek(ms), choose(lane), goTo(lane, round),
      step(±1), play(on). What the page around it can do stands in the options, all of them optional:
      examples {run id: name} that a link can bring back, file(name) -> address of a file of the player,
      ask({lane, round}) -> promise of where the target looked, rejected where no answer can come,
      picture() -> address of the picture on show. */
  G.mount = (root, options = {}) => new Player(root, options);
})(window.Glance = window.Glance || {});
