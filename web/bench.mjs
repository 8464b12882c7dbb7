// Speed of whet.wasm beside whet-scalar.wasm in the same engine, alternating, best of several rounds.
//
//     node web/bench.mjs [BUILD_FOLDER] [SECONDS]
import { readFileSync } from "node:fs";
import { instantiate } from "./package/library.js";

const folder = process.argv[2] ?? "build/wasm";
const seconds = Number(process.argv[3] ?? 1);
const builds = {};
for (const name of ["whet", "whet-scalar"]) builds[name] = await instantiate(readFileSync(`${folder}/${name}.wasm`));

const logits = (n) => Float32Array.from({ length: n }, (_, i) => 3 * Math.sin(i * 12.9898) * Math.cos(i * 78.233));
const keys = 512, dim = 64;
const square = { queries: keys, keys, headDim: dim, q: logits(keys * dim), k: logits(keys * dim), v: logits(keys * dim) };
const one = { ...square, queries: 1, keys: 8192, q: logits(dim), k: logits(8192 * dim), v: logits(8192 * dim) };
const rows = logits(1 << 17);
const works = {
    "softmax, 32 rows of 4,096": (whet) => whet.softmax(rows, { rows: 32 }),
    "adaptive, 32 rows of 4,096": (whet) => whet.softmax(rows, { rows: 32, policy: "adaptive" }),
    "softmax, 1 row of 131,072": (whet) => whet.softmax(rows),
    "prefill, 512 x 512 x 64": (whet) => whet.attention(square),
    "prefill, adaptive": (whet) => whet.attention({ ...square, policy: "adaptive" }),
    "decode, 8,192 keys": (whet) => whet.attention(one),
};
for (const [what, work] of Object.entries(works)) {
    const best = {};
    const end = performance.now() + seconds * 1000;
    for (let round = 0; round < 5 || performance.now() < end; round++) {
        for (const [name, whet] of Object.entries(builds)) {
            const began = performance.now();
            work(whet);
            best[name] = Math.min(best[name] ?? Infinity, performance.now() - began);
        }
    }
    const ratio = best["whet-scalar"] / best.whet;
    console.log(`${what.padEnd(28)} ${best.whet.toFixed(3)} ms, scalar ${best["whet-scalar"].toFixed(3)} ms: ${ratio.toFixed(1)} times`);
}
