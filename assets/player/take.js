/* What can be taken away: the run, its rounds as a table, the page, the tree as a picture, and a link.
   `glance/export.py` makes the table and the page too, byte for byte. */
(function (G) {
  "use strict";

  const COLUMNS = [
    "lane", "round", "position", "root_id", "root_text", "candidates", "tree_depth", "accepted", "emitted",
    "emitted_text", "root_entropy_nats", "root_margin", "deferred", "draft_passes", "draft_ms", "build_ms",
    "verify_ms", "commit_ms", "total_ms",
  ];

  /** A row a round, lane by lane. Texts are JSON strings, so that no spreadsheet takes a token for a formula. */
  G.roundsCsv = function (run) {
    const float = (x) => x.toFixed(6);
    const text = (ids) => {
      const bytes = ids.flatMap((id) => Array.from(run.pieces.get(id) || []));
      return JSON.stringify(new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes)));
    };
    const name = (id) => /^\w[\w-]*$/.test(id) ? id : JSON.stringify(id);
    const rows = run.lanes.flatMap((lane) => lane.rounds.map((r) => {
      const ms = G.STAGES.map((stage) => r.ms[stage] || 0);
      return [
        name(lane.id), r.index + 1, r.position, r.root, text([r.root]), r.tokens.length, Math.max(0, ...r.depths),
        r.accepted.length, r.emitted.length, text(r.emitted), float(r.entropy), float(r.margin), +r.deferred,
        r.draft_passes, ...[...ms, r.total].map(float),
      ];
    }));
    const cell = (value) => /[",\r\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : value;
    return [COLUMNS, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
  };

  const HELD = 'id="trace">'; // where the run stands in the page

  /** The page that plays by itself. @param file(name) gives the address of a file of the player */
  G.replayHtml = async function (file, text) {
    const get = async (name) => {
      const answer = await fetch(file(name));
      if (!answer.ok) throw new Error(name + " did not arrive");
      return answer.text();
    };
    const linked = /<link rel="stylesheet" href="([^"]+)">|<script src="([^"]+)"><\/script>/g;
    const template = await get("replay.html");
    const names = Array.from(template.matchAll(linked), ([, style, script]) => style || script);
    const contents = new Map(await Promise.all(names.map(async (name) => [name, await get(name)])));
    const element = (tag, content) => "<" + tag + ">" + content + "</" + tag + ">";
    return template.replace(HELD, () => HELD + text.replaceAll("<", "\\u003c")).replace(linked,
      (_, style, script) => style ? element("style", contents.get(style)) : element("script", contents.get(script)));
  };

  const TITLE = 34;

  /** The tree of the chosen round by itself, with a title: a figure for Plotly. */
  G.treePicture = function (player) {
    const { run, lane, theme } = player, { k } = player.moment();
    const width = Math.max(760, player.parts.tree.clientWidth - 2);
    const figure = G.treeFigure(run, lane, lane.rounds[k], { width, phase: "done", progress: 1, theme });
    const title = lane.name + ", round " + (k + 1) + " of " + lane.rounds.length + ": “" + G.label(run.header.question, 64) + "”";
    figure.height += TITLE;
    Object.assign(figure.layout, { height: figure.height, paper_bgcolor: theme.bg, margin: { l: 0, r: 0, t: TITLE, b: 0 } });
    figure.layout.annotations = [{
      text: G.isolate(G.escape(title)), x: 0, xref: "paper", xanchor: "left", xshift: 12, y: 1, yref: "paper",
      yanchor: "bottom", yshift: 4, showarrow: false, font: { size: 14, color: theme.fg, family: "system-ui, sans-serif" },
    }];
    return figure;
  };

  G.Take = class {
    constructor(host, player) {
      this.player = player;
      this.said = G.el("p", { class: "gl-said", role: "status" });
      this.address = G.el("input", { type: "text", readonly: true, "aria-label": "Link to this moment", hidden: true });
      this.link = this.button("Link", () => this.showLink());
      const row = (words, ...buttons) => G.el("li", {}, G.el("div", {}, ...buttons), G.el("p", {}, words));
      const rows = [
        row("Everything that was recorded, one JSON a line. It opens here again, and in Python.",
          this.button("Run (NDJSON)", () => this.save(".ndjson", "application/x-ndjson", player.text))),
        row("A row a round for a spreadsheet: tokens, entropy, margin and times.",
          this.button("Rounds (CSV)", () => this.save("-rounds.csv", "text/csv", G.roundsCsv(player.run)))),
        row("The tree of the round on show.",
          this.button("Tree (PNG)", () => this.saveTree("png")), this.button("Tree (SVG)", () => this.saveTree("svg"))),
        row("Opens this page at the same lane, round and time.", this.link),
      ];
      if (player.options.file) {
        rows.splice(2, 0, row("One file of 1.4 MB that plays in any browser, also offline. The picture is not in it.",
          this.button("Replay (HTML)", async () => this.save(".html", "text/html", await G.replayHtml(player.options.file, player.text)))));
      }
      host.replaceChildren(G.el("ul", { class: "gl-take" }, ...rows), this.address, this.said);
    }

    /** A button whose action gives the sentence that is said then. */
    button(words, action) {
      const button = G.el("button", { type: "button" }, words);
      button.addEventListener("click", async () => {
        try {
          this.said.textContent = await action();
        } catch (error) {
          this.said.textContent = "That did not work (" + error.message + "); try again.";
        }
      });
      return button;
    }

    fileName(rest) {
      const id = this.player.run.header.run, name = (this.player.options.examples || {})[id] || id.slice(0, 8);
      return "glance-" + (name + rest).replace(/[^\w.-]/g, "_");
    }

    save(rest, type, text) {
      const address = URL.createObjectURL(new Blob([text], { type }));
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      return this.download(rest, address);
    }

    async saveTree(format) {
      const { player } = this, { k } = player.moment();
      if (!player.lane.rounds[k]) return "This lane has no round yet.";
      const { data, layout, width, height } = G.treePicture(player);
      const address = await Plotly.toImage({ data, layout }, { format, width, height, scale: format === "png" ? 2 : 1 });
      return this.download("-" + player.lane.id + "-round-" + (k + 1) + "." + format, address);
    }

    download(rest, address) {
      const name = this.fileName(rest), link = G.el("a", { href: address, download: name });
      document.body.append(link);
      link.click();
      link.remove();
      return "Saved as " + name + ".";
    }

    async showLink() {
      const address = G.makeLink(this.player);
      this.address.hidden = !address;
      if (!address) return "A link can bring back recorded runs only, and this one is yours: save it as a replay instead.";
      this.address.value = address;
      this.address.select();
      try {
        await navigator.clipboard.writeText(address);
        return "Copied.";
      } catch { // no permission, or not a secure page
        return "Copy it from here.";
      }
    }

    begin() {
      G.hide(this.address, true, this.link);
      this.said.textContent = "";
    }

    update() {}

    /** A link to another moment would mislead. */
    select() {
      const { address } = this;
      G.hide(address, address.hidden || G.makeLink(this.player) !== address.value, this.link);
    }

    redraw() {}
  };
})(window.Glance = window.Glance || {});
