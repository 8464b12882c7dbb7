"use strict";
// The explorer of `whet probe --html`: grids of heads, one for each policy, and curves of the head that was clicked. Data is
// the JSON in #data, [layer][head][size] in flat arrays.
(() => {
const app = document.getElementById("app");
const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"]; // Okabe and Ito
const dashes = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"];
const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const show = (x) => (x === null || Number.isNaN(x) ? "\u2013" : Math.abs(x) >= 1e4 ? x.toExponential(2) : Number(x.toPrecision(4)).toString());

function read() {
    const data = JSON.parse(document.getElementById("data").textContent);
    const cells = data.layers * data.heads * data.sizes.length;
    if (!(cells > 0) || !Array.isArray(data.policies) || data.policies.length === 0) throw new Error("it has no heads");
    for (const policy of data.policies) {
        for (const [name, values] of Object.entries(policy.measures)) {
            if (!Array.isArray(values) || values.length !== cells) throw new Error(`${name} has ${values?.length} values instead of ${cells}`);
        }
    }
    const isList = (list, count) => Array.isArray(list) && list.length === count;
    const { sizes, stretches } = data, heads = data.layers * data.heads;
    if (!isList(data.tokens, sizes.length) || !data.tokens.every((n) => n >= 1) || !Array.isArray(data.trends)) throw new Error("its lengths or kinds of heads are missing");
    for (const { name, along, keys } of data.policies) {
        if (typeof name !== "string") throw new Error("a policy has no name");
        for (const values of Object.values(along ?? {})) if (!isList(values, heads * (stretches?.length - 1))) throw new Error("its curves by position are incomplete");
        if (keys !== undefined && !isList(keys, cells)) throw new Error("its largest weights are incomplete");
    }
    const lists = [["retrieval", cells / data.sizes.length], ["exponents", cells / data.sizes.length], ["called", cells], ["within", cells * (data.deltas?.length ?? 0)]];
    for (const [name, count] of lists) {
        if (data[name] && !isList(data[name], count)) throw new Error(`${name} has ${data[name].length} values instead of ${count}`);
    }
    return data;
}

let data;
try {
    data = read();
} catch (error) {
    app.innerHTML = `<p class="problem">The recording in this page is damaged: ${escapeText(error.message)}.</p>`;
    return;
}
try {
    explore();
} catch (error) { // a recording that has the right shape but not the right contents
    app.innerHTML = `<p class="problem">The recording in this page is damaged: ${escapeText(error.message)}.</p>`;
}

function explore() {
const { layers, heads, sizes, tokens, policies } = data;
const trends = new Map(data.trends.map(([layer, head, kind, slope]) => [layer * heads + head, { kind, slope }]));
const largestBeta = Math.max(1.5, ...policies.flatMap((p) => p.measures.beta.filter((x) => x !== null && x < 100)));

// A measure of a head: its value, and what the ends of the colours stand for; with isLog, colours go by its logarithm.
const value = (policy, name, cell, size) => policy.measures[name][cell * sizes.length + size];
const measures = {
    share: { label: "entropy as a share of ln n", of: (p, c, s) => value(p, "entropy", c, s) / Math.log(tokens[s]), ends: () => [0, 1] },
    entropy: { label: "entropy, nats", of: (p, c, s) => value(p, "entropy", c, s), ends: (s) => [0, Math.log(tokens[s])] },
    entropy_after: { label: "entropy after the policy", of: (p, c, s) => value(p, "entropy_after", c, s), ends: (s) => [0, Math.log(tokens[s])] },
    slope: { label: "slope of the entropy against ln n", of: (p, c) => trends.get(c)?.slope ?? null, ends: () => [0, 1] },
    largest_weight: { label: "largest weight", of: (p, c, s) => value(p, "largest_weight", c, s), ends: () => [0, 1] },
    sink_share: { label: "weight of the first token", of: (p, c, s) => value(p, "sink_share", c, s), ends: () => [0, 1] },
    beta: { label: "\u03b2", of: (p, c, s) => value(p, "beta", c, s), ends: () => [1, largestBeta] },
};
const within = (d) => (p, c, s) => data.within[(c * sizes.length + s) * data.deltas.length + d];
if (data.called) {
    const largest = Math.max(1.5, ...data.called.filter((x) => x !== null));
    const most = Math.max(1, ...data.exponents.filter((x) => x !== null));
    measures.called = { label: "\u03b2 that n calls for", of: (p, c, s) => data.called[c * sizes.length + s], ends: () => [1, largest], isLog: true };
    measures.exponent = { label: "exponent of ln n that the head needs", of: (p, c) => data.exponents[c], ends: () => [0, most] };
    data.deltas.forEach((delta, d) => {
        measures[`within${d}`] = { label: `logits within ${delta} of the largest`, of: within(d), ends: (s) => [1, tokens[s]], isLog: true };
    });
}
if (data.retrieval) measures.retrieval = { label: "retrieval score", of: (p, c) => data.retrieval[c], ends: () => [0, 1] };
const state = { measure: "share", size: sizes.length - 1, kind: "", chosen: 0, marked: new Set() };

function placeOf({ ends, isLog }, x, size) {
    const [low, high] = ends(size);
    return isLog ? Math.log(Math.max(x, 1e-9) / low) / Math.log(high / low) : (x - low) / (high - low);
}

function shade(place) {
    const at = Math.min(Math.max(place || 0, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))).join()})`;
}

app.innerHTML = `<div class="controls">
<label>Colour <select id="measure">${Object.entries(measures).map(([k, m]) => `<option value="${k}">${m.label}</option>`).join("")}</select></label>
<label>Length <input id="size" type="range" min="0" max="${sizes.length - 1}" value="${sizes.length - 1}"><output id="size-text"></output></label>
<label>Show <select id="kind"><option value="">all heads</option><option value="disperses">heads that disperse</option><option value="stays sharp">heads that stay sharp</option><option value="sharpens">heads that sharpen</option><option value="diffuse">diffuse heads</option></select></label>
</div><p class="scale"><span id="low"></span><span class="ramp" style="background:linear-gradient(90deg,${stops.map((c) => `rgb(${c})`).join()})"></span><span id="high"></span></p><div class="grids"></div><p id="about" aria-live="polite"></p><p class="legend">${policies.map((p, i) => `<span><span class="swatch" style="background:${colours[i % 6]}"></span>${escapeText(p.name)}</span>`).join("")}</p><div class="curves"></div><div class="lists"></div>
<div class="controls"><button id="mark" type="button">Mark this head</button><button id="mark-all" type="button">Mark all that are shown</button><button id="unmark" type="button">Unmark all</button>
<label>Policy <input id="policy" value="adaptive" size="16"></label><button id="export" type="button">Save WHET_CONFIG</button><span id="marked"></span></div>
<div id="tip" role="tooltip" hidden></div>`;
const byId = (id) => document.getElementById(id);

/* ---- grids ---- */

const isShown = (cell) => !state.kind || trends.get(cell)?.kind === state.kind;
const label = (policy, cell) => `layer ${Math.floor(cell / heads)}, head ${cell % heads}: ${measures[state.measure].label} ${show(measures[state.measure].of(policy, cell, state.size))}, ${trends.get(cell)?.kind ?? "unknown"}`;
const side = Math.max(7, Math.min(26, Math.floor(460 / Math.max(layers, heads))));
const grids = policies.map((policy) => {
    const box = document.createElement("section");
    box.innerHTML = `<h3>${escapeText(policy.name)}</h3><div class="grid" role="group" aria-label="Heads under ${escapeText(policy.name)}" style="grid-template-columns:repeat(${heads},${side}px)"></div>`;
    const grid = box.lastChild;
    for (let cell = 0; cell < layers * heads; cell++) {
        const button = document.createElement("button");
        button.type = "button";
        button.style.height = `${side}px`;
        button.dataset.cell = cell;
        button.tabIndex = cell === 0 ? 0 : -1;
        grid.append(button);
    }
    grid.addEventListener("click", (event) => event.target.dataset.cell !== undefined && choose(Number(event.target.dataset.cell)));
    grid.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[event.key];
        const next = Number(event.target.dataset.cell) + step;
        if (step === undefined || !grid.children[next]) return;
        event.preventDefault();
        event.target.tabIndex = -1;
        grid.children[next].tabIndex = 0;
        grid.children[next].focus();
        choose(next);
    });
    app.querySelector(".grids").append(box);
    return grid;
});

// Names for screen readers: those of large grids wait until the browser has nothing else to do.
let naming = 0;
function name(from = 0) {
    const to = Math.min(from + 256, layers * heads);
    grids.forEach((grid, p) => {
        for (let cell = from; cell < to; cell++) grid.children[cell].setAttribute("aria-label", label(policies[p], cell));
    });
    if (to < layers * heads) naming = setTimeout(name, 0, to);
}

function paint() {
    const measure = measures[state.measure], { of } = measure;
    grids.forEach((grid, p) => {
        let cell = 0;
        for (const button of grid.children) {
            const x = of(policies[p], cell, state.size);
            const colour = x === null ? "transparent" : shade(placeOf(measure, x, state.size));
            const kind = `${isShown(cell) ? "" : "dim "}${state.marked.has(cell) ? "marked " : ""}${cell === state.chosen ? "chosen" : ""}`;
            if (button.shown !== colour) button.style.background = button.shown = colour;
            if (button.className !== kind) button.className = kind;
            cell++;
        }
    });
    [byId("low").textContent, byId("high").textContent] = measure.ends(state.size).map(show);
    clearTimeout(naming);
    name();
    byId("size-text").textContent = `${sizes[state.size].toLocaleString("en")} ${data.of}; prompt of ${Math.round(tokens[state.size]).toLocaleString("en")} tokens`;
    byId("marked").textContent = `${state.marked.size} marked`;
    byId("mark").textContent = state.marked.has(state.chosen) ? "Unmark this head" : "Mark this head";
}

/* ---- curves of one head ---- */

// Lines over tokens, logarithmic: { name, colour, dash, points: [[tokens, value], ...] }.
function plot(title, lines, { dotted = null, first = tokens[0], last = tokens[tokens.length - 1], isLog = false } = {}) {
    const all = [...lines.flatMap((l) => l.points), ...(dotted ?? [])].map(([, v]) => v);
    let high = Math.max(isLog ? 1 : 1e-3, ...all), low = isLog ? Math.min(1, ...all) : Math.min(0, ...all);
    if (isLog && high / low < 2) high = 2 * low;
    const x = (t) => 46 + (last > first ? (Math.log(Math.max(t, first) / first) / Math.log(last / first)) * 244 : 122);
    const share = (v) => (isLog ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const y = (v) => 150 - share(v) * 135;
    const at = (t) => (isLog ? low * (high / low) ** t : low + t * (high - low));
    const path = (points) => points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");
    let inner = [0, 0.5, 1].map((t) => `<path d="M46 ${y(at(t)).toFixed(1)}h244" stroke="#8a97a8" stroke-opacity=".35"/><text x="42" y="${(y(at(t)) + 4).toFixed(1)}" text-anchor="end">${show(Number(at(t).toPrecision(2)))}</text>`).join("");
    inner += `<text x="46" y="168">${Math.round(first)}</text><text x="290" y="168" text-anchor="end">${Math.round(last).toLocaleString("en")} tokens</text>`;
    if (dotted) inner += `<path d="M${path(dotted)}" fill="none" stroke="#8a97a8" stroke-dasharray="2 3"/>`;
    for (const { name, colour, dash, points } of lines) {
        if (points.length) inner += `<path d="M${path(points)}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`;
        for (const [t, v] of points) inner += `<circle cx="${x(t).toFixed(1)}" cy="${y(v).toFixed(1)}" r="${points.length > 1 ? 5 : 3}" fill="${colour}" fill-opacity="${points.length > 1 ? 0.01 : 1}" data-tip="${escapeText(`${name}, ${Math.round(t).toLocaleString("en")} tokens: ${show(v)}`)}"/>`;
    }
    return `<figure><svg viewBox="0 0 300 175" role="img" aria-label="${title}">${inner}</svg><figcaption class="note">${title}</figcaption></figure>`;
}

const isKnown = ([, v]) => v !== null && Number.isFinite(v);
const overPolicies = (points) => policies.map((p, i) => ({ name: p.name, colour: colours[i % 6], dash: dashes[i % 6], points: points(p).filter(isKnown) }));
const ceiling = sizes.map((_, s) => [tokens[s], Math.log(tokens[s])]);

function curve(name, title, options) {
    return plot(title, overPolicies((p) => sizes.map((_, s) => [tokens[s], measures[name].of(p, state.chosen, s)])), options);
}

// Means over stretches of the longest input, each drawn at the middle of its stretch.
function along(name, title) {
    const { stretches } = data, count = stretches.length - 1;
    const middle = (i) => Math.sqrt((stretches[i] + 1) * (stretches[i + 1] + 1));
    return plot(title, overPolicies((p) => p.along[name].slice(state.chosen * count, (state.chosen + 1) * count).map((v, i) => [middle(i), v])), { first: 1 });
}

function gaps() {
    const cell = state.chosen;
    const counts = data.deltas.map((delta, d) => ({ name: `within ${delta}`, colour: colours[d % 6], dash: dashes[d % 6], points: sizes.map((_, s) => [tokens[s], within(d)(null, cell, s)]).filter(isKnown) }));
    const called = [{ name: "\u03b2", colour: colours[0], dash: "", points: sizes.map((_, s) => [tokens[s], data.called[cell * sizes.length + s]]).filter(isKnown) }];
    return plot(`Logits within ${data.deltas.map((d, i) => `${d} (${["full", "dashed", "dotted", "dash-dotted", "widely dotted", "long dashes"][i]})`).join(", ")} of the largest`, counts, { isLog: true }) +
        plot(`\u03b2 that n calls for: with it the largest weight stays; exponent of ln n ${show(data.exponents[cell])}`, called, { isLog: true });
}

// The largest weights of the last position at the length chosen above, with the text around each token.
function largestKeys() {
    const pieces = data.pieces?.[state.size] ?? [], lists = policies.map((p) => p.keys?.[state.chosen * sizes.length + state.size]);
    if (!lists.some(Boolean)) return "";
    const visible = (text) => escapeText(text.replace(/\n/g, "\u21b5"));
    const around = (at) => `${visible(pieces.slice(Math.max(0, at - 4), at).join(""))}<mark>${visible(pieces[at] ?? "")}</mark>${visible(pieces.slice(at + 1, at + 4).join(""))}`;
    return lists.map((keys, i) => `<section class="keys"><h3>${escapeText(policies[i].name)}: largest weights at ${sizes[state.size].toLocaleString("en")} ${data.of}</h3><table><thead><tr><th>position</th><th>weight</th><th>token in its place</th></tr></thead><tbody>${
        (keys ?? []).map(([at, weight]) => `<tr><td>${at.toLocaleString("en")}</td><td><span class="bar" style="width:${(4 * weight).toFixed(2)}rem;background:${colours[i % 6]}"></span> ${show(weight)}</td><td class="text">${around(at)}</td></tr>`).join("")}</tbody></table></section>`).join("");
}

function drawHead() {
    const hasCurves = data.stretches && policies.every((p) => p.along);
    app.querySelector(".curves").innerHTML = curve("entropy", "Entropy before the policy; dotted: ln n", { dotted: ceiling }) + curve("entropy_after", "Entropy after the policy") + curve("largest_weight", "Largest weight") + curve("sink_share", "Weight of the first token") + curve("beta", "\u03b2") +
        (hasCurves ? along("entropy", "Entropy by position on the longest input") + along("entropy_after", "After the policy, by position") + along("largest_weight", "Largest weight by position") : "") + (data.called ? gaps() : "");
    app.querySelector(".lists").innerHTML = largestKeys();
}

function choose(cell) {
    state.chosen = cell;
    const trend = trends.get(cell);
    byId("about").textContent = `Layer ${Math.floor(cell / heads)}, head ${cell % heads}: ${trend ? `${trend.kind}; the entropy grows by ${show(trend.slope)} for each factor e of length` : "not measured"}${data.retrieval ? `; retrieval score ${show(data.retrieval[cell])}` : ""}${data.exponents ? `; needs \u03b2 to grow like the power ${show(data.exponents[cell])} of ln n` : ""}.`;
    drawHead();
    paint();
}

/* ---- marks and the settings file ---- */

function settings() {
    const policy = byId("policy").value.trim() || "adaptive", byLayer = new Map();
    for (const cell of [...state.marked].sort((a, b) => a - b)) {
        const layer = Math.floor(cell / heads);
        byLayer.set(layer, [...(byLayer.get(layer) ?? []), cell % heads]);
    }
    return {
        policy: "softmax",
        rules: [...byLayer].map(([layer, list]) => ({ layers: String(layer), heads: list.join(","), policy })),
        about: { model: data.model, from: "whet probe" },
    };
}

byId("measure").addEventListener("change", (e) => { state.measure = e.target.value; paint(); });
byId("size").addEventListener("input", (e) => { state.size = Number(e.target.value); paint(); drawHead(); });
byId("kind").addEventListener("change", (e) => { state.kind = e.target.value; paint(); });
byId("mark").addEventListener("click", () => { if (!state.marked.delete(state.chosen)) state.marked.add(state.chosen); paint(); });
byId("mark-all").addEventListener("click", () => { for (let c = 0; c < layers * heads; c++) if (isShown(c) && trends.has(c)) state.marked.add(c); paint(); });
byId("unmark").addEventListener("click", () => { state.marked.clear(); paint(); });
byId("export").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = "data:application/json," + encodeURIComponent(JSON.stringify(settings(), null, 2) + "\n");
    link.download = "whet-config.json";
    link.click();
});
document.addEventListener("pointermove", (event) => {
    const { cell, tip } = event.target.dataset ?? {}, box = byId("tip");
    const grid = cell === undefined ? -1 : grids.indexOf(event.target.parentNode);
    box.hidden = !tip && grid < 0;
    if (box.hidden) return;
    box.textContent = tip ?? label(policies[grid], Number(cell));
    box.style.left = `${Math.min(event.clientX + 12, innerWidth - 260)}px`;
    box.style.top = `${event.clientY + 14}px`;
});
choose(0);
document.body.dataset.ready = "yes";
}
})();
