// What <title> says, in a box of the page: shown at once, and for those who use the keyboard too.
const takeTitle = element => {
  const title = element.querySelector("title");
  const text = title ? title.textContent : "";
  // The browser would show it as well.
  if (title) title.remove();
  return text;
};

const readOut = figure => {
  const box = document.createElement("div");
  box.className = "readout";
  box.setAttribute("role", "status");
  return {
    // `at`: where the thing is in the window.
    show(text, at) {
      const [name, ...lines] = text.split("\n");
      const head = document.createElement("b");
      head.textContent = name;
      const list = document.createElement("dl");
      for (const line of lines) {
        const [what, ...value] = line.split("\t");
        const [term, words] = [document.createElement("dt"), document.createElement("dd")];
        term.textContent = what;
        words.textContent = value.join(" ");
        list.append(term, words);
      }
      box.replaceChildren(head, list);
      figure.append(box);
      const frame = figure.getBoundingClientRect();
      const right = at.x - frame.left + 16, below = at.y - frame.top + 18;
      const fits = right + box.offsetWidth < frame.width - 6;
      box.style.left = `${fits ? right : Math.max(right - 32 - box.offsetWidth, 6)}px`;
      // Above the pointer where the window ends.
      const over = at.y + 18 + box.offsetHeight > window.innerHeight && at.y > box.offsetHeight + 12;
      box.style.top = `${over ? below - 30 - box.offsetHeight : below}px`;
    },
    hide() { box.remove(); },
  };
};
