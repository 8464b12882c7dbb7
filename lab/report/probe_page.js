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
    return data;
}

let data;
try {
    data = read();
} catch (error) {
    app.innerHTML = `<p class="problem">The recording in this page is damaged: ${escapeText(error.message)}.</p>`;
    return;
}
const { layers, heads, sizes, tokens, policies } = data;
const trends = new Map(data.trends.map(([layer, head, kind, slope]) => [layer * heads + head, { kind, slope }]));
const largestBeta = Math.max(1.5, ...policies.flatMap((p) => p.measures.beta.filter((x) => x !== null && x < 100)));

// A measure of a head: its value, and its place between 0 and 1 for the colour.
const value = (policy, name, cell, size) => policy.measures[name][cell * sizes.length + size];
const measures = {
    share: { label: "entropy as a share of ln n", of: (p, c, s) => value(p, "entropy", c, s) / Math.log(tokens[s]), place: (x) => x },
    entropy: { label: "entropy, nats", of: (p, c, s) => value(p, "entropy", c, s), place: (x, s) => x / Math.log(tokens[s]) },
    entropy_after: { label: "entropy after the policy", of: (p, c, s) => value(p, "entropy_after", c, s), place: (x, s) => x / Math.log(tokens[s]) },
    slope: { label: "slope of the entropy against ln n", of: (p, c) => trends.get(c)?.slope ?? null, place: (x) => x },
    largest_weight: { label: "largest weight", of: (p, c, s) => value(p, "largest_weight", c, s), place: (x) => x },
    sink_share: { label: "weight of the first token", of: (p, c, s) => value(p, "sink_share", c, s), place: (x) => x },
    beta: { label: "\u03b2", of: (p, c, s) => value(p, "beta", c, s), place: (x) => (x - 1) / (largestBeta - 1) },
};
if (data.retrieval) measures.retrieval = { label: "retrieval score", of: (p, c) => data.retrieval[c], place: (x) => x };
const state = { measure: "share", size: sizes.length - 1, kind: "", chosen: 0, marked: new Set() };

function shade(place) {
    const at = Math.min(Math.max(place || 0, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))).join()})`;
}

app.innerHTML = `<div class="controls">
<label>Colour <select id="measure">${Object.entries(measures).map(([k, m]) => `<option value="${k}">${m.label}</option>`).join("")}</select></label>
<label>Length <input id="size" type="range" min="0" max="${sizes.length - 1}" value="${sizes.length - 1}"><output id="size-text"></output></label>
<label>Show <select id="kind"><option value="">all heads</option><option value="disperses">heads that disperse</option><option value="stays sharp">heads that stay sharp</option><option value="sharpens">heads that sharpen</option><option value="diffuse">diffuse heads</option></select></label>
</div><div class="grids"></div><p id="about" aria-live="polite"></p><p class="legend">${policies.map((p, i) => `<span><span class="swatch" style="background:${colours[i % 6]}"></span>${escapeText(p.name)}</span>`).join("")}</p><div class="curves"></div>
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

function paint() {
    const { of, place } = measures[state.measure];
    grids.forEach((grid, p) => {
        for (let cell = 0; cell < layers * heads; cell++) {
            const button = grid.children[cell], x = of(policies[p], cell, state.size);
            button.style.background = x === null ? "transparent" : shade(place(x, state.size));
            button.classList.toggle("dim", !isShown(cell));
            button.classList.toggle("marked", state.marked.has(cell));
            button.classList.toggle("chosen", cell === state.chosen);
            button.setAttribute("aria-label", label(policies[p], cell));
        }
    });
    byId("size-text").textContent = `${sizes[state.size].toLocaleString("en")} ${data.of}, ${Math.round(tokens[state.size]).toLocaleString("en")} tokens`;
    byId("marked").textContent = `${state.marked.size} marked`;
    byId("mark").textContent = state.marked.has(state.chosen) ? "Unmark this head" : "Mark this head";
}

/* ---- curves of one head ---- */

function curve(name, title) {
    const series = policies.map((p) => sizes.map((_, s) => measures[name].of(p, state.chosen, s)));
    const known = series.flat().filter((x) => x !== null && Number.isFinite(x));
    const high = Math.max(1e-9, ...known, name === "entropy" ? Math.log(tokens[tokens.length - 1]) : 0), low = Math.min(0, ...known);
    const x = (s) => 40 + (sizes.length > 1 ? (Math.log(tokens[s] / tokens[0]) / Math.log(tokens[tokens.length - 1] / tokens[0])) * 250 : 125);
    const y = (v) => 150 - ((v - low) / (high - low)) * 135;
    let inner = [0, 0.5, 1].map((t) => `<path d="M40 ${y(low + t * (high - low))}h250" stroke="#8a97a8" stroke-opacity=".35"/><text x="36" y="${y(low + t * (high - low)) + 4}" text-anchor="end">${show(Number((low + t * (high - low)).toPrecision(2)))}</text>`).join("");
    inner += `<text x="40" y="168">${Math.round(tokens[0])}</text><text x="290" y="168" text-anchor="end">${Math.round(tokens[tokens.length - 1]).toLocaleString("en")} tokens</text>`;
    if (name === "entropy") inner += `<path d="M${sizes.map((_, s) => `${x(s)} ${y(Math.log(tokens[s]))}`).join("L")}" fill="none" stroke="#8a97a8" stroke-dasharray="2 3"/>`;
    series.forEach((values, p) => {
        const points = values.map((v, s) => (v === null || !Number.isFinite(v) ? null : [x(s), y(v), v, s])).filter(Boolean);
        if (points.length) inner += `<path d="M${points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}" fill="none" stroke="${colours[p % 6]}" stroke-width="2" stroke-dasharray="${dashes[p % 6]}"/>`;
        for (const [a, b, v, s] of points) inner += `<circle cx="${a}" cy="${b}" r="5" fill="${colours[p % 6]}" fill-opacity=".01" data-tip="${escapeText(`${policies[p].name}, ${Math.round(tokens[s])} tokens: ${show(v)}`)}"/>`;
    });
    return `<figure><svg viewBox="0 0 300 175" role="img" aria-label="${title}">${inner}</svg><figcaption class="note">${title}</figcaption></figure>`;
}

function choose(cell) {
    state.chosen = cell;
    const trend = trends.get(cell);
    byId("about").textContent = `Layer ${Math.floor(cell / heads)}, head ${cell % heads}: ${trend ? `${trend.kind}; the entropy grows by ${show(trend.slope)} for each factor e of length` : "not measured"}${data.retrieval ? `; retrieval score ${show(data.retrieval[cell])}` : ""}.`;
    app.querySelector(".curves").innerHTML = curve("entropy", "Entropy before the policy; dotted: ln n") + curve("entropy_after", "Entropy after the policy") + curve("largest_weight", "Largest weight") + curve("sink_share", "Weight of the first token") + curve("beta", "\u03b2");
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
byId("size").addEventListener("input", (e) => { state.size = Number(e.target.value); paint(); });
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
})();
