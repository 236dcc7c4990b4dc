/* Projector mode: larger type and one column, remembered where the browser allows it. */
(function (G) {
  "use strict";

  const KEY = "glance-projector";

  function remembered() {
    try { return localStorage.getItem(KEY) === "1"; } catch { return false; }
  }

  function remember(on) {
    try { localStorage.setItem(KEY, on ? "1" : "0"); } catch { /* a private window: it lasts as long as the page */ }
  }

  /** Switch it; the change of class makes the player draw itself anew. */
  G.enlarge = function (button, on) {
    document.body.classList.toggle("gl-large", on);
    button.setAttribute("aria-pressed", on);
    remember(on);
  };

  /** Give the button its state, and the page the size that was chosen last. */
  G.bindProjector = function (button) {
    G.enlarge(button, remembered());
    button.addEventListener("click", () => G.enlarge(button, !document.body.classList.contains("gl-large")));
  };
})(window.Glance = window.Glance || {});
