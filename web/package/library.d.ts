/** Statistics of one row, as whet_stats of whet.h has them. Entropies are in nats. */
export interface Stats {
    /** Entries that are not masked, without the sink. */
    n: number;
    max: number;
    z: number;
    s: number;
    logsumexp: number;
    /** Of softmax, before the policy. */
    entropy: number;
    min: number;
    /** Index of the first largest logit; -1 if everything is masked. */
    argmax: number;
    position: number;
    /** Inverse temperature that the policy chose. */
    beta: number;
    /** NaN for maps that need not sum to 1. */
    entropyAfter: number;
    maxProb: number;
    sinkShare: number;
    isEmpty: boolean;
    /** false: NaN or +Infinity among the logits, and the result is NaN. */
    isFinite: boolean;
    isCapped: boolean;
}

export interface RowOptions {
    /** A name such as "adaptive" or "length:64+entmax15"; "softmax" by default. */
    policy?: string;
    /** Number of rows that the logits are divided into; 1 by default. */
    rows?: number;
    /** Added to the logits: one row for all, or as many values as logits. -Infinity masks. */
    mask?: Float32Array;
    /** An additional logit without a place in the result: one for all rows, or one each. */
    sink?: number | Float32Array;
    /** Inverse temperatures instead of the policy's. */
    beta?: number | Float32Array;
    position?: number;
    positionStride?: number;
    stats?: boolean;
}

export interface WithStats {
    weights: Float32Array;
    stats: Stats[];
}

/** Tensors are contiguous: [batch][head][position][element]. */
export interface Attention {
    q: Float32Array;
    k: Float32Array;
    v: Float32Array;
    batch?: number;
    heads?: number;
    kvHeads?: number;
    queries: number;
    keys: number;
    headDim: number;
    valueDim?: number;
    /** 1 / sqrt(headDim) by default. */
    scale?: number;
    softcap?: number;
    causal?: boolean;
    /** Position of the first query among the keys; keys - queries by default if causal, else 0. */
    offset?: number;
    window?: number;
    /** [queries][keys], added to the logits. */
    mask?: Float32Array;
    sinks?: Float32Array;
    alibiSlopes?: Float32Array;
    /** One name for all heads, or one for each. */
    policy?: string | string[];
    stats?: boolean;
}

export interface PolicyInfo {
    readonly syntax: string;
    readonly summary: string;
    readonly example: string;
    readonly isTemperature: boolean;
}

/** A call that the library refused. */
export class WhetError extends Error {
    /** whet_status, or -1 for a policy's name. */
    readonly status: number;
}

export interface Whet {
    softmax(logits: Float32Array, options: RowOptions & { stats: true }): WithStats;
    softmax(logits: Float32Array, policy: string, options: RowOptions & { stats: true }): WithStats;
    softmax(logits: Float32Array, policy?: string | RowOptions, options?: RowOptions): Float32Array;
    entropy(logits: Float32Array, policy?: string | RowOptions, options?: RowOptions): Stats[];
    attention(description: Attention & { stats: true }): { out: Float32Array; stats: Stats[] };
    attention(description: Attention): Float32Array;
    policy(name: string): { name: string; parameters: Record<string, number> };
    readonly policies: readonly PolicyInfo[];
    readonly version: string;
    readonly isa: string;
}

/** The functions of a module: the bytes of whet.wasm, or a WebAssembly.Module. */
export function instantiate(source: BufferSource | WebAssembly.Module): Promise<Whet>;
