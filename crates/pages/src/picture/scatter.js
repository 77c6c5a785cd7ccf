// Read-outs of points: the nearest one to the pointer; with the keyboard, those of the front from left to right.
document.querySelectorAll("figure.scatter").forEach(figure => {
  const svg = figure.querySelector("svg.points");
  if (!svg) return;
  const points = [...svg.querySelectorAll("circle")].map(circle => ({
    x: +circle.getAttribute("cx"), y: +circle.getAttribute("cy"), text: takeTitle(circle),
    front: circle.parentNode.classList.contains("on-front"), radius: +circle.getAttribute("r"),
  }));
  const front = points.filter(point => point.front), walked = front.length ? front : [...points];
  walked.sort((a, b) => a.x - b.x || b.y - a.y);
  const box = readOut(figure), ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  ring.setAttribute("class", "ring");
  const hide = () => { ring.remove(); box.hide(); };
  const show = point => {
    ring.setAttribute("cx", point.x);
    ring.setAttribute("cy", point.y);
    ring.setAttribute("r", point.radius + 3);
    svg.append(ring);
    const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    const same = points.filter(other => other !== point && other.x === point.x && other.y === point.y).length;
    const more = same ? `\nin this place\t${same} more` : "";
    box.show(point.text + more, { x: frame.left + point.x * scale, y: frame.top + point.y * scale });
  };
  svg.addEventListener("pointermove", event => {
    const frame = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / frame.width;
    const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
    // A point of the front wins over others in the same place.
    const far = point => Math.hypot(point.x - x, point.y - y) - (point.front ? 1 : 0);
    const nearest = points.reduce((a, b) => far(b) < far(a) ? b : a);
    if (far(nearest) < 14) show(nearest); else hide();
  });
  svg.addEventListener("pointerleave", hide);
  let at = -1;
  svg.tabIndex = 0;
  svg.addEventListener("keydown", event => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    at = Math.min(Math.max(at + by, 0), walked.length - 1);
    show(walked[at]);
  });
  svg.addEventListener("blur", hide);
});
