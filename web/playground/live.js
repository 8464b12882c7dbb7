// The functions of live.wasm (web/wasm/live.c): a language model and a max-retrieval head.
import { textAt } from "../package/library.js";

export class Live {
    constructor(exports) {
        this.exports = exports;
    }
    put(bytes) {
        const at = this.exports.malloc(Math.max(16, bytes.length));
        if (at === 0) throw new Error("out of memory");
        new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
        return at;
    }
    text(...lines) {
        return this.put(new TextEncoder().encode(lines.join("\0") + "\0"));
    }
    check(status) {
        if (status < 0) throw new Error(textAt(this.exports, this.exports.live_message()));
        return status;
    }
    // Calls with arguments in the module's memory, which is given back.
    call(name, ...places) {
        try {
            return this.check(this.exports[name](...places.flat()));
        } finally {
            places.forEach((place) => Array.isArray(place) && this.exports.free(place[0]));
        }
    }

    openModel(bytes) {
        try {
            this.call("live_open_model", [this.put(bytes), bytes.length]);
        } catch (error) {
            throw new Error(error.message.replace(/^the file: /, "")); // the caller knows its name
        }
        return { layers: this.exports.live_layers(), heads: this.exports.live_heads(), context: this.exports.live_context() };
    }
    start(prompt, policies) {
        this.call("live_start", [this.text(prompt)], [this.text(...policies)]);
    }
    step() {
        return this.check(this.exports.live_step()) === 1;
    }
    tokens(from = 0) {
        const count = this.exports.live_token_count();
        return Array.from({ length: Math.max(0, count - from) }, (_, i) => textAt(this.exports, this.exports.live_token_text(from + i)));
    }
    /** Statistics of every head for the last token. */
    rows(heads) {
        const values = new Float64Array(this.exports.memory.buffer, this.exports.live_rows(), heads * 5);
        return Array.from({ length: heads }, (_, i) => {
            const [entropy, entropyAfter, beta, maxProb, argmax] = values.subarray(i * 5, i * 5 + 5);
            return { entropy, entropyAfter, beta, maxProb, argmax };
        });
    }
    watch(layer, head) {
        this.exports.live_watch(layer, head);
    }
    weights() {
        return new Float32Array(this.exports.memory.buffer, this.exports.live_weights(), this.exports.live_weight_count()).slice();
    }

    openHead(parameters) {
        const bytes = new Uint8Array(parameters.buffer, parameters.byteOffset, parameters.byteLength);
        this.call("live_open_head", [this.put(bytes), parameters.length]);
    }
    draw(seed, n, index) {
        this.check(this.exports.live_draw(seed, n, index));
        const { memory } = this.exports;
        return {
            n, top: this.exports.live_top(), label: this.exports.live_label(),
            logits: new Float32Array(memory.buffer, this.exports.live_set_logits(), n).slice(),
            classes: new Uint16Array(memory.buffer, this.exports.live_set_classes(), n).slice(),
        };
    }
    answers(policies) {
        const places = this.put(new Uint8Array(policies.length * 8));
        const names = this.text(...policies);
        try {
            this.check(this.exports.live_answers(names, policies.length, places, places + policies.length * 4));
            const classes = new Int32Array(this.exports.memory.buffer, places, policies.length);
            const weights = new Float32Array(this.exports.memory.buffer, places + policies.length * 4, policies.length);
            return policies.map((_, i) => ({ answer: classes[i], weight: weights[i] }));
        } finally {
            this.exports.free(places);
            this.exports.free(names);
        }
    }
}
