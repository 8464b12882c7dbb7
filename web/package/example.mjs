// A head that finds the largest of n items, under softmax and under adaptive temperature.
import { softmax } from "whet";

for (const n of [16, 256, 4096, 65536]) {
    const logits = Float32Array.from({ length: n }, (_, i) => (i === 3 ? 5 : Math.sin(i)));
    for (const policy of ["softmax", "adaptive", "adaptive:hold"]) {
        const { stats: [row] } = softmax(logits, policy, { stats: true });
        console.log(`${n} items, ${policy}: weight ${row.maxProb.toFixed(4)}, beta ${row.beta.toFixed(3)}`);
    }
}
