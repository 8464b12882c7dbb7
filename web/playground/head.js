// A trained max-retrieval head: sets are drawn, each policy answers, right answers are counted.
import { attempt, byId, toggle } from "./page.js";
import { colours, columns, drawRow, escapeText, number, widthOf } from "./draw.js";
import { onPolicies, state } from "./row.js";

const SEED = 20250701;
let live, index = 0, tallies = new Map();

const size = () => Number(byId("head-n").value);

function reset() {
    index = 0;
    tallies = new Map();
    byId("head-numbers").tBodies[0].innerHTML = "";
}

function drawSet() {
    const set = live.draw(SEED, size(), index++);
    const answers = live.answers(state.policies);
    byId("head-numbers").tBodies[0].innerHTML = answers.map(({ answer, weight }, p) => {
        const name = state.policies[p], tally = tallies.get(name) ?? { right: 0, all: 0 };
        tally.all++;
        tally.right += answer === set.label ? 1 : 0;
        tallies.set(name, tally);
        return `<tr><th scope="row"><span class="swatch" style="background:${colours[p]}"></span>${escapeText(name)}</th><td>${answer === set.label ? "right" : "wrong"}: class ${answer}</td>` +
            `<td>${number(weight)}</td><td>${tally.right}</td><td>${tally.all}</td><td>${((100 * tally.right) / tally.all).toFixed(1)} %</td></tr>`;
    }).join("");
    const low = set.logits.reduce((m, x) => Math.min(m, x), Infinity);
    const shown = Array.from(columns(set.logits, 512), (x) => x - low);
    byId("head-picture").innerHTML = drawRow(shown, null, "#8a97a8", widthOf(byId("head-picture")), Math.floor((set.top * shown.length) / set.n));
    byId("head-caption").textContent = `The head's logits for set ${index} of ${set.n.toLocaleString("en")} items; item ${(set.top + 1).toLocaleString("en")}, of class ${set.label}, has the highest priority (vermilion).`;
    return true;
}

export function startHead(module, parameters) {
    live = module;
    live.openHead(parameters);
    byId("head-n").innerHTML = Array.from({ length: 12 }, (_, i) => 2 ** (i + 3)).map((n) => `<option value="${n}"${n === 16 ? " selected" : ""}>${n.toLocaleString("en")}</option>`).join("");
    byId("head-n").addEventListener("change", () => { reset(); attempt(drawSet, "head"); });
    byId("head-draw").addEventListener("click", () => attempt(drawSet, "head"));
    byId("head-reset").addEventListener("click", reset);
    toggle(byId("head-run"), drawSet);
    onPolicies(() => { reset(); attempt(drawSet, "head"); });
    attempt(drawSet, "head");
}
