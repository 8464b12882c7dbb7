// Where the logits of the row come from. Every source gives the same first items for any n, so that a longer row is the
// shorter one with more items.

export const MOST_ITEMS = 131072;

// A stream of numbers in [0, 1) from a seed (mulberry32).
export function randomFrom(seed) {
    let state = (seed >>> 0) + 0x9e3779b9;
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

export const sources = {
    retrieval: { label: "max retrieval: priorities", make: (random) => random() },
    normal: { label: "normal", make: normal },
    needle: { label: "one needle", make: (random, i) => (i === 0 ? 1 : 0) },
    pasted: { label: "pasted numbers or CSV" },
};

// The items that were made last, of one source and seed, before scaling: a slider that moves needs no new ones.
const made = { source: "", seed: 0, items: new Float32Array(0), random: null };

function itemsOf(source, seed, n) {
    if (made.source !== source || made.seed !== seed) Object.assign(made, { source, seed, items: new Float32Array(0), random: randomFrom(seed) });
    if (made.items.length < n) {
        const items = new Float32Array(n), { make } = sources[source];
        items.set(made.items);
        for (let i = made.items.length; i < n; i++) items[i] = make(made.random, i);
        made.items = items;
    }
    return made.items;
}

/** The row: n logits of a source, multiplied by `scale`. */
export function makeLogits(source, n, scale, seed, pasted) {
    if (source === "pasted") return Float32Array.from(pasted.slice(0, MOST_ITEMS), (x) => x * scale);
    const items = itemsOf(source, seed, n), logits = new Float32Array(n);
    for (let i = 0; i < n; i++) logits[i] = scale * items[i];
    return logits;
}

/** Numbers of a text or CSV file; a header and empty cells are skipped. Throws a sentence for anything else. */
export function parseNumbers(text) {
    if (text.includes("\0")) throw new Error(`not a text file (NUL byte at offset ${text.indexOf("\0")})`);
    const numbers = [];
    text.split(/\r?\n/).forEach((line, row) => {
        for (const word of line.split(/[\s,;]+/)) {
            if (word === "") continue;
            const value = Number(word.replace(/^"(.*)"$/, "$1"));
            if (!Number.isFinite(value)) {
                if (row === 0 && numbers.length === 0) return; // a header
                throw new Error(`line ${row + 1}: '${word.slice(0, 30)}' is not a number`);
            }
            if (!Number.isFinite(Math.fround(value))) throw new Error(`line ${row + 1}: '${word.slice(0, 30)}' is too large`);
            numbers.push(value);
            if (numbers.length > MOST_ITEMS) throw new Error(`more than ${MOST_ITEMS.toLocaleString("en")} numbers`);
        }
    });
    if (numbers.length < 2) throw new Error("fewer than two numbers");
    return numbers;
}
