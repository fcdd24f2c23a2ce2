// Draws the figures of the report and the group of queues that is picked, and finds messages.
(async () => {
  // Figures and plotly are compressed, as text: two characters are 13 bits, a last one six; none is "<" (60).
  const bytesOf = (text) => {
    const digit = (at) => text.charCodeAt(at) - (text.charCodeAt(at) > 60 ? 34 : 33);
    const bytes = new Uint8Array(Math.floor(((text.length >> 1) * 13 + (text.length % 2) * 6) / 8));
    let [value, bits, size] = [0, 0, 0];
    for (let at = 0; at < text.length; at += 2) {
      const alone = at + 1 === text.length;
      value = alone ? (value << 6) | digit(at) : (value << 13) | (digit(at) * 93 + digit(at + 1));
      bits += alone ? 6 : 13;
      for (; bits >= 8; size++) bytes[size] = value >> (bits -= 8); // a byte takes the last eight bits
    }
    return bytes;
  };
  const unpacked = (id) => {
    const packed = new Blob([bytesOf(document.getElementById(id).textContent)]);
    return new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };
  const figures = JSON.parse(await unpacked("figures"));
  const plotly = document.createElement("script");
  plotly.textContent = await unpacked("plotly");
  document.head.append(plotly);
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
  document.documentElement.dataset.drawn = "";

  // Messages

  const find = document.getElementById("find");
  if (!find) return;
  const hits = document.getElementById("hits");
  const life = document.getElementById("life");
  let shown = new Map(); // the buttons by their messages
  const several = new Set(figures.messages.map((each) => each.vhost)).size > 1;
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
    if (several) title.append(make("span", ` of ${message.vhost}`, "muted"));
    life.replaceChildren(title, list);
    for (const [each, hit] of shown) hit.setAttribute("aria-pressed", String(each === message));
  };

  // What is searched: the ids first; where none has it, everything that is told of a message.
  const told = (message) => [message.ending, ...message.steps.map((step) => step.text)].join("\n").toLowerCase();
  const isCalled = (message, wanted) => message.message.toLowerCase() === wanted;
  const hitsOf = (wanted) => {
    const named = figures.messages.filter((each) => each.message.toLowerCase().includes(wanted));
    if (named.length) return named.sort((one, other) => isCalled(other, wanted) - isCalled(one, wanted));
    return figures.messages.filter((each) => told(each).includes(wanted));
  };

  const look = () => {
    const wanted = find.value.trim().toLowerCase();
    const most = wanted ? 30 : 10;
    const found = hitsOf(wanted);
    shown = new Map();
    for (const each of found.slice(0, most)) {
      const mark = each.ending || (each.unlike ? "not as predicted" : "");
      const hit = make("button", each.message);
      hit.type = "button";
      if (several) hit.append(make("span", ` ${each.vhost}`, "muted"));
      if (mark) hit.append(make("span", ` ${mark}`, ["lost", "held"].includes(each.ending) || each.unlike ? "bad" : "muted"));
      hit.addEventListener("click", () => tell(each));
      shown.set(each, hit);
    }
    hits.replaceChildren(...shown.values());
    if (found.length > most) hits.append(make("span", `${found.length - most} more`, "muted"));
    if (!found.length) hits.append(make("span", "No message of this page has that in its id or its life.", "muted"));
    return found;
  };
  find.addEventListener("input", () => {
    life.replaceChildren();
    const found = look();
    if (found.length === 1 || (found.length && isCalled(found[0], find.value.trim().toLowerCase()))) tell(found[0]);
  });

  const named = () => {
    const [, id] = location.hash.match(/^#message=(.*)$/) ?? [];
    if (id === undefined) return;
    const message = figures.messages.find((each) => each.message === decodeURIComponent(id));
    find.value = message?.message ?? "";
    look();
    if (message) tell(message);
    document.getElementById("messages").scrollIntoView();
    life.focus({ preventScroll: true });
  };
  addEventListener("hashchange", named);
  look();
  named();
})();
