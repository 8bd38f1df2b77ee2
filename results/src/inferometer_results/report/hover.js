// Shows a chart's values next to the pointer, and of all charts over the same time at that moment.
// The page reads as well without it.
"use strict";
const charts = [];
for (const svg of document.querySelectorAll("svg.chart")) {
  const lines = [...svg.querySelectorAll("path[data-v]")].map((path) => {
    const points = path.getAttribute("d").split(/[ML]/).slice(1).map((p) => p.split(",").map(Number));
    const indices = path.dataset.i ? path.dataset.i.split(",").map(Number) : points.map((_, i) => i);
    return { points, indices, values: path.dataset.v.split("|") };
  });
  if (!lines.length) continue;
  const positions = svg.dataset.x ? svg.dataset.x.split("|") : [];
  const figure = svg.closest("figure");
  const tip = figure.appendChild(Object.assign(document.createElement("div"), { className: "tip" }));
  const cursor = svg.appendChild(document.createElementNS(svg.namespaceURI, "path"));
  cursor.setAttribute("class", "cursor");
  // The title stays for readers of the page, without the browser's own tooltip over ours.
  const title = svg.querySelector("title");
  svg.setAttribute("aria-label", title.textContent);
  svg.removeAttribute("aria-labelledby");
  svg.setAttribute("aria-describedby", svg.querySelector("desc").id);
  title.remove();
  const show = (x, top) => {
    const near = lines.map(({ points }) =>
      points.reduce((best, p, i) => (Math.abs(p[0] - x) < Math.abs(points[best][0] - x) ? i : best), 0));
    const at = lines[0].points[near[0]][0];
    const texts = lines.map((line, n) => line.values[near[n]]).filter(Boolean);
    const position = positions[lines[0].indices[near[0]]];
    tip.textContent = (position ? [position] : []).concat(texts).join("\n");
    cursor.setAttribute("d", `M${at},40V${svg.viewBox.baseVal.height - 44}`);
    tip.style.visibility = "visible";
    const [inner, outer] = [svg.getBoundingClientRect(), figure.getBoundingClientRect()];
    const left = inner.left - outer.left + (x * inner.width) / svg.viewBox.baseVal.width + 14;
    tip.style.left = `${left + tip.offsetWidth > outer.width ? left - tip.offsetWidth - 28 : left}px`;
    tip.style.top = `${top ?? inner.top - outer.top + 8}px`;
  };
  const hide = () => { tip.style.visibility = "hidden"; cursor.removeAttribute("d"); };
  const scenario = svg.hasAttribute("data-linked") ? svg.closest("section") : svg;
  charts.push({ scenario, show, hide });
  svg.addEventListener("pointerleave", () => charts.forEach((chart) => chart.hide()));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width;
    for (const chart of charts) if (chart.scenario === scenario) chart.show(x);
    show(x, event.clientY - figure.getBoundingClientRect().top + 14);
  });
}
