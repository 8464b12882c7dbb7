// The library in a WebAssembly module: softmax, attention and policies on Float32Array. `instantiate` takes the bytes of
// whet.wasm (or a compiled module) and returns the functions; index.js does so for the file beside it.
//
// Arrays are copied into the module's memory for a call and out of it afterwards. Nothing else is imported by the module
// than the functions of `system` below: it sees no files, no clock and no network.

/** A call that was refused; `status` is the library's whet_status, or -1 for a policy's name. */
export class WhetError extends Error {
    constructor(message, status) {
        super(message);
        this.name = "WhetError";
        this.status = status;
    }
}

const WHET_NOT_FINITE = 1;

/** The part of WASI that a module without files needs: an empty environment and nowhere to write to. */
export function system(getMemory) {
    const badDescriptor = 8;
    const none = () => badDescriptor;
    const view = () => new DataView(getMemory().buffer);
    return {
        environ_sizes_get(count, bytes) {
            view().setUint32(count, 0, true);
            view().setUint32(bytes, 0, true);
            return 0;
        },
        environ_get: () => 0,
        proc_exit(status) {
            throw new Error(`the module ended with status ${status}`);
        },
        fd_close: none,
        fd_seek: none,
        fd_write: none,
        fd_fdstat_get: none,
    };
}

/** Instantiates a module with `system`, and runs its constructors. */
export async function start(source) {
    let exports;
    const imports = { wasi_snapshot_preview1: system(() => exports.memory) };
    const made = await WebAssembly.instantiate(source, imports);
    exports = (made.instance ?? made).exports;
    exports._initialize();
    return exports;
}

// Memory of the module that lasts for one call.
class Scratch {
    constructor(exports) {
        this.exports = exports;
        this.blocks = [];
    }
    bytes(size) {
        const address = this.exports.malloc(Math.max(size, 16));
        if (address === 0) throw new WhetError(`out of memory for ${size} bytes`, 7);
        this.blocks.push(address);
        return address;
    }
    floats(array) {
        const address = this.bytes(array.length * 4);
        new Float32Array(this.exports.memory.buffer, address, array.length).set(array);
        return address;
    }
    text(...texts) {
        const bytes = new TextEncoder().encode(texts.join("\0") + "\0");
        const address = this.bytes(bytes.length);
        new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
        return address;
    }
    free() {
        for (const address of this.blocks) this.exports.free(address);
    }
}

export function textAt(exports, address) {
    const bytes = new Uint8Array(exports.memory.buffer, address);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}

// The layout of whet_stats.
const U64 = "getBigUint64", I64 = "getBigInt64", F64 = "getFloat64";
const statsFields = [
    ["n", U64], ["max", F64], ["z", F64], ["s", F64], ["logsumexp", F64], ["entropy", F64], ["min", F64], ["argmax", U64],
    ["position", I64], ["beta", F64], ["entropyAfter", F64], ["maxProb", F64], ["sinkShare", F64],
];
// After the fields come the flags and what skip left out, which nothing here sets.
const statsBytes = statsFields.length * 8 + 24;
const noEntry = 2n ** 64n - 1n;

function readStats(exports, address, count) {
    const view = new DataView(exports.memory.buffer, address, count * statsBytes);
    return Array.from({ length: count }, (_, row) => {
        const stats = {};
        statsFields.forEach(([name, read], i) => {
            const value = view[read](row * statsBytes + i * 8, true);
            stats[name] = value === noEntry ? -1 : Number(value);
        });
        const flags = view.getUint32(row * statsBytes + statsFields.length * 8, true);
        stats.isEmpty = (flags & 1) !== 0;
        stats.isFinite = (flags & 2) === 0;
        stats.isCapped = (flags & 4) !== 0;
        return stats;
    });
}

function asFloats(value, name) {
    if (value instanceof Float32Array) return value;
    if (Array.isArray(value) || ArrayBuffer.isView(value)) return Float32Array.from(value);
    throw new TypeError(`${name} is not a Float32Array`);
}

function count(value, name, fallback) {
    if (value === undefined && fallback !== undefined) return fallback;
    if (!Number.isInteger(value) || value < 0 || value > 0x7fffffff) {
        throw new RangeError(`${name} is ${value}, not a whole number`);
    }
    return value;
}

function expectLength(array, length, name) {
    if (array.length !== length) throw new RangeError(`${name} has ${array.length} values instead of ${length}`);
    return array;
}

// The functions of the package over the exports of a module.
export function bind(exports) {
    if (exports.web_stats_bytes() !== statsBytes) throw new Error("the module is of another version");
    function check(status) {
        if (status < 0 || status > WHET_NOT_FINITE) throw new WhetError(textAt(exports, exports.web_message()), status);
    }

    function withScratch(work) {
        const scratch = new Scratch(exports);
        try {
            return work(scratch);
        } finally {
            scratch.free();
        }
    }

    // The optional arrays of a call on rows, as arguments of web_softmax.
    function rowArguments(scratch, rows, n, { mask, sink, beta }) {
        const place = (value, name, perRow, each) => {
            if (value === undefined) return [0, 0];
            const values = typeof value === "number" ? new Float32Array(perRow ? rows : 1).fill(value) : asFloats(value, name);
            const isShared = !perRow && values.length === each;
            return [scratch.floats(expectLength(values, isShared ? each : rows * each, name)), isShared ? 0 : each];
        };
        return [...place(mask, "mask", false, n), ...place(sink, "sink", false, 1), place(beta, "beta", true, 1)[0]];
    }

    function compute(logits, policy, options, writes) {
        const given = typeof policy === "object" && policy !== null ? policy : { ...options, policy };
        const x = asFloats(logits, "logits");
        const rows = count(given.rows, "rows", 1);
        const n = rows ? x.length / rows : 0;
        if (!Number.isInteger(n)) throw new RangeError(`${x.length} logits cannot be divided into ${rows} rows`);
        return withScratch((scratch) => {
            const input = scratch.floats(x);
            const extras = rowArguments(scratch, rows, n, given);
            const stats = scratch.bytes(rows * statsBytes);
            const name = scratch.text(String(given.policy ?? "softmax"));
            check(exports.web_softmax(rows, n, input, ...extras, given.position ?? 0, given.positionStride ?? 0, name,
                writes ? input : 0, stats));
            const weights = writes ? new Float32Array(exports.memory.buffer, input, x.length).slice() : undefined;
            if (!writes) return readStats(exports, stats, rows);
            return given.stats ? { weights, stats: readStats(exports, stats, rows) } : weights;
        });
    }

    const softmax = (logits, policy, options) => compute(logits, policy, options, true);
    const entropy = (logits, policy, options) => compute(logits, policy, options, false);

    function attention(description) {
        const d = description;
        const shape = {
            batch: count(d.batch, "batch", 1), heads: count(d.heads, "heads", 1), kvHeads: count(d.kvHeads ?? d.heads, "kvHeads", 1),
            queries: count(d.queries, "queries"), keys: count(d.keys, "keys"), headDim: count(d.headDim, "headDim"),
            valueDim: count(d.valueDim ?? d.headDim, "valueDim"),
        };
        const { batch, heads, kvHeads, queries, keys, headDim, valueDim } = shape;
        const names = Array.isArray(d.policy) ? d.policy : [d.policy ?? "softmax"];
        if (names.length !== 1 && names.length !== heads) {
            throw new RangeError(`policy has ${names.length} names for ${heads} heads`);
        }
        return withScratch((scratch) => {
            const tensor = (name, length) => scratch.floats(expectLength(asFloats(d[name], name), length, name));
            const optional = (name, length) => (d[name] === undefined ? 0 : tensor(name, length));
            const rows = batch * heads * queries;
            const out = scratch.bytes(rows * valueDim * 4);
            const stats = d.stats ? scratch.bytes(rows * statsBytes) : 0;
            const words = [
                ["Uint32", Object.values(shape)],
                ["Uint32", [
                    tensor("q", rows * headDim), tensor("k", batch * kvHeads * keys * headDim),
                    tensor("v", batch * kvHeads * keys * valueDim), out]],
                ["Float32", [d.scale ?? 0, d.softcap ?? 0]],
                ["Uint32", [d.causal ? 1 : 0]],
                ["Int32", [d.offset ?? (d.causal ? keys - queries : 0)]],
                ["Uint32", [
                    count(d.window, "window", 0), optional("mask", queries * keys), optional("sinks", heads),
                    optional("alibiSlopes", heads), scratch.text(...names), names.length, stats]],
            ].flatMap(([type, values]) => values.map((value) => [type, value]));
            const at = scratch.bytes(words.length * 4);
            const view = new DataView(exports.memory.buffer, at);
            words.forEach(([type, value], i) => view[`set${type}`](i * 4, value, true));
            check(exports.web_attention_forward(at));
            const result = new Float32Array(exports.memory.buffer, out, rows * valueDim).slice();
            return d.stats ? { out: result, stats: readStats(exports, stats, rows) } : result;
        });
    }

    /** A policy's full name and its parameters. */
    function policy(name) {
        return withScratch((scratch) => {
            const text = scratch.text(String(name));
            const value = scratch.bytes(8);
            check(exports.web_policy_name(text));
            const fullName = textAt(exports, exports.web_message());
            const parameters = {};
            for (let i = 0, at; (at = exports.web_policy_parameter(text, i, value)) !== 0; i++) {
                parameters[textAt(exports, at)] = new DataView(exports.memory.buffer).getFloat64(value, true);
            }
            return { name: fullName, parameters };
        });
    }

    const policies = [];
    for (let i = 0, at; (at = exports.whet_policy_table(i)) !== 0; i++) {
        const view = new DataView(exports.memory.buffer, at, 16);
        const [syntax, summary, example] = [0, 4, 8].map((o) => textAt(exports, view.getUint32(o, true)));
        policies.push(Object.freeze({ syntax, summary, example, isTemperature: view.getInt32(12, true) !== 0 }));
    }

    return {
        softmax, entropy, attention, policy, policies: Object.freeze(policies),
        version: textAt(exports, exports.whet_version()), isa: textAt(exports, exports.whet_isa()),
    };
}

/** The functions of a module: its bytes, or a WebAssembly.Module. */
export async function instantiate(source) {
    return bind(await start(source));
}
