// A language model that writes, token by token, with its heads beside the text.
import { attempt, byId, say } from "./page.js";
import { drawRow, number, shade, widthOf } from "./draw.js";

let live, whet, shape, policies = [], chosen = { layer: 0, head: 0 }, run = 0, tokens = [];

const visible = (text) => text.replace(/\n/g, "⏎");

function open(bytes, name) {
    const opened = attempt(() => live.openModel(bytes), name);
    if (!opened) return false;
    shape = opened;
    chosen = { layer: 0, head: 0 };
    policies = Array(shape.layers * shape.heads).fill("softmax");
    byId("story").textContent = "";
    showGrid(null);
    say(`${name}: ${shape.layers} layers of ${shape.heads} heads, ${shape.context} tokens of context.`);
    return true;
}

function measureOf(row) {
    const n = Math.max(2, tokens.length), measure = byId("grid-measure").value;
    if (measure === "share") return { value: row.entropy / Math.log(n), share: row.entropy / Math.log(n) };
    if (measure === "entropy") return { value: row.entropy, share: row.entropy / Math.log(n) };
    if (measure === "beta") return { value: row.beta, share: (row.beta - 1) / 2 };
    return { value: row.maxProb, share: row.maxProb };
}

function makeGrid() {
    const grid = byId("grid");
    grid.style.gridTemplateColumns = `repeat(${shape.heads}, auto)`;
    grid.innerHTML = "";
    for (let i = 0; i < shape.layers * shape.heads; i++) {
        const cell = Object.assign(document.createElement("button"), { type: "button" });
        cell.addEventListener("click", () => {
            chosen = { layer: Math.floor(i / shape.heads), head: i % shape.heads };
            live.watch(chosen.layer, chosen.head);
            showGrid(tokens.length ? live.rows(shape.layers * shape.heads) : null);
            if (tokens.length) attempt(rewind, "head");
        });
        grid.append(cell);
    }
}

function showGrid(rows) {
    if (byId("grid").children.length !== shape.layers * shape.heads) makeGrid();
    [...byId("grid").children].forEach((cell, i) => {
        const layer = Math.floor(i / shape.heads), head = i % shape.heads;
        const measured = rows ? measureOf(rows[i]) : null;
        const { background, ink } = shade(measured?.share);
        cell.style.background = measured ? background : "";
        cell.style.color = measured ? ink : "";
        cell.textContent = measured ? measured.value.toPrecision(2) : "";
        cell.setAttribute("aria-pressed", String(layer === chosen.layer && head === chosen.head));
        const label = `layer ${layer}, head ${head}, ${policies[i]}` + (rows ? `: entropy ${number(rows[i].entropy)}, largest weight ${number(rows[i].maxProb)}, β ${number(rows[i].beta)}` : "");
        cell.setAttribute("aria-label", label);
        cell.dataset.tip = label;
    });
}

function showRow() {
    const weights = live.weights();
    if (weights.length === 0) return;
    const tips = Array.from(weights, (w, i) => `“${visible(tokens[i] ?? "")}” ${number(w)}`);
    byId("row-picture").innerHTML = drawRow(Array.from(weights), tips, "#0072b2", widthOf(byId("row-picture")));
    byId("row-caption").textContent = `Layer ${chosen.layer}, head ${chosen.head}: weights of the last token over ${weights.length} tokens.`;
}

function showStep() {
    tokens.push(...live.tokens(tokens.length));
    byId("story").textContent = tokens.join("");
    showGrid(live.rows(shape.layers * shape.heads));
    showRow();
}

// A chosen head's weights are kept while a token is read: read all but the last again.
function rewind() {
    const count = tokens.length;
    live.start(byId("prompt").value, policies);
    const prompt = live.tokens().length;
    for (let i = prompt; i < count; i++) if (!live.step()) break;
    showRow();
}

function choosePolicy() {
    const name = byId("model-policy").value.trim();
    whet.policy(name);
    if (byId("model-scope").value === "all") policies.fill(name);
    else policies[chosen.layer * shape.heads + chosen.head] = name;
}

function write() {
    choosePolicy();
    const mine = ++run, wanted = Number(byId("model-steps").value);
    if (byId("status").classList.contains("problem")) say(""); // it is past
    tokens = [];
    live.watch(chosen.layer, chosen.head);
    live.start(byId("prompt").value, policies);
    let written = 0, spent = 0;
    const next = () => attempt(() => {
        if (mine !== run) return;
        const began = performance.now();
        const goesOn = written < wanted && live.step();
        spent += performance.now() - began;
        if (goesOn) written++;
        showStep();
        byId("model-speed").textContent = `${written} tokens, ${(1000 * written / Math.max(spent, 0.01)).toFixed(0)} a second.`;
        if (goesOn) setTimeout(next);
        else document.body.dataset.written = String(mine);
    }, "model");
    next();
}

export function startModel(module, library, builtIn) {
    live = module;
    whet = library;
    byId("policy-names").innerHTML = whet.policies.map((p) => `<option value="${p.example}">`).join("");
    const take = (file) => attempt(async () => {
        if (file && open(new Uint8Array(await file.arrayBuffer()), file.name)) write();
    }, "file");
    byId("model-file").addEventListener("change", (event) => take(event.target.files[0]));
    addEventListener("drop", (event) => {
        const [file] = event.dataTransfer.files;
        if (file?.name.endsWith(".gguf")) take(file);
    });
    byId("model-run").addEventListener("click", () => attempt(() => {
        if (!shape) throw new Error("choose a GGUF file first");
        write();
    }, "model"));
    byId("grid-measure").addEventListener("change", () => shape && tokens.length && showGrid(live.rows(shape.layers * shape.heads)));
    if (builtIn.length) open(builtIn, "stories260K");
}
