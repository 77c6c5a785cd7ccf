const found = document.createElement("ol");
found.id = "seen";
const say = (...words) => {
  const item = document.createElement("li");
  item.textContent = words.join(" | ");
  found.append(item);
};
// What a text covers for certain: of a slanted one, its middle.
const core = text => {
  const box = text.getBoundingClientRect(), slanted = text.hasAttribute("transform");
  const across = slanted ? box.width / 2 - 4 : 0, down = slanted ? box.height / 2 - 4 : 1;
  return { left: box.left + across, right: box.right - across, top: box.top + down, bottom: box.bottom - down };
};
for (const svg of document.querySelectorAll("svg")) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent);
  for (const text of texts) {
    const box = text.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) say("outside", text.textContent);
  }
  const cores = texts.map(core);
  cores.forEach((a, i) => cores.slice(0, i).forEach((b, j) => {
    const meet = a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    if (meet) say("on each other", texts[i].textContent, texts[j].textContent);
  }));
}
document.body.append(found);
