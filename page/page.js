"use strict";

// Names come from users and nodes: they reach the page as text nodes only, never as markup.

const STATES = [
  ["active", "Active", "5 % utilization or more"],
  ["idle_held", "Idle-held", "below 5 %, but allocated to a job, or processes hold 256 MiB of its memory"],
  ["free", "Free", "nobody uses it"],
  ["faulty", "Faulty", "lost, or in need of a reset"],
  ["unknown", "Unknown", "seen, but it does not report enough to tell"],
  ["not_seen", "Not seen", "watched, but no sample holds"],
];
const METRICS = [["utilization_percent", "utilization"], ["memory_percent", "memory"]];
const SEVERITIES = ["high", "medium", "low"];
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
const GAP = 255;
const NONE = "–";
const CHART_HEIGHT = 190;
const TIME_LABELS = 40;
const HEAT_EDGES = TIME_LABELS + 8;
const MAX_FOLDED_ROWS = 20;
const MAX_FOLDED_FINDINGS = 8;
const MAX_NODE_LINES = 64;
const MAX_HEAT_ROWS = 2048;

// ---- elements ----

/** `what` is a tag with classes, as in "p.soft"; properties may be left out. */
function el(what, ...content) {
  const [tag, ...classes] = what.split(".");
  const made = document.createElement(tag);
  made.className = classes.join(" ");
  if (content[0]?.constructor === Object) {
    for (const [key, value] of Object.entries(content.shift())) {
      if (key === "role" || key.includes("-")) made.setAttribute(key, value);
      else made[key] = value;
    }
  }
  made.append(...content.flat(3).filter(Boolean));
  return made;
}

/** A name, isolated so that right-to-left text does not reorder what stands beside it. */
const bdi = (text) => el("bdi", String(text ?? NONE));
const listed = (items) => items.flatMap((item, i) => [i > 0 && ", ", bdi(item)]);
const jobLink = (job) => el("a", { href: "#job/" + encodeURIComponent(job) }, bdi(job));
const nothing = (text) => el("p.nothing", text);
const wordId = (word) => "word-" + word.replace(" ", "-");
/** A word of judgement; its definition is a click away. */
const badge = ({ word }) => el("a.badge." + wordId(word), { href: "#" + wordId(word) }, word);
const button = (what, text, onclick) => el(what, { type: "button", onclick }, text);
const filterField = (placeholder, changed) =>
  el("input", { type: "search", placeholder, "aria-label": placeholder, oninput: (event) => changed(event.target.value.trim().toLowerCase()) });
const matches = (value, text) => String(value ?? "").toLowerCase().includes(text);
/** Returns a function that reads a value of a row: `what` is one, or the path of a key. */
const reader = (what) => typeof what === "function" ? what : (row) => what.split(".").reduce((value, key) => value?.[key], row);

function swatch(kind, colour) {
  const mark = el("i.swatch." + kind.replace("_", "-"));
  if (colour) mark.style.background = colour;
  return mark;
}

// ---- numbers and times as text ----

const known = (value) => typeof value === "number" && Number.isFinite(value);
const number = (value, digits = 0) =>
  known(value) ? value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : NONE;
const unitOf = (value, digits, unit) => known(value) ? number(value, digits) + "\u00a0" + unit : NONE;
const percent = (value, digits = 0) => unitOf(value, digits, "%");
const watts = (value) => unitOf(value, 0, "W");
const plural = (count, noun) => number(count) + " " + noun + (count === 1 ? "" : "s");

function amount(value, unit) {
  const size = Math.abs(value);
  return unitOf(value, size === 0 || size >= 100 ? 0 : size >= 1 ? 1 : size >= 0.1 ? 2 : 3, unit);
}

function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 60) return unitOf(seconds, Number.isInteger(seconds) ? 0 : 1, "s");
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([count]) => count);
  return parts.slice(first, first + 2).filter(([count]) => count).map((part) => part.join("\u00a0")).join(" ");
}

function timeFormat(options) {
  const format = new Intl.DateTimeFormat("en-GB", options);
  return (time) => known(time) ? format.format(time * 1000) : NONE;
}
const dateTime = timeFormat({ dateStyle: "medium", timeStyle: "medium" });
const date = timeFormat({ dateStyle: "medium" });
const day = timeFormat({ day: "numeric", month: "short" });
const clock = timeFormat({ timeStyle: "short" });
const seconds = timeFormat({ timeStyle: "medium" });
const offset = timeFormat({ timeZoneName: "shortOffset" });

function timeSpan(from, to) {
  const zones = new Set([from, to].map((time) => offset(time).split(", ").at(-1)));
  const zone = [Intl.DateTimeFormat().resolvedOptions().timeZone, ...zones].join(", ");
  return [el("b", `${dateTime(from)} – ${date(from) === date(to) ? seconds(to) : dateTime(to)}`), el("span.soft", ` (${zone}) · `), duration(to - from)];
}

// ---- colours: the style sheet decides, canvases follow ----

const theme = {
  read() {
    const style = getComputedStyle(document.documentElement);
    const value = (key) => style.getPropertyValue("--" + key).trim();
    for (const key of ["ink", "soft", "line", "accent", "band", "hatch", "active", "idle-held", "free"]) this[key] = value(key);
    this.heat = heatPixels([0, 1, 2, 3, 4].map((stop) => value("heat-" + stop)));
  },
};

/** 256 colours: those of 0 to 100 percent; of other bytes none, because they are gaps. */
function heatPixels(stops) {
  const pixels = new Uint32Array(256);
  const rgb = stops.map((stop) => [1, 3, 5].map((start) => parseInt(stop.slice(start, start + 2), 16)));
  for (let value = 0; value <= 100; value++) {
    const low = Math.min(Math.floor(value / 25), 3);
    const [red, green, blue] = rgb[low].map((from, i) => Math.round(from + (rgb[low + 1][i] - from) * (value / 25 - low)));
    pixels[value] = 0xff000000 + (blue << 16) + (green << 8) + red;
  }
  return pixels;
}

/** Hues are a golden angle apart: neighbours differ most. All are readable on light and on dark. */
const nodeColour = (index) => `oklch(${[57, 49, 64][index % 3]}% 0.14 ${((index + 0.6) * 137.508) % 360})`;

// ---- the time axis ----

const drawings = new Set();
const onPrint = [];
let printing = false;

/** The part of the time axis that all drawings of a page show, and the moment that the pointer is at. */
class TimeRange {
  constructor(from, to) {
    [this.from, this.to] = [from, to > from ? to : from + 1];
    [this.min, this.max] = [this.from, this.to];
    this.resetButton = button("button.reset", "Reset zoom", () => this.reset());
    this.resetButton.hidden = true;
  }

  show(min, max) {
    if (!(max - min > 1e-3)) return;
    this.min = Math.max(min, this.from);
    this.max = Math.min(max, this.to);
    this.resetButton.hidden = this.min === this.from && this.max === this.to;
    this.each((drawing) => drawing.zoom());
  }

  reset() {
    this.show(this.from, this.to);
  }

  point(time, source) {
    this.each((drawing) => drawing !== source && drawing.point(time));
  }

  each(action) {
    for (const drawing of drawings) if (drawing.range === this) action(drawing);
  }

  close() {
    this.each((drawing) => {
      drawing.close();
      drawings.delete(drawing);
    });
  }
}

/** Ticks are at round local times. */
function timeTicks({ min, max }, width) {
  const step = TICKS.find((tick) => (max - min) / tick <= width / 90) ?? TICKS.at(-1);
  const shift = step > 900 ? new Date(min * 1000).getTimezoneOffset() * 60 : 0;
  const ticks = [];
  for (let tick = Math.ceil((min - shift) / step) * step + shift; tick <= max; tick += step) ticks.push(tick);
  return ticks;
}

function timeLabels(ticks) {
  const step = ticks[1] - ticks[0];
  return ticks.map((tick, i) => {
    if (step >= 86400) return day(tick);
    const time = step >= 60 ? clock(tick) : seconds(tick);
    return i && day(ticks[i - 1]) === day(tick) ? time : time + "\n" + day(tick);
  });
}

// Drawing waits until its box is near the screen; printing does not wait.
const waiting = new Map();
const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawNow(entry.target);
}, { rootMargin: "300px" });
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) for (const drawing of drawings) if (drawing.box === target) drawing.resize();
});

function drawWhenNear(box, draw) {
  waiting.set(box, draw);
  nearby.observe(box);
}

function drawNow(box) {
  const draw = waiting.get(box);
  waiting.delete(box);
  nearby.unobserve(box);
  if (!draw || !box.isConnected) return;
  drawings.add(Object.assign(draw(), { box }));
  sizes.observe(box);
}

/**
 * A drawing on the time axis. It zooms when a part is dragged over, and passes the pointer on: `onPoint` is called with the
 * plot, and with true if the pointer is in another drawing.
 */
function timePlot(box, range, { height, y, left, data, cursor, hooks, onPoint, ...options }) {
  let elsewhere = false;
  const axis = { stroke: () => theme.soft, font: "11px system-ui, sans-serif", grid: { stroke: () => theme.line, width: 1 }, ticks: { show: false } };
  const plot = new uPlot({
    width: box.clientWidth, height: height(), padding: [8, 26, 0, 0], legend: { show: false }, focus: { alpha: 0.15 }, ...options,
    scales: { x: { range: () => [range.min, range.max] }, y },
    axes: [{ ...axis, size: TIME_LABELS, splits: (self) => timeTicks(range, self.width), values: (_, ticks) => timeLabels(ticks) }, { ...axis, ...left }],
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => range.reset() }, ...cursor },
    hooks: {
      ...hooks,
      setSelect: [(self) => {
        const { left: start, width } = self.select;
        if (width < 4) return;
        self.setSelect({ left: 0, width: 0 }, false);
        range.show(self.posToVal(start, "x"), self.posToVal(start + width, "x"));
      }],
      setCursor: [(self) => {
        if (!elsewhere) range.point(self.cursor.left < 0 ? null : self.posToVal(self.cursor.left, "x"), drawing);
        onPoint(self, elsewhere);
      }],
    },
  }, data, box);
  const drawing = {
    range, plot,
    zoom() {
      plot.setScale("x", { min: range.min, max: range.max });
      // uPlot applies it in a microtask.
      queueMicrotask(() => Object.assign(box.dataset, { from: plot.scales.x.min, to: plot.scales.x.max }));
    },
    point(time) {
      elsewhere = true;
      plot.setCursor({ left: time === null ? -10 : plot.valToPos(time, "x"), top: -1000 });
      elsewhere = false;
    },
    resize() {
      const size = { width: box.clientWidth, height: height() };
      if (size.width && (size.width !== plot.width || size.height !== plot.height)) plot.setSize(size);
    },
    redraw: () => plot.redraw(false),
    close: () => plot.destroy(),
  };
  drawing.zoom();
  return drawing;
}

/** The middle of each step. */
const times = (start, step, count) => Array.from({ length: count }, (_, i) => start + (i + 0.5) * step);

// ---- line charts ----

/** One number or null per step. */
const column = (values, count) => Array.from({ length: count }, (_, i) => known(values?.[i]) ? values[i] : null);
const highest = (columns) => columns.flat().reduce((top, value) => value !== null && !(value <= top) ? value : top, null);

/**
 * A titled chart of `lines` { values, stroke, fill, width, shown }, one value per step from `start` on. The values of the
 * `legend` [label, swatch, text of step] follow the pointer; `focus` is called when the pointer is near another line.
 */
function chart(range, series, { title, start = series.from, lines, bands, legend = [], top, focus, readout = () => "" }) {
  const data = lines.map((line) => line.values);
  const count = data[0].length;
  const peak = highest(data);
  const box = peak === null ? nothing("No value in this time.") : el("div.chart", { role: "img", "aria-label": title });
  const time = el("span.at");
  const near = el("span.near-line");
  const items = legend.map(([label, kind]) => el("span", swatch(kind), label, " ", el("b." + kind + "-value")));
  let focused = null;
  const show = (step) => {
    const inside = known(step) && step < count;
    time.textContent = inside ? dateTime(start + step * series.step) : "";
    near.textContent = inside && focused !== null ? readout(step, focused - 1) : "";
    legend.forEach(([, , text], i) => { items[i].lastChild.textContent = inside ? text(step) : ""; });
  };
  if (peak !== null) drawWhenNear(box, () => timePlot(box, range, {
    height: () => CHART_HEIGHT, bands, y: { range: () => [0, top ?? (peak * 1.08 || 1)] }, data: [times(start, series.step, count), ...data],
    left: { size: 44, space: 36, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en", { notation: "compact" })) },
    series: [{}, ...lines.map(({ stroke, fill, width = 1.5, shown }) => ({ stroke, fill, width, show: shown?.() ?? true, points: width ? { size: 4, fill: stroke } : { show: false } }))],
    cursor: { points: { one: Boolean(focus), size: (_, i) => lines[i - 1]?.width === 0 ? 0 : 6 }, focus: { prox: focus ? 24 : -1 } },
    hooks: {
      setSeries: [(self, index, options) => {
        if (!options.focus) return;
        focused = index;
        show(self.cursor.idx);
      }],
    },
    onPoint(self, elsewhere) {
      show(self.cursor.idx);
      if (!elsewhere) focus?.(focused, self);
    },
  }));
  return el("figure.card", el("figcaption", el("h3", title), time, el("p.legend", items, near)), box);
}

/** Mean of the devices, and the band from its lowest to its highest value within each step. */
function bandChart(range, series, title, extent) {
  const [mean, min, max] = ["mean", "min", "max"].map((key) => column(extent?.[key], series.count));
  return chart(range, series, {
    title, top: 100, bands: [{ series: [1, 2], fill: () => theme.band }],
    lines: [{ values: max, width: 0 }, { values: min, width: 0 }, { values: mean, stroke: () => theme.accent }],
    legend: [["mean", "accent", (i) => percent(mean[i], 1)], ["lowest to highest in a point", "band", (i) => `${number(min[i])} – ${percent(max[i])}`]],
  });
}

function meanChart(range, series, title, label, values, show, options) {
  return chart(range, series, { title, lines: [{ values, stroke: () => theme.accent }], legend: [[label, "accent", (i) => show(values[i])]], ...options });
}

/** Areas stand on each other; the line above them is all devices that were seen. */
function stateChart(range, series, devices) {
  const [active, idle, free, seen] = ["active", "idle_held", "free", "seen"].map((key) => column(devices?.[key], series.count));
  const sum = (...parts) => active.map((_, i) => parts.some((part) => part[i] === null) ? null : parts.reduce((total, part) => total + part[i], 0));
  const area = (state, values) => ({ values, stroke: () => theme[state], fill: () => theme[state], width: 1 });
  const item = (label, kind, values) => [label, kind, (i) => number(values[i], Number.isInteger(values[i]) ? 0 : 1)];
  return chart(range, series, {
    title: "Devices by state",
    lines: [area("free", sum(active, idle, free)), area("idle-held", sum(active, idle)), area("active", active), { values: seen, stroke: () => theme.ink }],
    legend: [item("active", "active", active), item("idle-held", "idle-held", idle), item("free", "free", free), item("seen, also faulty and unknown", "ink", seen)],
  });
}

// ---- lines per node ----

function nodeCharts(range, series) {
  const { nodes } = series;
  const shown = nodes.map((_, i) => i < MAX_NODE_LINES);
  const figures = [];
  const plots = () => [...drawings].filter(({ box }) => figures.some((figure) => figure.contains(box))).map(({ plot }) => plot);
  const focus = (index, source) => {
    for (const plot of plots()) if (plot !== source) plot.setSeries(index, { focus: true });
    rows.forEach((row, i) => row.classList.toggle("near", i + 1 === index));
  };
  const toggle = (i, show) => {
    shown[i] = show;
    for (const plot of plots()) plot.setSeries(i + 1, { show });
  };
  const rows = nodes.map((node, i) => {
    const box = el("input", { type: "checkbox", checked: shown[i], onchange: () => toggle(i, box.checked) });
    return el("label", { onmouseenter: () => shown[i] && focus(i + 1), onmouseleave: () => focus(null) }, box, swatch("node", nodeColour(i)), bdi(node.node));
  });
  const setAll = (show) => rows.forEach((row, i) => {
    if (row.hidden) return;
    row.firstChild.checked = show;
    toggle(i, show);
  });
  for (const [title, key, unit, top] of [["Utilization of nodes, %", "utilization_percent", "%", 100], ["Memory of nodes, %", "memory_percent", "%", 100], ["Power of nodes, W", "power_watts", "W"]]) {
    const lines = nodes.map((node, i) => ({ values: column(node[key]?.mean, series.count), stroke: () => nodeColour(i), width: 1, shown: () => shown[i] }));
    figures.push(chart(range, series, {
      title, top, focus, lines,
      readout(step, i) {
        const [min, max] = ["min", "max"].map((end) => nodes[i][key]?.[end]?.[step]);
        const extent = known(min) && known(max) && max > min ? ` (${number(min)} – ${number(max)})` : "";
        return `\u2068${nodes[i].node}\u2069  ${amount(lines[i].values[step], unit)}${extent}`;
      },
    }));
  }
  const filter = filterField("filter nodes", (text) => rows.forEach((row, i) => { row.hidden = !matches(nodes[i].node, text); }));
  return el("div.charts", figures, el("figure.card.picker",
    el("figcaption", el("h3", "Nodes"), el("p.tools", filter, button("button", "all", () => setAll(true)), button("button", "none", () => setAll(false)))),
    el("div.nodes", { tabIndex: 0, role: "group", "aria-label": "Nodes that are drawn" }, rows)));
}

// ---- heat map ----

const tip = el("div.tip", { hidden: true });

function heatMap(range, report, devices, note) {
  const { series } = report;
  if (!devices.length || !series.count) return nothing("No value in this time.");
  const choice = { metric: METRICS[0][0], rows: [] };
  const box = el("div.heat", { role: "img", "aria-label": "Each device over time" });
  const left = el("small");
  let drawing = null;
  const choose = (changed) => {
    Object.assign(choice, changed);
    // Its height is known before it is drawn, so that nothing below moves.
    if (drawing) drawing.redraw();
    else box.style.height = heatLayout(choice.rows).height + HEAT_EDGES + "px";
  };
  const filter = (text) => {
    const found = devices.filter((row) => matches(row.node, text));
    left.textContent = found.length > MAX_HEAT_ROWS ? `${number(MAX_HEAT_ROWS)} of ${number(found.length)} devices: filter` : "";
    choose({ rows: found.slice(0, MAX_HEAT_ROWS) });
  };
  filter("");
  drawWhenNear(box, () => drawing = heatPlot(box, range, report, choice));
  const metrics = METRICS.map(([metric, title]) => el("label", el("input", { type: "radio", name: note, checked: metric === choice.metric, onchange: () => choose({ metric }) }), title));
  return el("figure.card.heatmap", el("figcaption",
    el("p.tools", el("span.switch", { role: "radiogroup", "aria-label": "Value" }, metrics), filterField("filter nodes", filter), left),
    el("p.legend", "0 %", el("i.ramp"), "100 %", el("span", swatch("hatched"), "no sample"), el("small", note))), box);
}

function heatPlot(box, range, { series, devices }, choice) {
  const key = (device) => JSON.stringify([device.node, device.index]);
  const models = new Map(devices.map((device) => [key(device), device.model]));
  const bytes = (row) => (row.bytes ??= {})[choice.metric] ??= decoded(row[choice.metric], series.count);
  const left = () => Math.min(layout.left, box.clientWidth * 0.28);
  let layout, image;

  function paint() {
    layout = heatLayout(choice.rows);
    box.style.height = layout.height + HEAT_EDGES + "px";
    image = el("canvas", { width: series.count, height: choice.rows.length || 1 });
    const pixels = new ImageData(image.width, image.height);
    const colours = new Uint32Array(pixels.data.buffer);
    choice.rows.forEach((row, y) => bytes(row).forEach((value, x) => { colours[y * series.count + x] = theme.heat[value]; }));
    image.getContext("2d").putImageData(pixels, 0, 0);
  }

  function draw({ ctx: pen, bbox, valToPos }) {
    const scale = window.devicePixelRatio;
    const first = Math.max(0, (range.min - series.from) / series.step);
    const last = Math.min(series.count, (range.max - series.from) / series.step);
    const [x, end] = [first, last].map((step) => valToPos(series.from + step * series.step, "x", true));
    pen.save();
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = hatching(pen);
    for (const group of layout.groups) {
      const [y, height] = [bbox.top + group.y * scale, group.height * scale];
      pen.fillRect(bbox.left, y, bbox.width, height);
      if (last > first) pen.drawImage(image, first, group.first, last - first, group.count, x, y, end - x, height);
    }
    pen.restore();
  }

  function onPoint({ cursor: { left: x, top }, over, posToVal }, elsewhere) {
    const group = layout.groups.find((one) => top >= one.y && top < one.y + one.height);
    tip.hidden = elsewhere || x < 0 || !group;
    if (tip.hidden) return;
    const row = choice.rows[group.first + Math.floor((top - group.y) / layout.row)];
    const step = Math.floor((posToVal(x, "x") - series.from) / series.step);
    const value = bytes(row)[step] ?? GAP;
    tip.replaceChildren(el("b", bdi(row.node), ` #${row.index}  `, value === GAP ? "no sample" : percent(value)),
      el("span", dateTime(series.from + step * series.step)), el("span", bdi(models.get(key(row)) ?? "")));
    const corner = over.getBoundingClientRect();
    showTip(corner.left + x, corner.top + top);
  }

  paint();
  const drawing = timePlot(box, range, {
    height: () => layout.height + HEAT_EDGES, y: { range: () => [0, layout.height || 1], dir: -1 }, data: [times(series.from, series.step, series.count), column([], series.count)],
    left: {
      grid: { show: false }, size: left, splits: () => layout.labels.map(([middle]) => middle),
      values: ({ ctx }) => layout.labels.map(([, node]) => shortened(ctx, node, (left() - 8) * window.devicePixelRatio)),
    },
    series: [{}, { show: false }], cursor: { points: { show: false } }, hooks: { draw: [draw] }, onPoint,
  });
  return Object.assign(drawing, {
    redraw() {
      paint();
      drawing.resize();
      drawing.plot.redraw(false, true);
    },
    close() {
      tip.hidden = true;
      drawing.plot.destroy();
    },
  });
}

/** What does not decode is a gap. */
function decoded(text, count) {
  const bytes = new Uint8Array(count).fill(GAP);
  try {
    const raw = atob(text ?? "");
    for (let i = 0; i < raw.length && i < count; i++) bytes[i] = raw.charCodeAt(i);
  } catch { /* a gap */ }
  return bytes;
}

/** Rows of one node stand together, as high as the number of rows allows; labels are [middle, node], where there is room. */
function heatLayout(rows) {
  const most = rows.length > 1024 ? 2 : rows.length > 256 ? 3 : rows.length > 64 ? 6 : 12;
  const row = Math.min(most, printing ? Math.ceil(900 / rows.length) : most);
  const groups = [];
  const labels = [];
  let height = 0;
  rows.forEach(({ node }, i) => {
    if (groups.at(-1)?.node !== node) {
      height += groups.length && (row > 3 ? 6 : 3);
      groups.push({ node, first: i, count: 0, y: height, height: 0 });
    }
    groups.at(-1).count++;
    groups.at(-1).height += row;
    height += row;
  });
  for (const { node, y, height: own } of groups) if (!(y + own / 2 - labels.at(-1)?.[0] < 12)) labels.push([y + own / 2, node]);
  const longest = Math.max(0, ...groups.map(({ node }) => node.length));
  return { groups, labels, row, height, left: Math.min(longest * 7 + 14, 170) };
}

function shortened(pen, text, width) {
  const fits = (shown) => pen.measureText(shown).width <= width;
  if (fits(text)) return text;
  const letters = [...text].slice(0, 40);
  while (letters.length > 1 && !fits(letters.join("") + "…")) letters.pop();
  return letters.join("") + "…";
}

function hatching(context) {
  const tile = el("canvas", { width: 6, height: 6 });
  const pen = tile.getContext("2d");
  pen.strokeStyle = theme.hatch;
  for (const x of [-6, 0, 6]) {
    pen.moveTo(x, 6);
    pen.lineTo(x + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function showTip(x, y) {
  const above = y > tip.offsetHeight + 20;
  tip.style.left = Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (above ? y - tip.offsetHeight - 12 : y + 16) + "px";
}

// ---- tables ----

const collator = new Intl.Collator("en", { numeric: true });
const absent = (value) => value === null || value === undefined || value === "";
const compare = (a, b) => known(a) && known(b) ? a - b : collator.compare(a, b);

const text = (title, what, show = (row, value) => absent(value) ? NONE : bdi(value)) => ({ title, value: reader(what), show, kind: "text" });
const time = (title, what) => ({ title, value: reader(what), show: (row, value) => [el("span", day(value) + ","), " ", el("span", seconds(value))], kind: "left" });
const numeric = (title, unit, what, places, show) => ({ title, unit, value: reader(what), places, show, kind: "number" });
const hoursOf = (...states) => STATES.filter(([state]) => states.includes(state)).map(([state, title]) => numeric(title, "h", "device_hours." + state));
const HOURS = [numeric("Device-hours", "h", "watched_hours"), { ...time("States", "device_hours.active"), show: (row) => stateBar(row.device_hours) }];
const UTILIZATION = [numeric("Utilization", "%", "utilization_percent.mean", 0), numeric("p95", "%", "utilization_percent.p95", 0)];
const MEMORY = [numeric("Memory", "%", "memory_percent.mean", 0), numeric("max", "%", "memory_percent.max", 0)];
const POWER = [numeric("Power", "W", "power_watts.mean", 0), numeric("max", "W", "power_watts.max", 0)];
const ENERGY = numeric("Energy", "kWh", "energy_kwh");
const HOTTEST = numeric("Hottest", "°C", "temperature_celsius.max", 0);
const COVERAGE = numeric("Coverage", "%", "coverage_percent", 0);
const DEVICES = numeric("Devices", "", "devices", 0);
const COST = numeric("Cost", "", "cost", 2);
/** Of a device of nobody, that it is free. */
const IDLE = numeric("Idle", "h", ({ device_hours: hours }) => known(hours.idle_held) ? hours.idle_held + hours.free : null);

/** Columns without values are left out. Rows are folded; in print, all of an `essential` table are shown. Rows of `sums` stay at the end. */
function table(title, rows, all, { sort = 0, down = false, essential = true, sums = [] } = {}) {
  if (!rows.length) return nothing("None in this time.");
  const columns = all.filter((one, i) => i <= sort || rows.some((row) => !absent(one.value(row))));
  const body = el("tbody");
  const count = el("small");
  let filter = "";
  let unfolded = false;
  const more = button("button.more", "", () => {
    unfolded = true;
    fill();
  });
  for (const one of columns) one.digits = one.places ?? digitsFor(rows.map(one.value));
  const words = new Map(rows.map((row) => [row, columns.filter((one) => one.kind === "text" || one === VERDICT).map((one) => one.value(row) ?? "").join(" ")]));
  const headings = columns.map((one, i) => el("th." + one.kind, { scope: "col" }, button("button", [one.title, one.unit && el("span.unit", " " + one.unit)], () => {
    [sort, down] = [i, sort === i ? !down : !one.text];
    fill();
  })));

  function order(a, b) {
    const [x, y] = [a, b].map(columns[sort].value);
    return absent(x) || absent(y) ? absent(x) - absent(y) : down ? compare(y, x) : compare(x, y);
  }

  function cell(one, row) {
    const value = one.value(row);
    return el("td." + one.kind, { title: one.kind === "text" && value?.length > 24 ? value : "" }, one.show ? one.show(row, value) : number(value, one.digits));
  }

  function fill() {
    const found = rows.filter((row) => matches(words.get(row), filter)).sort(order);
    const shown = unfolded || (printing && essential) ? found : found.slice(0, MAX_FOLDED_ROWS);
    body.replaceChildren(...shown.map((row) => el("tr", columns.map((one) => cell(one, row)))));
    headings.forEach((heading, i) => i === sort ? heading.setAttribute("aria-sort", down ? "descending" : "ascending") : heading.removeAttribute("aria-sort"));
    more.hidden = shown.length === found.length;
    more.textContent = "show all " + number(found.length);
    count.textContent = shown.length < rows.length ? `${number(shown.length)} of ${number(rows.length)}` : "";
  }

  fill();
  onPrint.push(fill);
  const field = filterField("filter " + title.toLowerCase(), (typed) => {
    filter = typed;
    fill();
  });
  return el("div.card", el("p.tools", rows.length > 5 && field, count),
    el("div.scroll", { tabIndex: 0, role: "region", "aria-label": title }, el("table", el("thead", el("tr", headings)), body,
      sums.length && el("tfoot", sums.map((row) => el("tr", columns.map((one) => cell(one, row))))))), more);
}

/** A column has as many digits as suit its highest number. */
function digitsFor(values) {
  const top = highest([values.map((value) => known(value) ? Math.abs(value) : null)]);
  return !top || top >= 1000 ? 0 : top >= 10 ? 1 : top >= 0.1 ? 2 : 3;
}

function shortList(nodes) {
  return nodes.length > 2 ? [bdi(nodes[0]), ` and ${number(nodes.length - 1)} more`] : nodes.length ? listed(nodes) : NONE;
}

const VERDICT = { ...text("Verdict", "verdict.word"), kind: "verdict", show: ({ verdict }) => [badge(verdict), el("small", bdi(verdict.sentence))] };

const jobsTable = (jobs) => table("Jobs", jobs, [
  VERDICT, text("Job", "job", (job) => jobLink(job.job)), text("Name", "name"), text("User", "user"),
  text("Nodes", (job) => job.nodes.join(" "), (job) => shortList(job.nodes)), DEVICES, ...HOURS, IDLE,
  numeric("Efficiency", "%", "verdict.efficiency_percent", 0), numeric("Most memory", "%", "memory_percent.max", 0), ENERGY, COST, UTILIZATION[1], text("Partition", "partition"),
  time("From", "from"), numeric("Span", "", (job) => job.to - job.from, 0, (job, span) => duration(span)),
], { sort: 6, down: true });

/** Each hour of each device is in one column of its row. */
const ledger = ({ users, jobs, held, unheld, totals }) => table("Users", users, [
  text("User", "user"), numeric("Jobs", "", "jobs", 0), ...HOURS, ...hoursOf("active"), IDLE, ...hoursOf("faulty", "unknown", "not_seen"),
  numeric("Efficiency", "%", "utilization_percent.mean", 0), ENERGY, COST,
], { sort: 2, down: true, sums: [
  { ...held, user: "all users", jobs: jobs.length, cost: users.every(({ cost }) => known(cost)) ? users.reduce((sum, { cost }) => sum + cost, 0) : null },
  { ...unheld, user: "nobody" }, { ...totals, user: "all devices", jobs: null },
] });

const deviceLoads = (devices) => table("Devices of the job", devices, [
  text("Device", (device) => `${device.node} #${device.index ?? NONE}`), numeric("Utilization", "%", "utilization_percent", 0),
  numeric("Known", "h", "known_hours"), numeric("Active", "h", "active_hours"),
]);

const nodesTable = (nodes) => table("Nodes", nodes, [
  text("Node", "node"), DEVICES, ...HOURS, ...hoursOf("active", "idle_held", "free", "faulty", "not_seen"), numeric("Down", "h", "down_hours"),
  ...UTILIZATION, ...MEMORY, POWER[0], ENERGY, HOTTEST, COVERAGE,
]);

const devicesTable = (devices) => table("Devices", devices, [
  text("Device", (device) => `${device.node} #${device.index}`), text("Model", "model"), HOURS[1], ...hoursOf("active", "idle_held", "free"),
  ...UTILIZATION, ...MEMORY, ...POWER, ENERGY, HOTTEST, COVERAGE, text("UUID", "uuid"),
], { essential: false });

const eventsTable = (events) => table("Events", events, [time("Time", "at"), text("Kind", "kind"), text("Event", "text")], { essential: false });

const commandsTable = (commands) => table("Commands", commands, [
  text("Job", "job", (one) => absent(one.job) ? NONE : jobLink(one.job)), text("User", "user"), text("Node", "node"),
  numeric("Device-hours", "h", "device_hours"), text("Command", "command"),
], { sort: 3, down: true });

// ---- numbers of the cluster or of a job ----

function stateBar(hours) {
  const parts = STATES.filter(([state]) => hours?.[state] > 0);
  const total = parts.reduce((sum, [state]) => sum + hours[state], 0);
  const label = parts.map(([state, title]) => `${title} ${amount(hours[state], "h")}`).join(", ") || "no device-hours";
  return el("span.bar", { role: "img", "aria-label": label, title: label }, parts.map(([state]) => {
    const segment = swatch(state);
    segment.style.flexGrow = (hours[state] / total) * 100;
    return segment;
  }));
}

function stateCard({ watched_hours: watched, device_hours: hours }) {
  const total = STATES.reduce((sum, [state]) => sum + (hours?.[state] ?? 0), 0);
  return el("div.card.states", el("p", el("b", amount(watched, "device-hours")), " by state"), stateBar(hours),
    el("dl", STATES.map(([state, title, meaning]) => el("div", el("dt", swatch(state), title),
      el("dd", el("b", amount(hours?.[state], "h")), " ", total > 0 && known(hours[state]) && percent((hours[state] / total) * 100, 1)), el("dd.meaning", meaning)))));
}

function tile(title, value, ...notes) {
  return el("div.tile", el("span", title), el("strong", value), notes.map((note) => note && el("small", note)));
}

function usageTiles(usage) {
  const { utilization_percent: utilization, memory_percent: memory, power_watts: power, samples_seen: seen, row_mean_percent: rowMean } = usage;
  return [
    tile("Utilization", percent(utilization?.mean, 1), "p50 " + percent(utilization?.p50), "p95 " + percent(utilization?.p95),
      known(rowMean) && `mean of the rows ${percent(rowMean, 2)}, as in rntop-board`),
    tile("Memory", percent(memory?.mean, 1), `max ${percent(memory?.max)}`, known(usage.memory_used_bytes) && unitOf(usage.memory_used_bytes / 2 ** 30, 1, "GiB") + " of a device"),
    tile("Power of a device", watts(power?.mean), `max ${watts(power?.max)}`, known(usage.temperature_celsius?.max) && "hottest " + unitOf(usage.temperature_celsius.max, 0, "°C")),
    tile("Energy", amount(usage.energy_kwh, "kWh"), known(usage.energy_kwh) && usage.coverage_percent < 99.5 && "at least: gaps add nothing"),
    tile("Coverage", percent(usage.coverage_percent, 1), known(seen) && `${number(seen)} of ${number(usage.samples_expected)} samples`),
  ];
}

function findingsList(findings, jobs) {
  if (!findings.length) return nothing("Nothing stands out.");
  const ranked = [...findings].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
  const items = ranked.map(({ severity, text: what, remedy, job, hours }, i) => el("li.finding." + severity + (i < MAX_FOLDED_FINDINGS ? "" : ".folded"), el("span.severity", severity),
    el("div", el("p", bdi(what)), el("p.soft", remedy && ["→ ", bdi(remedy)], jobs.has(job) && [remedy && " · ", "job ", jobLink(job)])),
    el("span.hours", known(hours) && amount(hours, "h"))));
  const more = button("button.more", "show all " + items.length, () => {
    for (const item of items) item.classList.remove("folded");
    more.hidden = true;
  });
  more.hidden = items.length <= MAX_FOLDED_FINDINGS;
  return [el("ol.card.findings", items), more];
}

// ---- pages ----

const section = (id, title, ...content) => el("section", { id }, el("h2", title), content);
const hint = (series) => el("p.hint.soft", `Each point is the mean of ${duration(series.step)}. Where no sample holds, lines are interrupted and cells are hatched.`,
  el("span.controls", " Drag to zoom; a double click shows the whole time."));

function header({ title, from, to, spans, source, headline }) {
  return el("header", el("h1", bdi(title)), el("p.headline", bdi(headline)), el("p", timeSpan(from, to)),
    el("p.soft", source.kind === "rntop-log" ? "log of rntop" : source.kind, source.files.length && ": ", listed(source.files)),
    spans.length > 1 && el("details", el("summary", `${plural(spans.length, "recorded span")}, ${plural(spans.length - 1, "pause")} between them`),
      el("ul", spans.map((span) => el("li", timeSpan(...span))))),
    source.notes.length && el("ul.notes", { "aria-label": "Notes" }, source.notes.map((note) => el("li", bdi(note)))));
}

function numbers({ totals, spans }) {
  const recorded = spans.reduce((sum, [from, to]) => sum + to - from, 0);
  return [el("div.tiles",
    tile("Devices", number(totals.devices), "on " + plural(totals.nodes, "node"), totals.nodes_seen !== totals.nodes && number(totals.nodes_seen) + " answered"), tile("Jobs", number(totals.jobs), "of " + plural(totals.users, "user")),
    tile("Recorded", duration(recorded), spans.length > 1 && `in ${plural(spans.length, "span")}`), usageTiles(totals)), stateCard(totals)];
}

function overview(report, range, jobs) {
  const { series } = report;
  const { cluster } = series;
  const parts = [
    ["jobs", "Jobs", jobsTable(report.jobs)],
    ["users", "Device-hours of users", ledger(report)],
    ["findings", "Findings", findingsList(report.findings, jobs)],
    ["numbers", "Numbers", numbers(report)],
    ["charts", "Over time", hint(series),
      el("div.charts", bandChart(range, series, "Utilization, %", cluster.utilization_percent), bandChart(range, series, "Memory, %", cluster.memory_percent),
        meanChart(range, series, "Power of all devices, W", "sum", column(cluster.power_watts?.mean, series.count), watts), stateChart(range, series, cluster.devices)),
      series.nodes.length && nodeCharts(range, series)],
    ["heat", "Each device", heatMap(range, report, series.devices, "rows are devices, grouped by node")],
    ["nodes", "Nodes", nodesTable(report.nodes)],
    ["devices", "Devices", devicesTable(report.devices)],
    (report.events.length || !report.events_left_out) && ["events", "Events", eventsTable(report.events), report.events_left_out && el("p.soft", number(report.events_left_out) + " more are left out.")],
    report.commands && ["commands", "Commands", commandsTable(report.commands)],
  ].filter(Boolean);
  const links = [...parts, ["definitions", "What the numbers mean"]].map(([id, title]) => el("a", { href: "#" + id }, title));
  return [header(report), el("nav", { "aria-label": "Sections" }, links), ...parts.map((part) => section(...part))];
}

const fact = (title, ...value) => el("div", el("dt", title), el("dd", value));

function verdictFacts({ verdict: { efficiency_percent: efficiency, enough, remedy, certainty }, cost, host }) {
  return el("dl.facts", fact("Efficiency", percent(efficiency, 1)), enough && fact("Enough", enough.text), fact("Certainty", certainty),
    host.text && fact("Hosts", host.text),
    known(cost) && fact("Cost", number(cost, 2)), remedy && fact("What to do", bdi(remedy)));
}

/** What each word of judgement means, and by which limits. */
function wordList({ words, text }) {
  return el("details", { id: "words" }, el("summary", "What the verdicts mean"), el("p", "The first that fits. Judged with: ", text, "."),
    el("dl.definitions", words.map((one) => el("div", { id: wordId(one.word) }, el("dt", badge(one)), el("dd", one.meaning)))));
}

function jobPage(report, job, range) {
  const { series } = report;
  const nodes = new Set(job.nodes);
  const findings = report.findings.filter((finding) => finding.job === job.job);
  const jobChart = (title, values) => meanChart(range, series, title, "mean of its devices", column(values, values?.length ?? 0), (value) => percent(value, 1),
    { start: series.from + job.series.start * series.step, top: 100 });
  return [
    el("p.back", el("a", { href: "#" }, "← the whole cluster")),
    el("header", el("h1", { tabIndex: -1 }, "Job ", bdi(job.job), job.name && [" · ", bdi(job.name)]), el("p", timeSpan(job.from, job.to)),
      el("dl.facts", fact("User", bdi(job.user)), fact("Partition", bdi(job.partition)), fact("Devices", number(job.devices)), fact("Nodes", listed(job.nodes)))),
    el("section", el("p.headline", badge(job.verdict), " ", bdi(job.verdict.sentence)), verdictFacts(job)),
    el("section", el("div.tiles.of-job", usageTiles(job)), stateCard(job)),
    findings.length && section("job-findings", "Findings", findingsList(findings, new Map())),
    job.each_device && section("job-devices", "Each device under the job", deviceLoads(job.each_device)),
    section("job-charts", "Over time", job.series ? [hint(series), el("div.charts", jobChart("Utilization, %", job.series.utilization_percent), jobChart("Memory, %", job.series.memory_percent))] : nothing("No series is kept for this job.")),
    section("job-heat", "Each device of its nodes", heatMap(range, report, series.devices.filter((row) => nodes.has(row.node)), "also those of other jobs")),
    range.resetButton,
  ].filter(Boolean);
}

// ---- start, routes, theme, print ----

function redrawAll() {
  theme.read();
  for (const drawing of drawings) {
    drawing.resize();
    drawing.redraw();
  }
}

function setPrinting(on) {
  printing = on;
  document.documentElement.classList.toggle("printing", on);
  for (const action of onPrint) action();
  for (const box of waiting.keys()) if (box.clientWidth) drawNow(box);
  redrawAll();
}

function jobInHash() {
  try {
    return location.hash.startsWith("#job/") ? decodeURIComponent(location.hash.slice(5)) : null;
  } catch {
    return null;
  }
}

/** Returns the data of the page; those of a large report are compressed. */
async function readReport({ type, textContent: data }) {
  if (type === "application/json") return JSON.parse(data);
  const raw = atob(data);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function start() {
  const [whole, single] = ["overview", "job"].map((id) => document.getElementById(id));
  let report;
  try {
    report = await readReport(document.getElementById("report"));
  } catch {
    const isOld = typeof DecompressionStream === "undefined";
    whole.replaceChildren(nothing(isOld ? "This browser is too old for a report of this size." : "The data of this page is damaged."));
    return;
  }
  const jobs = new Map(report.jobs.map((job) => [job.job, job]));
  const { from, step, count } = report.series;
  const range = count ? new TimeRange(from, from + count * step) : new TimeRange(report.from, report.to);
  let jobRange = null;
  let scrolled = 0;

  function route() {
    const job = jobs.get(jobInHash());
    const left = jobRange !== null;
    jobRange?.close();
    for (const box of waiting.keys()) if (single.contains(box)) waiting.delete(box);
    single.replaceChildren();
    jobRange = null;
    whole.hidden = Boolean(job);
    single.hidden = !job;
    document.title = job ? `Job ${job.job} · ${report.title}` : report.title;
    if (job) {
      jobRange = new TimeRange(Math.max(job.from - step, range.from), Math.min(job.to + step, range.to));
      single.append(...jobPage(report, job, jobRange));
      window.scrollTo(0, 0);
      single.querySelector("h1").focus({ preventScroll: true });
    } else if (location.hash.startsWith("#word-")) {
      document.getElementById("words").open = true;
      document.getElementById(location.hash.slice(1))?.scrollIntoView();
    } else if (left) {
      window.scrollTo(0, scrolled);
    }
  }

  theme.read();
  whole.prepend(...overview(report, range, jobs));
  document.getElementById("definitions").append(wordList(report.criteria));
  whole.append(el("footer", `gtop ${report.gtop}, ${dateTime(report.made_at)}. This page opens no connection.`), range.resetButton);
  document.body.append(tip);
  // The browser restores the place before the page is back, so the page remembers it itself.
  history.scrollRestoration = "manual";
  addEventListener("scroll", () => { if (!whole.hidden) scrolled = window.scrollY; }, { passive: true });
  addEventListener("hashchange", route);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  route();
}

start();
