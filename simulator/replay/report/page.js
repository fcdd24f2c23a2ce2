// Draws the figures of the report, and the group of queues that is picked.
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
})();
