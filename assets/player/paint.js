/* The many parts of a tree on a canvas behind its Plotly figure: edges, labels, and the candidates that were not accepted.
   As traces of the figure they cost more than all of the rest of a step: Plotly styles every point and label twice. */
(function (G) {
  "use strict";

  const MOST = 16e6; // pixels of a canvas that every browser can make

  /** Draw the bands, edges, not accepted candidates and labels of a scene (`G.treeScene`) on a canvas of its size or larger. */
  G.paint = function (canvas, scene, theme) {
    const { width, height } = scene, ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST / (width * height)));
    if (canvas.ratio !== ratio || canvas.width < width * ratio || canvas.height < height * ratio) { // a new one costs
      canvas.ratio = ratio;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      Object.assign(canvas.style, { width: width + "px", height: height + "px" });
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = theme.band;
    for (const [from, to] of scene.bands) pen.fillRect(from, 0, to - from, height);
    for (const edge of scene.edges) line(pen, edge);
    discs(pen, scene.others);
    pen.direction = "ltr"; // a label isolates itself
    let font = "";
    for (const label of scene.labels) {
      const wanted = fontOf(label);
      if (wanted !== font) pen.font = font = wanted; // the browser asks for the canvas' style then
      write(pen, label);
    }
  };

  function line(pen, { points: [xs, ys], color, width, dash }) {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.beginPath();
    let drawing = false;
    xs.forEach((x, i) => {
      if (x !== null) pen[drawing ? "lineTo" : "moveTo"](x, -ys[i]);
      drawing = x !== null;
    });
    pen.stroke();
  }

  function discs(pen, { x, y, marker: { size, color, line: { color: rim, width } } }) {
    Object.assign(pen, { fillStyle: color, strokeStyle: rim, lineWidth: width });
    pen.setLineDash([]);
    pen.beginPath();
    size.forEach((diameter, i) => {
      pen.moveTo(x[i] + diameter / 2, -y[i]);
      pen.arc(x[i], -y[i], diameter / 2, 0, 2 * Math.PI);
    });
    pen.fill();
    pen.stroke();
  }

  const fontOf = ({ font: { size, mono, bold } }) => (bold ? "bold " : "") + size + "px " + (mono ? G.MONO : G.SANS);

  /** Baselines are where Plotly's text positions have them. */
  function write(pen, { x, y, text, where, font: { size, color } }) {
    const down = { above: -0.25, below: 0.75, right: 0.25, middle: 0.25 }[where];
    pen.fillStyle = color;
    pen.textAlign = where === "right" ? "left" : "center";
    pen.fillText(text, x, -y + down * size);
  }
})(window.Glance = window.Glance || {});
