import type { Whet } from "./library.js";

export type { Attention, PolicyInfo, RowOptions, Stats, WithStats } from "./library.js";
export { WhetError } from "./library.js";

export const softmax: Whet["softmax"];
export const entropy: Whet["entropy"];
export const attention: Whet["attention"];
export const policy: Whet["policy"];
export const policies: Whet["policies"];
export const version: string;
export const isa: string;
