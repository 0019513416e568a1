// What the pages do beside being read. Everything shown comes from the server as HTML; this file asks for it again when
// something has happened and puts in what differs. Text of agents is only ever set as text.
"use strict";
(() => {
  const root = document.documentElement;
  const $ = (query, from = document) => from.querySelector(query);
  const $$ = (query, from = document) => [...from.querySelectorAll(query)];
  const kept = {
    get(name) { try { return localStorage.getItem("dacapo-" + name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem("dacapo-" + name, value); } catch { /* not kept */ } },
  };

  // --- small things --------------------------------------------------------------------------------------------

  function toast(text) {
    $(".toast")?.remove();
    const box = document.createElement("p");
    box.className = "toast";
    box.setAttribute("role", "status");
    box.textContent = text;
    document.body.append(box);
    setTimeout(() => box.remove(), 5000);
  }

  function lasted(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
    return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
  }

  // The clocks of the page and of the server may differ.
  let ahead = 0;
  function tick(from = document) {
    const now = Date.now() - ahead;
    for (const node of $$("[data-since]", from)) {
      const text = lasted(now - Number(node.dataset.since));
      if (node.textContent !== text) node.textContent = text;
    }
  }

  function setTheme() {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    kept.set("theme", root.dataset.theme);
  }

  // --- putting in what differs -----------------------------------------------------------------------------------

  const keyOf = (node) => (node.nodeType === 1 ? node.dataset.key || node.id || "" : "");

  /** Makes `old` like `next`. What has a key is moved, not made anew; what is `data-keep` is left alone. */
  function morph(old, next) {
    // Most cards are as they were, and the browser sees that sooner than a walk through all that is in them.
    if (next.nodeType === 1 && next.hasAttribute("data-same")) return;
    if (keyOf(old) && old.isEqualNode(next)) return;
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType !== 1) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    if (old.hasAttribute("data-keep") && next.hasAttribute("data-keep")) return;
    for (const { name } of [...old.attributes]) {
      const isOwn = name === "open" || (name === "class" && old.classList.contains("picked")) || name === "hidden" || name === "aria-pressed";
      if (!next.hasAttribute(name) && !isOwn) old.removeAttribute(name);
    }
    const picked = old.classList.contains("picked");
    for (const { name, value } of [...next.attributes]) {
      if (name !== "open" && name !== "aria-pressed" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (picked) old.classList.add("picked");
    if (old.nodeName === "INPUT" || old.nodeName === "TEXTAREA") return;
    const byKey = new Map();
    for (const child of old.childNodes) if (keyOf(child)) byKey.set(keyOf(child), child);
    let place = old.firstChild;
    for (const wanted of [...next.childNodes]) {
      const key = keyOf(wanted);
      if (key && byKey.has(key)) {
        const known = byKey.get(key);
        byKey.delete(key);
        if (known !== place) old.insertBefore(known, place);
        else place = place.nextSibling;
        morph(known, wanted);
      } else if (!key && place && !keyOf(place) && place.nodeName === wanted.nodeName) {
        const here = place;
        place = place.nextSibling;
        morph(here, wanted);
      } else {
        old.insertBefore(wanted, place);
      }
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
    for (const gone of byKey.values()) if (gone.parentNode === old) gone.remove();
  }

  /** The first thing with a key below the top of the screen, and where it stands: it stays there. */
  function anchor() {
    if (scrollY < 8) return null;
    for (const node of $$("main [data-key]")) {
      const top = node.getBoundingClientRect().top;
      if (top >= 0 && top < innerHeight) return { key: node.dataset.key, top };
    }
    return null;
  }

  // With an answer and a frame this is below the 200 ms in which an event is to be seen. Where the browser itself takes long, because
  // the agents need the cores, it waits as many times longer.
  const BETWEEN = 150;
  const SHARE = 4;
  // No header of a request is longer than the server takes.
  const MOST_HELD = 600;

  let asking = null;
  let askAgain = false;
  let due = 0;
  let later = null;

  /** Asks for the page again, at once if it was not asked for just now. */
  function soon() {
    if (asking) askAgain = true;
    if (asking || later) return;
    const wait = due - performance.now();
    if (wait <= 0) refresh();
    else later = setTimeout(() => { later = null; refresh(); }, wait);
  }

  async function refresh(url = location.href) {
    if (asking) { askAgain = true; return asking; }
    asking = (async () => {
      try {
        // What the page holds already comes without what is in it.
        const held = $$("main [data-part]").slice(0, MOST_HELD).map((node) => node.dataset.part).join(" ") || "1";
        const answer = await fetch(url, { headers: { "Dacapo-Refresh": held }, credentials: "same-origin" });
        if (answer.status === 401) { location.reload(); return; }
        if (answer.status === 404) toast("It is not there any more.");
        if (!answer.ok) return;
        const text = await answer.text();
        const begin = performance.now();
        const page = new DOMParser().parseFromString(text, "text/html");
        if ($("main", page)?.dataset.now) ahead = Date.now() - Number($("main", page).dataset.now);
        // Clocks say the same here and there, so that a card whose clock alone has moved is left alone.
        tick();
        tick(page);
        const stays = anchor();
        for (const name of ["main", ".pulse"]) {
          const [old, next] = [$(name), $(name, page)];
          if (old && next && !old.isEqualNode(next)) morph(old, document.adoptNode(next));
        }
        document.title = page.title;
        if (stays) {
          const node = $(`main [data-key="${CSS.escape(stays.key)}"]`);
          if (node) scrollBy(0, node.getBoundingClientRect().top - stays.top);
        }
        filter();
        due = performance.now() + Math.min(500, Math.max(BETWEEN, (performance.now() - begin) * SHARE));
      } catch { /* the server is gone; the stream says so */ }
    })();
    await asking;
    asking = null;
    if (askAgain) {
      askAgain = false;
      soon();
    }
  }

  // --- live --------------------------------------------------------------------------------------------------------

  let stream = null;
  let last = Number($("main")?.dataset.seq || 0);
  let retry = null;
  let wait = 500;
  function linkState(state, words) {
    const node = $(".link-state");
    if (!node) return;
    node.dataset.link = state;
    node.textContent = words;
  }

  function concerns(streams) {
    const wanted = $("main")?.dataset.streams;
    if (!wanted) return true;
    return wanted.split(" ").some((id) => streams.includes(id));
  }

  function connect() {
    clearTimeout(retry);
    if (stream || !$("main[data-seq]") || (document.visibilityState === "hidden" && !notices.isOn())) return;
    stream = new EventSource(`/api/events?from=${last + 1}&brief=true`);
    stream.onopen = () => {
      wait = 500;
      const wasLost = $(".link-state")?.dataset.link === "lost";
      linkState("live", "live");
      // What happened in between is in the stream too; this only shows it at once.
      if (wasLost) refresh();
      log?.resume();
    };
    stream.onmessage = (event) => heard(event);
    stream.onerror = () => {
      linkState("lost", "reconnecting");
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        retry = setTimeout(connect, wait);
        wait = Math.min(wait * 2, 10000);
      }
    };
  }

  function disconnect() {
    clearTimeout(retry);
    stream?.close();
    stream = null;
  }

  function heard(event) {
    const seq = Number(event.lastEventId);
    if (seq) last = Math.max(last, seq);
    const news = JSON.parse(event.data);
    if (concerns(news.streams)) soon();
    if (notices.isOn()) notices.look(news.done);
  }

  // --- notifications -----------------------------------------------------------------------------------------------

  const notices = {
    wanted() { return (kept.get("notify") || "").split(" ").filter(Boolean); },
    isOn() { return "Notification" in window && Notification.permission === "granted" && this.wanted().length > 0; },
    seen: new Set(),
    isFirst: true,
    busy: false,
    say(title, body, tag, url) {
      const note = new Notification(title, { body, tag });
      note.onclick = () => { focus(); location.assign(url); };
    },
    async look(done = []) {
      if (this.wanted().includes("done")) {
        for (const own of done) this.say("Done", own.detail || own.loop, `done-${own.loop}`, `/loops/${encodeURIComponent(own.loop)}`);
      }
      // What happens while an answer is on its way is looked at behind it.
      this.again = true;
      if (this.busy) return;
      this.busy = true;
      while (this.again) {
        this.again = false;
        try { await this.compare(); } catch { /* the next event looks again */ }
      }
      this.busy = false;
    },
    async compare() {
      const answer = await fetch("/api/attention", { credentials: "same-origin" });
      if (!answer.ok) return;
      const needs = await answer.json();
      for (const need of needs) {
        const tag = `${need.id}-${need.urgency}-${need.since}`;
        if (this.seen.has(tag)) continue;
        this.seen.add(tag);
        if (this.isFirst || !this.wanted().includes(need.urgency)) continue;
        const page = need.kind === "loop" ? "loops" : "runs";
        this.say(`${need.name}: ${need.urgency.replace("_", " ")}`, need.what, tag, `/${page}/${encodeURIComponent(need.id)}`);
      }
      this.isFirst = false;
    },
    show() {
      const box = $("#notify");
      for (const field of $$("input", box)) field.checked = this.wanted().includes(field.name);
      box.showModal();
    },
    async choose() {
      const chosen = $$("#notify input:checked").map((field) => field.name);
      kept.set("notify", chosen.join(" "));
      if (chosen.length > 0 && "Notification" in window && Notification.permission === "default") {
        await Notification.requestPermission();
      }
      if (chosen.length > 0 && !this.isOn()) toast("The browser does not allow notifications of this page.");
      // What is known already is no news.
      if (this.isOn()) await this.look();
      this.button();
    },
    button() { $("[data-notify]")?.setAttribute("aria-pressed", String(this.isOn())); },
  };

  // --- the board's filter and the picked row -------------------------------------------------------------------------

  function filter() {
    const field = $("[data-filter]");
    if (!field) return;
    const words = field.value.trim().toLowerCase();
    const concerned = words === "" ? $$("[data-filtered][hidden]") : $$("[data-filtered]");
    for (const node of concerned) node.hidden = words !== "" && !node.textContent.toLowerCase().includes(words);
    const none = $("[data-no-match]");
    if (none) none.hidden = words === "" || $$(".card[data-filtered]:not([hidden])").length > 0;
  }

  const picks = () => $$("[data-pick]").filter((node) => node.offsetParent !== null);
  function pick(step) {
    const all = picks();
    if (all.length === 0) return;
    const at = all.findIndex((node) => node.classList.contains("picked"));
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
    if (at >= 0) all[at].classList.remove("picked");
    all[next].classList.add("picked");
    all[next].scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  function nextLane(step) {
    const lanes = $$("[data-lane]").filter((lane) => $("[data-pick]", lane));
    if (lanes.length === 0) return;
    const picked = $("[data-pick].picked");
    const at = lanes.findIndex((lane) => lane.contains(picked));
    picked?.classList.remove("picked");
    const node = $("[data-pick]", lanes[(at + step + lanes.length) % lanes.length]);
    node.classList.add("picked");
    node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // --- acting ------------------------------------------------------------------------------------------------------

  async function act(form, button) {
    const said = Object.fromEntries([...new FormData(form)].filter(([name, value]) => name !== "do" && value !== ""));
    const url = `/api/loops/${encodeURIComponent(form.dataset.act)}/${button.value}`;
    for (const other of $$("button", form)) other.disabled = true;
    try {
      const answer = await fetch(url, {
        method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify(said),
      });
      const told = await answer.json().catch(() => ({}));
      // Behind the first line stand commands, for a terminal.
      toast(answer.ok ? (told.said || "").split("\n")[0] || "Asked." : [told.error, told.hint].filter(Boolean).join(" · ") || "The server refused.");
      if (answer.ok) {
        for (const field of $$("input[name=text]:not([type=hidden])", form)) field.value = "";
        form.closest("details")?.removeAttribute("open");
      }
    } catch { toast("The server cannot be reached."); }
    for (const other of $$("button", form)) other.disabled = false;
    refresh();
  }

  // --- the log -----------------------------------------------------------------------------------------------------

  const LINE = 20;
  const MOST_LINES = 1000000;
  const LONGEST = 4000;
  const TOOL = /^\[[A-Za-z0-9_.-]+\] /;
  const NOTHING = ["note", "Nothing was printed yet."];

  /** The lines of a piece of a log, each with its kind. */
  function linesOf(page, only) {
    const lines = [];
    for (const part of page.parts) {
      if (only && part.iteration !== only) continue;
      if (part.is_first) lines.push(["note", `── iteration ${part.iteration} ──`]);
      const texts = part.text.split("\n");
      if (texts.at(-1) === "") texts.pop();
      for (const text of texts) {
        const more = text.length - LONGEST;
        const shown = more > 0 ? `${text.slice(0, LONGEST)}… ${more.toLocaleString("en")} more characters` : text;
        lines.push([TOOL.test(text) ? "tool-line" : "", shown]);
      }
    }
    return lines;
  }

  class Log {
    constructor(box) {
      this.box = box;
      this.url = box.dataset.log;
      this.lines = [];
      this.first = 0;
      this.from = box.dataset.from || "0";
      this.only = Number(box.dataset.only || 0);
      this.hits = [];
      this.hit = -1;
      this.words = "";
      this.space = document.createElement("div");
      this.space.className = "space";
      this.pane = document.createElement("div");
      this.pane.className = "window";
      this.space.append(this.pane);
      this.follow = true;
      this.top = 0;
      box.addEventListener("scroll", () => this.scrolled(), { passive: true });
      new ResizeObserver(() => this.draw()).observe(box);
      // Until the first piece has come, the lines that the page came with stay.
      box.scrollTop = box.scrollHeight;
      $("[data-follow-button]")?.addEventListener("click", () => this.setFollow(!this.follow));
      const field = $("[data-log-search]");
      field?.addEventListener("input", () => this.search(field.value));
      field?.addEventListener("keydown", (event) => {
        if (event.key === "Enter") { event.preventDefault(); this.go(event.shiftKey ? -1 : 1); }
        if (event.key === "Escape") { field.value = ""; this.search(""); box.focus(); }
      });
      this.setFollow(this.follow);
      this.resume();
    }

    resume() {
      if (this.stream || this.isOver || document.visibilityState === "hidden") return;
      this.stream = new EventSource(`${this.url}&from=${this.from}`);
      this.stream.onmessage = (event) => {
        this.from = event.lastEventId || this.from;
        const page = JSON.parse(event.data);
        this.append(linesOf(page, this.only));
        // What comes behind the one iteration that is shown is not waited for.
        if (this.only && page.parts.some((part) => part.iteration > this.only)) this.end();
      };
      this.stream.addEventListener("end", () => this.end());
      this.stream.onerror = () => {
        if (this.stream?.readyState !== EventSource.CLOSED) return;
        this.close();
        setTimeout(() => this.resume(), 2000);
      };
    }

    end() {
      this.isOver = true;
      this.close();
      this.plan();
    }

    close() {
      this.stream?.close();
      this.stream = null;
    }

    append(batch) {
      for (const line of batch) this.lines.push(line);
      const extra = this.lines.length - MOST_LINES;
      if (extra > 0) {
        this.lines.splice(0, extra);
        this.first += extra;
        this.box.scrollTop -= extra * LINE;
      }
      if (this.words) this.find(Math.max(0, this.lines.length - batch.length));
      this.plan();
    }

    plan() {
      if (this.planned) return;
      this.planned = true;
      requestAnimationFrame(() => { this.planned = false; this.draw(); });
    }

    draw() {
      if (this.lines.length === 0 && !this.isOver) return;
      if (!this.space.isConnected) this.box.replaceChildren(this.space);
      this.space.style.height = `${this.lines.length * LINE}px`;
      if (this.follow) this.box.scrollTop = this.lines.length * LINE;
      this.top = this.box.scrollTop;
      const begin = Math.max(0, Math.floor(this.top / LINE) - 15);
      const end = Math.min(this.lines.length, begin + Math.ceil(this.box.clientHeight / LINE) + 30);
      const rows = [];
      for (let at = begin; at < end; at += 1) rows.push(this.row(this.lines[at], at));
      if (this.isOver && this.lines.length === 0) rows.push(this.row(NOTHING, 0));
      this.pane.style.transform = `translateY(${begin * LINE}px)`;
      this.pane.replaceChildren(...rows);
      const count = $("[data-log-lines]");
      if (count) count.textContent = `${(this.first + this.lines.length).toLocaleString("en")} lines`;
    }

    row([kind, text], at) {
      const row = document.createElement("p");
      row.dataset.n = String(this.first + at + 1);
      if (kind) row.className = kind;
      const lower = this.words ? text.toLowerCase() : "";
      let from = 0;
      let found = this.words ? lower.indexOf(this.words) : -1;
      if (found >= 0) row.classList.add("hit");
      if (this.hits[this.hit] === at && this.words) row.classList.add("at");
      while (found >= 0) {
        const mark = document.createElement("mark");
        mark.textContent = text.slice(found, found + this.words.length);
        row.append(text.slice(from, found), mark);
        from = found + this.words.length;
        found = lower.indexOf(this.words, from);
      }
      row.append(text.slice(from));
      return row;
    }

    scrolled() {
      const { box } = this;
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - LINE * 2;
      // A window that became larger moves the text too; a person who reads further up is not at the end.
      if (this.follow && box.scrollTop < this.top - 2 && !atEnd) this.setFollow(false);
      else if (!this.follow && atEnd && box.scrollTop > this.top) this.setFollow(true);
      this.plan();
    }

    setFollow(follow) {
      this.follow = follow;
      $("[data-follow-button]")?.setAttribute("aria-pressed", String(follow));
      this.plan();
    }

    search(words) {
      this.words = words.trim().toLowerCase();
      this.hits = [];
      this.hit = -1;
      clearTimeout(this.finding);
      if (this.words) this.find(0, true);
      else this.found();
      this.plan();
    }

    // In pieces, so that typing never waits for a long log.
    find(from, isNew = false) {
      const until = Math.min(this.lines.length, from + 20000);
      for (let at = from; at < until; at += 1) {
        if (this.lines[at][1].toLowerCase().includes(this.words)) this.hits.push(at);
      }
      if (isNew && this.hit < 0 && this.hits.length > 0) this.go(1);
      this.found();
      if (until < this.lines.length) this.finding = setTimeout(() => this.find(until, isNew), 0);
      else this.plan();
    }

    found() {
      const node = $("[data-log-found]");
      if (!node) return;
      if (!this.words) node.textContent = "";
      else if (this.hits.length === 0) node.textContent = "nothing";
      else node.textContent = `${Math.max(1, this.hit + 1)} of ${this.hits.length.toLocaleString("en")}`;
    }

    go(step) {
      if (this.hits.length === 0) return;
      this.setFollow(false);
      this.hit = (this.hit + step + this.hits.length) % this.hits.length;
      this.box.scrollTop = Math.max(0, this.hits[this.hit] * LINE - this.box.clientHeight / 2);
      this.top = this.box.scrollTop;
      this.found();
      this.plan();
    }
  }
  let log = null;

  // --- replay ------------------------------------------------------------------------------------------------------

  const replay = {
    timer: null,
    field() { return $("[data-scrub]"); },
    url() {
      const field = this.field();
      const url = new URL(location.href);
      url.searchParams.set(field.name, field.value);
      return url;
    },
    show() {
      const url = this.url();
      history.replaceState(null, "", url);
      refresh(url.href);
    },
    step(by) {
      const field = this.field();
      if (!field) return false;
      const next = Math.min(Number(field.max), Math.max(Number(field.min), Number(field.value) + by));
      if (next === Number(field.value)) { this.stop(); return true; }
      field.value = String(next);
      this.show();
      return true;
    },
    play() {
      if (this.timer) { this.stop(); return; }
      const field = this.field();
      if (field.value === field.max) field.value = field.min;
      this.timer = setInterval(() => { if (!asking) this.step(1); }, 350);
      $("[data-play]")?.setAttribute("aria-pressed", "true");
    },
    stop() {
      clearInterval(this.timer);
      this.timer = null;
      $("[data-play]")?.setAttribute("aria-pressed", "false");
    },
  };

  // --- keys --------------------------------------------------------------------------------------------------------

  function press(query) {
    const node = $(query);
    if (!node) return;
    if (node.nodeName === "INPUT") node.focus();
    else node.click();
  }

  function keyPressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    const isField = target.closest?.("input, textarea, select, dialog");
    if (isField) {
      if (event.key === "Escape" && !target.closest("dialog")) target.blur();
      if (!(target.matches("[data-scrub]") && event.key === " ")) return;
    }
    const does = {
      j: () => pick(1), ArrowDown: () => pick(1), k: () => pick(-1), ArrowUp: () => pick(-1),
      "]": () => nextLane(1), "[": () => nextLane(-1),
      Enter: () => { const link = $(".picked a[href]"); if (link && !target.closest("a, button, summary")) link.click(); },
      Escape: () => { const up = $("[data-up]"); if (up) up.click(); },
      "/": () => press("[data-log-search], [data-filter]"),
      l: () => press("[data-tab=log]"), d: () => press("[data-tab=diff]"),
      f: () => press("[data-follow-button]"),
      p: () => press("[data-action=pause]"), r: () => press("[data-action=resume]"),
      c: () => press("details.cancel > summary"), s: () => press("[data-steer]"), a: () => press("[data-action=approve]"),
      $: () => location.assign("/costs"), "?": () => $("#keys")?.showModal(),
      ArrowLeft: () => replay.step(-1), ArrowRight: () => replay.step(1),
      " ": () => { if ($("[data-play]")) replay.play(); },
    }[event.key];
    if (!does) return;
    const scrolls = event.key.startsWith("Arrow") && target.closest?.(".log");
    if (scrolls || ((event.key === "Enter" || event.key === " ") && target.closest?.("a, button, summary"))) return;
    if (event.key === " " && !$("[data-play]")) return;
    if (event.key.startsWith("Arrow") && !(picks().length || replay.field())) return;
    if (event.key !== "Enter") event.preventDefault();
    does();
  }

  // --- start -------------------------------------------------------------------------------------------------------

  document.addEventListener("keydown", keyPressed);
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) filter();
    if (event.target.matches("[data-scrub]")) { replay.stop(); replay.show(); }
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("[data-act]")) { event.preventDefault(); act(form, event.submitter || $("button", form)); }
    if (form.matches("#notify form")) notices.choose();
    if (form.matches("[data-filter-form]")) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.matches("[data-theme-button]")) setTheme();
    if (button.matches("[data-keys]")) $("#keys").showModal();
    if (button.matches("[data-notify]")) notices.show();
    if (button.matches("[data-play]")) replay.play();
    if (button.matches("[data-step]")) { replay.stop(); replay.step(Number(button.dataset.step)); }
    if (button.matches("[data-copy]")) navigator.clipboard?.writeText(button.dataset.copy).then(() => toast("Copied."));
  });
  // A browser has few connections for one server: a page that is not seen holds none, unless it is to notify.
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") { connect(); log?.resume(); refresh(); }
    else { log?.close(); if (!notices.isOn()) disconnect(); }
  });
  addEventListener("pagehide", () => { disconnect(); log?.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) { connect(); log?.resume(); refresh(); } });

  const main = $("main");
  if (main?.dataset.now) ahead = Date.now() - Number(main.dataset.now);
  const box = $("[data-log]");
  if (box && box.dataset.log) log = new Log(box);
  notices.button();
  if (notices.isOn()) notices.look();
  filter();
  tick();
  setInterval(() => tick(), 1000);
  connect();
  // An end stays marked on the board until a person has looked at it.
  const seen = $("[data-unseen]");
  if (seen) fetch(`/loops/${encodeURIComponent(seen.dataset.unseen)}/seen`, { method: "POST", credentials: "same-origin" }).catch(() => {});
})();
