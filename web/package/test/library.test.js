// The functions of the package against definitions in double precision.
import assert from "node:assert/strict";
import { test } from "node:test";
import { attention, entropy, isa, policies, policy, softmax, version, WhetError } from "../index.js";

const close = (actual, expected, tolerance, what) =>
    assert.ok(Math.abs(actual - expected) <= tolerance, `${what ?? ""} ${actual} is not ${expected}`);
const logitsOf = (n, seed = 1) => Float32Array.from({ length: n }, (_, i) => 4 * Math.sin((i + seed) * 12.9898) * Math.cos(i * seed));

function defined(logits, beta) {
    const max = Math.max(...logits);
    const e = Array.from(logits, (x) => Math.exp(beta * (x - max)));
    const z = e.reduce((a, b) => a + b, 0);
    const weights = e.map((x) => x / z);
    return { weights, entropy: -weights.reduce((h, p) => h + (p > 0 ? p * Math.log(p) : 0), 0) };
}

test("softmax is softmax at awkward lengths", () => {
    for (const n of [1, 2, 3, 4, 5, 7, 31, 57, 64, 129, 1000, 4099]) {
        const x = logitsOf(n);
        const expected = defined(x, 1);
        softmax(x).forEach((w, i) => close(w, expected.weights[i], 1e-9 + 4e-6 * expected.weights[i], `n ${n}`));
    }
});

test("statistics describe the row, and beta gives the weights", () => {
    const x = logitsOf(777);
    const { weights, stats: [row] } = softmax(x, "adaptive", { stats: true });
    assert.equal(row.n, 777);
    assert.equal(row.argmax, x.indexOf(Math.max(...x)));
    close(row.entropy, defined(x, 1).entropy, 1e-5);
    const h = row.entropy;
    close(row.beta, Math.max(1, -0.037 * h ** 4 + 0.481 * h ** 3 - 2.3 * h ** 2 + 4.917 * h - 1.791), 1e-4);
    const expected = defined(x, row.beta);
    weights.forEach((w, i) => close(w, expected.weights[i], 1e-9 + 4e-6 * expected.weights[i]));
    close(row.entropyAfter, expected.entropy, 1e-5);
    close(row.maxProb, Math.max(...expected.weights), 1e-6);
    assert.deepEqual(entropy(x, "adaptive"), [row]);
});

test("rows, masks, sinks and betas", () => {
    const x = logitsOf(12);
    const two = softmax(x, { rows: 2, mask: Float32Array.of(0, -Infinity, 0, 0, 0, 0) });
    assert.equal(two[1], 0);
    assert.equal(two[7], 0);
    close(two.slice(0, 6).reduce((a, b) => a + b), 1, 1e-6);
    close(softmax(x, { sink: 3 }).reduce((a, b) => a + b), 1 - 1 / (1 + x.reduce((s, v) => s + Math.exp(v - 3), 0)), 1e-6);
    const given = softmax(x, { rows: 2, beta: Float32Array.of(1, 2), stats: true });
    assert.deepEqual(given.stats.map((s) => s.beta), [1, 2]);
    softmax(new Float32Array(0));
});

test("attention is the weighted sum of values", () => {
    const [heads, kvHeads, queries, keys, headDim, valueDim] = [4, 2, 5, 37, 12, 7];
    const q = logitsOf(heads * queries * headDim, 2), k = logitsOf(kvHeads * keys * headDim, 3);
    const v = logitsOf(kvHeads * keys * valueDim, 5);
    const policy = ["softmax", "fixed:2", "adaptive", "hardmax"];
    const { out, stats } = attention({ q, k, v, heads, kvHeads, queries, keys, headDim, valueDim, causal: true, policy, stats: true });
    for (let h = 0; h < heads; h++) {
        for (let i = 0; i < queries; i++) {
            const seen = keys - queries + i + 1, shared = h >> 1;
            const logits = Array.from({ length: seen }, (_, j) => {
                let sum = 0;
                for (let d = 0; d < headDim; d++) sum += q[(h * queries + i) * headDim + d] * k[(shared * keys + j) * headDim + d];
                return sum / Math.sqrt(headDim);
            });
            const row = stats[h * queries + i];
            assert.equal(row.n, seen);
            const weights = h === 3 ? logits.map((x) => (x === Math.max(...logits) ? 1 : 0)) : defined(logits, row.beta).weights;
            for (let d = 0; d < valueDim; d++) {
                const expected = weights.reduce((sum, w, j) => sum + w * v[(shared * keys + j) * valueDim + d], 0);
                close(out[(h * queries + i) * valueDim + d], expected, 1e-4, `head ${h}`);
            }
        }
    }
});

test("policies have names, parameters and reasons", () => {
    assert.ok(policies.length > 15);
    for (const p of policies) assert.equal(softmax(logitsOf(9), p.example).length, 9);
    assert.deepEqual(policy("ssmax:0.5").parameters, { s: 0.5, b: 0, g: 1, ...policy("ssmax:0.5").parameters });
    assert.equal(policy("length:64+entmax15").name, "length:64+entmax15");
    assert.throws(() => softmax(logitsOf(4), "adaptve"), (e) => e instanceof WhetError && /adaptive/.test(e.message));
    assert.throws(() => softmax(logitsOf(4), "fixed:-1"), WhetError);
});

test("what cannot be is refused", () => {
    assert.throws(() => softmax(logitsOf(5), { rows: 2 }), RangeError);
    assert.throws(() => softmax("1 2 3"), TypeError);
    assert.throws(() => softmax(logitsOf(4), { mask: logitsOf(3) }), RangeError);
    assert.throws(() => attention({ q: logitsOf(4), k: logitsOf(4), v: logitsOf(4), queries: 1, keys: 1, headDim: 5 }), RangeError);
    const odd = softmax(Float32Array.of(1, NaN), { stats: true });
    assert.ok(Number.isNaN(odd.weights[0]) && !odd.stats[0].isFinite);
});

test("a long row, and memory that is given back", () => {
    const x = logitsOf(131072);
    for (let i = 0; i < 200; i++) softmax(x, "adaptive");
    close(softmax(x).reduce((a, b) => a + b, 0), 1, 1e-4);
});

test("the module is of this version and has vectors", () => {
    assert.match(version, /^\d+\.\d+\.\d+$/);
    assert.equal(isa, "wasm");
});
