// Questions that the playground poses. `answer` gets the row's results and the curve over n, and says what happened.
import { number } from "./draw.js";

const items = (n) => n.toLocaleString("en");
const named = (list, name) => list.find((entry) => entry.name === name);

// The largest n of a curve at which the largest weight is at least `share`.
const lastAbove = (sizes, curve, share) => sizes.filter((_, i) => curve.stats[i].maxProb >= share).pop();

export const presets = [
    {
        name: "Where does it lose the maximum?",
        question: "Where does this head stop finding the maximum: at how many items does softmax give it less than half of the weight?",
        state: { source: "needle", scale: 6, n: 16, policies: ["softmax", "adaptive", "adaptive:hold"] },
        answer: ({ sizes, curves }) => {
            const reach = (name) => items(lastAbove(sizes, named(curves, name), 0.5) ?? 0);
            return `softmax keeps half up to ${reach("softmax")} items, adaptive up to ${reach("adaptive")}, adaptive:hold up to ${reach("adaptive:hold")} (powers of two).`;
        },
    },
    {
        name: "Where does the paper's polynomial end?",
        question: "The paper's rule multiplies logits by a polynomial in the entropy. At how many items does it stop helping?",
        state: { source: "retrieval", scale: 4, n: 64, policies: ["softmax", "adaptive", "adaptive:hold"] },
        answer: ({ sizes, curves }) => {
            const adaptive = named(curves, "adaptive");
            const acting = sizes.filter((_, i) => adaptive.stats[i].beta > 1);
            const peak = adaptive.stats.reduce((best, s) => (s.beta > best.beta ? s : best));
            return `β is above 1 from ${items(acting[0] ?? 0)} to ${items(acting[acting.length - 1] ?? 0)} items and largest, ${number(peak.beta)}, at H = ${number(peak.entropy)}; beyond, the polynomial falls below 1 and the rule leaves the row alone.`;
        },
    },
    {
        name: "What does a spread allow?",
        question: "Logits lie between 0 and 3. How much weight can softmax put on any of 4,096 items at most?",
        state: { source: "needle", scale: 3, n: 4096, policies: ["softmax", "length:16"] },
        answer: ({ results, n, spread }) =>
            `Lemma 2.1 allows at most e^${number(spread)} / ${items(n)} = ${number(Math.min(1, Math.exp(spread) / n))}; softmax gives ${number(results[0].stats.maxProb)}. length:16 raises β to ${number(results[1].stats.beta)} and with it the bound.`,
    },
    {
        name: "Temperature or another map?",
        question: "Of 1,024 normal logits, how many items does each map still look at?",
        state: { source: "normal", scale: 2, n: 1024, policies: ["softmax", "adaptive", "entmax15", "adaptive+entmax15"] },
        answer: ({ results }) => results.map((r) => `${r.name}: ${number(Math.exp(r.stats.entropyAfter))} effective items`).join(", ") + ".",
    },
];
