// Keeps the page as the server has it, moves the clock, and takes the keyboard to the search.
(() => {
  const main = document.getElementById("content");
  const state = document.getElementById("state");
  const find = document.getElementById("find");
  const there = (path) => new URL(path, location.origin + location.pathname); // without a password in it
  const parts = (page) => [...page.querySelectorAll("[data-part]")];
  const texts = (page) => new Map(parts(page).map((part) => [part.id, part.outerHTML]));

  let known = texts(document);
  let loading = false;
  let again = false;
  let source = null;
  let later = 0;
  const ASK_MS = 5000;

  const tell = (text, kind) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = `state ${kind}`;
  };

  // The same element in another version of the page: by its id, or the link by its address.
  const same = (element) => {
    if (element.id) return document.getElementById(element.id);
    const href = element.getAttribute("href");
    return href && [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
  };

  // What was scrolled within a part stays so: call the function that is returned when the new part is shown.
  const scrolled = (part) => [...(part?.querySelectorAll(".scroll, .picture, pre") ?? [])];
  const keepScrolled = (before, after) => {
    const places = scrolled(before).map((element) => [element.scrollLeft, element.scrollTop]);
    return () => scrolled(after).forEach((element, place) => element.scrollTo(...(places[place] ?? [0, 0])));
  };

  const show = (page) => {
    const next = texts(page);
    const focused = document.activeElement;
    const old = new Map(parts(document).map((part) => [part.id, part]));
    const fresh = parts(page).map((part) => {
      const kept = known.get(part.id) === next.get(part.id) && old.get(part.id);
      return kept || document.importNode(part, true);
    });
    const scrolls = fresh.filter((part) => old.get(part.id) !== part).map((part) => keepScrolled(old.get(part.id), part));
    if ([...known.keys()].join() === [...next.keys()].join()) {
      for (const part of fresh) if (old.get(part.id) !== part) old.get(part.id).replaceWith(part);
    } else {
      for (const part of fresh) if (part.id === "now") old.get("now").replaceWith(part);
      main.replaceChildren(...fresh.filter((part) => part.id !== "now"));
    }
    for (const scroll of scrolls) scroll();
    known = next;
    document.title = page.title;
    if (focused !== document.activeElement && !focused.isConnected) same(focused)?.focus({ preventScroll: true });
  };

  const refresh = async () => {
    again = true;
    // What somebody is marking stays as it is until that is over.
    if (loading || !getSelection().isCollapsed) return;
    loading = true;
    try {
      while (again) {
        again = false;
        const answer = await fetch(there(location.search || "./"), { headers: { accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (page.getElementById("content")) show(page);
      }
    } catch {
      tell("not connected", "off");
    } finally {
      loading = false;
    }
  };

  const follow = () => {
    source = new EventSource(there("page/changes"));
    source.addEventListener("open", () => tell("live", "live"));
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return tell("not connected", "off");
      tell("asks every few seconds", "live");
      later = setTimeout(ask, ASK_MS);
    });
    source.addEventListener("change", refresh);
  };

  // The browser tries to connect again by itself, but not when the server had an answer, such as: too many pages.
  const ask = async () => {
    await refresh();
    follow();
  };

  // Browsers open few connections to a server: a tab that nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    source?.close();
    clearTimeout(later);
    if (document.visibilityState === "visible") follow();
  });
  document.addEventListener("selectionchange", () => {
    if (again && !loading && getSelection().isCollapsed) refresh();
  });

  const steps = [...document.querySelectorAll("[data-advance]")];
  const advance = async (button) => {
    for (const step of steps) step.setAttribute("aria-disabled", "true");
    try {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(there("api/clock/advance"), { method: "POST", headers, body: button.dataset.advance });
      const told = await answer.json();
      if (!answer.ok) tell(String(told.reason), "off");
      else if (!told.moved) tell("nothing is due: the clock stays", "live");
      else tell("live", "live");
      await refresh();
    } catch {
      tell("not connected", "off");
    } finally {
      for (const step of steps) step.removeAttribute("aria-disabled");
    }
  };
  for (const step of steps) step.addEventListener("click", () => step.ariaDisabled || advance(step));

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    find.focus();
    find.select();
  });

  if (document.visibilityState === "visible") follow();
})();
