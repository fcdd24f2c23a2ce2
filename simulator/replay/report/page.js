// Draws the figures of the report and the group of queues that is picked, and finds messages.
(async () => {
  // Figures and plotly are compressed, in base 85: five characters are four bytes.
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
  const bytesOf = (text) => {
    const digits = new Uint8Array(128);
    for (let digit = 0; digit < 85; digit++) digits[DIGITS.charCodeAt(digit)] = digit;
    const rest = (5 - (text.length % 5)) % 5;
    const padded = text + "~".repeat(rest);
    const bytes = new DataView(new ArrayBuffer((padded.length / 5) * 4));
    for (let at = 0; at < padded.length; at += 5) {
      let word = 0;
      for (let place = at; place < at + 5; place++) word = word * 85 + digits[padded.charCodeAt(place)];
      bytes.setUint32((at / 5) * 4, word);
    }
    return new Uint8Array(bytes.buffer, 0, bytes.byteLength - rest);
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
