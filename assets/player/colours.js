/* The colours of the current theme, from the style sheet. */
(function (G) {
  "use strict";

  const NAMES = ["fg", "bg", "muted", "faint", "line", "grid", "band", "blue", "sky", "green", "orange", "vermillion", "purple", "grey"];

  /** Black or white, whichever is easier to read on a colour. */
  function inkOn(colour) {
    const [r, g, b] = [1, 3, 5].map((i) => (parseInt(colour.slice(i, i + 2), 16) / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#000" : "#fff";
  }

  /** Colours by name; `on` holds the ink to write with on each. `size` is the factor of the type. */
  G.readTheme = function (root) {
    const css = getComputedStyle(root), value = (name) => css.getPropertyValue("--gl-" + name).trim();
    const theme = { on: {}, size: parseFloat(value("size")) || 1 };
    for (const name of NAMES) {
      theme[name] = value(name);
      if (/^#[0-9a-f]{6}$/i.test(theme[name])) theme.on[name] = inkOn(theme[name]);
    }
    return theme;
  };
})(window.Glance = window.Glance || {});
