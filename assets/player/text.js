/* Bytes, tokens and text. Every string made here is shown with textContent or escaped for Plotly. */
(function (G) {
  "use strict";

  const encoder = new TextEncoder();
  const segmenter = typeof Intl !== "undefined" && Intl.Segmenter
    ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

  /* Characters without a glyph of their own, some of which reorder the text around them. ZWJ and ZWNJ stay:
     emoji and several scripts are spelt with them. */
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

  function symbol(char) {
    const code = char.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return "[" + code.toString(16).toUpperCase().padStart(4, "0") + "]";
  }

  /** A piece as the trace holds it (text, or {bytes}) as bytes. */
  G.bytesOf = (piece) => typeof piece === "string" ? encoder.encode(piece) : Uint8Array.from(piece.bytes);

  G.graphemes = (text) => segmenter
    ? Array.from(segmenter.segment(text), (part) => part.segment) : Array.from(text);

  /** Running text with control and bidi characters made visible; line breaks and tabs keep their effect. */
  G.inert = (text) => text.replace(HIDDEN, symbol);

  /** A short label of one token: edge blanks as dots, line breaks and tabs as signs, cut by grapheme. */
  G.label = function (text, length = 12) {
    if (text === "") return "∅";
    if (/^[\u200c\u200d\ufe00-\ufe0f]+$/.test(text)) return Array.from(text, symbol).join("");
    if (/^\p{M}/u.test(text)) text = "\u25cc" + text; // a mark alone stands on a dotted circle
    const shown = G.inert(text).replace(/\r?\n/g, "⏎").replace(/\t/g, "⇥")
      .replace(/^ +| +$/g, (blanks) => "·".repeat(blanks.length));
    const parts = G.graphemes(shown);
    return parts.length > length ? parts.slice(0, length - 1).join("") + "…" : shown;
  };

  /** The label of a token by itself; bytes that are only a part of a character appear in hexadecimal. */
  G.tokenText = function (bytes) {
    if (!bytes) return "?";
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return "⟨" + Array.from(bytes, (b) => b.toString(16).toUpperCase().padStart(2, "0")).join(" ") + "⟩";
    }
  };

  /** Keep a string from reordering what stands beside it. */
  G.isolate = (text) => "\u2068" + text + "\u2069";

  /** Plotly reads a subset of HTML in its texts, %{…} in its templates, and $…$ where a page has MathJax. */
  G.escape = (text) => text.replace(/[&<>"'%{}$]/g, (c) => "&#" + c.charCodeAt(0) + ";");

  G.fixed = (x, digits = 1) => Number.isFinite(x) ? x.toFixed(digits) : "–";

  const LONG_MS = 2000; // from here on times are told in seconds

  /** Milliseconds in few characters. */
  G.ms = (x) => !Number.isFinite(x) ? "–" : x >= LONG_MS ? (x / 1000).toFixed(1) + " s"
    : x >= 100 ? x.toFixed(0) + " ms" : x >= 10 ? x.toFixed(1) + " ms" : x.toFixed(2) + " ms";

  /** The ticks of an axis of times from 0 to `most` milliseconds, at most about `count`: Plotly would write "5k ms". */
  G.timeTicks = function (most, count) {
    if (most < LONG_MS) return { ticksuffix: " ms", nticks: count, separatethousands: true };
    const rough = most / 1000 / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= rough);
    const ticks = Array.from({ length: Math.floor(most / 1000 / step) + 1 }, (_, i) => +(i * step).toPrecision(3));
    return { tickvals: ticks.map((s) => 1000 * s), ticktext: ticks.map((s) => s + " s") };
  };

  G.plural = (n, one, many = one + "s") => n + " " + (n === 1 ? one : many);

  /** An element with attributes, and children that are nodes or plain text. */
  G.el = function (tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };

  /** Lock or free a button. It can still be focused, so that one which locks itself does not lose the keyboard's place. */
  G.lock = (button, on) => button.setAttribute("aria-disabled", on);

  /** Hide or show an element; the focus that it had goes to a neighbour. */
  G.hide = function (element, on, neighbour) {
    if (on && element === document.activeElement) neighbour.focus();
    element.hidden = on;
  };
})(window.Glance = window.Glance || {});
