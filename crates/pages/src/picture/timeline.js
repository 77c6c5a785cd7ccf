// Zoom, pan and read-outs of timelines. `#from=2&to=4` shows that window in milliseconds, `&chart=2` of the second one.
document.querySelectorAll("figure.timeline").forEach((figure, number) => {
  const svg = figure.querySelector("svg.timeline-plot");
  if (!svg) return;
  const [left, right, bottom] = svg.dataset.plot.split(" ").map(Number);
  const [low, high] = svg.dataset.range.split(" ").map(Number);
  const [unit, msPerUnit] = svg.dataset.unit.split(" ").map((part, i) => i ? Number(part) : part);
  const width = right - left, shortest = (high - low) * 1e-5;
  const lanes = [...svg.querySelectorAll("g[data-lane]")].map(lane => [...lane.children].map(rect => {
    const [begin, end] = rect.dataset.t.split(" ").map(Number), text = takeTitle(rect);
    const over = rect.classList.contains("exposed") ? "over" : "", top = +rect.getAttribute("y");
    return { rect, begin, end, text, name: text.split("\n")[0], over, top, hidden: false };
  }));
  const spans = lanes.flat(), spanOf = new Map(spans.map(span => [span.rect, span]));
  const labels = svg.querySelector(".labels"), marks = svg.querySelector(".marks"), box = readOut(figure);
  let from = low, to = high, asked = 0, saved = 0, current = null;

  const make = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const digitsOf = step => Math.max(0, Math.min(9, -Math.floor(Math.log10(step * 1.000001))));

  const drawMarks = () => {
    const about = (to - from) / msPerUnit / 10, power = 10 ** Math.floor(Math.log10(about));
    const step = power * [1, 2, 5, 10].find(m => about / power < m * 1.5);
    const drawn = [];
    for (let i = Math.ceil(from / msPerUnit / step - 1e-6); i * step <= to / msPerUnit + step * 1e-6; i++) {
      const x = (left + (i * step * msPerUnit - from) / (to - from) * width).toFixed(1);
      drawn.push(make("line", { class: "grid", x1: x, x2: x, y1: 4, y2: bottom }));
      drawn.push(make("text", { class: "mark", x, y: bottom + 17, "text-anchor": "middle" }, (i * step).toFixed(digitsOf(step))));
    }
    marks.replaceChildren(...drawn);
  };
  const draw = () => {
    asked = 0;
    // Of each row, where its last name may end: spans may lie on each other.
    const scale = width / (to - from), drawn = [], ends = new Map();
    for (const span of spans) {
      const begin = (span.begin - from) * scale, end = (span.end - from) * scale;
      const hidden = end < 0 || begin > width;
      if (hidden !== span.hidden) span.rect.style.display = (span.hidden = hidden) ? "none" : "";
      if (hidden) continue;
      // No further out than needed: browsers calculate places with few digits.
      const x = Math.max(begin, -9), wide = Math.max(Math.min(end, width + 9) - x, 0.75);
      span.rect.setAttribute("x", x.toFixed(2));
      span.rect.setAttribute("width", wide.toFixed(2));
      const seen = Math.max(x, 0), letters = Math.floor((Math.min(x + wide, width) - seen - 10) / 6.5);
      if (letters < 3 || x < (ends.get(span.top) ?? -10)) continue;
      ends.set(span.top, x + wide - 0.01);
      const name = span.name.length > letters ? `${span.name.slice(0, letters - 1)}…` : span.name;
      drawn.push(make("text", { class: span.over, x: (seen + 5).toFixed(2), y: span.top + 15 }, name));
    }
    labels.replaceChildren(...drawn);
    drawMarks();
    const digits = digitsOf((to - from) / msPerUnit / 1000), show = ms => (ms / msPerUnit).toFixed(digits);
    shown.textContent = `${show(from)} – ${show(to)} ${unit}`;
    svg.dataset.window = `${from} ${to}`;
  };
  const whole = () => from === low && to === high;
  const remember = () => {
    const chart = number ? `&chart=${number + 1}` : "";
    const window = `#from=${+from.toPrecision(7)}&to=${+to.toPrecision(7)}${chart}`;
    history.replaceState(null, "", whole() ? location.href.split("#")[0] : window);
  };
  // Shows a window, moved and cut to what there is.
  const show = (begin, end) => {
    const length = Math.min(Math.max(end - begin, shortest), high - low);
    from = Math.min(Math.max(begin, low), high - length);
    to = from + length;
    if (length === high - low) [from, to] = [low, high];
    asked ||= requestAnimationFrame(draw);
  };
  const change = (begin, end) => {
    show(begin, end);
    clearTimeout(saved);
    saved = setTimeout(remember, 250);
  };
  const zoom = (factor, around) => change(around - (around - from) * factor, around + (to - around) * factor);
  const reset = () => change(low, high);
  const middle = () => current && current.end >= from && current.begin <= to
    ? (Math.max(current.begin, from) + Math.min(current.end, to)) / 2 : (from + to) / 2;
  const timeAt = event => {
    const frame = svg.getBoundingClientRect();
    const x = (event.clientX - frame.left) / frame.width * svg.viewBox.baseVal.width;
    return from + Math.min(Math.max((x - left) / width, 0), 1) * (to - from);
  };

  const tools = document.createElement("div"), shown = document.createElement("output");
  tools.className = "tools";
  tools.append(shown);
  for (const [text, name, action] of [
    ["−", "Zoom out", () => zoom(2, middle())], ["+", "Zoom in", () => zoom(0.5, middle())], ["Reset", "Show all", reset],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = name;
    button.setAttribute("aria-label", name);
    button.addEventListener("click", action);
    tools.append(button);
  }
  figure.querySelector("figcaption").after(tools);
  const help = document.createElement("p");
  help.className = "note";
  help.textContent = "Wheel or + and − zoom, dragging moves, a double click shows all; arrow keys go from span to span, with shift they move.";
  figure.append(help);

  svg.addEventListener("wheel", event => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) && event.deltaX;
    // Zooming out of the whole is scrolling the page.
    if (!sideways && event.deltaY > 0 && whole()) return;
    event.preventDefault();
    box.hide();
    if (sideways) return change(from + sideways / 800 * (to - from), to + sideways / 800 * (to - from));
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines / 300))), timeAt(event));
  }, { passive: false });
  svg.addEventListener("dblclick", reset);
  let drag = null;
  svg.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, from, to, moved: false };
  });
  svg.addEventListener("pointermove", event => {
    if (drag && event.buttons & 1) {
      const moved = event.clientX - drag.x;
      if (!drag.moved && Math.abs(moved) < 4) return;
      if (!drag.moved) svg.setPointerCapture(event.pointerId);
      drag.moved = true;
      svg.classList.add("dragged");
      box.hide();
      const ms = moved / svg.getBoundingClientRect().width * svg.viewBox.baseVal.width / width * (drag.to - drag.from);
      return change(drag.from - ms, drag.to - ms);
    }
    const span = spanOf.get(event.target);
    if (span) box.show(span.text, { x: event.clientX, y: event.clientY });
    else if (!current) box.hide();
  });
  const drop = () => { drag = null; svg.classList.remove("dragged"); };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", drop);
  svg.addEventListener("pointerleave", () => { if (!current) box.hide(); });

  const choose = span => {
    if (current) current.rect.classList.remove("current");
    current = span;
    if (!span) return box.hide();
    span.rect.classList.add("current");
    const length = to - from;
    if (span.end < from || span.begin > to) change((span.begin + span.end - length) / 2, (span.begin + span.end + length) / 2);
    if (asked) { cancelAnimationFrame(asked); draw(); }
    const place = span.rect.getBoundingClientRect(), frame = svg.getBoundingClientRect();
    box.show(span.text, { x: Math.max(place.left, frame.left) + 8, y: place.bottom - 12 });
  };
  const step = (lane, by) => {
    if (!current) return spans.find(span => span.end >= from);
    const at = lanes.findIndex(spans => spans.includes(current));
    if (!lane) return lanes[at][lanes[at].indexOf(current) + by] || current;
    const other = lanes[at + by], centre = (current.begin + current.end) / 2;
    const far = span => Math.max(span.begin - centre, centre - span.end, 0);
    return other ? other.reduce((a, b) => far(b) < far(a) ? b : a) : current;
  };
  const keys = {
    ArrowRight: () => choose(step(false, 1)), ArrowLeft: () => choose(step(false, -1)),
    ArrowDown: () => choose(step(true, 1)), ArrowUp: () => choose(step(true, -1)),
    "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
    0: reset, Home: reset, Escape: () => choose(null),
  };
  svg.tabIndex = 0;
  svg.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = event.shiftKey && { ArrowRight: 0.2, ArrowLeft: -0.2 }[event.key];
    if (!pan && !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    if (pan) change(from + pan * (to - from), to + pan * (to - from));
    else keys[event.key]();
  });
  svg.addEventListener("blur", () => choose(null));

  const follow = () => {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const [begin, end] = ["from", "to"].map(name => parseFloat(wanted.get(name)));
    if ((parseInt(wanted.get("chart")) || 1) === number + 1 && begin < end) show(begin, end);
  };
  addEventListener("hashchange", follow);
  follow();
  if (asked) cancelAnimationFrame(asked);
  draw();
});
