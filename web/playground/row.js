// One row of logits under several policies: controls, bars that can be dragged, numbers, and the curve over n.
import { attempt, byId, say, toggle } from "./page.js";
import { colours, curveMeasures, drawBars, drawCurve, escapeText, number, save, widthOf } from "./draw.js";
import { makeLogits, MOST_ITEMS, parseNumbers, sources } from "./logits.js";
import { presets } from "./presets.js";

const MOST_POLICIES = 6, LINKED_NUMBERS = 256;
const sizes = Array.from({ length: 17 }, (_, i) => 2 ** (i + 1));
const defaults = { source: "needle", n: 16, scale: 6, seed: 1, policies: ["softmax", "adaptive", "adaptive:hold"], pasted: [1, 2, 3, 4], edits: {}, preset: 0 };

export const state = { ...defaults };
let whet, logits, results = [], curves = [], bars, curveTimer, listeners = [], width = 960;

export const onPolicies = (listener) => listeners.push(listener);
export const rowResults = () => ({ logits, results, sizes, curves });

/* ---- the state, also in the address ---- */

const sizeOf = (position) => Math.round(2 ** (1 + position / 10));
const positionOf = (n) => Math.round(10 * (Math.log2(n) - 1));

function readLink() {
    const text = new URLSearchParams(location.hash.slice(1)).get("s");
    if (!text) return;
    attempt(() => {
        const given = JSON.parse(text), isCount = (n) => Number.isInteger(n) && n >= 2 && n <= MOST_ITEMS;
        if (!Object.hasOwn(sources, given.source) || !isCount(given.n) || !Array.isArray(given.policies)) throw new Error("it has no valid state");
        Object.assign(state, defaults, {
            source: given.source, n: given.n, scale: Number(given.scale) || 0, seed: Number(given.seed) || 0,
            policies: given.policies.slice(0, MOST_POLICIES).map(String).filter(isPolicy),
            pasted: parseNumbers((given.pasted ?? defaults.pasted).join(" ")), preset: presets[given.preset] ? given.preset : -1,
            edits: Object.fromEntries(Object.entries(given.edits ?? {}).map(([i, v]) => [Number(i), Number(v)])),
        });
        linked = given.fields;
        if (state.policies.length === 0) state.policies = ["softmax"];
    }, "the link cannot be read");
}

// Controls outside of the row that a link carries where they differ from what the page begins with.
const fields = ["curve-measure", "head-n", "prompt", "model-scope", "model-policy", "model-steps", "grid-measure"];
const usual = {};
let linked; // what the link said of them

function changedFields() {
    return Object.fromEntries(fields.filter((id) => id in usual && byId(id).value !== usual[id]).map((id) => [id, byId(id).value]));
}

function readFields() {
    for (const id of fields.filter((name) => typeof linked?.[name] === "string")) {
        const field = byId(id), before = field.value;
        field.value = linked[id].slice(0, 2000);
        if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = before;
        else field.dispatchEvent(new Event("change"));
    }
}

/** Once all parts of the page have started: what a link says of them, and links that say it. */
export function linkFields() {
    for (const id of fields) usual[id] = byId(id).value;
    readFields();
    for (const id of fields) byId(id).addEventListener("change", () => history.replaceState(null, "", link()));
    history.replaceState(null, "", link());
}

function link() {
    const { source, n, scale, seed, policies, edits, preset } = state, changed = changedFields();
    const kept = {
        source, n, scale, seed, policies, ...(preset >= 0 && { preset }), ...(Object.keys(edits).length && { edits }),
        ...(source === "pasted" && { pasted: state.pasted.slice(0, LINKED_NUMBERS) }), ...(Object.keys(changed).length && { fields: changed }),
    };
    return "#" + new URLSearchParams({ s: JSON.stringify(kept) });
}

/* ---- computing ---- */

function rowOf(n) {
    const row = makeLogits(state.source, n, state.scale, state.seed, state.pasted);
    for (const [i, value] of Object.entries(state.edits)) if (i < row.length) row[i] = value;
    return row;
}

const isPolicy = (name) => {
    try {
        whet.policy(name);
        return true;
    } catch {
        return false;
    }
};

const compute = (row) => state.policies.map((name) => {
    const { weights, stats: [stats] } = whet.softmax(row, name, { stats: true });
    return { name, weights, stats };
});

function computeCurves() {
    curves = state.policies.map((name) => ({ name, stats: [] }));
    for (const n of state.source === "pasted" ? sizes.filter((s) => s <= state.pasted.length) : sizes) {
        const row = rowOf(n).subarray(0, n);
        curves.forEach((curve) => curve.stats.push(whet.softmax(row, curve.name, { stats: true }).stats[0]));
    }
}

/* ---- showing ---- */

const spreadOf = () => results[0].stats.max - results[0].stats.min;

function showNumbers() {
    const spread = spreadOf();
    const cells = (r) => {
        const h = r.stats.entropyAfter, n = r.stats.n, isSoftmax = !Number.isNaN(h) && !partsOf(r.name).map;
        const reach = Math.exp(spread * r.stats.beta), smallest = r.smallest;
        return [r.stats.maxProb, h, h / Math.log(n), Math.exp(h), r.stats.beta, isSoftmax ? 1 / n / reach : NaN, smallest, r.stats.maxProb, isSoftmax ? Math.min(1, reach / n) : NaN];
    };
    byId("numbers").tBodies[0].innerHTML = results.map((r, p) => `<tr><th scope="row"><span class="swatch" style="background:${colours[p]}"></span>${escapeText(r.name)}</th>` +
        cells(r).map((value) => `<td>${number(value)}</td>`).join("") + "</tr>").join("");
}

function showCurve() {
    const used = sizes.slice(0, curves[0]?.stats.length ?? 0);
    if (used.length < 2) return;
    const index = curves.findIndex((c) => /^adaptive/.test(c.name));
    const acting = index < 0 ? [] : used.filter((_, i) => curves[index].stats[i].beta > 1.0001);
    const acts = acting.length ? [acting[0], acting[acting.length - 1]] : null;
    const measure = curveMeasures[byId("curve-measure").value];
    byId("curve").innerHTML = drawCurve(used, curves, Math.min(state.n, used[used.length - 1]), acts, width, measure);
    byId("curve-caption").textContent = `${measure.label.replace(/^[a-z]/, (c) => c.toUpperCase())} over the number of items.` + (acts ? ` Shaded: where ${curves[index].name} acts (β > 1), from ${acts[0].toLocaleString("en")} to ${acts[1].toLocaleString("en")} items.` : "");
}

function showBars() {
    const focused = document.activeElement?.dataset?.i;
    const drawn = drawBars(logits, results, width);
    bars = drawn;
    byId("bars").innerHTML = drawn.markup;
    if (focused !== undefined) byId("bars").querySelector(`[data-i="${focused}"]`)?.focus();
    byId("bars-caption").textContent = logits.length <= 64 ? "Drag a bar of the logits, or choose one and use the arrow keys." : `${logits.length.toLocaleString("en")} items.`;
}

/** Computes and shows everything again; the curve follows a moment later. */
export function update() {
    const began = performance.now();
    if (state.source === "pasted") state.n = state.pasted.length;
    logits = rowOf(state.n);
    if (attempt(() => { results = compute(logits); return true; }, "policies") === undefined) return;
    showBars();
    showNumbers();
    const took = performance.now() - began;
    document.body.dataset.updateMilliseconds = took.toFixed(2);
    say(`${logits.length.toLocaleString("en")} items under ${results.length} policies in ${took.toFixed(1)} ms.`);
    byId("n").value = positionOf(state.n);
    byId("n-number").value = state.n;
    byId("scale").value = state.scale;
    byId("scale-value").textContent = state.scale.toFixed(2);
    byId("seed").value = state.seed;
    byId("source").value = state.source;
    byId("paste-area").hidden = state.source !== "pasted";
    history.replaceState(null, "", link());
    clearTimeout(curveTimer);
    curveTimer = setTimeout(() => attempt(() => { computeCurves(); showCurve(); document.body.dataset.curve = "shown"; }, "curve"), 60);
}

/* ---- policies as controls ---- */

const numbersIn = /(?<=[:=/])-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/gi;

function showPolicies() {
    const box = byId("policies");
    box.innerHTML = "";
    state.policies.forEach((name, p) => {
        const row = document.createElement("div");
        row.className = "policy";
        row.style.borderColor = colours[p];
        row.innerHTML = `<input type="text" aria-label="Policy ${p + 1}" value="${escapeText(name)}" spellcheck="false">`;
        const field = row.firstChild;
        field.addEventListener("change", () => setPolicy(p, field.value, field));
        const labels = Object.keys(whet.policy(name).parameters);
        // The name is texts with numbers between them; a control for each number.
        const texts = name.split(numbersIn), values = name.match(numbersIn) ?? [];
        values.forEach((value, i) => {
            const label = document.createElement("label");
            label.innerHTML = `${escapeText(labels[i] ?? `value ${i + 1}`)} <input type="number" step="any" value="${value}">`;
            label.lastChild.step = String(10 ** Math.floor(Math.log10(Math.abs(value) || 1) - 1));
            label.lastChild.addEventListener("input", (event) => {
                const kept = values[i];
                values[i] = event.target.value;
                const changed = texts.map((text, k) => text + (values[k] ?? "")).join("");
                event.target.classList.toggle("bad", !isPolicy(changed));
                if (!isPolicy(changed)) { values[i] = kept; return; }
                state.policies[p] = field.value = changed;
                update();
            });
            row.append(label);
        });
        row.append(mapChoice(p, name));
        const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
        remove.setAttribute("aria-label", `Remove ${name}`);
        remove.disabled = state.policies.length === 1;
        remove.addEventListener("click", () => { state.policies.splice(p, 1); showPolicies(); update(); });
        row.append(remove);
        box.append(row);
    });
    byId("add-policy").disabled = state.policies.length >= MOST_POLICIES;
    listeners.forEach((listener) => listener());
}

const isMap = (part) => whet.policies.some((known) => !known.isTemperature && known.syntax.split(/[:[]/)[0] === part.split(":")[0]);

// A policy is a temperature, a map, or both: TEMPERATURE+MAP.
function partsOf(name) {
    const parts = name.split("+"), map = isMap(parts[parts.length - 1]) ? parts.pop() : "";
    return { temperature: parts.join("+"), map };
}

function mapChoice(p, name) {
    const { map } = partsOf(name), label = document.createElement("label");
    const maps = whet.policies.filter((known) => !known.isTemperature).map((known) => known.example);
    label.innerHTML = `map <select aria-label="Map of policy ${p + 1}"><option value="">softmax</option>${[...new Set([...(map ? [map] : []), ...maps])].map((m) => `<option${m === map ? " selected" : ""}>${escapeText(m)}</option>`).join("")}</select>`;
    label.lastChild.addEventListener("change", ({ target }) => {
        const { temperature } = partsOf(state.policies[p]);
        setPolicy(p, [temperature === "softmax" && target.value ? "" : temperature, target.value].filter(Boolean).join("+") || "softmax", target);
    });
    return label;
}

function setPolicy(p, name, field) {
    const good = attempt(() => whet.policy(name), `policy '${name}'`);
    field.classList.toggle("bad", !good);
    if (!good) return;
    state.policies[p] = name;
    showPolicies();
    update();
}

/* ---- bars that can be dragged ---- */

function setLogit(i, value) {
    state.edits[i] = Math.max(-50, Math.min(50, value));
    update();
}

function watchBars() {
    const box = byId("bars");
    let dragged = -1;
    const valueAt = (event) => {
        const frame = box.firstChild.getBoundingClientRect();
        return (bars.zero - ((event.clientY - frame.top) / frame.height) * bars.height) / bars.scale;
    };
    box.addEventListener("pointerdown", (event) => {
        if (event.target.dataset.i === undefined) return;
        dragged = Number(event.target.dataset.i);
        box.setPointerCapture(event.pointerId);
        setLogit(dragged, valueAt(event));
    });
    box.addEventListener("pointermove", (event) => dragged >= 0 && setLogit(dragged, valueAt(event)));
    for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => { dragged = -1; });
    box.addEventListener("keydown", (event) => {
        const step = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 1, PageDown: -1 }[event.key];
        if (step === undefined || event.target.dataset.i === undefined) return;
        event.preventDefault();
        setLogit(Number(event.target.dataset.i), logits[event.target.dataset.i] + step);
    });
}

// Pictures are as wide as the window allows.
function watchWidth() {
    width = widthOf(byId("bars"));
    addEventListener("resize", () => {
        if (width === widthOf(byId("bars"))) return;
        width = widthOf(byId("bars"));
        showBars();
        showCurve();
    });
}

/* ---- files ---- */

function takeText(text) {
    attempt(() => {
        state.pasted = parseNumbers(text);
        Object.assign(state, { source: "pasted", scale: 1, edits: {} });
        update();
    }, "numbers");
}

function watchFiles() {
    byId("paste").addEventListener("input", (event) => takeText(event.target.value));
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", async (event) => {
        event.preventDefault();
        const [file] = event.dataTransfer.files;
        if (file && !file.name.endsWith(".gguf")) takeText(await file.text());
    });
}

/* ---- presets ---- */

function showPreset(i) {
    const preset = presets[i];
    byId("question").textContent = preset?.question ?? "";
    byId("answer").textContent = "";
    byId("reveal").hidden = !preset;
    byId("preset").value = i;
}

function applyPreset(i) {
    Object.assign(state, defaults, { edits: {} }, presets[i]?.state ?? {}, { preset: i });
    state.policies = [...state.policies];
    showPreset(i);
    showPolicies();
    update();
}

function reveal() {
    computeCurves();
    showCurve();
    byId("answer").textContent = presets[state.preset].answer({ results, sizes, curves, n: state.n, spread: spreadOf() });
}

export function startRow(library) {
    whet = library;
    byId("preset").innerHTML = '<option value="-1">none</option>' + presets.map((p, i) => `<option value="${i}">${escapeText(p.name)}</option>`).join("");
    byId("source").innerHTML = Object.entries(sources).map(([key, s]) => `<option value="${key}">${s.label}</option>`).join("");
    byId("add-policy").innerHTML = '<option value="">…</option>' + whet.policies.map((p) => `<option value="${escapeText(p.example)}">${escapeText(p.syntax)}: ${escapeText(p.summary)}</option>`).join("");
    byId("curve-measure").innerHTML = Object.entries(curveMeasures).map(([key, m]) => `<option value="${key}">${m.label}</option>`).join("");
    byId("curve-measure").addEventListener("change", showCurve);
    readLink();
    const on = (id, event, work) => byId(id).addEventListener(event, (e) => { work(e.target); update(); });
    on("n", "input", (field) => { state.n = sizeOf(Number(field.value)); if (state.source === "pasted") state.source = "normal"; });
    on("n-number", "change", (field) => { state.n = Math.max(2, Math.min(MOST_ITEMS, Math.round(Number(field.value) || 2))); });
    on("scale", "input", (field) => { state.scale = Number(field.value); state.edits = {}; });
    on("seed", "change", (field) => { state.seed = Number(field.value) || 0; state.edits = {}; });
    on("source", "change", (field) => { state.source = field.value; state.edits = {}; if (field.value === "pasted") byId("paste").value = state.pasted.slice(0, 1000).join(" "); });
    byId("preset").addEventListener("change", (event) => applyPreset(Number(event.target.value)));
    byId("reveal").addEventListener("click", () => attempt(reveal, "answer"));
    byId("add-policy").addEventListener("change", (event) => {
        if (event.target.value) state.policies.push(event.target.value);
        event.target.value = "";
        showPolicies();
        update();
    });
    toggle(byId("animate"), () => {
        if (state.source === "pasted") return false;
        const next = positionOf(state.n) + 1;
        state.n = next > 160 ? 2 : sizeOf(next);
        update();
        return true;
    });
    for (const kind of ["svg", "png"]) {
        byId(`save-${kind}`).addEventListener("click", () => attempt(() => save(byId(byId("picture").value).firstChild, `whet-${byId("picture").value}`, kind === "png"), "picture"));
    }
    byId("copy-link").addEventListener("click", async () => {
        const isCopied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
        const most = state.source === "pasted" && state.pasted.length > LINKED_NUMBERS ? ` It has the first ${LINKED_NUMBERS} of the numbers.` : "";
        say((isCopied ? "The link is in the clipboard." : "The address of this page is the link.") + most);
    });
    addEventListener("hashchange", () => { readLink(); readFields(); showPreset(state.preset); showPolicies(); update(); });
    watchBars();
    watchFiles();
    watchWidth();
    showPreset(state.preset);
    showPolicies();
    update();
}
