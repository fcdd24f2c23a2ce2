// Draws the figures of the report and the group of queues that is picked, and finds messages.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const draw = (place, figure, config) =>
    Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: false, ...config });

  for (const name of ["deaths", "ends", "delays"]) {
    const there = document.getElementById(name);
    if (there) draw(there, figures[name], { responsive: true });
  }

  const place = document.getElementById("flow");
  const caption = document.getElementById("flow-caption");
  const buttons = [...document.querySelectorAll(".groups button")];
  const pick = (button) => {
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    const flow = figures.flows[Number(button.dataset.flow)];
    caption.textContent = flow.caption;
    draw(place, flow.figure);
    const frame = place.parentElement;
    frame.scrollTo((frame.scrollWidth - frame.clientWidth) / 2, 0);
  };
  for (const button of buttons) button.addEventListener("click", () => pick(button));
  if (buttons.length) pick(buttons[0]);

  // Messages

  const find = document.getElementById("find");
  if (!find) return;
  const hits = document.getElementById("hits");
  const life = document.getElementById("life");
  const make = (name, text, kind) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const clock = (us) => new Date(us / 1000).toISOString().replace("T", " ").replace("Z", "");
  const span = (us) => {
    const units = [["d", 864e8], ["h", 36e8], ["min", 6e7], ["s", 1e6], ["ms", 1e3]];
    const parts = [];
    for (const [unit, size] of units) {
      if (us >= size && parts.length < 2) parts.push(`${Math.floor(us / size)} ${unit}`);
      us %= size;
    }
    return parts.join(" ");
  };

  const tell = (message) => {
    const list = make("ol", "", "life");
    let before = null;
    for (const { time_us: time, kind, text, line } of message.steps) {
      const step = make("li", "", kind);
      const when = make("div", "", "when");
      if (time != null && time !== before) when.append(make("time", clock(time)));
      if (time != null && before != null && time > before) when.append(make("span", `+${span(time - before)}`, "gap"));
      const told = make("p", text);
      if (line) told.append(make("span", ` ${line}`, "muted"));
      step.append(when, told);
      list.append(step);
      before = time ?? before;
    }
    const title = make("h3", message.message);
    const more = message.left_out ? [make("p", `${message.left_out} further rows of the log are not told.`, "note")] : [];
    life.replaceChildren(title, list, ...more);
    for (const hit of hits.children) hit.setAttribute("aria-pressed", String(hit.textContent.startsWith(message.message)));
  };

  const look = () => {
    const wanted = find.value.trim().toLowerCase();
    const most = wanted ? 30 : 10;
    const found = figures.messages.filter((each) => each.message.toLowerCase().includes(wanted));
    hits.replaceChildren(
      ...found.slice(0, most).map((each) => {
        const mark = each.ending || (each.unlike ? "not as predicted" : "");
        const hit = make("button", each.message);
        hit.type = "button";
        if (mark) hit.append(make("span", ` ${mark}`, each.ending === "lost" || each.unlike ? "bad" : "muted"));
        hit.addEventListener("click", () => tell(each));
        return hit;
      }),
    );
    if (found.length > most) hits.append(make("span", `${found.length - most} more`, "muted"));
    if (!found.length) hits.append(make("span", "The page holds no message of that id.", "muted"));
    return found;
  };
  find.addEventListener("input", () => {
    life.replaceChildren();
    const found = look();
    if (found.length === 1) tell(found[0]);
  });

  const named = () => {
    const [, id] = location.hash.match(/^#message=(.*)$/) ?? [];
    if (id === undefined) return;
    find.value = decodeURIComponent(id);
    const exact = look().find((each) => each.message === find.value);
    if (exact) tell(exact);
    document.getElementById("messages").scrollIntoView();
    life.focus({ preventScroll: true });
  };
  addEventListener("hashchange", named);
  look();
  named();
})();
