// Read-outs for the curves. The page is complete without them.
for (const svg of document.querySelectorAll("svg.lines")) {
  const numbers = name => svg.dataset[name].split(" ").map(Number);
  const [left, right, top, bottom] = numbers("plot"), [x0, x1] = numbers("x"), [y0, y1] = numbers("y");
  const curves = [...svg.querySelectorAll("path")].map(path => ({
    name: path.dataset.name,
    points: [...path.getAttribute("d").matchAll(/[ML]([-\d.]+) ([-\d.]+)/g)].map(m => [+m[1], +m[2]]),
  })).filter(curve => curve.points.length);
  const short = value => value.toLocaleString("en", { maximumSignificantDigits: 5 });
  const rule = document.createElementNS("http://www.w3.org/2000/svg", "line");
  rule.setAttribute("class", "rule");
  rule.setAttribute("y1", top);
  rule.setAttribute("y2", bottom);
  const box = document.createElement("div");
  box.className = "readout";
  const hide = () => { rule.remove(); box.remove(); };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const frame = svg.getBoundingClientRect();
    const at = (event.clientX - frame.left) / frame.width * svg.viewBox.baseVal.width;
    if (at < left || at > right) return hide();
    const value = y => y1 - (y - top) / (bottom - top) * (y1 - y0);
    const lines = curves.map(({ name, points }) => {
      const near = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      return Math.abs(near[0] - at) < 12 ? `${name}  ${short(value(near[1]))}` : null;
    });
    const x = x0 + (at - left) / (right - left) * (x1 - x0);
    const seen = short(x1 - x0 > 1000 ? Math.round(x) : x);
    box.textContent = [`${seen} ${svg.dataset.xName}`, ...lines.filter(Boolean)].join("\n");
    rule.setAttribute("x1", at);
    rule.setAttribute("x2", at);
    svg.append(rule);
    svg.parentNode.append(box);
    const inside = event.clientX - frame.left;
    box.style.top = `${frame.top - svg.parentNode.getBoundingClientRect().top + 30}px`;
    box.style.left = `${Math.min(inside + 30, frame.width - box.offsetWidth)}px`;
    if (inside > frame.width / 2) box.style.left = `${Math.max(inside - box.offsetWidth - 4, 0)}px`;
  });
}
